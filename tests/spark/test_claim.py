"""`claim()`: a batch for any number of actions, acked at the end."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import rq_dlq
from rq_dlq.errors import ConfigurationError, InvalidInput
from rq_dlq.spark import claim
from rq_dlq.spark.brokers import broker_at
from tests import servers
from tests.tables import each_row


def test_a_batch_is_the_same_for_each_action_and_acked_at_the_end(
    spark: SparkSession, broker: rq_dlq.Broker
) -> None:
    queue = broker.queue("orders")
    sent = queue.send_many(range(1_300))
    with claim(spark, "orders", limit=1_200) as batch:
        assert batch.messages == 1_200
        queue.send_many(range(100))
        assert {row.id for row in batch.df.select("id").collect()} == set(sent[:1_200])
        assert batch.df.selectExpr("sum(cast(cast(body as string) as int))").collect() == [
            (sum(range(1_200)),)
        ]
        assert queue.stats().leased == 1_200
        assert batch.ack() == 1_200
    assert (queue.stats().leased, queue.stats().ready) == (0, 200)


def test_a_queue_whose_name_looks_like_a_list(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    broker.queue("[a]").send_many(range(3))
    with claim(spark, "[a]", limit=10) as batch:
        assert batch.df.count() == 3
        batch.df.select("id", "batch").write.format("rq_dlq").option("operation", "ack").mode("append").save()
    assert broker.queue("[a]").stats().totals["acked"] == 3


def fail_on(frame: DataFrame) -> None:
    """Work, and then fail."""
    assert frame.count() == 3
    raise ZeroDivisionError


def test_an_error_gives_all_back_uncharged(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    queue = broker.queue("orders")
    queue.send_many(range(3))
    batch = claim(spark, "orders", limit=10)
    with pytest.raises(ZeroDivisionError), batch:
        fail_on(batch.df)
    assert queue.stats().ready == 3
    assert [message.charged for message in queue.peek()] == [0, 0, 0]


def test_rows_that_were_nacked_are_not_acked(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    queue = broker.queue("orders", redelivery=rq_dlq.RedeliveryPolicy(delays=["1h"]))
    queue.send_many(range(10))
    with claim(spark, "orders", limit=10) as batch:
        bad = batch.df.where("cast(cast(body as string) as int) < 3")
        bad = bad.selectExpr("id", "batch", "'Small' error_class", "'too small' error_message")
        bad.write.format("rq_dlq").option("operation", "nack").mode("append").save()
        assert batch.df.count() == 7
        assert batch.ack() == 7
    assert (queue.stats().scheduled, queue.stats().leased) == (3, 0)


def test_messages_whose_lease_has_ended_are_warned_of(
    spark: SparkSession, broker: rq_dlq.Broker, raw: Any, caplog: pytest.LogCaptureFixture
) -> None:
    queue = broker.queue("orders", redelivery=rq_dlq.RedeliveryPolicy(delays=["1h"]))
    queue.send_many(range(3))
    with claim(spark, "orders", limit=3) as batch:
        rows = batch.df.select("id", "batch").limit(1)
        rows.write.format("rq_dlq").option("operation", "nack").mode("append").save()
        raw.zadd(queue._core.keys["leases"], {batch._tokens[0]: 1})  # the driver was frozen
        queue.maintain()
        assert batch.ack() == 0
    assert "orders: a batch of claim() is done, but 2 of its messages were no longer held" in caplog.text
    assert queue.stats().ready == 2
    (noted,) = raw.keys("*stream:*")
    assert 0 < raw.pttl(noted) <= 3_600_000


def test_rows_are_settled_only_on_their_server(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    broker.queue("orders").send_many(range(3))
    with claim(spark, "orders", limit=3) as batch, servers.running() as path:
        with rq_dlq.Broker(url := f"unix://{path}") as other:
            other.queue("orders").open()
        rows = batch.df.select("id", "batch").write.format("rq_dlq").options(operation="nack", url=url)
        with pytest.raises(Exception, match="does not know the query of the rows"):
            rows.mode("append").save()
        assert batch.ack() == 3


def test_an_ack_can_be_repeated(
    spark: SparkSession, broker: rq_dlq.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.queue("orders").send_many(range(3))
    batch = claim(spark, "orders", limit=3)
    assert (batch.ack(), batch.ack()) == (3, 0)
    assert not caplog.text


def test_an_empty_batch(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    broker.queue("orders").send("later", delay="1h")
    with claim(spark, "orders", limit=10) as batch:
        assert (batch.messages, batch.df.count(), batch.ack()) == (0, 0, 0)


def test_what_was_claimed_in_vain_is_given_back(broker: rq_dlq.Broker, redis_url: str) -> None:
    class NoFormat:
        """A Spark that does not know the format."""

        @property
        def read(self) -> Any:
            raise LookupError

    queue = broker.queue("orders")
    queue.send_many(range(3))
    with pytest.raises(LookupError):
        claim(NoFormat(), "orders", limit=10, url=redis_url)  # type: ignore[arg-type]
    assert queue.stats().ready == 3


def test_a_socket_of_another_machine() -> None:
    with pytest.raises(ConfigurationError, match="has no folder /nowhere/else") as caught:
        broker_at("unix://:secret@/nowhere/else/redis.sock")
    assert "secret" not in str(caught.value)


@each_row("password", ["a/secret", "a/secret/x", "secret\u2100x"])
def test_no_folder_is_seen_in_a_password(password: str) -> None:
    with pytest.raises(ConfigurationError) as caught, broker_at(f"unix://me:{password}@/no/redis.sock") as at:
        at.queues()
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"queue": "nothing", "limit": 1}, "there is no queue 'nothing'"),
        ({"queue": "orders", "limit": 0}, "claim 1 to"),
        ({"queue": "orders", "limit": 1, "lease": "1ms"}, "lease"),
        ({"queue": "DLQ.orders", "limit": 1}, "'DLQ.orders' holds the dead letters of a queue"),
    ],
)
def test_bad_input(
    spark: SparkSession, broker: rq_dlq.Broker, options: dict[str, Any], sentence: str
) -> None:
    broker.queue("orders").send("there")
    with pytest.raises(InvalidInput, match=sentence):
        claim(spark, **options)
