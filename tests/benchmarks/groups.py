"""What the groups of many dead letters cost: to list, to read a page of one, to redrive and to purge one.

Each group has half as many letters as the one before. Each task runs in a process of its own, three times if
it changes nothing, of which the fastest counts. Megabytes are what Python has allocated at most.

    python -m tests.benchmarks.groups --letters 1000000
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import redis
from rich.console import Console
from rich.table import Table

from rq_dlq import Broker, Queue
from tests import servers

AT_ONCE = 1_000  # letters
SMALLEST = 20  # letters of a group
ROUNDS = 3


class DownError(Exception):
    """An outage, in several wordings of one class."""


LOOKS: dict[str, Callable[[Queue[Any], Any], Any]] = {
    "groups()": lambda queue, _: queue.dlq.groups(),
    "groups() of one class and place": lambda queue, group: queue.dlq.groups(group=group.fingerprint[:6]),
    "browse(group, limit=20)": lambda queue, group: queue.dlq.browse(group=group),
    "browse(group, limit=20), newest": lambda queue, group: queue.dlq.browse(group=group, order="newest"),
    "browse(class and place, limit=20)": lambda queue, group: queue.dlq.browse(group=group.fingerprint[:6]),
}
CHANGES: dict[str, Callable[[Queue[Any], Any], Any]] = {
    "redrive(group)": lambda queue, group: queue.dlq.redrive(group=group),
    "purge(group)": lambda queue, group: queue.dlq.purge(group=group),
}


def errors(letters: int) -> Iterator[tuple[Exception, int]]:
    """The groups, each with how many letters it gets."""
    number, left = 0, letters
    while left > 0:
        count = min(left, max(SMALLEST, left // 2))
        yield DownError(f"the {'no' * number}shop is down"), count
        number, left = number + 1, left - count


def fill(url: str, letters: int, size: int) -> float:
    """The dead letters; how many seconds their deaths took."""
    took = 0.0
    with Broker(url) as broker:
        queue = broker.queue("bench")
        for error, count in errors(letters):
            for start in range(0, count, AT_ONCE):
                some = min(AT_ONCE, count - start)
                queue.send_many([{"pad": "x" * size}] * some)
                while claimed := queue.claim(some):  # as many as fit into a claim
                    began = time.perf_counter()
                    queue.poison(claimed, error)
                    took += time.perf_counter() - began
    return took


def measure(url: str, name: str) -> tuple[float, float, float]:
    """Seconds, megabytes at most, and bytes that the server sent."""
    path = url.removeprefix("unix://")
    with Broker(url) as broker, redis.Redis(unix_socket_path=path) as raw:
        queue = broker.queue("bench")
        found = sorted(queue.dlq.groups(), key=lambda group: group.count)
        group = found[len(found) // 2] if name in CHANGES else found[-1]
        task = CHANGES.get(name) or LOOKS[name]
        seconds = float("inf")
        for _ in range(1 if name in CHANGES else ROUNDS):
            sent = raw.info("stats")["total_net_output_bytes"]
            began = time.perf_counter()
            task(queue, group)
            seconds = min(seconds, time.perf_counter() - began)
            sent = raw.info("stats")["total_net_output_bytes"] - sent
        if name in CHANGES:
            return seconds, 0.0, sent / group.count
        tracemalloc.start()
        task(queue, group)
        return seconds, tracemalloc.get_traced_memory()[1] / 1e6, sent


def measured(url: str, name: str) -> tuple[float, float, float]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.groups", "--measure", url, name]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, megabytes, sent = json.loads(result.stdout)
    return seconds, megabytes, sent


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--letters", type=int, default=20_000)
    parser.add_argument("--size", type=int, default=5_000, help="bytes of a body")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        sys.stdout.write(json.dumps(measure(*options.measure)))
        return
    console = Console()
    table = Table("", "ms", "MB of Python", "bytes sent")
    with servers.running() as path, redis.Redis(unix_socket_path=path) as raw:
        url = f"unix://{path}"
        took = fill(url, options.letters, options.size)
        index = raw.memory_usage("rq:{bench}:groups", samples=0) or 0
        groups = sum(1 for _ in errors(options.letters))
        console.print(
            f"{options.letters:,} letters of {options.size:,} bytes in {groups} groups; a death took "
            f"{took / options.letters * 1e6:.1f} µs, its row in the index {index / options.letters:.0f} bytes"
        )
        for name in (*LOOKS, *CHANGES):
            seconds, megabytes, sent = measured(url, name)
            per = " a letter" if name in CHANGES else ""
            table.add_row(name, f"{seconds * 1e3:.1f}", f"{megabytes:.1f}", f"{sent:,.0f}{per}")
    console.print(table)


if __name__ == "__main__":
    main()
