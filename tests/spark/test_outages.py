"""What a dependency that is down means for batches of Spark."""

from __future__ import annotations

import logging

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from rq_dlq import Breaker, Broker, RedeliveryPolicy
from rq_dlq.core.batches.batches import claim_batch
from rq_dlq.spark import claim
from rq_dlq.spark.options import WriteOptions
from rq_dlq.spark.settle import Fate, Rows, Settle

NACKED = StructType([StructField(name, StringType()) for name in ("id", "batch", "error_class")])


def nack(broker: Broker, name: str, kind: str, rows: int = 1) -> None:
    """Claim a batch of some rows, which fail with an error of this class; settled as the driver does."""
    orders = broker.queue("orders")
    (token,) = broker._run(claim_batch(orders._core, name, limit=rows, lease=60_000)).tokens
    ids = [message.id for message in orders.select(places=["leased"]).browse()]
    assert len(ids) == rows
    writer = Settle(WriteOptions.of({"url": broker.url, "operation": "nack"}), NACKED)
    writer.commit([Rows({Fate(token, kind, "no answer"): ids})])


def test_a_batch_leaves_what_needs_a_dependency_that_is_down(
    spark: SparkSession, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """Rows that are nacked count, but for poison; what waits is in no batch, and comes when it is let in."""
    orders = broker.queue(
        "orders",
        breaker=Breaker(distinct=2, probe="1h", longest_probe="1h"),
        redelivery=RedeliveryPolicy(delays=["1h"]),
    )
    payments = orders.dependency("payments")
    orders.send_many(range(6), dependency="payments")
    others = {str(sent) for sent in orders.send_many(range(4))}
    nack(broker, "one", "rq_dlq.errors.Poison", 2)
    assert orders.stats().dead == 2  # at once, as in a worker
    nack(broker, "two", "ConnectionError")  # the rows of a batch count once
    assert not payments.stats().open
    with caplog.at_level(logging.WARNING, "rq_dlq"):
        nack(broker, "three", "ConnectionError")
    assert payments.stats().open
    assert "orders: payments counts as down" in caplog.text
    with claim(spark, "orders", limit=20) as batch:
        assert {row.id for row in batch.df.select("id").collect()} == others
        batch.ack()
    assert (payments.stats().waiting, orders.stats().leased) == (3, 0)  # with the one that opened it
    payments.resume(close=True)
    with claim(spark, "orders", limit=20) as batch:
        assert batch.ack() == 3
