"""What a shared dead-letter queue costs by the number of queues, beside another version of the library.

All queues of a namespace give their dead letters one name. Each version, in a process of its own, has a
consumer that waits for letters of that name, takes twenty letters of five queues one by one, and sets a
policy for all queues. CPU is that of the client and of Redis together. Only ratios of one run count.

    git worktree add ../before HEAD~1
    python -m tests.benchmarks.shared --queues 100 1000 10000 --beside ../before
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import redis
from rich.console import Console
from rich.table import Table

from rq_dlq import Broker, SharedDeadLetterStrategy
from tests import servers

HERE = Path(__file__).resolve().parents[2]
NAME = "LOST"
FAILING = 5  # queues that have letters
LETTERS = 20


@contextmanager
def cpu(raw: Any, note: Callable[[float], object]) -> Iterator[None]:
    """Note the milliseconds of CPU that the client and the server take."""

    def used() -> float:
        server = raw.info("cpu")
        return float(server["used_cpu_user"] + server["used_cpu_sys"] + time.process_time())

    before = used()
    yield
    note((used() - before) * 1000)


def fill(raw: Any, broker: Broker, queues: int) -> list[str]:
    """Queues of one shared name, as a policy would leave them; those that will have letters."""
    families = [f"q.{n:05}" for n in range(queues)]
    broker.policies.set("#", dead_letter=SharedDeadLetterStrategy(NAME))
    broker.queue(families[0]).open()
    settings = raw.hgetall(f"rq:{{{families[0]}}}:settings")
    pipeline = raw.pipeline(transaction=False)
    pipeline.sadd("rq:queues", *families)
    for family in families[1:]:
        names = settings[b"names"].replace(families[0].encode(), family.encode())
        pipeline.hset(f"rq:{{{family}}}:settings", mapping={**settings, b"names": names})
    pipeline.execute()
    return families[:: max(1, queues // FAILING)][:FAILING]


def measure(path: str, queues: int, seconds: float) -> dict[str, float]:
    """The figures of this process's library."""
    figures: dict[str, float] = {}
    with redis.Redis(unix_socket_path=path) as raw, Broker(f"unix://{path}") as broker:
        raw.flushall()
        failing = fill(raw, broker, queues)
        lost = broker.queue(NAME)
        lost.claim()
        with cpu(raw, lambda used: figures.update({"idle, CPU ms per second": used / seconds})):
            lost.claim(wait=seconds)
        for number in range(LETTERS):
            queue = broker.queue(failing[number % FAILING])
            queue.send(number)
            queue.claim()[0].poison()
            time.sleep(0.002)  # no two die in the same millisecond
        lost.claim()[0].release()
        taken: list[int] = []
        with cpu(raw, lambda used: figures.update({"a letter, CPU ms": used / LETTERS})):
            while batch := lost.claim(wait="1ms") if len(taken) < LETTERS else []:
                taken += (delivery.body for delivery in batch)
        figures["letters before older ones"] = sum(later < earlier for earlier, later in pairwise(taken))
        began = time.perf_counter()
        with cpu(raw, lambda used: figures.update({"policies.set('#'), CPU ms": used})):
            broker.policies.set("#", dead_letter=SharedDeadLetterStrategy(NAME), max_in_flight=9)
        figures["policies.set('#'), seconds"] = time.perf_counter() - began
    return figures


def measured_by(checkout: Path, path: str, queues: int, seconds: float) -> dict[str, float]:
    """The same with the library of a checkout, in a process of its own."""
    command = [sys.executable, str(Path(__file__)), "--measure", path, "--queues", str(queues)]
    environment = {**os.environ, "PYTHONPATH": f"{checkout}{os.pathsep}{HERE}"}
    result = subprocess.run(
        [*command, "--seconds", str(seconds)],
        env=environment, check=True, stdout=subprocess.PIPE, text=True, cwd="/",
    )  # fmt: skip
    return dict(json.loads(result.stdout))


def main(given: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--queues", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--seconds", type=float, default=5.0, help="of waiting")
    parser.add_argument("--beside", type=Path, help="a checkout of another version")
    parser.add_argument("--measure", metavar="SOCKET", help=argparse.SUPPRESS)
    options = parser.parse_args(given)
    if options.measure:
        sys.stdout.write(json.dumps(measure(options.measure, options.queues[0], options.seconds)))
        return
    table = Table("queues", "", "this", *(["other", "other : this"] if options.beside else []))
    with servers.running() as path:
        for queues in options.queues:
            this = measured_by(HERE, path, queues, options.seconds)
            other = (
                measured_by(options.beside.resolve(), path, queues, options.seconds) if options.beside else {}
            )
            for name, figure in this.items():
                row = [f"{queues:,}", name, f"{figure:.2f}"]
                if other:
                    ratio = f"{other[name] / figure:.1f}" if figure else "-"
                    row += [f"{other[name]:.2f}", ratio]
                table.add_row(*row)
    words = sys.argv[1:] if given is None else given
    console = Console()
    console.print(f"$ {shlex.join(['python', '-m', 'tests.benchmarks.shared', *words])}", soft_wrap=True)
    console.print(table)


if __name__ == "__main__":
    main()
