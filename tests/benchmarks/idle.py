"""How late a message comes that falls due on an idle queue, beside another checkout.

One consumer waits, one message at a time falls due at a random moment. Each way is measured in a process of
its own, the checkouts taking turns, with a server that nobody else wakes.

    python -m tests.benchmarks.idle --messages 50 --rounds 3 --beside ../the-other-checkout
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median, quantiles

import redis
from rich.console import Console
from rich.table import Table

import rq_dlq
import rq_dlq.asyncio
from rq_dlq.worker import Worker
from tests import servers

HERE = Path(__file__).resolve().parents[2]
PATIENCE = 10  # seconds


def moments(messages: int) -> Iterator[float]:
    """Seconds until each message falls due, at no fixed place between two ticks of the server."""
    for _ in range(messages):
        yield random.randint(100, 300) / 1000


def delayed(url: str, messages: int) -> list[float]:
    """Seconds that delayed messages come late to a blocking claim."""
    late: list[float] = []
    with rq_dlq.Broker(url) as broker:
        queue = broker.queue("idle")
        for delay in moments(messages):
            queue.send("x", delay=delay)
            due = time.time() + delay
            (delivery,) = queue.claim(wait=PATIENCE)
            late.append(time.time() - due)
            delivery.ack()
    return late


def lapsed(url: str, messages: int) -> list[float]:
    """The same of messages whose lease lapses."""
    late: list[float] = []
    with rq_dlq.Broker(url) as broker:
        queue = broker.queue("idle", redelivery=rq_dlq.RedeliveryPolicy(delays=[0]))
        for lease in moments(messages):
            queue.send("x")
            queue.claim(lease=lease)
            due = time.time() + lease
            (delivery,) = queue.claim(wait=PATIENCE)
            late.append(time.time() - due)
            delivery.ack()
    return late


def awaited(url: str, messages: int) -> list[float]:
    """The same of delayed messages, for an awaiting claim."""

    async def measure() -> list[float]:
        late: list[float] = []
        async with rq_dlq.asyncio.Broker(url) as broker:
            queue = broker.queue("idle")
            for delay in moments(messages):
                await queue.send("x", delay=delay)
                due = time.time() + delay
                (delivery,) = await queue.claim(wait=PATIENCE)
                late.append(time.time() - due)
                await delivery.ack()
        return late

    return asyncio.run(measure())


def worked(url: str, messages: int) -> list[float]:
    """The same for a worker as it comes; its handler sends the next message."""
    late: list[float] = []
    delays = moments(messages)
    with rq_dlq.Broker(url) as broker:
        queue = broker.queue("idle")

        def send() -> None:
            if delay := next(delays, None):
                queue.send({"due": time.time() + delay}, delay=delay)

        @queue.handler()
        def handle(body: dict[str, float]) -> None:
            late.append(time.time() - body["due"])
            send()

        send()
        Worker(broker, until="drained").run()
    return late


WAYS: dict[str, Callable[[str, int], list[float]]] = {
    "delayed, blocking claim": delayed,
    "delayed, awaiting claim": awaited,
    "lapsed, blocking claim": lapsed,
    "delayed, worker": worked,
}


def measured_by(checkout: Path, way: str, url: str, messages: int) -> list[float]:
    """Milliseconds that messages are late with the library of a checkout, in a process of its own."""
    command = [sys.executable, __file__, "--measure", url, "--way", way, "--messages", str(messages)]
    environment = {**os.environ, "PYTHONPATH": f"{checkout}{os.pathsep}{HERE}"}
    result = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, cwd="/")
    return [late * 1000 for late in json.loads(result.stdout)]


def compare(path: str, messages: int, rounds: int, beside: Path | None) -> Table:
    """This checkout and the other one, turn and turn about."""
    checkouts = [HERE] if beside is None else [HERE, beside.resolve()]
    seen: dict[tuple[str, Path], list[float]] = defaultdict(list)
    with redis.Redis(unix_socket_path=path) as raw:
        tick = raw.config_get("hz")["hz"]
        for _ in range(rounds):
            for way in WAYS:
                for checkout in checkouts:
                    raw.flushall()
                    seen[way, checkout] += measured_by(checkout, way, f"unix://{path}", messages)
    table = Table("", title=f"Milliseconds late, {messages * rounds} messages each, hz {tick}")
    for checkout in checkouts:
        whose = "" if checkout == HERE else f", {beside}"
        table.add_column(f"p50{whose}")
        table.add_column(f"p99{whose}")
    for way in WAYS:
        cells: list[str] = []
        for checkout in checkouts:
            late = seen[way, checkout]
            cells += [f"{median(late):.1f}", f"{quantiles(late, n=100, method='inclusive')[98]:.1f}"]
        table.add_row(way, *cells)
    return table


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--messages", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--hz", type=int, default=10, help="of the server; 10 is Redis' default")
    parser.add_argument("--beside", type=Path, help="a checkout of another version")
    parser.add_argument("--server", help="a redis-server; by default the one on PATH")
    parser.add_argument("--measure", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.measure:
        sys.stdout.write(json.dumps(WAYS[chosen.way](chosen.measure, chosen.messages)))
        return
    with servers.running("--hz", str(chosen.hz), program=chosen.server) as path:
        console = Console()
        console.print(f"$ python -m tests.benchmarks.idle {' '.join(arguments or sys.argv[1:])}")
        console.print(compare(path, chosen.messages, chosen.rounds, chosen.beside))


if __name__ == "__main__":
    main()
