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
from tests.servers import wait_until
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


def reader_of(monkeypatch: pytest.MonkeyPatch, **options: str) -> Any:
    """A source whose methods a test calls as Spark does."""
    from rq_dlq.spark.stream import StreamReader  # noqa: PLC0415 - an older Spark cannot

    monkeypatch.setattr(signal, "signal", lambda *_: None)  # this process is not Spark's
    return StreamReader(StreamOptions.of({"maxWait": "0", **options}), MESSAGE)


def test_many_queues_take_few_round_trips(redis_url: str, raw: Any) -> None:
    from tests.benchmarks.spark_queues import measure  # noqa: PLC0415 - an older Spark cannot

    looks = measure(redis_url, raw, queues=30, rounds=2)
    assert [trips for trips, *_ in looks["idle look"]] == [2, 2]
    assert max(trips for trips, *_ in looks["busy trigger"]) <= 10
    assert (
        max(commands for _, commands, _ in looks["idle look"]) < 30 * 22
    )  # no verb runs, of many commands each


def test_of_several_queues_each_does_what_falls_due(
    broker: rq_dlq.Broker, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delayed messages become ready, and probes leave a queue that has nothing else."""
    hour = rq_dlq.RedeliveryPolicy(delays=["1h"])
    down = broker.queue("orders.down", breaker=rq_dlq.Breaker(distinct=2, probe="100ms"), redelivery=hour)
    late = broker.queue("orders.late")
    late.send("late", delay="50ms")
    down.send_many(range(3), dependency="payments")
    for _ in range(2):
        (delivery,) = down.claim()
        delivery.nack(ConnectionError("no answer"))
    assert down.claim() == []
    assert down.dependency("payments").stats().open
    reader = reader_of(monkeypatch, queue="orders.*", url=redis_url)
    offset, limit, seen = reader.initialOffset(), reader.getDefaultReadLimit(), set[str]()

    def both() -> bool:
        nonlocal offset
        start, offset = offset, reader.latestOffset(offset, limit)
        new = {name for name, last in offset["queues"].items() if last != start["queues"].get(name)}
        if new:
            reader.partitions(start, offset)
        seen.update(new)
        return seen == {"orders.down", "orders.late"}

    wait_until(both)
    reader.stop()


def test_a_trigger_has_one_row_of_each_ordered_key(
    broker: rq_dlq.Broker, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = broker.queue("orders", per_key=rq_dlq.PerKey(order=True))
    for number in range(20):
        queue.send(number, key=f"customer-{number % 5}")
    reader = reader_of(monkeypatch, queue="orders", url=redis_url)
    start, limit, sizes = reader.initialOffset(), reader.getDefaultReadLimit(), list[int]()
    while (end := reader.latestOffset(start, limit)) != start:
        sizes.append(
            sum(part.end - part.first for share in reader.partitions(start, end) for part in share.value)
        )
        start = end
    assert sizes == [5, 5, 5, 5]
    reader.stop()


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
