"""A 30-minute outage in virtual time on the real scripts, with a breaker and without; what one costs.

python -m tests.benchmarks.outage --draws 3
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from typing import Any

import redis
from rich.console import Console
from rich.table import Table

from rq_dlq import Breaker, Broker, RedeliveryPolicy
from tests import servers
from tests.benchmarks.dedup import spent
from tests.model.outage import Plan, simulate

BATCH, BATCHES = 100, 20
BODY = "x" * 100_000
FEW = RedeliveryPolicy(max_redeliveries=3)
PLANS = {
    "with a breaker": Plan(),
    "without": Plan(breaker=None),
    "with, 3 redeliveries": Plan(policy=FEW),
    "without, 3 redeliveries": Plan(breaker=None, policy=FEW),
}
COSTS = {"off": None, "on": Breaker()}


def outages(raw: Any, draws: int) -> Table:
    """What becomes of the messages: the worst of the draws."""
    columns = (
        "healthy dead",
        "poisons dead",
        "wasted attempts",
        "waited",
        "drained in",
        "p50",
        "p99",
        "before",
    )
    table = Table("40 % need what is down for 30 min", *columns)
    for name, plan in PLANS.items():
        found = [simulate(raw, plan, draw) for draw in range(draws)]
        worst = max(found, key=lambda one: (one.dead, one.wasted))
        drained = "never" if worst.drained is None else f"{worst.drained:.0f} s" if worst.waiting else "-"
        cells = (worst.dead, f"{worst.poisons_dead} of {worst.poisons}", worst.wasted, worst.waiting)
        spans = (*_spans(worst.meanwhile), " / ".join(_spans(worst.calm)))
        table.add_row(name, *map(str, cells), drained, *spans)
        if worst.wrong:
            table.add_row("", "; ".join(worst.wrong))
    return table


def _spans(pair: tuple[float, float]) -> tuple[str, str]:
    return f"{pair[0]:.1f} s", f"{pair[1]:.1f} s"


def cost(raw: Any, queue: Any) -> tuple[float, float]:
    """Microseconds of Redis for a message: in batches; one by one, of which one in a hundred fails."""
    count = BATCH * BATCHES
    for first in range(0, count, BATCH):
        queue.send_many([BODY] * BATCH, dependency="payments", priority=first % 2)
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


def costs(raw: Any, broker: Broker, rounds: int) -> Table:
    """Both, turn and turn about; the fastest round, since other processes only slow one."""
    seen: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for _ in range(rounds):
        for name, breaker in COSTS.items():
            queue = broker.queue(f"cost-{name}", breaker=breaker)
            queue.open()
            seen[name].append(cost(raw, queue))
    table = Table("Redis µs a message of 100 kB, claim + ack", "batches of 100", "one by one, 1 % fail")
    for name, rows in seen.items():
        table.add_row(f"breaker {name}", *(f"{min(side):.1f}" for side in zip(*rows, strict=True)))
    return table


def main(arguments: list[str] | None = None) -> None:
    """Suffer the outages, then measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--server", help="a redis-server; by default the one on PATH")
    chosen = parser.parse_args(arguments)
    with servers.running(program=chosen.server) as path, redis.Redis(unix_socket_path=path) as raw:
        if chosen.draws:
            Console().print(outages(raw, chosen.draws))
        raw.flushall()
        if chosen.rounds:
            with Broker(f"unix://{path}") as broker:
                Console().print(costs(raw, broker, chosen.rounds))


if __name__ == "__main__":
    main()
