"""The chapter "Event time" of docs/spark-streams.md: what Spark drops, and what to use instead."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming.readwriter import DataStreamWriter

import rq_dlq
from rq_dlq.spark import epoch_key
from rq_dlq.spark.dropped import DropListener
from rq_dlq.spark.offsets import Offset, QueueOffset
from tests.servers import wait_until
from tests.spark.conftest import DEADLOCK
from tests.spark.versions import since
from tests.tables import each_row

streams = since(4, 2)

Transform = Callable[[DataFrame], DataFrame]
Sink = Callable[[DataFrame, int], None]
NO_DELAY = rq_dlq.RedeliveryPolicy(initial_delay=0)
SHORT, LONG = "0 seconds", "1 hour"
LATE = "dropped 1 rows that were later than the watermark, and 0 as duplicates"
TWICE = "dropped 0 rows that were later than the watermark, and 1 as duplicates"


def sent_at(watermark: str) -> Transform:
    """How many messages were sent in each millisecond."""
    return lambda frame: frame.withWatermark("enqueued_at", watermark).groupBy("enqueued_at").count()


def handled_at(watermark: str) -> Transform:
    """How many messages an epoch has."""
    return lambda frame: (
        frame.select(functions.current_timestamp().alias("now"))
        .withWatermark("now", watermark).groupBy("now").count()
    )  # fmt: skip


def distinct(*columns: str) -> Transform:
    """Messages that differ in these columns."""
    return lambda frame: frame.withWatermark("enqueued_at", LONG).dropDuplicatesWithinWatermark([*columns])


def writer(spark: SparkSession, transform: Transform, sink: Sink, where: Path, mode: str) -> DataStreamWriter:
    """Of a query over the queue `orders`."""
    frame = transform(spark.readStream.format("rq_dlq").option("queue", "orders").load())
    made = frame.writeStream.outputMode(mode).foreachBatch(sink)
    return made.option("checkpointLocation", str(where / "checkpoint"))


def run(spark: SparkSession, transform: Transform, sink: Sink, where: Path, mode: str = "append") -> None:
    """Run a query over the queue `orders` until what is ready now is done."""
    writer(spark, transform, sink, where, mode).trigger(availableNow=True).start().awaitTermination()


@contextmanager
def running(spark: SparkSession, transform: Transform, sink: Sink, where: Path) -> Iterator[None]:
    """A query over the queue `orders` that goes on meanwhile."""
    query = writer(spark, transform, sink, where, "append").start()
    try:
        yield
    finally:
        query.stop()


def send_apart(queue: Any, count: int, raw: Any) -> list[str]:
    """Send messages, each in a millisecond of its own."""
    ids: list[str] = []
    for number in range(count):
        ids.append(queue.send(number))
        wait_until(partial(has_passed, raw, milliseconds(raw) + 2))
    return ids


def wait_for_acks(queue: Any, count: int) -> None:
    """Wait until so many messages were acked, however long Spark takes to begin."""
    wait_until(lambda: queue.stats().totals.get("acked", 0) == count, DEADLOCK)


def has_passed(raw: Any, time: int) -> bool:
    """Whether the server's clock is at a time, or later."""
    return milliseconds(raw) >= time


def milliseconds(raw: Any) -> int:
    """The server's clock."""
    seconds, micros = raw.time()
    return int(seconds) * 1000 + int(micros) // 1000


@streams
@pytest.mark.parametrize(
    ("transform", "warning"),
    [(sent_at(SHORT), LATE), (sent_at(LONG), ""), (handled_at(SHORT), "")],
    ids=["a short watermark", "one longer than all redeliveries", "the time of handling"],
)
def test_a_redelivery_is_late_by_the_time_of_sending(
    transform: Transform,
    warning: str,
    *,
    spark: SparkSession,
    broker: rq_dlq.Broker,
    raw: Any,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue, counts = broker.queue("orders", redelivery=NO_DELAY), list[int]()

    def sink(frame: DataFrame, _: int) -> None:
        counts.extend(row["count"] for row in frame.collect())

    send_apart(queue, 1, raw)
    (held,) = queue.claim(1, lease="1h")
    send_apart(queue, 3, raw)
    for acked in (3, 4):  # what Spark drops is acked, too
        run(spark, transform, sink, tmp_path, "update")
        assert queue.stats().totals["acked"] == acked
        if acked == 3:
            held.nack(ValueError("not now"))
    if warning:
        wait_until(lambda: warning in caplog.text)
    assert sum(counts) == (3 if warning else 4)


@streams
@pytest.mark.parametrize(
    ("columns", "warning"),
    [(["id"], TWICE), (["id", "delivery_count"], "")],
    ids=["the id", "the id and the number of the delivery"],
)
def test_a_redelivery_is_a_duplicate_by_its_id(
    columns: list[str],
    warning: str,
    *,
    spark: SparkSession,
    broker: rq_dlq.Broker,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue, got = broker.queue("orders", redelivery=NO_DELAY), list[str]()
    sent = queue.send_many(range(3))

    def sink(frame: DataFrame, _: int) -> None:
        frame = frame.select("id", "batch", "delivery_count").localCheckpoint()
        bad = frame.where((frame.id == sent[0]) & (frame.delivery_count == 1))
        bad.write.format("rq_dlq").option("operation", "nack").mode("append").save()
        got.extend(row.id for row in frame.exceptAll(bad).collect())

    with running(spark, distinct(*columns), sink, tmp_path):
        wait_for_acks(queue, 3)
        if warning:
            wait_until(lambda: warning in caplog.text)
    assert sorted(got) == sorted(sent[1:] if warning else sent)


@streams
def test_windows_over_what_succeeded_have_every_message(
    spark: SparkSession, broker: rq_dlq.Broker, tmp_path: Path
) -> None:
    queue, out = broker.queue("orders", redelivery=NO_DELAY), tmp_path / "out"
    sent = queue.send_many(range(3))

    def sink(frame: DataFrame, epoch: int) -> None:
        bad = (frame.id == sent[0]) & (frame.delivery_count == 1)
        done = frame.where(~bad).select("id", "enqueued_at")
        done.write.mode("overwrite").parquet(f"{out}/epoch={epoch_key(frame, epoch)}")
        frame.where(bad).write.format("rq_dlq").option("operation", "nack").mode("append").save()

    columns = ["id", "batch", "enqueued_at", "delivery_count"]
    with running(spark, lambda frame: frame.select(*columns), sink, tmp_path):
        wait_for_acks(queue, 3)
    windows = spark.read.parquet(str(out)).groupBy(functions.window("enqueued_at", "1 day")).count()
    assert sum(row["count"] for row in windows.collect()) == 3


@streams
def test_what_an_open_window_counted_is_only_in_the_checkpoint(
    spark: SparkSession, broker: rq_dlq.Broker, raw: Any, tmp_path: Path
) -> None:
    queue, counts = broker.queue("orders"), list[int]()

    def sink(frame: DataFrame, _: int) -> None:
        counts.extend(row["count"] for row in frame.collect())

    for sends, done in ((2, 1), (1, 2), (1, 2)):  # the newest message is in an open window each time
        send_apart(queue, sends, raw)
        run(spark, sent_at("1 millisecond"), sink, tmp_path)
        assert sum(counts) == done
        assert queue.stats().waiting + queue.stats().leased == 0
        if done == 2:
            shutil.rmtree(tmp_path / "checkpoint")


@each_row(
    ("late", "twice", "source", "warns"),
    [
        (3, 0, Offset("query", {"orders": QueueOffset()}).as_json(), True),
        (0, 3, Offset("query", {"orders": QueueOffset()}).as_json(), True),
        (0, 0, Offset("query", {"orders": QueueOffset()}).as_json(), False),
        (3, 3, {"orders": "1-1"}, False),  # a history
        (3, 3, 17, False),  # another source
        (3, 3, None, False),
    ],
)
def test_only_what_is_dropped_of_messages_is_warned_of(
    late: int, twice: int, source: Any, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    custom = {"customMetrics": {"numDroppedDuplicateRows": twice}} if twice else {}
    operators = [{"numRowsDroppedByWatermark": late, **custom}]
    report = {"id": "query", "name": None, "batchId": 7, "sources": [{"endOffset": source}]}
    progress = SimpleNamespace(
        stateOperators=lambda: operators, json=lambda: json.dumps(report | {"stateOperators": operators})
    )
    DropListener().onQueryProgress(SimpleNamespace(progress=lambda: progress))
    assert ("query query, epoch 7: Spark dropped" in caplog.text) == warns
