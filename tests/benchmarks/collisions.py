"""What collision avoidance is for: transactions on the same rows. One wins, the rest come back together.

Workers in several processes take messages; each message changes a few of the same few rows, in one
optimistic transaction of that Redis (WATCH, think, MULTI, EXEC). Of those that overlap the first to commit
wins, the rest fail and are redelivered by the policy, which differs only in its spread. The spreads take
turns, with the same messages in a round. Compare figures of one run only.

    python -m tests.benchmarks.collisions --rounds 5 --plot docs/images/collisions.png
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import shlex
import sys
import time
from bisect import bisect
from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import redis
from rich.console import Console
from rich.table import Table

from rq_dlq import Broker, RedeliveryPolicy
from tests import servers

SPREADS = (0.0, 0.15, 0.5)
SLOT = 0.1  # seconds
QUEUE = "collisions"
DONE, FAILED = "#1f6fb4", "#c4c4c4"


@dataclass(frozen=True, kw_only=True)
class Work:
    """What is to be done; the spans are seconds."""

    messages: int
    rows: int
    touched: int  # by each message
    think: float  # between reading and writing
    first_wait: float
    longest_wait: float
    processes: int
    threads: int  # in each process

    def policy(self, spread: float) -> RedeliveryPolicy:
        """One that differs by its spread only, and never gives up."""
        return RedeliveryPolicy(
            initial_delay=self.first_wait,
            max_delay=self.longest_wait,
            collision_avoidance=spread,
            max_redeliveries=None,
        )

    def bodies(self, seed: int) -> list[list[str]]:
        """The rows that each message changes."""
        draw = random.Random(seed)
        names = [f"row:{n}" for n in range(self.rows)]
        return [draw.sample(names, self.touched) for _ in range(self.messages)]


class Attempt(NamedTuple):
    """A delivery: seconds since the messages were sent, its number, and whether its transaction won."""

    began: float
    ended: float
    number: int
    won: bool


class CollisionError(Exception):
    """Another transaction was the first to change one of the rows."""


@dataclass(frozen=True)
class Round:
    """What one round with one spread came to."""

    spread: float
    attempts: tuple[Attempt, ...]

    @property
    def seconds(self) -> float:
        """From the sending to the last transaction that won."""
        return max(attempt.ended for attempt in self.attempts if attempt.won)

    @property
    def wasted(self) -> int:
        """Deliveries that failed."""
        return sum(not attempt.won for attempt in self.attempts)

    def slots(self, *, won: bool | None = None) -> Counter[int]:
        """Redeliveries by slot of time; None: whether they won or not."""
        again = (a for a in self.attempts if a.number > 1 and won in {None, a.won})
        return Counter(int(attempt.began / SLOT) for attempt in again)

    @property
    def largest(self) -> float:
        """The share of all redeliveries that begin in the fullest slot."""
        slots = self.slots()
        return max(slots.values(), default=0) / max(slots.total(), 1)

    @property
    def mean(self) -> float:
        """The share that begins in the same slot as the average redelivery."""
        slots = self.slots()
        return sum(count**2 for count in slots.values()) / max(slots.total() ** 2, 1)

    @property
    def together(self) -> float:
        """As `mean`, but of the messages that were not done by then."""
        slots, messages = self.slots(), sum(attempt.won for attempt in self.attempts)
        done = sorted(attempt.ended for attempt in self.attempts if attempt.won)
        left = {slot: messages - bisect(done, slot * SLOT) for slot in slots}
        return sum(count * count / left[slot] for slot, count in slots.items()) / max(slots.total(), 1)


def commit(raw: Any, rows: list[str], think: float) -> bool:
    """Add one to each row in one transaction; whether it won."""
    with raw.pipeline() as transaction:
        transaction.watch(*rows)
        before = [int(value or 0) for value in transaction.mget(rows)]
        time.sleep(think)
        transaction.multi()
        transaction.mset({row: value + 1 for row, value in zip(rows, before, strict=True)})
        try:
            transaction.execute()
        except redis.WatchError:
            return False
        return True


def consume(path: str, work: Work, spread: float, results: Any) -> None:
    """A process with workers, until SIGTERM."""
    seen: list[Attempt] = []
    with Broker(f"unix://{path}") as broker, redis.Redis(unix_socket_path=path) as raw:
        queue = broker.queue(QUEUE, redelivery=work.policy(spread))

        @queue.handler(concurrency=work.threads)
        def change(rows: list[str], delivery: Any) -> None:
            began = time.monotonic()
            won = commit(raw, rows, work.think)
            seen.append(Attempt(began, time.monotonic(), delivery.delivery_count, won))
            if not won:
                raise CollisionError

        results.put(None)
        broker.run()
    results.put(seen)


def play(path: str, work: Work, spread: float, seed: int) -> Round:
    """One round on an empty server."""
    context = multiprocessing.get_context("spawn")
    results: Any = context.Queue()
    bodies = work.bodies(seed)
    with Broker(f"unix://{path}") as broker, redis.Redis(unix_socket_path=path) as raw:
        raw.flushall()
        queue = broker.queue(QUEUE, redelivery=work.policy(spread))
        processes = [
            context.Process(target=consume, args=(path, work, spread, results)) for _ in range(work.processes)
        ]
        for process in processes:
            process.start()
        for _ in processes:
            results.get()
        workers = work.processes * work.threads
        servers.wait_until(lambda: raw.info("clients")["blocked_clients"] == workers)
        sent = time.monotonic()
        queue.send_many(bodies)
        while (stats := queue.stats()).waiting + stats.leased:
            time.sleep(0.02)
        for process in processes:
            process.terminate()
        seen = [attempt for _ in processes for attempt in results.get()]
        for process in processes:
            process.join()
        check(raw, bodies)
    attempts = (a._replace(began=a.began - sent, ended=a.ended - sent) for a in seen)
    return Round(spread, tuple(sorted(attempts)))


def check(raw: Any, bodies: list[list[str]]) -> None:
    """Every message changed its rows exactly once."""
    expected = Counter(row for rows in bodies for row in rows)
    found = {row: int(raw.get(row)) for row in expected}
    if found != expected:
        message = f"the rows are {found}, they should be {dict(expected)}"
        raise AssertionError(message)


def report(rounds: list[Round]) -> Table:
    """The medians of the rounds, and the least and the most seconds."""
    heads = ("spread", "seconds", "failed", "fullest", "share", "mean share", "together")
    table = Table(*heads, title=f"Medians of the rounds; a slot is {SLOT:g} s")
    for spread in SPREADS:
        own = [each for each in rounds if each.spread == spread]
        seconds = [each.seconds for each in own]
        table.add_row(
            f"{spread:g}",
            f"{median(seconds):.1f} ({min(seconds):.1f}-{max(seconds):.1f})",
            f"{median(each.wasted for each in own):,.0f}",
            f"{median(max(each.slots().values(), default=0) for each in own):.0f}",
            *(
                f"{median(getattr(each, name) for each in own):.1%}"
                for name in ("largest", "mean", "together")
            ),
        )
    return table


def plot(rounds: list[Round], path: Path) -> None:
    """The redeliveries over time in a round of median length, and the totals of all rounds."""
    import matplotlib as mpl  # noqa: PLC0415 - only those who want a picture need it

    mpl.use("agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure = plt.figure(figsize=(10, 5.6), layout="constrained")
    grid = figure.add_gridspec(6, 2, width_ratios=(5, 2))
    first: Any = None
    for number, spread in enumerate(SPREADS):
        own = sorted((each for each in rounds if each.spread == spread), key=lambda each: each.seconds)
        shown = own[len(own) // 2]
        axes = first = figure.add_subplot(grid[2 * number : 2 * number + 2, 0], sharex=first, sharey=first)
        over_time(axes, shown)
        axes.set_title(f"collision avoidance {spread:g}: done after {shown.seconds:.1f} s", loc="left")
        axes.tick_params(labelbottom=number == len(SPREADS) - 1)
    first.set_xlim(left=0)
    first.set_xlabel("seconds since all were sent")
    figure.axes[1].set_ylabel("redeliveries in 100 ms")
    figure.axes[0].legend(frameon=False, loc="upper right")
    for number, name in enumerate(("seconds", "wasted")):
        axes = figure.add_subplot(grid[3 * number : 3 * number + 3, 1])
        for place, spread in enumerate(SPREADS):
            values = [getattr(each, name) for each in rounds if each.spread == spread]
            axes.bar(place, median(values), width=0.6, color=DONE, alpha=0.75)
            axes.scatter([place] * len(values), values, s=9, color="black", alpha=0.5, linewidths=0)
        axes.set_xticks(range(len(SPREADS)), [f"{spread:g}" for spread in SPREADS])
        title = "seconds until all are done" if name == "seconds" else "failed deliveries"
        axes.set_title(title, loc="left")
    axes.set_xlabel("collision avoidance; a dot is a round")
    figure.savefig(path, dpi=110)


def over_time(axes: Any, shown: Round) -> None:
    """Bars of a slot's width: those that won, and upon them those that failed."""
    won, failed = shown.slots(won=True), shown.slots(won=False)
    slots = range(max(shown.slots()) + 1)
    starts = [slot * SLOT for slot in slots]
    done = [won[slot] for slot in slots]
    axes.bar(starts, done, SLOT, align="edge", color=DONE, label="won")
    axes.bar(starts, [failed[slot] for slot in slots], SLOT, done, align="edge", color=FAILED, label="failed")


def arguments(given: list[str] | None) -> argparse.Namespace:
    """The command line; spans in seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=100)
    parser.add_argument("--rows", type=int, default=8, help="that all messages contend for")
    parser.add_argument("--touched", type=int, default=2, help="rows that one message changes")
    parser.add_argument("--think", type=float, default=0.05, help="seconds between reading and writing")
    parser.add_argument("--first-wait", type=float, default=0.1)
    parser.add_argument("--longest-wait", type=float, default=0.5)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--threads", type=int, default=50, help="workers in each process")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plot", type=Path, help="where to write a picture")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> None:
    """Measure, and print what was run."""
    chosen = arguments(given)
    work = Work(**{field.name: getattr(chosen, field.name) for field in fields(Work)})
    console = Console()
    rounds: list[Round] = []
    with servers.running() as path:
        with redis.Redis(unix_socket_path=path) as raw:
            version = raw.info("server")["redis_version"]
        for number in range(chosen.rounds):
            turn = number % len(SPREADS)
            in_turn = SPREADS[turn:] + SPREADS[:turn]
            rounds += (play(path, work, spread, chosen.seed + number) for spread in in_turn)
    words = sys.argv[1:] if given is None else given
    command = shlex.join(["python", "-m", "tests.benchmarks.collisions", *words])
    server = f"Redis {version}, Python {sys.version.split()[0]}"
    console.print(f"$ {command}\n{server}\n{work}", soft_wrap=True, highlight=False)
    console.print(report(rounds))
    if chosen.plot:
        plot(rounds, chosen.plot)


if __name__ == "__main__":
    main()
