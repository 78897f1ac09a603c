"""The worker as it comes, with a handler that does nothing: messages a second, beside another checkout's.

Each drain is a process of its own, so that the same program can run on another checkout of this project. The
two take turns, with the server on one core or each on its own. Only ratios of one run count. The CPU time of
a message says more on a busy machine.

    python -m tests.benchmarks.worker --messages 50000 --rounds 5 --against ../the-other-checkout
    python -m tests.benchmarks.worker --cores 1 2 --ways "a thread"
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

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


def drain(url: str, colour: str, concurrency: int, messages: int) -> tuple[float, float, float]:
    """One worker, from its start to its end: messages a second, and its CPU time and the server's for each.

    Microseconds.
    """
    with rq_dlq.Broker(url) as broker:
        queue = broker.queue("bench")
        queue.send_many(BODY for _ in range(messages))

        def plain(body: object) -> None:
            del body

        async def awaiting(body: object) -> None:
            del body

        queue.handler(concurrency=concurrency)(plain if colour == "def" else awaiting)
        worker = Worker(broker, until="empty")
        with redis.Redis.from_url(url) as raw:
            before, served, began = time.process_time(), cpu_of(raw), time.perf_counter()
            worker.run()
            took, own, of_server = time.perf_counter() - began, time.process_time(), cpu_of(raw)
        assert worker.tally.counts["acked"] == messages, worker.tally.counts
    return messages / took, 1e6 * (own - before) / messages, 1e6 * (of_server - served) / messages


def cpu_of(raw: Any) -> float:
    """The CPU time of the server so far, seconds."""
    found = raw.info("cpu")
    return float(found["used_cpu_sys"] + found["used_cpu_user"])


def measured(checkout: Path, path: str, way: str, messages: int) -> list[float]:
    """The same, of a checkout, in a process of its own."""
    with redis.Redis(unix_socket_path=path) as raw:
        raw.flushall()
    colour, concurrency = WAYS[way]
    # This file comes from here, what it measures from there: the checkout is before everything else.
    program = (
        f"import sys; sys.path[:0] = [{str(checkout)!r}]; import rq_dlq; sys.path[0] = {str(HERE)!r}; "
        "from tests.benchmarks.worker import drain; "
        f"print(rq_dlq.__file__, *drain('unix://{path}', {colour!r}, {concurrency}, {messages}))"
    )
    command = [sys.executable, "-c", program]
    *_, said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    file, *figures = said.split()
    assert Path(file).is_relative_to(checkout), f"measured {file}, not {checkout}"
    return [*map(float, figures)]


@contextmanager
def placed(cores: int, program: str | None) -> Iterator[str]:
    """A server, on one core with this process or on another one; 0: both use all cores."""
    known = sorted(os.sched_getaffinity(0))
    try:
        if cores:
            os.sched_setaffinity(0, {known[0]})  # the server inherits it
        with servers.running(program=program) as path:
            if cores:
                os.sched_setaffinity(0, {known[cores - 1]})
            yield path
    finally:
        os.sched_setaffinity(0, known)


def compare(chosen: argparse.Namespace) -> Table:
    """This checkout and the other one, turn and turn about."""
    checkouts = [HERE] if chosen.against is None else [HERE, chosen.against.resolve()]
    seen: dict[tuple[str, int], list[list[list[float]]]] = defaultdict(list)
    for turn, cores in product(range(chosen.rounds), chosen.cores):
        back = -1 if turn % 2 else 1  # who begins has a warmer machine
        with placed(cores, chosen.server) as path:
            for way in chosen.ways:
                figures = [measured(one, path, way, chosen.messages) for one in checkouts[::back]]
                seen[way, cores].append(figures[::back])
    table = Table("", "cores", title="The worker as it comes")
    for checkout in ["this", *map(str, [chosen.against] if chosen.against else [])]:
        table.add_column(f"{checkout}: messages /s")
        table.add_column("worker \u00b5s")
        table.add_column("server \u00b5s")
    if chosen.against is not None:
        table.add_column("this : that")
    for (way, cores), rounds in seen.items():
        sides = [[median(one) for one in zip(*side, strict=True)] for side in zip(*rounds, strict=True)]
        cells = [
            cell for rate, own, served in sides for cell in (f"{rate:,.0f}", f"{own:.1f}", f"{served:.1f}")
        ]
        if chosen.against is not None:
            cells.append(f"{median(here[0] / there[0] for here, there in rounds):.2f}")
        table.add_row(way, str(cores or "all"), *cells)
    return table


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print what was run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--against", type=Path, help="another checkout of this project")
    parser.add_argument("--server", help="a redis-server; by default the one on PATH")
    parser.add_argument("--ways", nargs="*", default=[*WAYS], choices=[*WAYS])
    parser.add_argument(
        "--cores", nargs="*", type=int, default=[1], choices=range(3), help="1: one for both; 2; 0: all"
    )
    chosen = parser.parse_args(arguments)
    console = Console(width=120)
    console.print(f"$ python -m tests.benchmarks.worker {' '.join(arguments or sys.argv[1:])}")
    console.print(f"Python {sys.version.split()[0]}, {chosen.rounds} rounds of {chosen.messages:,}")
    console.print(compare(chosen))


if __name__ == "__main__":
    main()
