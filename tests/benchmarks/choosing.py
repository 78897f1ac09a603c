"""What it costs to choose messages at depth, beside another version of the library.

Fills a queue with dead letters, then asks each version, in a process of its own, for twenty that a third
meets and for the groups; how long it takes and how much memory Python has allocated at most. Only ratios of
one run count.

    git worktree add /tmp/before HEAD~1
    python -m tests.benchmarks.choosing --letters 30000 --beside /tmp/before
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from rq_dlq import Broker, Message
from tests import servers

HERE = Path(__file__).resolve().parents[2]
TASKS: dict[str, Callable[[Any], Any]] = {
    "select(where, limit=20)": lambda dlq: dlq.select("tenant = 'a'", limit=20).browse(),
    "browse(limit=20)": lambda dlq: dlq.browse(limit=20),
    "select(where).count()": lambda dlq: dlq.select("tenant = 'a'").count(),
    "select(where by state).count()": lambda dlq: dlq.select("delivery_count > 1").count(),
    "groups()": lambda dlq: dlq.groups(),
}


def fill(url: str, letters: int, size: int) -> None:
    """Dead letters of three tenants and two kinds."""
    with Broker(url) as broker:
        queue = broker.queue("bench")
        for start in range(0, letters, 1_000):
            queue.send_many(
                Message(body={"pad": "x" * size}, headers={"tenant": "abc"[n % 3]})
                for n in range(start, min(letters, start + 1_000))
            )
            claimed = queue.claim(1_000)
            queue.poison(claimed[::2], ValueError("even"))
            queue.poison(claimed[1::2], KeyError("odd"))


def measure(url: str) -> dict[str, tuple[float, float]]:
    """Of each task: seconds, and megabytes at most."""
    found: dict[str, tuple[float, float]] = {}
    with Broker(url) as broker:
        dlq = broker.queue("bench").dlq
        for name, task in TASKS.items():
            task(dlq)
            began = time.perf_counter()
            task(dlq)
            seconds = time.perf_counter() - began
            tracemalloc.start()
            task(dlq)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            found[name] = (seconds, peak / 1e6)
    return found


def measured_by(checkout: Path, url: str) -> dict[str, tuple[float, float]]:
    """The same with the library of another checkout."""
    command = [sys.executable, str(Path(__file__)), "--measure", url]
    environment = {**os.environ, "PYTHONPATH": f"{checkout}{os.pathsep}{HERE}"}
    result = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, cwd="/")
    return dict(json.loads(result.stdout))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--letters", type=int, default=10_000)
    parser.add_argument("--size", type=int, default=5_000, help="bytes of a body")
    parser.add_argument("--beside", type=Path, help="a checkout of another version")
    parser.add_argument("--measure", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        sys.stdout.write(json.dumps(measure(options.measure)))
        return
    table = Table("", "seconds", "MB", *(["other : this, seconds", "MB"] if options.beside else []))
    with servers.running() as path:
        url = f"unix://{path}"
        fill(url, options.letters, options.size)
        this = measured_by(HERE, url)
        other = measured_by(options.beside.resolve(), url) if options.beside else {}
    for name, (seconds, megabytes) in this.items():
        row = [name, f"{seconds:.3f}", f"{megabytes:.1f}"]
        if name in other:
            row += [f"{other[name][0] / seconds:.1f}", f"{other[name][1] / megabytes:.1f}"]
        table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    main()
