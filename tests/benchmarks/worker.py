"""The worker as it comes, with a handler that does nothing: messages a second, beside another checkout's.

Each drain is a process of its own, so that the same program can run on another checkout of this project. The
two take turns on one core with the server. Only ratios of one run count.

    python -m tests.benchmarks.worker --messages 50000 --rounds 5 --against ../the-other-checkout
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median

import redis
from rich.console import Console
from rich.table import Table

import rq_dlq
from rq_dlq.worker import Worker
from tests import servers

BODY = {"data": "x" * 89}  # 100 bytes of JSON
WAYS = {
    "a thread": ("def", 1),
    "8 threads": ("def", 8),
    "10 async calls": ("async def", 10),
    "100 async calls": ("async def", 100),
}
HERE = Path(__file__).parents[2]


def drain(url: str, colour: str, concurrency: int, messages: int) -> float:
    """Messages a second of one worker, from its start to its end."""
    with rq_dlq.Broker(url) as broker:
        queue = broker.queue("bench")
        queue.send_many(BODY for _ in range(messages))

        def plain(body: object) -> None:
            del body

        async def awaiting(body: object) -> None:
            del body

        queue.handler(concurrency=concurrency)(plain if colour == "def" else awaiting)
        worker = Worker(broker, until="empty")
        began = time.perf_counter()
        worker.run()
        rate = messages / (time.perf_counter() - began)
        assert worker.tally.counts == {"acked": messages}
    return rate


def measured(checkout: Path, path: str, way: str, messages: int) -> float:
    """The same, of a checkout, in a process of its own."""
    with redis.Redis(unix_socket_path=path) as raw:
        raw.flushall()
    colour, concurrency = WAYS[way]
    # This file comes from here, what it measures from there: the checkout is before everything else.
    program = (
        f"import sys; sys.path[:0] = [{str(checkout)!r}]; import rq_dlq; sys.path[0] = {str(HERE)!r}; "
        "from tests.benchmarks.worker import drain; "
        f"print(rq_dlq.__file__, drain('unix://{path}', {colour!r}, {concurrency}, {messages}))"
    )
    command = [sys.executable, "-c", program]
    *_, said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    file, rate = said.split()
    assert Path(file).is_relative_to(checkout), f"measured {file}, not {checkout}"
    return float(rate)


def compare(path: str, messages: int, rounds: int, against: Path | None) -> Table:
    """This checkout and the other one, turn and turn about."""
    checkouts = [HERE] if against is None else [HERE, against.resolve()]
    seen: dict[str, list[list[float]]] = defaultdict(list)
    for _ in range(rounds):
        for way in WAYS:
            seen[way].append([measured(checkout, path, way, messages) for checkout in checkouts])
    table = Table("", "messages /s", title="The worker as it comes")
    if against is not None:
        table.add_column(f"of {against}")
        table.add_column("this : that")
    for way, rounds_of in seen.items():
        rates = [f"{median(side):,.0f}" for side in zip(*rounds_of, strict=True)]
        ratio = [] if against is None else [f"{median(here / there for here, there in rounds_of):.2f}"]
        table.add_row(way, *rates, *ratio)
    return table


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print what was run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--against", type=Path, help="another checkout of this project")
    parser.add_argument("--server", help="a redis-server; by default the one on PATH")
    parser.add_argument("--unpinned", action="store_true", help="let worker and server use all cores")
    chosen = parser.parse_args(arguments)
    console = Console()
    if not chosen.unpinned and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # server and workers inherit it
    with tempfile.TemporaryDirectory(), servers.running(program=chosen.server) as path:
        where = "all cores" if chosen.unpinned else "server and worker on one core"
        console.print(f"$ python -m tests.benchmarks.worker {' '.join(arguments or sys.argv[1:])}")
        console.print(f"Python {sys.version.split()[0]}, {where}")
        console.print(compare(path, chosen.messages, chosen.rounds, chosen.against))


if __name__ == "__main__":
    main()
