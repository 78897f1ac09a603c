"""`df.write` and `df.writeStream`: all of a job or nothing of it; rows that settle and redrive."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.types import StringType, StructField, StructType

import rq_dlq
from rq_dlq.core.jobs import jobs
from rq_dlq.core.jobs.stage import Stage
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.steps.step import CHANGED
from rq_dlq.errors import InvalidInput, RqDlqError
from rq_dlq.spark.options import WriteOptions
from rq_dlq.spark.outgoing import RowConverter, spans
from rq_dlq.spark.schemas import columns_of
from rq_dlq.spark.send import RateLimit, Send, StagedRows
from rq_dlq.spark.write import operation_of
from rq_dlq.values.codec import Codec, Ids
from rq_dlq.values.fingerprint import fingerprint
from tests.behaviour.stepping import alone
from tests.servers import wait_until
from tests.spark.versions import since


def write(frame: DataFrame, queue: str = "a", **options: Any) -> None:
    frame.write.format("rq_dlq").options(queue=queue, **options).mode("append").save()


def settle(frame: DataFrame, operation: str, **options: Any) -> None:
    frame.write.format("rq_dlq").options(operation=operation, **options).mode("append").save()


def texts(spark: SparkSession, *bodies: str) -> DataFrame:
    return spark.createDataFrame([(body,) for body in bodies], "body string")


BODY = StructType([StructField("body", StringType())])


def staged(raw: Any) -> list[Any]:
    lists = [key for key in raw.scan_iter("rq:*:stage:*") if not key.endswith(b":")]  # their names expire
    return [*lists, *raw.scan_iter("rq:*:committed")]


# Sending


def test_all_rows_become_messages_in_the_order_of_the_partitions(
    spark: SparkSession, broker: rq_dlq.Broker, raw: Any
) -> None:
    body = F.col("id").cast("string").cast("binary").alias("body")
    write(spark.range(5_000).repartition(3).select(body))
    queue = broker.queue("a")
    assert queue.stats().ready == 5_000
    seen = [int(delivery.body) for _ in range(5) for delivery in queue.claim(1_000)]
    assert sorted(seen) == list(range(5_000))
    assert staged(raw) == []


def test_a_string_is_text_and_a_json_document_where_it_is_said(
    spark: SparkSession, broker: rq_dlq.Broker
) -> None:
    write(texts(spark, '{"n": 1}', "é"), "text")
    write(
        spark.range(1).select(F.to_json(F.struct("id")).alias("body")), "json", contentType="application/json"
    )
    assert {message.body for message in broker.queue("text").peek()} == {'{"n": 1}', "é"}
    assert [message.body for message in broker.queue("json").peek()] == [{"id": 0}]


def test_a_body_may_be_as_large_as_the_option_allows(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    large = spark.range(1).select(F.repeat(F.lit("x"), 3 << 19).alias("body"))
    with pytest.raises(Exception, match=r"a message of 1,572,8.. bytes is over the limit of 1,048,576"):
        write(large)
    write(large, maxMessageBytes="2m")
    assert broker.queue("a").stats().ready == 1


def test_spark_writes_nan_as_text(spark: SparkSession) -> None:
    """So a body made by it does not say that a number was none; the page does."""
    row = spark.range(1).select(F.to_json(F.struct(F.lit(float("nan")).alias("n")))).first()
    assert row is not None
    assert row[0] == '{"n":"NaN"}'


def test_columns_say_what_else_a_message_has(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    rows: list[Any] = [
        (b"x", "m1", 9, {"k": "v"}, None, None, "customer-7"),
        (b"y", "m2", None, None, "1h", timedelta(minutes=5), None),
        (b"z", None, 0, {}, "0", None, "customer-8"),
    ]
    schema = (
        "body binary, key string, rank int, meta map<string,string>, "
        "later string, life interval day to second, customer string"
    )
    write(
        spark.createDataFrame(rows, schema),
        idColumn="key",
        priorityColumn="rank",
        headersColumn="meta",
        delayColumn="later",
        ttlColumn="life",
        keyColumn="customer",
    )
    queue = broker.queue("a")
    first, last = queue.peek()
    assert (first.id, first.body, first.priority, first.headers) == ("m1", b"x", 9, {"k": "v"})
    assert (last.body, last.priority, last.headers) == (b"z", 0, {})
    (later,) = queue.select(ids=["m2"]).browse()
    assert later.body == b"y"
    assert (first.key, last.key, later.key) == ("customer-7", "customer-8", None)
    assert later.expires_at is not None
    assert queue.stats().scheduled == 1
    assert 3_590 < (queue.stats().next_due or 0) <= 3_600


def test_shards_share_the_rows_and_commit_together(
    spark: SparkSession, broker: rq_dlq.Broker, raw: Any
) -> None:
    frame = spark.range(300).select(
        F.col("id").cast("string").alias("key"), F.col("id").cast("string").alias("body")
    )
    for _ in range(2):  # an id is known again, where it was
        write(frame, shards="3", idColumn="key")
    sizes = [broker.queue(f"a:{number}").stats().ready for number in range(3)]
    assert sum(sizes) == 300
    assert min(sizes) > 50
    assert staged(raw) == []
    write(frame.select("body").repartition(4), "b", shards="2")
    assert sum(broker.queue(f"b:{number}").stats().ready for number in range(2)) == 300


def test_rows_of_one_key_go_to_one_shard(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    kinds = spark.range(40).select(
        F.col("id").cast("string").alias("body"), (F.col("id") % 5).cast("string").alias("kind")
    )
    write(kinds, shards="3", keyColumn="kind")
    found = [{message.key for message in broker.queue(f"a:{n}").select(all=True).browse()} for n in range(3)]
    assert sum(map(len, found)) == 5
    assert set.union(*found) == {*"01234"}


def test_a_job_that_is_run_again_under_its_id_writes_nothing(
    spark: SparkSession, broker: rq_dlq.Broker, raw: Any
) -> None:
    for _ in range(2):
        write(texts(spark, "x"), jobId="2026-11-21")
    assert broker.queue("a").stats().ready == 1
    write(texts(spark, "x"), jobId="2026-11-22")
    write(texts(spark, "x"))
    assert broker.queue("a").stats().ready == 3
    assert staged(raw) == []


def commit(broker: rq_dlq.Broker, url: str, *ids: str, **options: str) -> None:
    """What the driver does, when a task has staged rows under these ids."""
    queue = broker.queue("a")._core
    send = Send(WriteOptions.of({"queue": "a", "url": url, **options}), BODY)
    stage = Stage(queue.keys, send._job, "task")
    payload = queue.codec.packer(4, {})("x")
    broker._run(stage.add([cell for name in ids for cell in (name, payload)]))
    send.commit([StagedRows(send._job, {"a": stage.counts}, stage.longest)])


def test_rows_that_are_not_sent_are_warned_of(
    broker: rq_dlq.Broker, redis_url: str, raw: Any, caplog: pytest.LogCaptureFixture
) -> None:
    commit(broker, redis_url, "m0", "m1", jobId="first")
    assert caplog.text == ""
    commit(broker, redis_url, "m0", "m1", "m2", jobId="second")
    assert "job second: 1 rows sent, 2 known already" in caplog.text
    assert "its ack removes them, and the rows are in no queue: write them under new ids" in caplog.text
    commit(broker, redis_url, "m3", jobId="second")
    assert "job second, batch 0, was written before: none of its 1 rows was sent" in caplog.text
    assert broker.queue("a").stats().ready == 3
    assert staged(raw) == []


@pytest.mark.parametrize("options", [{}, {"jobId": "j"}])
@pytest.mark.parametrize("then", ["abort", "commit"])
def test_what_one_shard_has_committed_is_not_dropped_in_the_others(
    broker: rq_dlq.Broker, redis_url: str, then: str, options: dict[str, str], raw: Any
) -> None:
    queues = [broker.queue(f"a:{number}") for number in range(2)]
    send = Send(WriteOptions.of({"queue": "a", "url": redis_url, "shards": "2", **options}), BODY)

    def rows(attempt: str) -> StagedRows:
        lists: dict[str, dict[str, int]] = {}
        for queue in queues:
            stage = Stage(queue._core.keys, send._job, attempt)
            broker._run(stage.add([f"{attempt} {queue.name}", queue._core.codec.packer(4, {})("x")]))
            lists[queue.name] = stage.counts
        return StagedRows(send._job, lists, 10)

    first, value, script = rows("first"), None, ""
    steps = jobs.commit([queue._core for queue in queues], send._job, first.lists)
    while script != "commit_job":  # then the driver dies, or the node of the other shard
        step: Any = steps.send(value)
        value, script = broker._run(alone(step)), getattr(step, "verb", "")
    steps.close()
    getattr(send, then)([first if then == "abort" else rows("again")])
    for queue in queues * 2:
        for member in raw.zrange(key := queue._core.keys["committed"], 0, -1):
            raw.zadd(key, {member: 0})  # ten seconds later
        queue.maintain()
    assert [[message.id for message in queue.peek()] for queue in queues] == [["first a:0"], ["first a:1"]]


class Task:
    """The context of a task."""

    def partitionId(self) -> int:  # noqa: N802 - Spark's name
        return 0


def test_too_many_delays_are_refused(
    broker: rq_dlq.Broker, redis_url: str, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One script commits a list for each of them in each task."""
    monkeypatch.setattr("rq_dlq.spark.send.MOST_LISTS", 3)
    monkeypatch.setattr("rq_dlq.spark.send.TaskContext.get", Task)
    options = WriteOptions.of({"queue": "a", "url": redis_url, "delayColumn": "later"})
    send = Send(options, columns_of("body string, later int"))

    def rows(*delays: int) -> StagedRows:
        batch = pa.RecordBatch.from_pylist([{"body": "x", "later": delay} for delay in delays])
        return send.write(iter([batch]))

    with pytest.raises(InvalidInput, match=r"more than 3 lists: .* Round the columns of delayColumn"):
        rows(1, 2, 3, 4)
    assert staged(raw) == []
    tasks = [rows(1, 2), rows(3, 3, 4)]
    with pytest.raises(InvalidInput, match="more than 3 lists"):
        send.commit(tasks)
    send.abort(tasks)
    assert staged(raw) == []
    send.commit([rows(1), rows(1), rows(2), rows(2)])  # a list for each task, as without a column
    assert (broker.queue("a").stats().scheduled, staged(raw)) == (4, [])


def test_a_failing_task_leaves_nothing(spark: SparkSession, broker: rq_dlq.Broker, raw: Any) -> None:
    """One fails when it has staged a part of its rows, the other one is done."""
    good = spark.range(0, 3_000, 1, 1).select(F.lit(b"x").alias("body"))
    bad = spark.range(0, 15_000, 1, 1).select(
        F.when(F.col("id") < 14_000, F.lit(b"x")).otherwise(F.lit(None)).alias("body")
    )
    with pytest.raises(Exception, match="a body is null"):
        write(good.union(bad))
    assert broker.queue("a").stats().totals.get("sent", 0) == 0
    left = [key for key in staged(raw) if not key.endswith(b":")]  # the names of lists expire
    assert left == []
    write(good)
    assert broker.queue("a").stats().ready == 3_000


def test_a_job_that_is_committed_does_not_fail_any_more(
    spark: SparkSession, broker: rq_dlq.Broker, raw: Any
) -> None:
    """The driver's moves fail, and maintenance goes on: who saw an error would send all of it again."""
    raw.set("rq:{a}:counters", "no hash")  # what moves the rows is refused
    write(texts(spark, "x"))
    raw.delete("rq:{a}:counters")
    assert raw.zcard("rq:{a}:committed") == 1
    raw.zadd("rq:{a}:committed", {raw.zrange("rq:{a}:committed", 0, 0)[0]: 0})  # ten seconds later
    assert broker.queue("a").maintain()["written"] == 1
    assert [message.body for message in broker.queue("a").peek()] == ["x"]
    assert staged(raw) == []


def test_a_job_that_no_replica_confirmed_says_so_and_is_written_once(
    spark: SparkSession, broker: rq_dlq.Broker, raw: Any
) -> None:
    for _ in range(2):
        with pytest.raises(Exception, match=r"job nightly: committed, but too few replicas.*same id"):
            write(texts(spark, "x"), jobId="nightly", durability="replicated")
    raw.zadd("rq:{a}:committed", {raw.zrange("rq:{a}:committed", 0, 0)[0]: 0})  # ten seconds later
    assert broker.queue("a").maintain()["written"] == 1
    assert [message.body for message in broker.queue("a").peek()] == ["x"]
    assert staged(raw) == []


def test_a_disk_that_is_not_synced_is_refused_before_anything_is_read(
    spark: SparkSession, broker: rq_dlq.Broker, raw: Any
) -> None:
    with pytest.raises(Exception, match="cannot provide durability='fsync'"):
        write(texts(spark, "x"), durability="fsync")
    assert raw.keys("rq:*") == []
    assert broker.queues() == []


def test_a_rate_limit_makes_messages_visible_bit_by_bit(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    began = time.monotonic()
    write(spark.range(60).select(F.lit(b"x").alias("body")), rateLimit="100")
    assert time.monotonic() - began > 0.5
    assert broker.queue("a").stats().ready == 60


def test_a_pace() -> None:
    assert RateLimit(0, 1_000).chunk == 1_000
    assert RateLimit(2, 1_000).chunk == 1
    assert RateLimit(100_000, 1_000).chunk == 1_000


def test_a_pace_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    now, waits = 0.0, list[float]()

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        waits.append(seconds)

    monkeypatch.setattr("rq_dlq.spark.send.time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    pace = RateLimit(2, 250)
    for _ in range(7):
        pace.note(pace.chunk)
    assert waits == [0.5] * 7


def test_nulls_have_no_span() -> None:
    assert spans([Decimal("1.5"), Decimal("1E+1")], "delay", 0, 0) == [1_500, 10_000]
    assert spans([None, 1.5, "2m", timedelta(seconds=1), None], "delay", 0, 0) == [
        0,
        1_500,
        120_000,
        1_000,
        0,
    ]


def test_a_body_of_json_keeps_microseconds_and_decimals(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    """As the page says."""
    micros = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
    at = "2026-11-21T14:00:00.123456Z"
    rows = spark.sql(f"SELECT timestamp '{at}' at, 1.000000000000000001BD n")
    bodies = rows.select(
        F.to_json(F.struct("at", F.col("n").cast("string").alias("n")), micros).alias("body")
    )
    write(bodies, contentType="application/json")
    (message,) = broker.queue("a").peek()
    assert message.body == {"at": at, "n": "1.000000000000000001"}


# Streams


def stream(spark: SparkSession, folder: Path, shards: str = "0") -> None:
    """Write what lies in the folder and was not written yet, and end."""
    frame = spark.readStream.schema("body string").option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    query = (
        frame.writeStream.format("rq_dlq")
        .options(queue="a", shards=shards, checkpointLocation=str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def put(folder: Path, *bodies: str) -> None:
    (folder / "in").mkdir(exist_ok=True)
    for body in bodies:
        (folder / "in" / f"{body}.json").write_text(json.dumps({"body": body}))


@since(4, 1)
def test_a_stream_that_is_started_again_writes_each_batch_once(
    spark: SparkSession, broker: rq_dlq.Broker, raw: Any, tmp_path: Path
) -> None:
    put(tmp_path, "b0", "b1")
    stream(spark, tmp_path)
    # The driver died before Spark noted its last batch: it is written again.
    for name in ("1", ".1.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink()
    stream(spark, tmp_path)
    put(tmp_path, "b2")
    stream(spark, tmp_path)
    assert sorted(message.body for message in broker.queue("a").peek()) == ["b0", "b1", "b2"]
    assert staged(raw) == []


@since(4, 1)
def test_a_stream_with_an_old_copy_of_its_checkpoint_is_refused(
    spark: SparkSession, broker: rq_dlq.Broker, raw: Any, tmp_path: Path
) -> None:
    put(tmp_path, "b0")
    stream(spark, tmp_path)
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "copy")
    put(tmp_path, "b1", "b2")
    stream(spark, tmp_path)
    shutil.rmtree(tmp_path / "checkpoint")
    (tmp_path / "copy").rename(tmp_path / "checkpoint")
    put(tmp_path, "b3")
    with pytest.raises(Exception, match=r"at batch 1, but it has written batch 2: the checkpoint is an old"):
        stream(spark, tmp_path)
    shutil.rmtree(tmp_path / "checkpoint")
    stream(spark, tmp_path)  # what it says to do
    assert {message.body for message in broker.queue("a").peek()} == {"b0", "b1", "b2", "b3"}
    assert staged(raw) == []


def test_what_foreach_batch_writes_is_a_job_of_each_batch(
    spark: SparkSession, broker: rq_dlq.Broker, tmp_path: Path
) -> None:
    put(tmp_path, "b0", "b1")
    frame = spark.readStream.schema("body string").option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
    query = (
        frame.writeStream.foreachBatch(lambda rows, _: write(rows))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sorted(message.body for message in broker.queue("a").peek()) == ["b0", "b1"]


@since(4, 1)
def test_a_stream_over_shards_which_takes_no_job_id(
    spark: SparkSession, broker: rq_dlq.Broker, raw: Any, tmp_path: Path
) -> None:
    put(tmp_path, "b0")
    stream(spark, tmp_path, shards="2")
    assert sum(broker.queue(f"a:{number}").stats().ready for number in range(2)) == 1
    assert staged(raw) == []
    with pytest.raises(InvalidInput, match="a stream has no option jobId"):
        operation_of({"queue": "a", "jobId": "x"}, texts(spark, "x").schema, overwrite=False, stream=True)


# Rows that settle


def held(spark: SparkSession, queue: Any, count: int, **columns: Any) -> DataFrame:
    """Rows of a claim, as a stream reads them."""
    deliveries = queue.claim(count)
    rows = [(delivery.id, f"{delivery.token}", *columns.values()) for delivery in deliveries]
    return spark.createDataFrame(rows, ["id", "batch", *columns])


def test_ack_by_rows_which_can_be_repeated(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    queue = broker.queue("a")
    queue.send_many(range(600))
    rows = held(spark, queue, 600)
    settle(rows, "ack", queue="a")
    assert queue.stats().totals["acked"] == 600
    settle(rows, "ack", queue="a")
    with pytest.raises(Exception, match="600 more were not changed"):
        settle(rows, "ack", queue="a", failOnLost="true")


def test_nack_by_rows_keeps_the_policy(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    queue = broker.queue("a", redelivery=rq_dlq.RedeliveryPolicy(max_redeliveries=1, initial_delay=0))
    queue.send_many(range(20))
    said = {"error_class": "ValueError", "error_message": "no 7", "extra": 1}
    settle(held(spark, queue, 20, **said), "nack", queue="a")
    assert queue.stats().ready == 20
    settle(held(spark, queue, 20, **said), "nack", queue="a")
    letters = queue.dlq.browse()
    assert len(letters) == 20
    cause = letters[0].cause
    assert (cause.type, cause.message) == ("ValueError", "no 7")
    assert cause.fingerprint == fingerprint("ValueError", "no 8", "")
    assert (letters[0].reason, letters[0].history[0].event) == ("exhausted", "nacked")


def test_a_nack_has_the_delay_of_its_row_and_a_discard_dies(
    spark: SparkSession, broker: rq_dlq.Broker
) -> None:
    queue = broker.queue("a")
    queue.send_many(range(2))
    settle(held(spark, queue, 1, later=3_600), "nack", queue="a", delayColumn="later")
    assert 3_500 < (queue.stats().next_due or 0) <= 3_600
    settle(held(spark, queue, 1, error_message="bad row"), "discard", queue="a")
    (letter,) = queue.dlq.browse()
    assert (letter.reason, letter.cause.message) == ("poison", "bad row")


@pytest.mark.parametrize("operation", ["nack", "discard"])
def test_a_script_that_judges_has_few_messages(
    operation: str, broker: rq_dlq.Broker, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = broker.queue("a")
    queue.send_many(range(CHANGED + 1))
    deliveries = queue.claim(CHANGED + 1)
    schema = columns_of("id string, batch string")
    job: Any = operation_of({"operation": operation, "url": redis_url, "queue": "a"}, schema, overwrite=False)
    rows = [{"id": one.id, "batch": one.token} for one in deliveries]
    sizes: list[int] = []

    def noted(call: Any, *at: Any, **named: Any) -> Any:
        sizes.append(len(at[1]))
        return call(*at, **named)

    for name in ("nack", "poison"):
        monkeypatch.setattr(settling_calls, name, partial(noted, getattr(settling_calls, name)))
    job.commit([job.write(iter([pa.RecordBatch.from_pylist(rows)]))])
    assert sizes[:2] == [CHANGED, 1]


def test_redrive_by_rows_of_the_dead_letter_view(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    for name in ("a", "b"):
        queue = broker.queue(name)
        ids = queue.send_many(range(3))
        queue.poison(queue.claim(3), "bad")
        assert len(ids) == 3
    broker.queue("b").send("gone", ttl="1ms")
    dlq = spark.read.format("rq_dlq").options(view="dlq", queue="a,b").load()
    settle(dlq.select("queue", "id").where("queue = 'b'").limit(2), "redrive")
    assert [broker.queue(name).stats().dead for name in ("a", "b")] == [3, 1]
    began = time.monotonic()
    settle(dlq.select("id").where("queue = 'a'"), "redrive", queue="a", rateLimit="10")
    assert time.monotonic() - began > 0.3
    assert broker.queue("a").stats().ready == 3


def test_a_redrive_of_what_is_not_dead_is_warned_of(
    broker: rq_dlq.Broker, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    queue = broker.queue("a")
    queue.send("x", id="m")
    queue.poison(queue.claim(1), "bad")
    columns = StructType([StructField(name, StringType()) for name in ("queue", "id")])
    redrive = operation_of({"operation": "redrive", "url": redis_url}, columns, overwrite=False)
    rows = [{"queue": "a", "id": "m"}, {"queue": "a", "id": "other"}]
    redrive.commit([redrive.write(iter([pa.RecordBatch.from_pylist(rows)]))])  # type: ignore[list-item]
    assert queue.stats().ready == 1
    assert "redrive: 1 rows; 1 more were not changed, since they are not dead" in caplog.text


def redrive(url: str, queue: Any, ids: Sequence[str], **options: Any) -> Any:
    """Redrive these, by two tasks that have some in common, and return the job."""
    columns = columns_of("queue string, id string")
    job: Any = operation_of({"operation": "redrive", "url": url, **options}, columns, overwrite=False)
    rows = pa.RecordBatch.from_pylist([{"queue": queue.name, "id": name} for name in ids])
    job.commit([job.write(iter([rows])), None, job.write(iter([rows[:1]]))])
    return queue.dlq.jobs()[0]


def test_a_redrive_is_a_job_which_can_be_undone(broker: rq_dlq.Broker, redis_url: str) -> None:
    queue = broker.queue("a")
    ids = queue.send_many(range(20))
    queue.poison(queue.claim(20), "bad")
    late = queue.send("late")
    queue.select(ids=[late]).expire()
    job = redrive(redis_url, queue, [*ids[:15], late, "nobody"])
    assert (len(queue.dlq.jobs()), queue.stats().ready, queue.stats().dead) == (2, 16, 5)
    (job,) = (one for one in queue.dlq.jobs() if one.counts.eligible == 15)
    assert (job.state, job.counts.moved, job.chosen) == ("done", 15, "ids 17")
    assert job.undo().counts.undone == 15
    assert queue.stats().dead == 20


def test_a_redrive_with_a_canary_goes_on_by_its_outcome(broker: rq_dlq.Broker, redis_url: str) -> None:
    queue = broker.queue("a")
    ids = queue.send_many(range(20))
    queue.poison(queue.claim(20), "bad")
    job = redrive(redis_url, queue, ids, canary="2")
    queue.maintain()
    assert (job.refresh().state, queue.stats().ready) == ("running", 2)
    queue.poison(queue.claim(2), "worse")
    assert (job.wait().state, queue.stats().dead) == ("paused", 20)
    job = redrive(redis_url, queue, ids, canary="2")
    queue.maintain()
    queue.ack(queue.claim(2))
    assert (job.wait().state, queue.stats().ready) == ("done", 18)


@pytest.mark.parametrize("verb", ["pause", "cancel", "undo"])
def test_a_redrive_that_another_process_stops_is_no_success(
    verb: str, broker: rq_dlq.Broker, redis_url: str
) -> None:
    queue = broker.queue("a")
    ids = queue.send_many(range(5))
    queue.poison(queue.claim(5), "bad")

    def stop() -> None:
        wait_until(lambda: bool(queue.dlq.jobs()))
        getattr(queue.dlq.jobs()[0], verb)()

    other = threading.Thread(target=stop)
    other.start()
    state = {"pause": "paused", "cancel": "cancelled", "undo": "undone"}[verb]
    with pytest.raises(RqDlqError, match=rf"the redrive was stopped: .* of 'a': {state}, .* of 5 moved"):
        redrive(redis_url, queue, ids, rateLimit="1")
    other.join()
    if verb == "pause":
        assert queue.dlq.jobs()[0].resume().state == "running"


# Bad input


@pytest.mark.parametrize(
    ("options", "schema", "said"),
    [
        ({"queues": "a"}, "body string", "unknown option 'queues': the options are url, namespace, queue,"),
        ({"operation": "put"}, "body string", "option operation: 'put' is not one of send, ack, nack,"),
        ({}, "body string", "option queue is missing: pass the name of a queue"),
        ({"queue": "a b"}, "body string", "'a b' cannot name a queue"),
        ({"queue": "a,b"}, "body string", "'a,b' is not the name of one queue"),
        ({"queue": "DLQ.a"}, "body string", "cannot write to 'DLQ.a'"),
        ({"queue": "a"}, "text string", "there is no column 'body': there are text"),
        ({"queue": "a"}, "body int", "column 'body' is int, not binary or string: cast it"),
        ({"queue": "a"}, "body string, n int", "column 'n' would not be sent: select"),
        ({"queue": "a", "idColumn": "k"}, "body string, k int", "column 'k' is int, not string: cast it"),
        (
            {"queue": "a", "ttlColumn": "t"},
            "body string, t date",
            "column 't' is date, not a number of seconds",
        ),
        (
            {"queue": "a", "headersColumn": "h"},
            "body string, h map<string,int>",
            "column 'h' is map<string,int>, not map<string,string>",
        ),
        ({"queue": "a", "contentType": "application/octet-stream"}, "body string", "cast it to binary"),
        ({"queue": "a", "jobId": "x\ny"}, "body string", "the id of a job: "),
        (
            {"queue": "a", "rateLimit": "fast"},
            "body string",
            "option rateLimit: 'fast' is not a whole number",
        ),
        ({"operation": "ack", "idColumn": "k"}, "id string", "option idColumn is only for send, not for ack"),
        ({"queue": "a", "canary": "2"}, "body string", "option canary is only for redrive, not for send"),
        ({"operation": "ack"}, "id string", "there is no column 'batch': there are id"),
        (
            {"operation": "nack"},
            "id string, batch string, error_class int",
            "'error_class' is int, not string",
        ),
        ({"operation": "redrive"}, "id string", "there is no column 'queue': there are id"),
        ({"operation": "redrive", "queue": "nope"}, "id string", "there is no queue 'nope'"),
    ],
)
def test_what_makes_no_sense_is_said_before_the_job_starts(
    spark: SparkSession, broker: rq_dlq.Broker, options: dict[str, str], schema: str, said: str
) -> None:
    del broker
    columns = spark.createDataFrame([], schema).schema
    with pytest.raises(InvalidInput) as caught:
        operation_of(options, columns, overwrite=False)
    assert said in str(caught.value)


def test_overwrite_and_an_unreachable_server(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    del broker
    frame = texts(spark, "x")
    with pytest.raises(Exception, match="a queue cannot be overwritten"):
        frame.write.format("rq_dlq").option("queue", "a").mode("overwrite").save()
    with pytest.raises(Exception, match="nowhere/redis") as caught:
        write(frame, url="unix://user:secret@/nowhere/redis.sock")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ({"body": None}, {}, "a body is null"),
        ({"body": "{"}, {"contentType": "application/json"}, "a body is not a JSON document"),
        ({"body": "x" * 2_000_000}, {}, "is over the limit of"),
        ({"body": "x", "k": "k\n"}, {"idColumn": "k"}, "cannot be a message's id"),
        ({"body": "x", "p": 12}, {"priorityColumn": "p"}, "priority 12: use a whole number"),
        ({"body": "x", "d": "soon"}, {"delayColumn": "d"}, "delay: 'soon' is not a duration"),
        ({"body": "x", "t": 0}, {"ttlColumn": "t"}, "ttl: 0 is out of range"),
        ({"body": "x", "d": float("nan")}, {"delayColumn": "d"}, "delay: nan is not a duration"),
        ({"body": '{"n": NaN}'}, {"contentType": "application/json"}, "a body is not a JSON document"),
        ({"body": '{"n": 1e999}'}, {"contentType": "application/json"}, "Number out of range"),
        ({"body": b"[1E+0400]"}, {"contentType": "application/json"}, "Number out of range"),
        ({"body": "9" * 400 + ".5"}, {"contentType": "application/json"}, "Number out of range"),
        ({"body": b'"\xff"'}, {"contentType": "application/json"}, "a body is not a JSON document"),
    ],
)
def test_a_row_that_cannot_be_sent_is_an_error(
    columns: dict[str, Any], options: dict[str, str], said: str
) -> None:
    outgoing = RowConverter(WriteOptions.of({"queue": "a", **options}), Codec(Any, 1_048_576), Ids(), 1)
    with pytest.raises(InvalidInput) as caught:
        list(outgoing.groups(pa.RecordBatch.from_pylist([columns]), 0))
    assert said in str(caught.value)


@pytest.mark.parametrize("options", [{}, {"idColumn": "body"}, {"contentType": "application/json"}])
def test_a_string_that_is_not_utf_8_cannot_be_sent(options: dict[str, str]) -> None:
    outgoing = RowConverter(WriteOptions.of({"queue": "a", **options}), Codec(Any, 1_048_576), Ids(), 1)
    text = pa.array([b"good", b"\xff"], pa.binary()).view(pa.string())
    with pytest.raises(InvalidInput, match="column 'body' has a string that is not UTF-8"):
        list(outgoing.groups(pa.RecordBatch.from_arrays([text], ["body"]), 0))


def test_large_numbers_that_a_float_can_have_are_sent() -> None:
    outgoing = RowConverter(
        WriteOptions.of({"queue": "a", "contentType": "application/json"}), Codec(Any, 1_048_576), Ids(), 1
    )
    bodies = ["1e308", "1e-999", "3" * 400, '"1e999"', "[1.5, 2e5]"]
    rows = pa.RecordBatch.from_pylist([{"body": body} for body in bodies])
    ((_, _, items),) = outgoing.groups(rows, 0)
    for packed, body in zip(items[1::2], bodies, strict=True):
        assert isinstance(packed, bytes)
        assert packed.endswith(body.encode())
