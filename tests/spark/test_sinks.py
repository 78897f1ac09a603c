"""What the function of `foreachBatch` asks before its sink commits; `epoch_key` is tried in `test_stream`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import rq_dlq
from rq_dlq.core.batches.batches import claim_batch, extend_batch
from rq_dlq.core.batches.calls import begin_batch
from rq_dlq.core.upkeep.upkeep import step
from rq_dlq.errors import InvalidInput, LeaseLost
from rq_dlq.spark import check_held
from rq_dlq.spark.schemas import columns_of
from rq_dlq.spark.write import operation_of
from tests import servers
from tests.servers import wait_until

ROWS = "id string, batch string"


@pytest.fixture(scope="module")
def other_url() -> Iterator[str]:
    """Another server."""
    with servers.running() as path:
        yield f"unix://{path}"


@pytest.fixture
def other(other_url: str) -> Iterator[rq_dlq.Broker]:
    """The broker of another server, which is empty."""
    with rq_dlq.Broker(other_url) as broker:
        yield broker
        for name in broker.queues():
            broker.queue(name).delete(force=True)


def claimed(broker: rq_dlq.Broker, name: str, lease: int = 60_000) -> tuple[list[str], str]:
    """Four messages that a query holds, and their token."""
    queue = broker.queue(name)
    ids: list[str] = [*queue.send_many(range(4))]
    (token,) = broker._run(claim_batch(queue._core, "query.1", limit=4, lease=lease)).tokens
    broker._run(broker._step(begin_batch(queue._core.keys, "query", batch=1, run="run")))
    return ids, token


def test_rows_that_are_not_held_any_more_are_noticed(
    spark: SparkSession, broker: rq_dlq.Broker, redis_url: str, raw: Any
) -> None:
    tokens, rows = dict[str, str](), list[tuple[str, str]]()
    for name in ("orders", "bills"):
        ids, tokens[name] = claimed(broker, name)
        rows += [(message_id, tokens[name]) for message_id in ids]
        held = spark.createDataFrame(rows[1:] + rows[1:], ROWS)  # some rows come twice
        rows_nacked = spark.createDataFrame(rows[:1], ROWS)
        rows_nacked.write.format("rq_dlq").option("operation", "nack").mode("append").save()
        check_held(held, url=redis_url)
    queue = broker.queue("bills")
    raw.zadd(queue._core.keys["leases"], {tokens["bills"]: 1})  # its lease is over
    queue.maintain()
    with pytest.raises(LeaseLost, match="4 messages of this epoch are no longer held"):
        check_held(held)


def test_rows_that_did_not_fail_are_noticed_where_others_are_still_held(
    spark: SparkSession, broker: rq_dlq.Broker
) -> None:
    queue = broker.queue("orders")
    ids, token = claimed(broker, "orders", lease=1_000)
    good = spark.createDataFrame([(name, token) for name in ids[:2]], ROWS)
    check_held(good)
    part = 1  # as a claim of another consumer does
    wait_until(lambda: broker._run(step("swept", queue._core.keys, queue._core.policy, part)))
    broker._run(extend_batch(queue._core.keys, [token], 60_000))
    with pytest.raises(LeaseLost, match="1 messages of this epoch are no longer held"):
        check_held(good)


def test_rows_without_a_batch_cannot_be_checked(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    with pytest.raises(InvalidInput, match=r"check_held\(\) needs the column 'batch'"):
        check_held(spark.createDataFrame([("m",)], "id string"))
    ids, token = claimed(broker, "orders")
    for strange in (None, "token", "token@"):
        rows = spark.createDataFrame([(ids[0], token), (ids[1], strange)], ROWS)
        with pytest.raises(InvalidInput, match="a row has no batch that names its queue"):
            check_held(rows)


# Rows of another server


def act(verb: str, url: str, rows: list[dict[str, str]]) -> None:
    """Settle or redrive rows."""
    schema = columns_of("id string, queue string" if verb == "redrive" else ROWS)
    job: Any = operation_of({"operation": verb, "url": url}, schema, overwrite=False)
    job.commit([job.write(iter([pa.RecordBatch.from_pylist(rows)] if rows else []))])


@pytest.mark.parametrize("verb", ["ack", "nack", "discard"])
@pytest.mark.parametrize(
    ("there", "said"),
    [
        (None, "has no queue: the rows were read from another server"),
        ("bills", "has no queue 'orders': the rows"),
        ("orders", "has a queue 'orders' that does not know the query of the rows"),
    ],
)
def test_rows_are_settled_only_where_they_were_read(  # noqa: PLR0917 - fixtures
    verb: str, there: str | None, said: str, broker: rq_dlq.Broker, other: rq_dlq.Broker, redis_url: str
) -> None:
    if there:
        other.queue(there).send("another")
    ids, token = claimed(broker, "orders")
    known, strange = claimed(other, "shared")[1] if there else "", {"id": ids[0], "batch": token}
    rows = [{"id": "m", "batch": known}, strange] if known else [strange]
    with pytest.raises(InvalidInput, match=said):
        act(verb, other.settings.url or "", rows)
    assert not there or other.queue("shared").stats().leased == 4
    act(verb, redis_url, [strange])
    assert broker.queue("orders").stats().leased == 3


@pytest.mark.parametrize("verb", ["ack", "nack", "discard"])
def test_a_server_without_queues_is_refused_without_rows(verb: str, other: rq_dlq.Broker) -> None:
    """A sink that fails only where there are rows lets good messages die."""
    settle = partial(act, verb, other.settings.url or "", [])
    with pytest.raises(InvalidInput, match="has no queue: "):
        settle()
    other.queue("orders").open()
    settle()


def test_rows_are_redriven_only_where_they_were_read(
    broker: rq_dlq.Broker, other: rq_dlq.Broker, redis_url: str
) -> None:
    rows = [{"id": "m", "queue": name} for name in ("orders", "bills")]
    for each, name in ((broker, "orders"), (broker, "bills"), (other, "orders")):
        queue = each.queue(name)
        queue.send(1, id="m")
        queue.poison(queue.claim(1), "bad")
    with pytest.raises(InvalidInput, match="has no queue 'bills': the rows were read from another server"):
        act("redrive", other.settings.url or "", rows)
    assert other.queue("orders").stats().dead == 1
    act("redrive", redis_url, rows)
    assert [broker.queue(name).stats().dead for name in ("orders", "bills")] == [0, 0]


def test_rows_are_checked_only_where_they_were_read(
    spark: SparkSession, broker: rq_dlq.Broker, other: rq_dlq.Broker
) -> None:
    ids, token = claimed(broker, "orders")
    rows = spark.createDataFrame([(ids[0], token)], ROWS)
    for frame in (rows, rows.limit(0)):  # also where it has no rows, see above
        with pytest.raises(InvalidInput, match=r"has no queue: .* Pass the url and namespace of the read"):
            check_held(frame, url=other.settings.url)
    other.queue("orders").open()
    with pytest.raises(InvalidInput, match="does not know the query of the rows"):
        check_held(rows, url=other.settings.url)
