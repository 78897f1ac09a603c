"""What a result costs: the time of Redis for an ack, and what a thousand waiting callers take.

python -m tests.benchmarks.results --rounds 7
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import defaultdict
from typing import Any

import redis
from rich.console import Console
from rich.table import Table

import rq_dlq.asyncio
from rq_dlq import Broker
from tests import servers
from tests.servers.counts import microseconds

CALLS = {1: 1_000, 100: 20}  # by the size of a batch
RESULT = "x" * 98  # 100 bytes of JSON
CALLERS, SECONDS = 1_000, 10


def spent(raw: Any) -> float:
    """Microseconds of Redis in verbs so far."""
    return microseconds(raw)


def cost(raw: Any, queue: Any, *, result: bool) -> dict[str, float]:
    """Microseconds of Redis for an ack, and of the client for one of a message."""
    costs: dict[str, float] = {}
    for batch, calls in CALLS.items():
        for _ in range(calls):
            queue.send_many(range(batch), result=result)
        held = [queue.claim(batch) for _ in range(calls)]
        for delivery in (delivery for deliveries in held for delivery in deliveries):
            delivery._returned = RESULT
        before, began = spent(raw), time.perf_counter()
        for deliveries in held:
            queue.ack(deliveries)
        costs[f"ack, {batch}, µs of Redis"] = (spent(raw) - before) / calls / batch
        costs[f"ack, {batch}, µs with the client"] = (time.perf_counter() - began) / calls / batch * 1e6
    return costs


async def wait(url: str, raw: Any) -> tuple[int, float]:
    """The connections of so many waiting callers, and their commands a second."""
    before = len(raw.client_list())
    async with rq_dlq.asyncio.Broker(url) as broker:
        queue = broker.queue("waiting")
        sent = await queue.send_many(range(CALLERS), result=True)
        callers = [asyncio.create_task(one.result(wait="60s")) for one in sent]
        await asyncio.sleep(3)
        began = raw.info("stats")["total_commands_processed"], time.perf_counter()
        await asyncio.sleep(SECONDS)
        connections = len(raw.client_list()) - before
        commands = raw.info("stats")["total_commands_processed"] - began[0] - 2  # its own
        rate = commands / (time.perf_counter() - began[1])
        for caller in callers:
            caller.cancel()
        await asyncio.wait(callers)
    return connections, rate


def main(arguments: list[str] | None = None) -> None:
    """Measure without and with results, turn and turn about."""
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
        for _ in range(chosen.rounds):
            sides = [cost(raw, broker.queue(name), result=name == "with") for name in ("without", "with")]
            for name in sides[0]:
                seen[name].append((sides[0][name], sides[1][name]))
        connections, rate = asyncio.run(wait(f"unix://{path}", raw))
    table = Table("a message", "without", "with a result", "times")
    for name, pairs in seen.items():
        # The fastest round of each, since other processes only slow one.
        without, within = (min(side) for side in zip(*pairs, strict=True))
        table.add_row(name, f"{without:.1f}", f"{within:.1f}", f"{within / without:.2f}")
    Console().print(table)
    Console().print(f"{CALLERS:,} waiting callers: {connections} connections, {rate:.1f} commands a second")


if __name__ == "__main__":
    main()
