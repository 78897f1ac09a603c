"""`spark.readStream`: claimed batches, acked behind the commit log, planned again after a failure."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming.query import StreamingQuery

import rq_dlq
from rq_dlq.errors import InvalidInput
from rq_dlq.spark import MESSAGE, check_held, epoch_key, split
from tests import servers
from tests.servers import wait_until
from tests.spark.versions import SPARK, since

streams = since(4, 2)

Sink = Callable[[DataFrame, int], None]


class Collected:
    """A sink that is idempotent by batch: what each batch brought, the last time that it did."""

    def __init__(self) -> None:
        self.batches: dict[int, list[str]] = {}

    def __call__(self, frame: DataFrame, batch: int) -> None:
        self.batches[batch] = [row.id for row in frame.select("id").collect()]

    @property
    def ids(self) -> list[str]:
        """Of all batches."""
        return sorted(message_id for ids in self.batches.values() for message_id in ids)


def start(
    spark: SparkSession, sink: Sink, where: Path, *, now: bool = True, **options: Any
) -> StreamingQuery:
    """A query over the queue `orders`, with its checkpoint in a folder."""
    frame = spark.readStream.format("rq_dlq").options(**{"queue": "orders", **options}).load()
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(where / "checkpoint"))
    return (writer.trigger(availableNow=True) if now else writer).start()


def run(spark: SparkSession, sink: Sink, where: Path, **options: Any) -> StreamingQuery:
    """Run a query until what is ready now is done."""
    query = start(spark, sink, where, **options)
    query.awaitTermination()
    return query


@streams
def test_all_that_is_ready_is_processed_once_and_acked(
    spark: SparkSession, broker: rq_dlq.Broker, tmp_path: Path
) -> None:
    queue = broker.queue("orders")
    sent = queue.send_many(range(2_500))
    sink = Collected()
    run(spark, sink, tmp_path, maxMessagesPerTrigger=1_000)
    assert [len(ids) for ids in sink.batches.values()] == [1_000, 1_000, 500]
    assert sink.ids == sorted(sent)
    assert queue.stats().totals == {"sent": 2_500, "acked": 2_500}


@streams
def test_a_batch_is_divided_among_all_cores_and_has_a_size(
    spark: SparkSession, broker: rq_dlq.Broker, tmp_path: Path
) -> None:
    broker.queue("orders").send_many(["x" * 1_000] * 2_000)
    seen: list[tuple[int, int]] = []

    def look(frame: DataFrame, _: int) -> None:
        tasks = frame.groupBy(functions.spark_partition_id()).count().collect()
        seen.append((len(tasks), sum(row["count"] for row in tasks)))

    run(spark, look, tmp_path, maxBytesPerTrigger="1m")
    assert seen == [(2, 1_500), (1, 500)]


@streams
def test_a_query_goes_on_where_its_checkpoint_is(
    spark: SparkSession, broker: rq_dlq.Broker, tmp_path: Path
) -> None:
    queue, sink = broker.queue("orders"), Collected()
    first = queue.send_many(range(5))
    run(spark, sink, tmp_path)
    second = queue.send_many(range(5))
    run(spark, sink, tmp_path)
    assert sink.batches == {0: first, 1: second}
    assert queue.stats().waiting + queue.stats().leased == 0


@streams
def test_epochs_that_begin_again_overwrite_nothing(
    spark: SparkSession, broker: rq_dlq.Broker, tmp_path: Path
) -> None:
    queue, keys = broker.queue("orders"), list[str]()

    def sink(frame: DataFrame, epoch: int) -> None:
        keys.append(epoch_key(frame, epoch))
        frame.select("id").write.mode("overwrite").parquet(str(tmp_path / "out" / f"epoch={keys[-1]}"))

    sent: list[str] = []
    for _ in range(3):  # the second run goes on, the third one has a new checkpoint
        if len(keys) == 2:
            shutil.rmtree(tmp_path / "checkpoint")
        sent += queue.send_many(range(5))
        run(spark, sink, tmp_path)
    first, second, third = (key.rpartition("-") for key in keys)
    assert [number for *_, number in (first, second, third)] == ["0", "1", "0"]
    assert first[0] == second[0] != third[0]
    assert sorted(row.id for row in spark.read.parquet(str(tmp_path / "out")).collect()) == sorted(sent)


def test_an_epoch_has_a_key_only_in_a_query(spark: SparkSession) -> None:
    with pytest.raises(InvalidInput, match="works in the function of foreachBatch"):
        epoch_key(spark.range(1), 0)


@streams
def test_a_batch_that_failed_is_read_again_and_its_rows_can_be_nacked(
    spark: SparkSession, broker: rq_dlq.Broker, tmp_path: Path
) -> None:
    queue, sink = broker.queue("orders", redelivery=rq_dlq.RedeliveryPolicy(delays=["1h"])), Collected()
    sent = queue.send_many(range(6))

    def fail(frame: DataFrame, batch: int) -> None:
        del batch
        frame.count()
        message = "the sink is down"
        raise RuntimeError(message)

    with pytest.raises(StreamingQueryException, match="the sink is down"):
        run(spark, fail, tmp_path)
    assert queue.stats().leased == 6
    queue.send(8)

    def nack_odd(frame: DataFrame, batch: int) -> None:
        bad = frame.where("cast(cast(body as string) as int) % 2 = 1")
        bad = bad.selectExpr("id", "batch", "'Odd' error_class", "'an odd one' error_message")
        bad.write.format("rq_dlq").option("operation", "nack").mode("append").save()
        sink(frame, batch)

    run(spark, nack_odd, tmp_path)
    assert sink.batches[0] == sent[::2]  # planned anew: the nacked ones are held no more
    assert (queue.stats().scheduled, queue.stats().leased, queue.stats().totals["acked"]) == (3, 0, 4)
    (message,) = queue.select(places=["scheduled"], limit=1).browse()
    assert (message.history[0].cause.type, message.history[0].cause.message) == ("Odd", "an odd one")


STEPS = ("split", "check", "nack")


@streams
def test_a_sink_that_looks_at_another_server_loses_nothing(
    spark: SparkSession, broker: rq_dlq.Broker, tmp_path: Path
) -> None:
    broker.queue("orders").send("a queue of the same name at $RQ_DLQ_URL")

    def sink(frame: DataFrame, _: int, *, astray: str = "") -> None:
        there: dict[str, Any] = {step: {} if step == astray else {"url": url} for step in STEPS}
        rows = frame.selectExpr("id", "batch", "'E' error_class", "'no' error_message")
        with split(rows, **there["split"]) as both:
            check_held(both.bad, **there["check"])
            both.bad.write.format("rq_dlq").options(operation="nack", **there["nack"]).mode("append").save()

    with servers.running() as path, rq_dlq.Broker(url := f"unix://{path}") as other:
        queue = other.queue("orders", redelivery=rq_dlq.RedeliveryPolicy(delays=["1h"]))
        queue.send_many(range(3))
        for astray in STEPS:  # one after the other, when the query is started again
            with pytest.raises(StreamingQueryException, match="does not know the query of the rows"):
                run(spark, partial(sink, astray=astray), tmp_path, url=url)
            assert queue.stats().leased == 3
        run(spark, sink, tmp_path, url=url)
        assert (queue.stats().scheduled, queue.stats().totals["nacked"]) == (3, 3)
    assert broker.queue("orders").stats().ready == 1


@streams
def test_rows_that_are_sent_under_their_ids_are_sent_once_whatever_fails(
    spark: SparkSession, broker: rq_dlq.Broker, tmp_path: Path
) -> None:
    queue = broker.queue("orders", redelivery=rq_dlq.RedeliveryPolicy(initial_delay=0))
    ids, copies = queue.send_many(range(4)), broker.queue("copies", dedup_window="1h")
    copies.open()
    fails, tries, got = [ids[2], ids[1], ""], list[int](), list[int]()

    def sink(frame: DataFrame, epoch: int) -> None:
        bad = functions.col("id") == fails[len(tries)]
        tries.append(epoch)
        good = frame.where(~bad).select("id", "body")
        json_rows = {"queue": "copies", "idColumn": "id", "contentType": "application/json"}
        good.write.format("rq_dlq").options(**json_rows).mode("append").save()
        sent = copies.claim(10)
        got.extend(delivery.body for delivery in sent)
        copies.ack(sent)
        if len(tries) == 1:
            message = "the driver dies"
            raise RuntimeError(message)
        frame.where(bad).write.format("rq_dlq").option("operation", "nack").mode("append").save()

    with pytest.raises(StreamingQueryException, match="the driver dies"):
        run(spark, sink, tmp_path)
    for _ in range(2):
        run(spark, sink, tmp_path)
    assert (tries, got) == ([0, 0, 1], [0, 1, 3, 2])
    assert queue.stats().totals["acked"] == 4


@streams
def test_an_idle_query_acks_its_last_batch_and_reports_the_backlog(
    spark: SparkSession, broker: rq_dlq.Broker, tmp_path: Path
) -> None:
    queue, sink = broker.queue("orders"), Collected()
    queue.send_many(range(3))
    query = start(spark, sink, tmp_path, now=False, maxWait="100ms")
    try:
        wait_until(lambda: queue.stats().totals.get("acked") == 3)
        queue.send("scheduled", delay="1h")
        queue.send("ready")
        wait_until(lambda: queue.stats().totals.get("acked") == 4)
        progress = json.loads(query.lastProgress.json) if query.lastProgress else {}
        lag = {
            "backlog": {"orders": 1},
            "oldest": {"orders": 0.0},
            "ahead": {"orders": 0},
            "dead": {"orders": 0},
        }
        assert [source["latestOffset"] for source in progress["sources"]] == [lag]
    finally:
        query.stop()
    assert sorted(len(ids) for ids in sink.batches.values()) == [1, 3]


@streams
@pytest.mark.parametrize("meanwhile", ["idle", "at work"])
def test_a_stopped_query_gives_back_what_it_had_claimed_ahead(
    meanwhile: str, spark: SparkSession, broker: rq_dlq.Broker, tmp_path: Path
) -> None:
    queue, sink = broker.queue("orders"), Collected()
    sent = queue.send_many(range(500))

    def slow(frame: DataFrame, epoch: int) -> None:
        sink(frame, epoch)
        if meanwhile == "at work":
            frame.foreach(lambda _: time.sleep(60))

    frame = spark.readStream.format("rq_dlq").options(queue="orders", maxMessagesPerTrigger=100).load()
    writer = frame.writeStream.foreachBatch(slow).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(processingTime="1 hour").start()
    wait_until(lambda: queue.stats().leased == 200 and 0 in sink.batches)
    query.stop()
    wait_until(lambda: queue.stats().leased == 100)
    assert queue.stats().ready == 400
    run(spark, sink, tmp_path)
    assert (sink.ids, queue.stats().totals["acked"]) == (sorted(sent), 500)


AS_SPARK_ENDS_IT = """
import signal, sys
from rq_dlq.spark import MESSAGE
from rq_dlq.spark.options import StreamOptions
from rq_dlq.spark.stream import StreamReader

options = StreamOptions.of({"queue": "orders", "url": sys.argv[1], "maxMessagesPerTrigger": "100"})
reader = StreamReader(options, MESSAGE)
try:
    reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    reader._driver._ahead.result()  # it has claimed ahead
finally:
    signal.raise_signal(signal.SIGTERM)
    reader.stop()
"""


@streams
def test_a_signal_as_its_process_stops_keeps_nothing_that_was_claimed_ahead(
    broker: rq_dlq.Broker, redis_url: str
) -> None:
    """Spark closes the connection and sends a signal, which may come after the process has seen the first."""
    queue = broker.queue("orders")
    queue.send_many(range(500))
    subprocess.run([sys.executable, "-c", AS_SPARK_ENDS_IT, redis_url], check=False)
    assert (queue.stats().leased, queue.stats().ready) == (100, 400)


@streams
def test_checkpoints_and_plans_hold_no_password(
    spark: SparkSession,
    broker: rq_dlq.Broker,
    redis_url: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    broker.queue("orders").send_many(range(3))
    url = redis_url.replace("unix://", "unix://:geheim@")
    broker.queue("orders").stats()
    frame = spark.read.format("rq_dlq").options(queue="orders", url=url).load()
    frame.explain(True)
    with pytest.raises(Exception, match="password") as failure:
        run(spark, Collected(), tmp_path, url=url)
    assert "geheim" not in str(failure.value)
    assert "geheim" not in "".join(capfd.readouterr())
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(b"geheim" in text for text in files)


@streams
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"queue": "orders", "lese": "5m"}, "unknown option 'lese'"),
        ({"queue": "nothing"}, "there is no queue 'nothing'"),
        ({"queue": "orders", "url": "redis://127.0.0.1:1"}, "127.0.0.1:1"),
    ],
)
def test_bad_input_ends_the_query_with_a_sentence(
    spark: SparkSession, broker: rq_dlq.Broker, tmp_path: Path, options: dict[str, str], sentence: str
) -> None:
    """Other options are tried in `test_options`, in the same way as the first one here."""
    broker.queue("orders").send("there")
    with pytest.raises(Exception, match=sentence) as failure:
        run(spark, Collected(), tmp_path, **options)
    assert "rq_dlq/spark/query.py" not in str(failure.value)  # no traceback of ours
    assert "UnboundLocalError" not in str(failure.value)  # nor of Spark, where no reader can be made


@streams
def test_a_history_refuses_a_checkpoint_of_messages(
    spark: SparkSession, broker: rq_dlq.Broker, tmp_path: Path
) -> None:
    queue = broker.queue("orders", outcomes=100)
    queue.send("first")
    run(spark, Collected(), tmp_path)
    with pytest.raises(Exception, match="the checkpoint is not of a stream of a history"):
        run(spark, Collected(), tmp_path, view="history")
    queue.send("second")
    run(spark, sink := Collected(), tmp_path)  # the checkpoint is as it was
    assert len(sink.ids) == 1


@streams
def test_a_trigger_that_ends_before_the_ack_is_refused(
    spark: SparkSession, broker: rq_dlq.Broker, tmp_path: Path
) -> None:
    broker.queue("orders").send("there")
    frame = spark.readStream.format("rq_dlq").option("queue", "orders").load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    query = writer.trigger(once=True).start()
    with pytest.raises(StreamingQueryException, match="use trigger\\(availableNow=True\\)"):
        query.awaitTermination()
    assert broker.queue("orders").stats().ready == 1


@streams
def test_chosen_columns_only(spark: SparkSession, broker: rq_dlq.Broker, tmp_path: Path) -> None:
    broker.queue("orders").send({"n": 1}, priority=7, headers={"tenant": "a"})
    seen: list[Any] = []
    frame = spark.readStream.format("rq_dlq").schema("headers map<string,string>, priority int, batch string")
    query = (
        frame.option("queue", "orders").load()
        .writeStream.foreachBatch(lambda rows, _: seen.extend(rows.collect()))
        .option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    ((headers, priority, batch),) = seen
    assert (headers, priority) == ({"tenant": "a"}, 7)
    assert batch.endswith("@orders")


@streams
def test_the_columns_of_a_stream_are_those_of_the_queue(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    broker.queue("orders").send("there")
    frame = spark.readStream.format("rq_dlq").option("queue", "orders").load()
    assert frame.schema == MESSAGE


@pytest.mark.skipif(SPARK >= (4, 2), reason="this Spark can")
def test_an_older_spark_says_so(spark: SparkSession, broker: rq_dlq.Broker, tmp_path: Path) -> None:
    broker.queue("orders").send("there")
    with pytest.raises(Exception, match=r"reading a queue as a stream needs Spark 4\.2 or newer"):
        run(spark, Collected(), tmp_path)
