"""How soon a call that runs learns that its message was cancelled, at the usual lease.

One worker process runs all calls; each is cancelled at a moment of its own. An `async def` has learned it
when it is cancelled, a `def` when it sees `delivery.cancelled`, for which it looks each 10 ms.

    python -m tests.benchmarks.cancels --calls 100
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import random
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from statistics import median, quantiles
from typing import Any

from rich.console import Console
from rich.table import Table

import rq_dlq
from rq_dlq.worker import Worker
from tests import servers

LEASE = "30s"
LOOK_EVERY = 0.01  # seconds between two looks of a `def`
APART = 0.02  # seconds between two cancels, on average


def work(url: str, colour: str, calls: int, told: Connection) -> None:
    """Run so many calls until each is cancelled; tells when it has begun one, and when one has learned it."""
    broker = rq_dlq.Broker(url)

    async def awaiting(message: str) -> None:
        told.send((message, 0.0))
        try:
            await asyncio.Event().wait()
        finally:
            told.send((message, time.time()))

    def plain(message: str, delivery: rq_dlq.Delivery[str]) -> None:
        told.send((message, 0.0))
        while not delivery.cancelled:
            time.sleep(LOOK_EVERY)
        told.send((message, time.time()))

    handlers: dict[str, Callable[..., Any]] = {"async def": awaiting, "def": plain}
    broker.queue("work", lease=LEASE).handler(concurrency=calls)(handlers[colour])
    Worker(broker).run()


def measured(url: str, colour: str, calls: int) -> list[float]:
    """Milliseconds from each cancel until its call has learned it."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    context = multiprocessing.get_context("spawn")
    worker = context.Process(target=work, args=(url, colour, calls, theirs))
    worker.start()
    try:
        with rq_dlq.Broker(url) as broker:
            queue = broker.queue("work", lease=LEASE)
            sent = queue.send_many([rq_dlq.Message(str(n), id=str(n)) for n in range(calls)])
            for _ in sent:
                ours.recv()
            cancelled: dict[str, float] = {}
            for message in random.sample(sent, calls):
                time.sleep(random.uniform(0, 2 * APART))
                cancelled[message] = time.time()
                assert queue.cancel(message) == "cancelled"
            return [1000 * (at - cancelled[message]) for message, at in (ours.recv() for _ in sent)]
    finally:
        worker.kill()
        worker.join()


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--server", help="a redis-server; by default the one on PATH")
    chosen = parser.parse_args(arguments)
    table = Table(f"{chosen.calls} calls, lease {LEASE}", "ms from the cancel, p50", "p99")
    for colour in ("async def", "def"):
        with servers.running(program=chosen.server) as path:
            took = measured(f"unix://{path}", colour, chosen.calls)
        table.add_row(colour, f"{median(took):.0f}", f"{quantiles(took, n=100, method='inclusive')[98]:.0f}")
    console = Console()
    console.print(f"$ python -m tests.benchmarks.cancels {' '.join(arguments or sys.argv[1:])}")
    console.print(table)


if __name__ == "__main__":
    main()
