"""Micro-batches of a queue beside those of Spark's own source `rate-micro-batch`, in one session.

Both run `foreachBatch` with a function that writes its rows to the format `noop`. Timed is the whole trigger
as Spark reports it: for a queue the ack of the batch before, the claim of the next, and its rows read by two
tasks. The CPU of Redis is that of all of it, from the first batch to the last. Then the queue stays empty for
a while, and what the query says to Redis is counted. From Redis' slow log comes the longest run of each
script; it has the waits of a busy machine in it.

The latency is that of single messages, sent now and then to a query that waits: from the send to the moment
when the function of `foreachBatch` has the row. For Spark's own source `rate` it is from a row's time stamp.

    python -m tests.benchmarks.spark_stream --batches 10 --idle 5
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from contextlib import contextmanager
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, NamedTuple

import redis
from rich.console import Console
from rich.table import Table

from rq_dlq import Broker
from rq_dlq._scripts import Joined
from tests import servers
from tests.benchmarks.heading import heading
from tests.benchmarks.spark_read import session
from tests.servers.counts import WORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIZES = (1_000, 10_000, 50_000)  # rows in a batch
BODY = b"x" * 100
NAME = "bench"
FIXED, EACH = 0.1, 15e-6  # seconds that a batch, and a row, may take longer than with Spark's own source
POLLS = 4  # scripts a second, at most, of a query that has nothing to do
LONGEST = 5.0  # milliseconds of one script
FASTEST, CHEAPEST, SOONEST = 150_000, 5.0, 150  # rows a second, µs of Redis a row, added ms: of large batches
SLOW = ("--slowlog-log-slower-than", "1000", "--slowlog-max-len", "100000")
WARM_UP = 2  # batches, or messages
SENT = 30  # messages whose latency is measured


class Stream(NamedTuple):
    """What a stream of a queue took.

    Attributes:
        seconds: a batch.
        redis: seconds of its CPU, a row.
    """

    seconds: float
    redis: float


@contextmanager
def running(source: Any, batches: int) -> Iterator[Any]:
    """A query over a source, which has the rows of so many batches made after the warm ones."""

    def swallow(frame: Any, number: int) -> None:
        if number < batches + WARM_UP:  # later ones would only be interrupted by stop(), with much ado
            frame.write.format("noop").mode("overwrite").save()

    with tempfile.TemporaryDirectory() as checkpoint:
        query = source.writeStream.foreachBatch(swallow).option("checkpointLocation", checkpoint).start()
        try:
            yield query
        finally:
            query.stop()


def whole(query: Any, rows: int, batches: int) -> list[float]:
    """Seconds that each batch of so many rows took, from the first that is warm."""
    deadline = time.monotonic() + 300
    while True:
        seen = [each for each in query.recentProgress if each["numInputRows"] == rows]
        if len(seen) >= batches + WARM_UP:
            return [each["durationMs"]["triggerExecution"] / 1000 for each in seen[WARM_UP:]]
        if time.monotonic() > deadline or not query.isActive:
            message = f"{len(seen)} of {batches + WARM_UP} batches: {query.exception()}"
            raise RuntimeError(message)
        time.sleep(0.1)


def by_rate(spark: Any, rows: int, batches: int) -> float:
    """Seconds a batch of Spark's own source."""
    source = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=rows, numPartitions=2).load()
    with running(source, batches) as query:
        return median(whole(query, rows, batches))


def by_queue(spark: Any, raw: Any, url: str, rows: int, batches: int, *, after: Callable[[], None]) -> Stream:
    """Batches of a queue; `after`: called when it is empty, while the query goes on."""
    before = cpu(raw)
    source = spark.readStream.format("rq_dlq").options(url=url, queue=NAME, maxMessagesPerTrigger=rows).load()
    with running(source, batches) as query:
        seconds = median(whole(query, rows, batches))
        spent = cpu(raw) - before
        after()
    return Stream(seconds, spent / rows / (batches + WARM_UP))


def cpu(raw: Any) -> float:
    """Seconds of CPU that Redis has spent."""
    spent = raw.info("cpu")
    return float(spent["used_cpu_user"] + spent["used_cpu_sys"])


def latencies(source: Any, column: str, feed: Callable[[], None]) -> list[float]:
    """Milliseconds until the sink has a row, by the time in a column of it."""
    seen: list[float] = []

    def note(frame: Any, _: int) -> None:
        moments = [row[0] for row in frame.selectExpr(f"cast({column} as double)").collect()]
        seen.extend((time.time() - moment) * 1000 for moment in moments)

    with tempfile.TemporaryDirectory() as checkpoint:
        query = source.writeStream.foreachBatch(note).option("checkpointLocation", checkpoint).start()
        deadline = time.monotonic() + 120
        try:
            while len(seen) < SENT + WARM_UP:
                feed()
                if time.monotonic() > deadline or not query.isActive:
                    message = f"{len(seen)} rows: {query.exception()}"
                    raise RuntimeError(message)
        finally:
            query.stop()
    return seen[WARM_UP:]


def compare_latency(spark: Any, url: str) -> Table:
    """Of both sources."""
    with Broker(url) as broker:
        queue = broker.queue("latency")
        queue.open()

        def send() -> None:
            queue.send(BODY)
            time.sleep(random.uniform(0.3, 0.9))

        own = spark.readStream.format("rq_dlq").options(url=url, queue="latency").load()
        mine = latencies(own, "enqueued_at", send)
    rate = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    theirs = latencies(rate, "timestamp", lambda: time.sleep(0.5))
    table = Table("", "p50", "p95", "goal", title=f"From the send to the sink, of {SENT} messages")
    for name, found in (("rate", theirs), ("rq_dlq", mine)):
        p50, p95 = quantiles(found, n=20)[9], quantiles(found, n=20)[18]
        table.add_row(name, f"{p50:.0f} ms", f"{p95:.0f} ms", f"≤ {SOONEST} ms" * (name == "rq_dlq"))
    return table


def idle_calls(raw: Any, seconds: float) -> tuple[float, float]:
    """Calls of verbs a second, and commands, also those inside them, while there is nothing to do."""
    time.sleep(2)  # the last batch is acked

    def calls() -> tuple[int, int]:
        seen = {name.partition("_")[2]: each["calls"] for name, each in raw.info("commandstats").items()}
        return seen.get("evalsha", 0) + seen.get("fcall", 0), sum(
            n for name, n in seen.items() if name not in {"info", "slowlog|get"}
        )

    before = calls()
    time.sleep(seconds)
    verbs, commands = (now - then for now, then in zip(calls(), before, strict=True))
    return verbs / seconds, commands / seconds


def worst(raw: Any, names: dict[bytes, str]) -> dict[str, float]:
    """Milliseconds of each script's longest run, of those in the slow log."""
    found: dict[str, float] = {}
    for entry in raw.slowlog_get(-1):
        words = entry["command"].split(b" ")
        if words[0].upper() in WORDS:
            name = names.get(words[1], "?")
            found[name] = max(found.get(name, 0), entry["duration"] / 1000)
    return found


def compare(path: str, batches: int, idle: float) -> Iterator[Table]:
    """All sizes, and what the queries said to Redis."""
    raw, url = redis.Redis(unix_socket_path=path), f"unix://{path}"
    version = tuple(int(part) for part in raw.info("server")["redis_version"].split("."))
    verbs = Joined().for_server(version)
    names = {verbs[name].sha.encode(): name for name in verbs.names()}
    spark = session()
    title = (
        f"Medians of {batches}; goals for the largest: ≥ {FASTEST:,} rows/s, ≤ {CHEAPEST} µs of Redis a row"
    )
    table = Table(
        "rows a batch", "rate-micro-batch", "rq_dlq", "more", "goal", "rows/s", "Redis", title=title
    )
    longest: dict[str, float] = {}
    polls: list[tuple[float, float]] = []

    def after() -> None:
        for name, milliseconds in worst(raw, names).items():
            longest[name] = max(longest.get(name, 0), milliseconds)
        polls.append(idle_calls(raw, idle))

    for rows in SIZES:
        with Broker(url) as broker:
            broker.queue(NAME).send_many(BODY for _ in range(rows * (batches + WARM_UP)))
        raw.slowlog_reset()
        base = by_rate(spark, rows, batches)
        own, redis_cpu = by_queue(spark, raw, url, rows, batches, after=after)
        goal, speed = f"≤ {FIXED + EACH * rows:.3f} s", f"{rows / own:,.0f}"
        table.add_row(
            f"{rows:,}", f"{base:.3f} s", f"{own:.3f} s", f"{own - base:.3f} s", goal, speed,
            f"{redis_cpu * 1e6:.1f} µs",
        )  # fmt: skip
    yield table
    yield compare_latency(spark, url)
    spark.stop()
    idle_table = Table("idle", "a second", "goal", title="What an idle query says to Redis")
    idle_table.add_row("scripts", f"{max(each[0] for each in polls):.1f}", f"≤ {POLLS}")
    idle_table.add_row("commands, also inside scripts", f"{max(each[1] for each in polls):.1f}", "")
    yield idle_table
    slow = Table("script", "longest run", "goal", title="Scripts that took more than 1 ms")
    for name, milliseconds in sorted(longest.items(), key=lambda each: -each[1]):
        slow.add_row(name, f"{milliseconds:.1f} ms", f"≤ {LONGEST:.0f} ms")
    yield slow


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print what was run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--idle", type=float, default=5, help="seconds")
    chosen = parser.parse_args(arguments)
    console = Console()
    with servers.running(*SLOW) as path:
        console.print(heading(__spec__.name, path))
        for table in compare(path, chosen.batches, chosen.idle):
            console.print(table)


if __name__ == "__main__":
    main()
