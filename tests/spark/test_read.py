"""`spark.read.format("rq_dlq")` on a real Redis, in real time."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import rq_dlq
from rq_dlq import Message, RedeliveryPolicy
from rq_dlq.spark.schemas import MESSAGE, TOTALS, VIEWS
from rq_dlq.values.state import read_state
from tests.behaviour.test_damaged import DAMAGES
from tests.contents import contents
from tests.servers import wait_until
from tests.servers.counts import verbs_run
from tests.spark.versions import SPARK

AT_ONCE = RedeliveryPolicy(delays=[0], max_redeliveries=None)


def read(
    spark: SparkSession, queue: str = "orders", *, schema: str | None = None, **options: Any
) -> DataFrame:
    reader = spark.read.format("rq_dlq").options(queue=queue, **options)
    return (reader.schema(schema) if schema else reader).load()


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]


def ids(frame: DataFrame) -> list[str]:
    return sorted(row["id"] for row in frame.collect())


def said(frame: Any) -> str:
    """What a user sees of an error."""
    with pytest.raises(PySparkException) as caught:
        frame()
    return str(caught.value)


def untouched(raw: Any) -> dict[bytes, Any]:
    """Everything that is in Redis, but for what goes by itself."""
    return {key: value for key, value in contents(raw).items() if not key.endswith(b":wake")}


def soon(moment: datetime) -> bool:
    """A time of just now, as Spark gives it in the session's zone (UTC)."""
    return abs(datetime.now(UTC).replace(tzinfo=None) - moment) < timedelta(minutes=1)


def test_what_waits(spark: SparkSession, broker: rq_dlq.Broker, raw: Any) -> None:
    queue = broker.queue("orders", redelivery=AT_ONCE)
    queue.send({"n": 1}, id="plain", priority=7)
    queue.send(b"\0bytes", id="bytes", headers={"a": "b", "c": "é"}, ttl="1h")
    queue.send("later", id="later", delay="2h", key="customer-7")
    for delivery in queue.claim(2):
        if delivery.id == "bytes":
            delivery.nack(ValueError("boom"))
        else:
            delivery.release()
    before = untouched(raw)
    found = {row["id"]: row for row in rows(read(spark))}
    assert list(found["plain"]) == MESSAGE.fieldNames()
    sent = found["plain"].pop("enqueued_at")
    assert soon(sent)
    assert found["plain"] == {
        "id": "plain", "queue": "orders", "body": b'{"n":1}', "content_type": "application/json",
        "key": None,
        "headers": {}, "priority": 7, "visible_at": sent, "expires_at": None, "delivery_count": 1,
        "attempt": 1, "last_error_class": None, "last_error_message": None, "batch": None, "shard": 0,
        "corrupt": None,
    }  # fmt: skip
    other = found["bytes"]
    assert (other["body"], other["content_type"]) == (b"\0bytes", "application/octet-stream")
    assert (other["headers"], other["last_error_class"]) == ({"a": "b", "c": "é"}, "ValueError")
    assert (other["last_error_message"], other["delivery_count"]) == ("boom", 1)
    assert other["expires_at"] - other["enqueued_at"] == timedelta(hours=1)
    later = found["later"]
    assert later["visible_at"] - later["enqueued_at"] == timedelta(hours=2)
    assert (later["key"], other["key"]) == ("customer-7", None)
    assert ids(read(spark, view="scheduled")) == ["later"]
    assert untouched(raw) == before, "it was disturbed"


def test_a_time_to_live_that_a_redrive_gave(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    queue = broker.queue("orders")
    queue.send("ended", id="ended", ttl="1h")
    queue.send("given", id="given")
    queue.poison(queue.claim(2))
    queue.dlq.redrive(ids=["ended"])
    queue.dlq.redrive(ids=["given"], ttl="2h")
    found = {row["id"]: row["expires_at"] for row in rows(read(spark))}
    (given,) = queue.select(ids=["given"]).browse()
    assert given.expires_at is not None
    assert found["ended"] is None
    assert abs(found["given"].timestamp() - given.expires_at.timestamp()) < 0.01


def test_what_is_leased(spark: SparkSession, broker: rq_dlq.Broker, raw: Any) -> None:
    queue = broker.queue("orders")
    queue.send_many(range(5))
    first, second = queue.claim(2), queue.claim(3)
    second.pop().ack()
    before = untouched(raw)
    found = {row["id"]: row["batch"] for row in rows(read(spark, view="leased", fetchSize=1))}
    assert found == {delivery.id: delivery.token for delivery in [*first, *second]}
    assert untouched(raw) == before, "it was disturbed"


def test_dead_letters(spark: SparkSession, broker: rq_dlq.Broker, raw: Any) -> None:
    queue = broker.queue("orders", redelivery=AT_ONCE)
    queue.send_many(["a", "b"])
    for delivery in queue.claim(2):
        delivery.nack(KeyError("first"))
    for delivery in queue.claim(2):
        delivery.poison(ValueError(f"bad {delivery.body}") if delivery.body == "a" else "in words")
    before = untouched(raw)
    found = {bytes(row["body"]): row for row in rows(read(spark, view="dlq"))}
    letters = {letter.data: letter for letter in queue.dlq.browse()}
    assert set(found) == set(letters) == {b'"a"', b'"b"'}
    for body, letter in letters.items():
        row = found[body]
        assert (row["reason"], row["original_queue"], row["fingerprint"]) == (
            "poison",
            "orders",
            letter.fingerprint,
        )
        assert row["dead_at"] == letter.died_at.replace(tzinfo=None)
        assert (row["error_class"], row["error_message"]) == (letter.cause.type or None, letter.cause.message)
        assert (row["delivery_count"], row["visible_at"]) == (2, None)
        assert [event["cause"] for event in row["history"]] == ["nacked", "poisoned"]
        assert [event["attempt"] for event in row["history"]] == [1, 2]
        assert row["history"][0]["error_class"] == "KeyError"
        assert row["history"][1]["at"] == row["dead_at"]
    fingerprint = found[b'"a"']["fingerprint"]
    assert ids(read(spark, view="dlq", errorClass="ValueError")) == [found[b'"a"']["id"]]
    assert ids(read(spark, view="dlq", fingerprint=fingerprint, schema="id string")) == [found[b'"a"']["id"]]
    assert ids(read(spark, view="dlq", fingerprint="0")) == []
    assert len(ids(read(spark, view="dlq", reason="poison"))) == 2
    assert ids(read(spark, view="dlq", reason="exhausted", schema="id string")) == []
    assert untouched(raw) == before, "it was disturbed"


def test_messages_are_looked_up_by_their_ids(spark: SparkSession, broker: rq_dlq.Broker, raw: Any) -> None:
    for name in ("orders", "mail"):
        queue = broker.queue(name, redelivery=AT_ONCE)
        queue.send_many(Message(n, id=f"{name}-{n}") for n in range(2_000))
        queue.send(1, id=f"{name}-late", delay="1h")
        queue.poison(queue.claim(3), ValueError("bad"))
        first, *_ = queue.claim(3)
        first.nack("again", delay=0)  # it waits, and has a state
    before = untouched(raw)
    named = {"queue": "*", "ids": ",".join(f"orders-{n}" for n in (1, 3, 4, 5, 1_999, "late", "nowhere"))}
    waiting = read(spark, **named)
    assert ids(waiting) == ["orders-1999", "orders-3", "orders-late"]
    whole = {row.id: row for row in read(spark).collect()}
    assert [row == whole[row.id] for row in waiting.collect()] == [True] * 3
    assert ids(read(spark, view="scheduled", **named)) == ["orders-late"]
    (dead,) = rows(read(spark, view="dlq", **named))
    assert (dead["id"], dead["reason"], len(dead["history"])) == ("orders-1", "poison", 1)
    assert untouched(raw) == before, "it was disturbed"
    raw.config_resetstat()
    ids(read(spark, **named))
    assert verbs_run(raw) < 10


def test_how_a_history_is_told(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    queue = broker.queue("orders")
    queue.send("x")
    queue.claim()[0].poison(ValueError('say "no"'))
    (as_struct,) = read(spark, view="dlq").select("history").collect()
    (as_json,) = read(spark, view="dlq", history="json").select("history").collect()
    (none,) = read(spark, view="dlq", history="none").select("history").collect()
    (event,) = json.loads(as_json["history"])
    at = datetime.fromisoformat(event.pop("at")).replace(tzinfo=None)
    assert event | {"at": at} == as_struct["history"][0].asDict()
    assert none["history"] is None


def test_expired_messages(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    queue = broker.queue("orders")
    queue.send("x", id="m", ttl="1ms")
    wait_until(lambda: queue.maintain()["expired"])  # a claim might be in time
    (row,) = rows(read(spark, view="expired"))
    assert (row["id"], row["reason"], row["error_class"], row["fingerprint"]) == (
        "m",
        "expired",
        "Expired",
        "expired",
    )
    assert soon(row["dead_at"])


def test_an_expired_message_has_the_error_that_left_it_too_little_time(
    spark: SparkSession, broker: rq_dlq.Broker
) -> None:
    queue = broker.queue("orders")
    queue.send("x", ttl="30m")
    queue.claim()[0].nack(ValueError("boom"), delay="1h")
    (letter,) = queue.expired.browse()
    (row,) = rows(read(spark, view="expired"))
    cause = letter.cause
    assert cause.type == "ValueError"
    assert (row["error_class"], row["error_message"], row["fingerprint"]) == (
        cause.type,
        cause.message,
        cause.fingerprint,
    )
    assert row["last_error_message"] == "boom"


def test_the_outcome_history(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    queue = broker.queue("orders", outcomes=1_000, redelivery=RedeliveryPolicy(delays=[5]))
    queue.send_many(range(3), headers={"a": "b"})
    one, two, three = queue.claim(3)
    one.ack()
    two.nack(ValueError("boom"))
    three.poison(KeyError("x"))
    found = {row["id"]: row for row in rows(read(spark, view="history", fetchSize=1, numPartitions=3))}
    assert {row["event"] for row in found.values()} == {"acked", "redelivered", "dead"}
    row = found[two.id]
    assert (row["queue"], row["attempt"], row["delay_ms"], row["cause"]) == ("orders", 1, 5_000, "nacked")
    assert (row["error_class"], found[one.id]["error_class"]) == ("ValueError", None)
    assert soon(row["at"])
    assert row["age_ms"] >= 0
    assert [event.event_id for event in queue.outcomes()] == sorted(row["event_id"] for row in found.values())
    assert ids(read(spark, view="history", errorClass="KeyError")) == [three.id]
    assert ids(read(spark, view="history", fingerprint=row["fingerprint"], schema="id string")) == [two.id]
    assert ids(read(spark, view="history", until="2020-01-01")) == []
    assert len(ids(read(spark, view="history", since="2020-01-01", until="2999-01-01"))) == 3


def test_metrics(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    queue = broker.queue("orders")
    queue.send_many(range(3))
    queue.send("later", delay="1h")
    queue.claim()[0].ack()
    queue.claim()[0].poison("bad")
    broker.queue("empty").send("x")
    broker.queue("empty").claim()[0].ack()
    broker.queue("empty").pause()
    found = {row["queue"]: row for row in rows(read(spark, "*", view="metrics"))}
    stats = queue.stats()
    assert {name: found["orders"][name] for name in TOTALS if name != "expired_total"} == {
        name: stats.totals.get(name, 0) for name in TOTALS if name != "expired_total"
    }
    waiting = {name: found["orders"][name] for name in ("ready", "scheduled", "leased", "dead", "expired")}
    assert waiting == {"ready": 1, "scheduled": 1, "leased": 0, "dead": 1, "expired": 0}
    assert 3_500_000 < found["orders"]["next_due_ms"] <= 3_600_000
    assert found["orders"]["oldest_ms"] >= 0
    assert (found["empty"]["paused"], found["empty"]["oldest_ms"], found["orders"]["paused"]) == (
        True,
        None,
        False,
    )
    assert soon(found["orders"]["at"])


def test_chosen_columns_in_their_order(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    broker.queue("orders").send_many(range(3))
    found = read(spark, schema="priority int, id string, visible_at timestamp, shard int")
    assert found.columns == ["priority", "id", "visible_at", "shard"]
    assert {(row["priority"], row["shard"]) for row in found.collect()} == {(4, 0)}
    strict = MESSAGE.fromJson({"type": "struct", "fields": [MESSAGE["id"].jsonValue() | {"nullable": False}]})
    assert spark.read.format("rq_dlq").option("queue", "orders").schema(strict).load().count() == 3


def test_since_and_until(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    queue = broker.queue("orders")
    queue.send("x", id="old")
    old = rows(read(spark))[0]["enqueued_at"].replace(tzinfo=UTC)
    wait_until(lambda: datetime.now(UTC) - old > timedelta(milliseconds=2))
    queue.send("x", id="new")
    queue.send("x", id="later", delay="1h")
    middle = str(int(old.timestamp() * 1000) + 1)
    assert ids(read(spark, since=old.isoformat())) == ["later", "new", "old"]
    assert ids(read(spark, since=middle)) == ["later", "new"]
    assert ids(read(spark, until=middle)) == ["old"]
    assert ids(read(spark, view="scheduled", since=(old + timedelta(minutes=50)).isoformat())) == ["later"]
    assert ids(read(spark, view="scheduled", until=(old + timedelta(minutes=50)).isoformat())) == []


def test_lists_patterns_and_shards(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    for name in ("orders:0", "orders:1", "mail", "{shop}.mail"):
        broker.queue(name).send(name)
    queues = {
        "orders:0, mail": {"orders:0", "mail"},
        "*mail": {"mail", "{shop}.mail"},
        "orders*": {"orders:0", "orders:1"},
    }
    for given, expected in queues.items():
        assert {row["queue"] for row in read(spark, given).collect()} == expected
    found = read(spark, shards=3)
    assert {(row["queue"], row["shard"]) for row in found.collect()} == {("orders:0", 0), ("orders:1", 1)}


def test_partitions(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    queue = broker.queue("orders")
    sent = queue.send_many(range(1_000))
    frame = read(spark, numPartitions=3, fetchSize=100, schema="id string")
    assert frame.select(sql.spark_partition_id()).distinct().count() == 3
    assert [row["id"] for row in frame.collect()] == sent
    queue.send("after it was planned")
    if SPARK >= (4, 1):  # before, Spark plans for each action
        assert frame.count() == 1_000


def test_nothing_waits(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    queue = broker.queue("orders")
    queue.send("x")
    queue.claim()[0].ack()
    for view in VIEWS:
        assert read(spark, view=view).count() == (view == "metrics")


def test_damaged_records_are_rows(spark: SparkSession, broker: rq_dlq.Broker, raw: Any) -> None:
    queue = broker.queue("orders")
    for name in [*DAMAGES, "sound"]:
        queue.send(name, id=name, headers={"a": "b"})
    for name, damage in DAMAGES.items():
        raw.hset("rq:{orders}:messages", name, damage(raw.hget("rq:{orders}:messages", name)))
    found = {row["id"]: row for row in rows(read(spark))}
    assert set(found) == {*DAMAGES, "sound"}
    assert found["sound"]["corrupt"] is None
    short = found["a byte"]
    assert short["corrupt"] == "the record is too short (1 bytes)"
    assert {short[name] for name in ("body", "headers", "priority", "enqueued_at", "content_type")} == {None}
    assert "too short" in found["expiry cut off"]["corrupt"]
    for name in (
        "headers longer than the record",
        "headers of no JSON",
        "headers of no text",
        "headers very deep",
    ):
        assert found[name]["corrupt"] == "the headers cannot be decoded"
        assert (found[name]["headers"], found[name]["body"], found[name]["priority"]) == (None, None, 4)
    beyond = found["expiry beyond the calendar"]
    assert (beyond["corrupt"], beyond["expires_at"]) == ("the time to live ends beyond the calendar", None)
    assert read(spark, schema="id string, priority int").count() == len(found)
    raw.flushall()


def test_a_damaged_state_is_a_row(spark: SparkSession, broker: rq_dlq.Broker, raw: Any) -> None:
    queue = broker.queue("orders")
    queue.send("x", id="m")
    queue.claim()[0].poison("bad")
    assert read_state(raw.hget("rq:{orders}:states", "m"))
    raw.hset("rq:{orders}:states", "m", "limbo")
    raw.hset("rq:{orders}:history", "m", b"\xff\tnonsense")
    (row,) = rows(read(spark, view="dlq"))
    assert row["corrupt"] == "the state does not read"
    assert (row["id"], row["body"], row["history"]) == ("m", b'"x"', [])
    assert {row[name] for name in ("delivery_count", "dead_at", "reason", "expires_at", "error_class")} == {
        None
    }
    raw.flushall()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"nope": "1"}, "unknown option 'nope': the options are url, namespace, queue"),
        ({"view": "dead"}, "option view: 'dead' is not one of queue, scheduled"),
        ({"queue": "ordres"}, "there is no queue 'ordres': the queues are"),
        ({"queue": "DLQ.orders"}, "use spark.read with view=dlq, queue=orders"),
        ({"queue": "x*"}, "there is no queue 'x*': the queues are"),
        ({"since": "yesterday"}, "option since: 'yesterday' is not an ISO time"),
        ({"schema": "id string, foo int"}, "view 'queue' has no column 'foo': choose from id, queue"),
        ({"schema": "id int"}, "column 'id' of view 'queue' is string, not int"),
        ({"lease": "1m"}, "unknown option 'lease'"),
    ],
)
def test_bad_input(given: dict[str, str], message: str, spark: SparkSession, broker: rq_dlq.Broker) -> None:
    """Said before a job starts, in a sentence, without a traceback of ours."""
    broker.queue("orders").send("x")
    text = said(lambda: read(spark, **given).count())
    assert message in text
    assert "options.py" not in text
    assert "views.py" not in text


def test_redis_cannot_be_reached(spark: SparkSession) -> None:
    url = "redis://somebody:geheim@127.0.0.1:1/0"
    frame = read(spark, url=url)
    text = said(frame.count)
    assert "cannot reach redis://somebody:***@127.0.0.1:1/0" in text
    assert "geheim" not in text
    assert "geheim" not in said(lambda: read(spark, url=url, view="x").count())
    assert "geheim" not in said(lambda: read(spark, url="rodis://:geheim@host").count())


def test_no_password_in_plans(
    spark: SparkSession, broker: rq_dlq.Broker, redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.queue("orders").send("x")
    frame = read(spark, url=redis_url.replace("://", "://:geheim@"))
    frame.explain(extended=True)
    shown = capsys.readouterr().out
    assert "rq_dlq" in shown
    assert "geheim" not in shown
    assert "geheim" not in repr(frame)
