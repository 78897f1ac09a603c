"""Reading a queue in Spark beside what people write with redis-py, over the same messages in one run.

The ratio is to messages kept as hashes of nine fields and read into tuples, a thousand at a time by pipelined
HGETALL. Beside it stand our own keys read by plain ZRANGE and HMGET, undecoded: what there is to gain.
Spark writes to the format `noop`, so that every column is made. What a job costs that finds nothing is in its
time, and shown beside it. Only ratios of one run count.

    python -m tests.benchmarks.spark_read --messages 200000 --rounds 5
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import redis
from rich.console import Console
from rich.table import Table

from rq_dlq import Broker
from tests import servers
from tests.benchmarks.heading import heading
from tests.benchmarks.layouts import PAYLOAD

BODY = {"data": "x" * (PAYLOAD - len('{"data":""}'))}  # 100 bytes of JSON
FIELDS = (
    b"body", b"content_type", b"headers", b"priority", b"enqueued_at", b"visible_at", b"delivery_count",
    b"last_error_class", b"last_error_message",
)  # fmt: skip
PAGE = 1_000
GOALS = {"Spark, all columns": 5.0, "Spark, four columns": 6.0}
FOUR = "id string, priority int, enqueued_at timestamp, delivery_count int"
Row = tuple[Any, ...]


def fill(raw: Any, broker: Broker, messages: int) -> None:
    """The same messages as hashes, and in a queue."""
    raw.flushall()
    broker.queue("bench").send_many(BODY for _ in range(messages))
    broker.queue("empty").send_many([BODY])
    broker.queue("empty").purge(all=True)
    now = int(time.time() * 1000)
    values = (b"x" * PAYLOAD, b"application/json", b"{}", 4, now, now, 0, b"", b"")
    hash_of = dict(zip(FIELDS, values, strict=True))
    for first in range(0, messages, PAGE):
        pipe = raw.pipeline(transaction=False)
        for number in range(first, min(first + PAGE, messages)):
            pipe.hset(f"plain:{number:012}", mapping=hash_of)
            pipe.zadd("plain", {f"{number:012}": now + number})
        pipe.execute()


def by_hashes(raw: Any, messages: int) -> Iterator[Row]:
    """Hashes of nine fields as rows."""
    for first in range(0, messages, PAGE):
        ids = raw.zrange("plain", first, first + PAGE - 1)
        pipe = raw.pipeline(transaction=False)
        for message_id in ids:
            pipe.hgetall(b"plain:" + message_id)
        for message_id, found in zip(ids, pipe.execute(), strict=True):
            yield (message_id, *(found[field] for field in FIELDS))


def by_records(raw: Any, messages: int) -> Iterator[Row]:
    """Our own records, undecoded."""
    for first in range(0, messages, PAGE):
        ids = [member[2:] for member in raw.zrange("rq:{bench}:ready", first, first + PAGE - 1)]
        pipe = raw.pipeline(transaction=False)
        pipe.hmget("rq:{bench}:messages", ids)
        pipe.hmget("rq:{bench}:states", ids)
        yield from zip(ids, *pipe.execute(), strict=True)


def session() -> Any:
    """A local Spark with two cores."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - once the environment is set

    from rq_dlq.spark import register  # noqa: PLC0415

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    conf: dict[str, bool | float | int | str | None] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    spark = SparkSession.builder.master("local[2]").config(map=conf).getOrCreate()
    register(spark)
    return spark


def compare(path: str, messages: int, rounds: int) -> Table:
    """All of them, turn and turn about."""
    raw, url = redis.Redis(unix_socket_path=path), f"unix://{path}"
    spark = session()

    def through_spark(columns: str | None = None, queue: str = "bench") -> None:
        reader = spark.read.format("rq_dlq").options(url=url, queue=queue)
        found = (reader.schema(columns) if columns else reader).load()
        found.write.format("noop").mode("overwrite").save()

    runs: dict[str, Callable[[], object]] = {
        "hashes of nine fields, HGETALL": lambda: sum(1 for _ in by_hashes(raw, messages)),
        "our records, undecoded, ZRANGE and HMGET": lambda: sum(1 for _ in by_records(raw, messages)),
        "Spark, all columns": through_spark,
        "Spark, four columns": lambda: through_spark(FOUR),
        "Spark, an empty queue": lambda: through_spark(queue="empty"),
    }
    with Broker(url) as broker:
        fill(raw, broker, messages)
    through_spark()  # so that Python workers are there
    seen: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            began = time.perf_counter()
            run()
            seen[name].append(time.perf_counter() - began)
    spark.stop()
    table = Table("", "seconds", "messages /s", "ratio", "goal", title=f"Reading {messages:,} messages")
    plain = next(iter(seen.values()))
    for name, times in seen.items():
        ratio = median(base / own for base, own in zip(plain, times, strict=True))
        rate = f"{messages / median(times):,.0f}"
        goal = f"≥ {GOALS[name]}" if name in GOALS else ""
        table.add_row(name, f"{median(times):.2f}", rate, f"{ratio:.2f}", goal)
    return table


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print what was run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args(arguments)
    console = Console()
    with servers.running() as path:
        console.print(heading(__spec__.name, path))
        console.print(compare(path, chosen.messages, chosen.rounds))


if __name__ == "__main__":
    main()
