from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from examples.what_if import what_if
from rq_dlq import RedeliveryPolicy
from rq_dlq.spark.report import collision_report, poison_report, queue_report
from rq_dlq.spark.schemas import DEAD_LETTER, HISTORY, METRICS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
KEEN = RedeliveryPolicy(initial_delay=1, multiplier=2, max_redeliveries=3, collision_avoidance=0.5)


def rows(spark: SparkSession, schema: StructType, *given: dict[str, Any]) -> DataFrame:
    names = schema.fieldNames()
    assert all(set(row) <= set(names) for row in given)
    return spark.createDataFrame([tuple(row.get(name) for name in names) for row in given], schema)


def letter(id: str, fingerprint: str, minutes: int, **more: Any) -> dict[str, Any]:
    died = NOON + timedelta(minutes=minutes)
    usual = {"queue": "orders", "reason": "exhausted", "attempt": 4, "error_class": "TimeoutError"}
    sent = died - timedelta(seconds=90)
    return usual | {"id": id, "fingerprint": fingerprint, "dead_at": died, "enqueued_at": sent} | more


def event(number: int, id: str, event: str, **more: Any) -> dict[str, Any]:
    """The number is the event's time in milliseconds after noon."""
    at = NOON + timedelta(milliseconds=number)
    event_id = f"{int(NOON.timestamp() * 1000) + number}-0"
    return {"event_id": event_id, "at": at, "queue": "orders", "id": id, "event": event} | more


def told(table: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in table.collect()]


def test_dead_letters_are_told_by_kind_the_largest_first(spark: SparkSession) -> None:
    letters = rows(
        spark,
        DEAD_LETTER,
        letter("a", "f1", 0, error_message="old"),
        letter("b", "f1", 30, error_message="new", attempt=8),
        letter("c", "f1", 30, error_message="new", attempt=4),
        letter("d", "f2", 5, reason="poison", error_class="ValueError", attempt=1),
    )
    first, second = told(poison_report(letters))
    assert first["first_seen"] == datetime(2026, 11, 21, 12, 0)  # noqa: DTZ001 - Spark's, in the session's zone
    assert first == {
        "queue": "orders",
        "fingerprint": "f1",
        "reason": "exhausted",
        "error_class": "TimeoutError",
        "error_message": "new",
        "sample_id": "c",
        "count": 3,
        "share": 0.75,
        "per_hour": 6.0,
        "first_seen": first["first_seen"],
        "last_seen": first["first_seen"] + timedelta(minutes=30),
        "attempts_p50": 4.0,
        "attempts_p95": 7.6,
        "attempts_p99": 7.92,
        "wasted_attempts": 16,
        "wasted_seconds": 270.0,
    }
    assert (second["fingerprint"], second["share"], second["per_hour"]) == ("f2", 0.25, None)


def test_queues_are_told_by_their_events_and_their_counts(spark: SparkSession) -> None:
    history = rows(
        spark,
        HISTORY,
        event(1, "a", "redelivered", delay_ms=10),
        event(2, "a", "acked", age_ms=100),
        event(3, "b", "acked", age_ms=300),
        event(4, "c", "dead"),
        event(5, "d", "expired"),
    )
    counts = {"ready": 2, "scheduled": 1, "leased": 0, "dead": 1, "expired": 1}
    nothing = dict.fromkeys(counts, 0)
    metrics = rows(spark, METRICS, {"queue": "orders"} | counts, {"queue": "silent"} | nothing)
    orders, silent = told(queue_report(history, metrics))
    assert orders["redelivery_ratio"] == 0.25
    assert orders["expiry_ratio"] == 0.25
    assert (orders["success_ms_p50"], orders["success_ms_p99"]) == (200.0, 298.0)
    assert (orders["died"], orders["waiting"], orders["dead"]) == (1, 3, 1)
    assert (silent["succeeded"], silent["redelivery_ratio"], silent["success_ms_p50"]) == (0, None, None)


def test_redeliveries_in_one_tenth_of_a_second_collide(spark: SparkSession) -> None:
    history = rows(
        spark,
        HISTORY,
        event(0, "a", "redelivered", delay_ms=1_000),
        event(60, "b", "redelivered", delay_ms=1_039),  # due at 1,099 ms, still in the slot of the first
        event(0, "c", "redelivered", delay_ms=1_100),
        event(0, "d", "redelivered", delay_ms=5_000),
        event(50, "e", "acked", age_ms=1_000),
    )
    (report,) = told(collision_report(history))
    assert (report["redeliveries"], report["colliding"], report["score"]) == (4, 2, 0.5)
    assert report["largest"] == 2
    assert report["largest_at"] == datetime(2026, 11, 21, 12, 0, 1)  # noqa: DTZ001


def test_what_another_policy_would_have_made_of_it(spark: SparkSession) -> None:
    history = rows(
        spark,
        HISTORY,
        *(event(n, "late", "redelivered", delay_ms=100) for n in range(5)),
        event(9, "late", "acked"),
        event(10, "early", "redelivered", delay_ms=100),
        event(11, "early", "acked"),
        event(20, "dead", "redelivered", delay_ms=100),
        event(21, "dead", "dead", reason="exhausted"),
        event(22, "dead", "redriven"),
        event(23, "dead", "acked"),
        event(30, "open", "redelivered", delay_ms=100),
    )
    policies = {"three": KEEN, "none": RedeliveryPolicy(max_redeliveries=0)}
    three, none = told(what_if(history, policies))
    assert {name: three[name] for name in ("messages", "succeeded", "died", "lost", "undecided")} == {
        "messages": 4, "succeeded": 3, "died": 1, "lost": 1, "undecided": 1,
    }  # fmt: skip
    assert three["lost_ids"] == ["late"]
    assert (three["attempts"], three["attempts_spared"]) == (11, 2)
    assert (three["wait_seconds"], three["policy_wait_seconds"]) == (0.7, 1 + 2 + 4 + 1 + 1)
    assert (none["lost_ids"], none["attempts_spared"], none["undecided"]) == (["early", "late"], 7, 0)


@pytest.mark.parametrize("report", [poison_report, collision_report])
def test_of_nothing_there_is_an_empty_table(spark: SparkSession, report: Any) -> None:
    schema = DEAD_LETTER if report is poison_report else HISTORY
    assert report(spark.createDataFrame([], schema)).collect() == []
