"""Spark's transactional write beside plain redis-py and beside the engine's own bulk send, in one run.

All three bring the same rows, with bodies of 100 bytes, to the same empty server: redis-py as people write it
(HSET and ZADD for each message, a thousand in a pipeline), `queue.send_many`, and `df.write`, all or nothing.
The rows come from memory each time; Spark has begun its workers before. A Spark job takes some 0.3 s whatever
it writes, so there are many rows. Only ratios of one run count.

    python -m tests.benchmarks.spark_write --messages 1000000 --rounds 3
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import defaultdict
from statistics import median
from typing import Any

import redis
from pyspark.sql import SparkSession, functions
from rich.console import Console
from rich.table import Table

from rq_dlq import Broker
from rq_dlq.spark import register
from tests import servers
from tests.benchmarks.heading import heading

BODY = b"x" * 100
PIPELINE = 1_000
GOALS = {"plain redis-py": 2.5, "send_many": 0.8}
SPARK = "df.write"


def plain(path: str, messages: int) -> None:
    """What people write who have no engine: a hash of bodies and a sorted set."""
    with redis.Redis(unix_socket_path=path) as client:
        for start in range(0, messages, PIPELINE):
            pipeline = client.pipeline(transaction=False)
            for number in range(start, min(messages, start + PIPELINE)):
                pipeline.hset("bodies", str(number), BODY)
                pipeline.zadd("ready", {str(number): number})
            pipeline.execute()


def bulk(path: str, messages: int) -> None:
    """The engine, from one process."""
    with Broker(f"unix://{path}") as broker:
        broker.queue("bulk").send_many(BODY for _ in range(messages))


def session(url: str) -> Any:
    """Spark on two cores."""
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "RQ_DLQ_URL": url}
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    register(spark)
    return spark


def rows(spark: Any, messages: int) -> Any:
    """So many, in memory."""
    frame = spark.range(0, messages, 1, 2).select(functions.lit(BODY).alias("body")).cache()
    frame.count()
    return frame


def write(frame: Any) -> None:
    """All or nothing."""
    frame.write.format("rq_dlq").option("queue", "spark").mode("append").save()


def timed(path: str, run: Any, messages: int) -> float:
    """Messages a second, on an empty server."""
    with redis.Redis(unix_socket_path=path) as client:
        client.flushall()
        began = time.perf_counter()
        run()
        spent = time.perf_counter() - began
        sizes = [client.zcard(key) for key in ("ready", "rq:{bulk}:ready", "rq:{spark}:ready")]
    assert sum(sizes) == messages
    return messages / spent


def compare(path: str, messages: int, rounds: int) -> Table:
    """Turn and turn about."""
    spark = session(f"unix://{path}")
    frame = rows(spark, messages)
    runs = {
        "plain redis-py": lambda: plain(path, messages),
        "send_many": lambda: bulk(path, messages),
        SPARK: lambda: write(frame),
    }
    write(frame.limit(100))
    rates: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for name, run in runs.items():
            rates[name].append(timed(path, run, messages))
    spark.stop()
    table = Table(
        "", "messages/s", "df.write : it", "goal", title=f"{messages:,} messages, medians of {rounds}"
    )
    for name, seen in rates.items():
        ratio = median(ours / theirs for ours, theirs in zip(rates[SPARK], seen, strict=True))
        goal = f"≥ {GOALS[name]}" if name in GOALS else ""
        table.add_row(name, f"{median(seen):,.0f}", f"{ratio:.2f}", goal)
    return table


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print what was run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--server", help="a redis-server; by default the one on PATH")
    chosen = parser.parse_args(arguments)
    console = Console()
    with tempfile.TemporaryDirectory(), servers.running(program=chosen.server) as path:
        table = compare(path, chosen.messages, chosen.rounds)
        console.print(heading(__spec__.name, path))
        console.print(table)


if __name__ == "__main__":
    main()
