"""Executors that pull: what a task does is what a worker does."""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import rq_dlq
from rq_dlq import BrokerUnavailable, ConfigurationError, InvalidInput, Poison, Redeliver
from rq_dlq.client.handlers import Handler
from rq_dlq.spark import Pulled, foreach_message
from rq_dlq.spark.pull import Pull
from tests.behaviour.helpers import after
from tests.servers import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOON = after("100ms", "100ms", most=1)


def nothing(body: Any) -> None:
    """Take any message."""


def judge(body: str, delivery: Any) -> None:
    if body == "late" and delivery.delivery_count == 1:
        raise Redeliver(after="50ms")
    if body == "poison":
        raise Poison(body)
    if body == "bad":
        raise ValueError(body)


async def judge_async(body: str, delivery: Any) -> None:
    judge(body, delivery)


@pytest.mark.parametrize("handler", [judge, judge_async])
def test_failures_come_to_what_they_come_to_in_a_worker(
    handler: Any, spark: SparkSession, broker: rq_dlq.Broker
) -> None:
    queue = broker.queue("orders")
    queue.send_many([*["good"] * 200, "late", "poison", "bad"])
    pulled = foreach_message(spark, "orders", handler, parallelism=2, policy=SOON)
    assert pulled == Pulled(acked=201, redelivered=2, dead=2, seconds=pulled.seconds)
    assert 0.1 < pulled.seconds < 600
    stats = queue.stats()
    assert (stats.waiting, stats.leased, stats.dead) == (0, 0, 2)
    reasons = {letter.body: letter for letter in queue.dlq.browse()}
    assert (reasons["poison"].reason, reasons["bad"].reason) == ("poison", "exhausted")
    assert [event.cause.type for event in reasons["bad"].history] == ["ValueError"] * 2
    assert len(reasons["bad"].fingerprint) == 12


def test_the_policy_is_declared_before_the_job(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    broker.queue("orders").send("x")
    foreach_message(spark, "orders", nothing, parallelism=1, policy=after("7s", most=3))
    assert broker.queue("orders").settings().redelivery.max_redeliveries == 3


def test_tasks_beyond_the_cores_find_nothing_left(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    broker.queue("orders").send_many(range(300))
    pulled = foreach_message(spark, "orders", nothing, parallelism=5, until="empty", concurrency=3)
    assert pulled.acked == 300


def test_annotations_are_read_where_the_job_is_started(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    """A function that is pickled by value loses the names of its annotations."""

    def take(body: Any) -> None:
        del body

    def take_number(body: int) -> None:
        del body

    broker.queue("orders").send_many([1, "two", 3])
    assert foreach_message(spark, "orders", take, parallelism=1).acked == 3
    broker.queue("orders").send_many([1, "two", 3])
    assert foreach_message(spark, "orders", take_number, parallelism=1, until="empty").acked == 2


def test_bodies_that_are_not_of_the_type_rest_and_those_that_are_not_json_are_dead(
    spark: SparkSession, broker: rq_dlq.Broker
) -> None:
    queue = broker.queue("orders")
    queue.send_many([1, "two", b"three", 4])
    pulled = foreach_message(spark, "orders", nothing, parallelism=1, type=int, until="empty")
    assert (pulled.acked, pulled.dead) == (2, 1)
    (letter,) = queue.dlq.browse()
    assert letter.reason == "unprocessable"
    assert "JSON is malformed" in letter.history[-1].cause.message
    (resting,) = queue.select(places=["scheduled"]).browse()
    assert resting.body == "two"


def test_bodies_may_be_as_large_as_the_producer_s(spark: SparkSession, redis_url: str, raw: Any) -> None:
    del raw  # only cleans up
    limit = 2 << 20
    with rq_dlq.Broker(redis_url, max_message_bytes=limit) as producer:
        queue = producer.queue("orders")
        queue.send("x" * (3 << 19))
        pulled = foreach_message(spark, "orders", nothing, parallelism=1, max_message_bytes=limit)
        assert pulled.acked == 1
        queue.send("x" * (3 << 19))
        pulled = foreach_message(spark, "orders", nothing, parallelism=1, until="empty")
        assert (pulled.acked, pulled.dead) == (0, 0)
        (resting,) = queue.select(places=["scheduled"]).browse()
        assert "raise max_message_bytes for its consumers" in resting.history[-1].cause.message


def test_a_duration_ends_all_waves(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    """Three tasks on two cores: the third one begins when the time is over."""
    broker.queue("orders").send("x", delay="1h")
    pulled = foreach_message(spark, "orders", nothing, parallelism=3, until="1s")
    assert 1 <= pulled.seconds < 60
    assert pulled == Pulled(seconds=pulled.seconds)


def test_a_cancelled_job_leaves_its_leases_to_lapse(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    queue = broker.queue("orders")
    queue.send("x", id="m")
    failed: list[BaseException] = []

    def hang(body: str) -> None:
        del body
        time.sleep(600)

    def pull() -> None:
        try:
            foreach_message(spark, "orders", hang, parallelism=1, lease="1s")
        except Exception as error:  # noqa: BLE001 - looked at below
            failed.append(error)

    job = threading.Thread(target=pull)
    job.start()
    wait_until(lambda: queue.stats().leased == 1)
    spark.sparkContext.cancelAllJobs()
    job.join(30)
    assert failed
    again = foreach_message(spark, "orders", nothing, parallelism=1)
    assert again.acked == 1
    assert queue.stats().totals["lapsed"] == 1


def test_a_handler_that_takes_its_process_along_leaves_a_lease(
    spark: SparkSession, broker: rq_dlq.Broker
) -> None:
    """Tasks on a local master have one try; elsewhere Spark would start it again."""
    queue = broker.queue("orders")
    queue.send("x")
    with pytest.raises(Exception, match="Python worker exited unexpectedly"):
        foreach_message(spark, "orders", lambda _: os._exit(3), parallelism=1, lease="1s")
    assert queue.stats().leased == 1
    assert foreach_message(spark, "orders", nothing, parallelism=1).acked == 1


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        ({"queue": "nowhere"}, InvalidInput, "there is no queue 'nowhere'"),
        ({"queue": "no queue\n"}, InvalidInput, "queue"),
        ({"handler": lambda: None}, ConfigurationError, r"a handler takes \(body\) or \(body, delivery\)"),
        ({"handler": "ship"}, ConfigurationError, "'ship' cannot be a handler: pass a function"),
        ({"parallelism": 0}, InvalidInput, "parallelism 0: use a whole number of tasks"),
        ({"parallelism": True}, InvalidInput, "parallelism True"),
        ({"until": "soon"}, InvalidInput, 'until .or "drained", "empty".: .soon. is not a duration'),
        ({"until": "stopped"}, InvalidInput, "is not a duration"),
        ({"lease": "0s"}, InvalidInput, "lease"),
        ({"concurrency": 0}, ConfigurationError, "concurrency 0"),
        ({"timeout": "never"}, InvalidInput, "timeout"),
        ({"max_message_bytes": "8m"}, ConfigurationError, "max_message_bytes '8m': use a whole number"),
        ({"policy": "often"}, InvalidInput, "Pass a RedeliveryPolicy"),
        ({"type": {1: 2}}, InvalidInput, "type"),
        ({"url": "unix:///nowhere/redis.sock"}, ConfigurationError, "nowhere"),
        ({"url": "redis://127.0.0.1:1"}, BrokerUnavailable, "127.0.0.1:1"),
    ],
)
def test_what_makes_no_sense_is_refused_before_the_job(
    wrong: dict[str, Any],
    error: type[Exception],
    says: str,
    *,
    spark: SparkSession,
    broker: rq_dlq.Broker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker.queue("orders").send("x")
    monkeypatch.setattr("rq_dlq.spark.brokers.PATIENCE", rq_dlq._redis.FAIL_FAST)
    monkeypatch.setattr(spark, "range", None)  # no job begins
    arguments: dict[str, Any] = {"queue": "orders", "handler": nothing, "parallelism": 1} | wrong
    with pytest.raises(error, match=says):
        foreach_message(spark, **arguments)


def test_a_task_logs_only_what_goes_wrong(broker: rq_dlq.Broker, caplog: pytest.LogCaptureFixture) -> None:
    queue = broker.queue("orders", redelivery=SOON)
    queue.send_many(["good", "bad"])
    pull = Pull(Handler.checked(queue, judge, 1, None), "drained", None)
    caplog.set_level(logging.INFO)
    try:
        next(pull.task(iter([pa.RecordBatch.from_pydict({"id": [0]})])))
    finally:
        for name in ("rq_dlq", "rq_dlq.doctor"):
            logging.getLogger(name).setLevel(logging.NOTSET)
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]
