"""A 30-minute outage in virtual time on the real scripts, with a breaker and without; what one costs.

python -m tests.benchmarks.outage --draws 3
python -m tests.benchmarks.outage --draws 0 --rounds 0 --plot docs/images/outage.png
python -m tests.benchmarks.outage --draws 0 --rounds 0 --doubtful 3
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable
from itertools import product
from math import inf
from pathlib import Path
from typing import Any

import redis
from rich.console import Console
from rich.table import Table

from rq_dlq import Breaker, Broker, RedeliveryPolicy
from rq_dlq.cli._outages import columns_of, rows_of
from rq_dlq.cli._show import Output
from rq_dlq.policy.outage import CALM, Outage, OutagePlan, SimulatedMessage
from rq_dlq.testing.outage import fleet, play
from tests import servers
from tests.benchmarks.dedup import spent
from tests.model import scenes
from tests.model.scenes import DOUBTFUL

BATCH, BATCHES = 100, 20
WARM = 5  # messages that are not counted
BODIES = {"100 B": "x" * 100, "100 kB": "x" * 100_000}
FEW = RedeliveryPolicy(max_redeliveries=3)
WIDE = 132  # characters
COLOURS = ("tab:green", "tab:red")
STYLES = {"light": "default", "dark": "dark_background"}
BREAKERS = {"with a breaker": Breaker(), "without": None}
COSTS = {"off": None, "on": Breaker()}


def outages(url: str, seconds: float, draws: int) -> None:
    """What becomes of the messages: the worst of the draws."""
    plans = {
        f"{name}{few}": OutagePlan(breaker=breaker, policy=policy, outage=seconds)
        for few, policy in (("", RedeliveryPolicy()), (", 3 redeliveries", FEW))
        for name, breaker in BREAKERS.items()
    }
    worst = {
        name: max((play(url, plan, draw) for draw in range(draws)), key=_harm) for name, plan in plans.items()
    }
    Output().rows(rows_of(worst, next(iter(plans.values()))), columns_of([*worst]), "")


def _harm(one: Outage) -> tuple[int, int]:
    return one.healthy_dead, one.wasted


def doubtful(url: str, draws: int) -> Table:
    """What cannot be told from an outage: who waits a minute after ten minutes of it, and who died."""
    columns = (f"{what}, {name}" for what in ("wait", "died") for name in BREAKERS)
    table = Table("ten minutes", "healthy", *columns, title=f"healthy messages, the most of {draws} draws")
    for name, scene in DOUBTFUL.items():
        played = [
            [scenes.play(url, scene, draw, breaker=breaker is not None) for draw in range(draws)]
            for breaker in BREAKERS.values()
        ]
        healthy = max(one.healthy for seen in played for one in seen)
        waits, deaths = (
            [max(getattr(one, what) for one in seen) for seen in played] for what in ("waiting", "died")
        )
        table.add_row(name, *(f"{figure:,}" for figure in (healthy, *waits, *deaths)))
    return table


def plot(url: str, seconds: float, path: Path) -> None:
    """How many healthy messages are dead, and how many wait; one for light pages, one for dark ones."""
    import matplotlib as mpl  # noqa: PLC0415 - only those who want a picture need it

    mpl.use("agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    played = {
        name: _healthy(url, OutagePlan(breaker=breaker, policy=FEW, outage=seconds))
        for name, breaker in BREAKERS.items()
    }
    for suffix, style in STYLES.items():
        with plt.style.context(style), plt.rc_context({"font.size": 9}):
            figure, panels = plt.subplots(1, 2, figsize=(10, 3.2), sharex=True, layout="constrained")
            for axes, (title, count) in zip(panels, CURVES.items(), strict=True):
                draw(axes, seconds, played, count)
                axes.set_title(title, loc="left")
            panels[0].legend(frameon=False, loc="center left")
            figure.savefig(path.with_stem(f"{path.stem}-{suffix}"), dpi=110)
            plt.close(figure)


def draw(axes: Any, seconds: float, played: dict[str, list[SimulatedMessage]], count: Count) -> None:
    """A curve each over the minutes, and when the dependency is down."""
    repair = CALM + seconds
    times = range(0, round(repair) + 300, 5)
    for (name, messages), colour in zip(played.items(), COLOURS, strict=True):
        counts = [count(messages, time) for time in times]
        axes.step([time / 60 for time in times], counts, where="post", color=colour, label=name)
    axes.axvspan(CALM / 60, repair / 60, alpha=0.15, color="gray", linewidth=0, label="payments are down")
    axes.set_xlabel("minutes")
    axes.spines[["top", "right"]].set_visible(False)


def _healthy(url: str, plan: OutagePlan) -> list[SimulatedMessage]:
    """What became of the messages with which nothing is wrong."""
    with fleet(url, plan) as played:
        for _ in played.moments():
            pass
    return [one for one in played.messages.values() if not one.poison]


def _dead(messages: list[SimulatedMessage], time: float) -> int:
    return sum(one.died is not None and one.died <= time for one in messages)


def _waiting(messages: list[SimulatedMessage], time: float) -> int:
    return sum(one.sent <= time < min(one.acked or inf, one.died or inf) for one in messages)


Count = Callable[[list[SimulatedMessage], float], int]
CURVES: dict[str, Count] = {"healthy messages that are dead": _dead, "healthy messages that wait": _waiting}


def cost(raw: Any, queue: Any, body: str) -> tuple[float, float]:
    """Microseconds of Redis for a message: in batches; one by one, of which one in a hundred fails."""
    count = BATCH * BATCHES
    for first in range(0, count, BATCH):
        queue.send_many([body] * BATCH, dependency="payments", priority=first % 2)
    before = spent(raw)
    for _ in range(BATCHES // 2):
        queue.ack(queue.claim(BATCH))
    batches = (spent(raw) - before) / (count / 2)
    before = spent(raw)
    for n in range(count // 2):
        (one,) = queue.claim(1)
        if n % BATCH:
            one.ack()
        else:
            one.nack("payments refused this one", delay="1h")
    singles = (spent(raw) - before) / (count / 2)
    queue.delete(force=True)
    return batches, singles


def commands(raw: Any, queue: Any, *, failing: bool) -> float:
    """The commands of Redis for the ack of a message, with the call itself."""
    queue.send_many(["x"] * (WARM + BATCH), dependency="payments")
    for _ in range(WARM):
        queue.claim(1)[0].nack("payments refused this one", delay="1h") if failing else queue.claim(1)[
            0
        ].ack()
    held = [queue.claim(1)[0] for _ in range(BATCH)]
    before = _ran(raw)
    for one in held:
        one.ack()
    number = _ran(raw) - before
    queue.delete(force=True)
    return number / BATCH


def _ran(raw: Any) -> int:
    told = raw.info("commandstats")
    return sum(one["calls"] for name, one in told.items() if name != "cmdstat_info")


def counts(raw: Any, broker: Broker) -> Table:
    """How many commands an ack takes, with a breaker and without."""
    table = Table("breaker", "none fails", "some fail", title="commands of an ack")
    for name, breaker in COSTS.items():
        queue = broker.queue(f"count-{name}", breaker=breaker)
        queue.open()
        table.add_row(name, *(f"{commands(raw, queue, failing=failing):.0f}" for failing in (False, True)))
    return table


def costs(raw: Any, broker: Broker, rounds: int) -> Table:
    """Both, turn and turn about; the fastest round, since other processes only slow one."""
    seen: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for _ in range(rounds):
        for (size, body), (name, breaker) in product(BODIES.items(), COSTS.items()):
            queue = broker.queue(f"cost-{name}", breaker=breaker)
            queue.open()
            seen[size, name].append(cost(raw, queue, body))
    columns = ("body", "breaker", "batches of 100", "one by one, 1 % fail")
    table = Table(*columns, title="Redis µs a message, claim + ack")
    for (size, name), rows in seen.items():
        table.add_row(size, name, *(f"{min(side):.1f}" for side in zip(*rows, strict=True)))
    return table


def main(arguments: list[str] | None = None) -> None:
    """Suffer the outages, then measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=30, help="of the outage")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--doubtful", type=int, default=0, help="draws of what is no outage, and looks like one"
    )
    parser.add_argument("--plot", type=Path, help="where to write a picture: NAME-light.png, NAME-dark.png")
    parser.add_argument("--server", help="a redis-server; by default the one on PATH")
    chosen = parser.parse_args(arguments)
    with servers.running(program=chosen.server) as path, redis.Redis(unix_socket_path=path) as raw:
        url, seconds = f"unix://{path}", 60 * chosen.minutes
        if chosen.draws:
            outages(url, seconds, chosen.draws)
        if chosen.doubtful:
            Console(width=WIDE).print(doubtful(url, chosen.doubtful))
        if chosen.plot:
            plot(url, seconds, chosen.plot)
        if chosen.rounds:
            with Broker(url) as broker:
                Console().print(counts(raw, broker), costs(raw, broker, chosen.rounds))


if __name__ == "__main__":
    main()
