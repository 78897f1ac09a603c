"""What a dedup_window costs: the time of Redis for a message, and bytes for a remembered id.

python -m tests.benchmarks.dedup --rounds 7
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from typing import Any

import redis
from rich.console import Console
from rich.table import Table

from rq_dlq import Broker
from rq_dlq._keys import QueueKeys
from tests import servers
from tests.servers.counts import microseconds

CALLS = {1: 2_000, 100: 50}  # by the size of a batch
REMEMBERED = 100_000  # ids, for their bytes and as what is there when the time is measured
WINDOW = "1h"


def spent(raw: Any) -> float:
    """Microseconds of Redis in verbs so far."""
    return microseconds(raw)


def cost(raw: Any, queue: Any) -> dict[str, float]:
    """Microseconds of Redis for a message."""
    costs: dict[str, float] = {}
    for batch, calls in CALLS.items():
        before = spent(raw)
        for _ in range(calls):
            queue.send_many(range(batch))
        costs[f"send, {batch}"] = (spent(raw) - before) / calls / batch
        held = [queue.claim(batch) for _ in range(calls)]
        before = spent(raw)
        for deliveries in held:
            queue.ack(deliveries)
        costs[f"ack, {batch}"] = (spent(raw) - before) / calls / batch
    return costs


def fill(queue: Any) -> None:
    """Ack so many messages with drawn ids."""
    queue.send_many(range(REMEMBERED))
    while deliveries := queue.claim(1_000):
        queue.ack(deliveries)


def main(arguments: list[str] | None = None) -> None:
    """Measure off and on, turn and turn about."""
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
        off, on = broker.queue("off"), broker.queue("on", dedup_window=WINDOW)
        fill(on)
        key = QueueKeys("rq", "on")["acked_ids"]
        bytes_of_one = raw.memory_usage(key, samples=0) / raw.zcard(key)
        for _ in range(chosen.rounds):
            costs = cost(raw, off), cost(raw, on)
            for name, value in costs[0].items():
                seen[name].append((value, costs[1][name]))
    table = Table(
        "Redis µs a message", "off", "on", "more", title=f"dedup_window, {REMEMBERED:,} ids remembered"
    )
    for name, pairs in seen.items():
        # The fastest round of each, since other processes only slow one.
        without, within = (min(side) for side in zip(*pairs, strict=True))
        table.add_row(name, f"{without:.1f}", f"{within:.1f}", f"{within - without:.1f}")
    Console().print(table, f"{bytes_of_one:.0f} bytes for an id of 12 characters")


if __name__ == "__main__":
    main()
