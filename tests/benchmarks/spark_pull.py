"""Executors pulling beside a plain loop of claims, in one run.

Two Spark tasks run a handler that does nothing, by `foreach_message`; two processes claim 100 messages at a
time, look at each body, and ack them. Both take turns over the same messages, with the server on the same
machine. Timed is the whole: the Spark job from its start to its sums, the loops from their call to the return
of the second. All processes are started before. A Spark job takes some time whatever it does, which a pull of
one message shows; so there have to be many messages. Only ratios of one run count.

    python -m tests.benchmarks.spark_pull --messages 1000000 --rounds 3
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from rq_dlq import Broker
from rq_dlq.spark import foreach_message
from tests import servers
from tests.benchmarks.heading import heading

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

TASKS, TOGETHER = 2, 100
NAME = "bench"
GOAL = 0.8


def nothing(body: Any) -> None:
    """Take any message."""


def loop(url: str) -> None:
    """What a consumer written by hand does."""
    with Broker(url) as broker:
        queue = broker.queue(NAME)
        while deliveries := queue.claim(TOGETHER):
            for delivery in deliveries:
                nothing(delivery.body)
            queue.ack(deliveries)


def session() -> SparkSession:
    """Two cores on this machine."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - which reads the environment that main() sets

    return (
        SparkSession.builder.master(f"local[{TASKS}]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )


def rate(url: str, messages: int, drain: Callable[[], object]) -> float:
    """Messages a second."""
    with Broker(url) as broker:
        queue = broker.queue(NAME)
        queue.send_many({"number": number} for number in range(messages))
        began = time.perf_counter()
        drain()
        seconds = time.perf_counter() - began
        left = queue.stats()
    if left.waiting or left.leased or left.dead:
        message = f"something is left: {left}"
        raise RuntimeError(message)
    return messages / seconds


def spread(ratios: Sequence[float]) -> str:
    """The median, the lowest and the highest."""
    return f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(arguments)
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    spark = session()
    context = multiprocessing.get_context("spawn")
    with servers.running() as path, context.Pool(TASKS) as processes:
        url = f"unix://{path}"

        def pull() -> None:
            foreach_message(spark, NAME, nothing, parallelism=TASKS, url=url)

        def plain() -> None:
            processes.map(loop, [url] * TASKS, chunksize=1)

        sides = {"plain": plain, "pull": pull}
        above = heading(__spec__.name, path)
        for drain in sides.values():
            rate(url, 1_000, drain)
        fixed = median(1 / rate(url, 1, pull) for _ in range(given.rounds))
        seen = [
            {name: rate(url, given.messages, drain) for name, drain in sides.items()}
            for _ in range(given.rounds)
        ]
    spark.stop()
    ratios = [each["pull"] / each["plain"] for each in seen]
    without = [
        1 / (1 / ratio - fixed * each["plain"] / given.messages)
        for ratio, each in zip(ratios, seen, strict=True)
    ]
    table = Table("", "messages/s", title=f"{given.messages:,} messages, medians of {given.rounds} rounds")
    table.add_row(
        f"claim({TOGETHER}) + ack, {TASKS} processes", f"{median(each['plain'] for each in seen):,.0f}"
    )
    table.add_row(f"foreach_message, {TASKS} tasks", f"{median(each['pull'] for each in seen):,.0f}")
    table.add_row("a pull of one message", f"{fixed:.2f} s")
    table.add_row(f"ratio (goal ≥ {GOAL})", spread(ratios))
    table.add_row("without what a pull of one message takes", spread(without))
    console = Console()
    console.print(above)
    console.print(table)


if __name__ == "__main__":
    main()
