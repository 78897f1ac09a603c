"""What the function of `foreachBatch` asks before its sink commits; `epoch_key` is tried in `test_stream`."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

import rq_dlq
from rq_dlq._work.batches import claim_batch, extend_batch
from rq_dlq._work.upkeep import step
from rq_dlq.errors import InvalidInput, LeaseLost
from rq_dlq.spark import check_held
from tests.servers import wait_until


def test_rows_that_are_not_held_any_more_are_noticed(
    spark: SparkSession, broker: rq_dlq.Broker, redis_url: str, raw: Any
) -> None:
    tokens, rows = dict[str, str](), list[tuple[str, str]]()
    for name in ("orders", "bills"):
        queue = broker.queue(name)
        ids = queue.send_many(range(4))
        (tokens[name],) = broker._run(claim_batch(queue._core, "query.1", limit=4, lease=60_000)).tokens
        rows += [(message_id, tokens[name]) for message_id in ids]
        held = spark.createDataFrame(rows[1:] + rows[1:], "id string, batch string")  # some rows come twice
        rows_nacked = spark.createDataFrame(rows[:1], "id string, batch string")
        rows_nacked.write.format("rq_dlq").option("operation", "nack").mode("append").save()
        check_held(held, url=redis_url)
    raw.zadd(queue._core.keys["leases"], {tokens["bills"]: 1})  # its lease is over
    queue.maintain()
    with pytest.raises(LeaseLost, match="4 messages of this epoch are not held any more"):
        check_held(held)


def test_rows_that_did_not_fail_are_noticed_where_others_are_still_held(
    spark: SparkSession, broker: rq_dlq.Broker
) -> None:
    queue = broker.queue("orders")
    ids = queue.send_many(range(4))
    (token,) = broker._run(claim_batch(queue._core, "query.1", limit=4, lease=1_000)).tokens
    good = spark.createDataFrame([(name, token) for name in ids[:2]], "id string, batch string")
    check_held(good)
    part = 1  # as a claim of another consumer does
    wait_until(lambda: broker._run(step("swept", queue._core.keys, queue._core.policy, part)))
    broker._run(extend_batch(queue._core.keys, [token], 60_000))
    with pytest.raises(LeaseLost, match="1 messages of this epoch are not held any more"):
        check_held(good)


def test_rows_without_a_batch_cannot_be_checked(spark: SparkSession) -> None:
    with pytest.raises(InvalidInput, match=r"check_held\(\) needs the column 'batch'"):
        check_held(spark.createDataFrame([("m",)], "id string"))
