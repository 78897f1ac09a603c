"""What a rule for keys costs: the time of Redis for a message, beside a plain queue in the same run.

python -m tests.benchmarks.keys --rounds 7
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from typing import Any

import redis
from rich.console import Console
from rich.table import Table

from rq_dlq import Broker, Message, PerKey
from tests import servers
from tests.benchmarks.dedup import spent

BATCH, BATCHES = 100, 40
RULES = {
    "plain": (None, 0),
    "order, all keys different": (PerKey(order=True), 1),
    "order, 9 of 10 blocked": (PerKey(order=True), 10),
    "limit 8, 16 of a key": (PerKey(limit=8), 16),
    "fair, 16 of a key": (PerKey(fair=True), 16),
}
"""The rule, and how many messages have the same key; 0: they have none."""


def cost(raw: Any, queue: Any, of_a_key: int) -> tuple[float, float]:
    """Microseconds of Redis for a message: its send; its claim and its ack, in batches of a hundred."""
    count = BATCH * BATCHES
    before = spent(raw)
    for first in range(0, count, BATCH):
        numbers = range(first, first + BATCH)
        queue.send_many([Message(n, key=f"k{n // of_a_key}" if of_a_key else None) for n in numbers])
    sent = spent(raw) - before
    before, done = spent(raw), 0
    while done < count:
        claimed = queue.claim(BATCH)
        queue.ack(claimed)
        done += len(claimed)
    return sent / count, (spent(raw) - before) / count


def main(arguments: list[str] | None = None) -> None:
    """Measure each rule, turn and turn about."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--server", help="a redis-server; by default the one on PATH")
    chosen = parser.parse_args(arguments)
    seen: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with (
        servers.running(program=chosen.server) as path,
        Broker(f"unix://{path}") as broker,
        redis.Redis(unix_socket_path=path) as raw,
    ):
        queues = {
            name: broker.queue(f"q{n}", per_key=rule) for n, (name, (rule, _)) in enumerate(RULES.items())
        }
        for _ in range(chosen.rounds):
            for name, (_, of_a_key) in RULES.items():
                seen[name].append(cost(raw, queues[name], of_a_key))
    table = Table("Redis µs a message", "send", "claim + ack", "of plain", title=f"batches of {BATCH}")
    best = {name: [min(side) for side in zip(*pairs, strict=True)] for name, pairs in seen.items()}
    for name, (send, handled) in best.items():  # the fastest round, since other processes only slow one
        table.add_row(name, f"{send:.1f}", f"{handled:.1f}", f"{handled / best['plain'][1]:.2f}x")
    Console().print(table)


if __name__ == "__main__":
    main()
