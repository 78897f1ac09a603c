"""Streams over several queues: in Spark, and by the methods that Spark calls."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import rq_dlq
from rq_dlq.errors import DataLoss, InvalidInput
from rq_dlq.spark import HISTORY, MESSAGE, check_held
from rq_dlq.spark.options import StreamOptions
from rq_dlq.spark.query import Query
from tests.spark.versions import since

pytestmark = since(4, 2)


def test_a_stream_over_queues_that_come_and_go(
    spark: SparkSession, broker: rq_dlq.Broker, tmp_path: Path
) -> None:
    got: list[tuple[int, str, str]] = []

    def sink(frame: DataFrame, epoch: int) -> None:
        rows = frame.select("id", "batch", "queue").persist()
        got.extend((epoch, row.queue, row.id) for row in rows.collect())
        check_held(rows)
        rows.unpersist()

    def run(**options: str) -> None:
        frame = spark.readStream.format("rq_dlq").options(queue="orders.*,payments", **options).load()
        writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path))
        writer.trigger(availableNow=True).start().awaitTermination()

    def send(*names: str) -> list[tuple[str, str]]:
        return [(name, broker.queue(name).send(0)) for name in names]

    sent = [(0, *row) for row in send("orders.eu", "payments")]
    send("other")
    run()
    sent += [(1, *row) for row in send("orders.us", "payments")]
    run()
    assert sorted(got) == sorted(sent)
    broker.queue("orders.us").delete(force=True)
    sent += [(2, *row) for row in send("orders.eu")]
    with pytest.raises(StreamingQueryException, match=r"there is no queue 'orders.us' any more"):
        run()
    run(failOnDataLoss="false")
    assert sorted(got) == sorted(sent)
    assert {name: broker.queue(name).stats().leased for name in ("orders.eu", "payments")} == {
        "orders.eu": 0,
        "payments": 0,
    }


@pytest.mark.parametrize("queue", ["orders,oders", "orders,oders*"])
@pytest.mark.parametrize("view", ["queue", "history"])
def test_a_name_without_a_queue_is_refused_at_the_start(
    queue: str, view: str, broker: rq_dlq.Broker, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rq_dlq.spark.stream import StreamReader  # noqa: PLC0415 - an older Spark cannot
    from rq_dlq.spark.stream_history import HistoryStreamReader  # noqa: PLC0415

    monkeypatch.setattr(signal, "signal", lambda *_: None)  # this process is not Spark's
    broker.queue("orders").open()
    options = StreamOptions.of({"queue": queue, "view": view, "url": redis_url})
    kind, columns = (StreamReader, MESSAGE) if view == "queue" else (HistoryStreamReader, HISTORY)
    for now in (False, True):
        reader: Any = kind(options, columns)
        if now:
            reader.prepareForTriggerAvailableNow()  # Spark calls it before it asks for an offset
        with pytest.raises(InvalidInput, match="there is no queue 'oders"):
            reader.initialOffset()
        reader.stop()


def test_a_restarted_driver_renews_the_leases_of_its_batch_before_it_plans(
    broker: rq_dlq.Broker, redis_url: str, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been down for nearly a lease."""
    from rq_dlq.spark.stream import StreamReader  # noqa: PLC0415 - an older Spark cannot

    monkeypatch.setattr(signal, "signal", lambda *_: None)  # this process is not Spark's
    broker.queue("orders").send(0)
    options = StreamOptions.of({"queue": "orders", "url": redis_url, "lease": "1m"})
    readers: list[Any] = [StreamReader(options, MESSAGE) for _ in range(2)]
    start = readers[0].initialOffset()
    end = readers[0].latestOffset(start, readers[0].getDefaultReadLimit())
    readers[0].stop()
    leases = broker.queue("orders")._core.keys["leases"]
    (token,) = raw.zrange(leases, 0, -1)
    raw.zadd(leases, {token: 1})

    def plan(*_: Any) -> Any:
        assert raw.zscore(leases, token) > 1
        raise ZeroDivisionError

    monkeypatch.setattr(Query, "plan", plan)
    with pytest.raises(ZeroDivisionError):
        readers[1].partitions(start, end)
    readers[1].stop()


def test_a_history_of_several_queues(broker: rq_dlq.Broker, redis_url: str) -> None:
    from rq_dlq.spark.stream_history import HistoryStreamReader  # noqa: PLC0415 - an older Spark cannot

    def reader(**options: str) -> Any:
        given = {"queue": "orders.*", "view": "history", "url": redis_url, "maxWait": "0", **options}
        return HistoryStreamReader(StreamOptions.of(given), HISTORY)

    def settle(name: str) -> str:
        queue = broker.queue(name, outcomes=100)
        sent = queue.send(0)
        queue.ack(queue.claim(1))
        return sent

    def read(its: Any, start: Any) -> tuple[Any, list[str]]:
        end = its.latestOffset(start, its.getDefaultReadLimit())
        batches = [batch for part in its.partitions(start, end) for batch in its.read(part)]
        return end, [name for batch in batches for name in batch.column("id").to_pylist()]

    sent = settle("orders.eu")
    stream = reader()
    first, ids = read(stream, stream.initialOffset())
    assert (sorted(first), ids) == (["orders.eu"], [sent])
    sent = settle("orders.us")
    second, ids = read(stream, first)
    assert (sorted(second), ids) == (["orders.eu", "orders.us"], [sent])
    broker.queue("orders.eu").delete(force=True)
    for now in (False, True):
        stream = reader()
        if now:
            stream.prepareForTriggerAvailableNow()
        with pytest.raises(DataLoss, match=r"there is no queue 'orders.eu' any more"):
            read(stream, second)
    sent = settle("orders.us")
    careless = reader(failOnDataLoss="false")
    third, ids = read(careless, second)
    assert (sorted(third), ids) == (["orders.us"], [sent])
    assert read(careless, third) == (third, [])
    with pytest.raises(InvalidInput, match=r"the checkpoint is for orders.us, but the query reads payments"):
        read(reader(queue="payments"), third)
