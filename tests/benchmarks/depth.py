"""What a deep queue costs: the time of Redis for a message in plain commands, in a claim and in an ack.

A claim and an ack look each message up three times in the queue's large tables: they take its row out of
`ready`, read its record, and remove it. Redis makes these lookups here, 500 messages at a time, in a queue of
each depth. What they cost more in a deep one is no work of a script, but memory that no cache holds.

    python -m tests.benchmarks.depth --messages 10000 1000000
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import redis
from rich.console import Console
from rich.table import Table

from rq_dlq import Broker
from tests import servers
from tests.benchmarks.heading import heading

BODY = b"x" * 100
TOGETHER = 500
VERBS = "fcall", "evalsha"  # as a library of functions, or as its text
CALLS = 10  # of each kind, so that they take the same messages of each depth


def spent(raw: Any, *commands: str) -> float:
    """Microseconds of Redis in these commands so far."""
    stats = raw.info("commandstats")
    return float(sum(stats.get(f"cmdstat_{command}", {"usec": 0})["usec"] for command in commands))


def cost(raw: Any, broker: Broker, depth: int) -> dict[str, float]:
    """Microseconds of Redis for a message, in a queue of so many."""
    raw.flushall()
    queue = broker.queue("bench")
    queue.send_many(BODY for _ in range(depth))
    keys = queue._core.keys
    taken = CALLS * TOGETHER
    rows = raw.zrange(keys["ready"], 0, taken - 1)
    parts = [rows[first : first + TOGETHER] for first in range(0, taken, TOGETHER)]
    ids = [[row[2:] for row in part] for part in parts]  # a row begins with two bytes of its order
    lookups: dict[str, Callable[[int], object]] = {
        "hmget": lambda n: raw.hmget(keys["messages"], ids[n]),
        "zrem": lambda n: raw.zrem(keys["ready"], *parts[n]),
        "hdel": lambda n: raw.hdel(keys["messages"], *ids[n]),
    }
    found: dict[str, float] = {}
    for command, look in lookups.items():
        before = spent(raw, command)
        for n in range(CALLS):
            look(n)
        found[f"{command.upper()}, plain"] = (spent(raw, command) - before) / taken
    before = spent(raw, *VERBS)
    held = [queue.claim(TOGETHER) for _ in range(CALLS)]
    between = spent(raw, *VERBS)
    for deliveries in held:
        queue.ack(deliveries)
    messages = sum(map(len, held))
    return found | {
        "claim": (between - before) / messages,
        "ack": (spent(raw, *VERBS) - between) / messages,
    }


def compare(path: str, depths: list[int]) -> Table:
    """Every depth, a column each."""
    with redis.Redis(unix_socket_path=path) as raw, Broker(f"unix://{path}") as broker:
        found = [cost(raw, broker, depth) for depth in depths]
    table = Table("Redis µs a message", *(f"{depth:,} pending" for depth in depths), "more")
    for name in found[0]:
        first, *_, last = (each[name] for each in found)
        table.add_row(name, *(f"{each[name]:.2f}" for each in found), f"{last - first:.2f}")
    return table


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print what was run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--messages", type=int, nargs="+", default=[10_000, 1_000_000], help="two or more depths"
    )
    chosen = parser.parse_args(arguments)
    if len(chosen.messages) < 2 or min(chosen.messages) < 2 * CALLS * TOGETHER:
        parser.error(f"pass two depths or more, each of {2 * CALLS * TOGETHER:,} messages or more")
    console = Console()
    with servers.running() as path:
        console.print(heading(__spec__.name, path))
        console.print(compare(path, chosen.messages))


if __name__ == "__main__":
    main()
