"""Reports on dead letters and the outcome history: from DataFrames to DataFrames.

The same rows always give the same tables: percentiles are exact, numbers rounded, rows sorted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the usual name in Spark programs

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SLOT = 100
"""Milliseconds within which redeliveries collide, as in `RedeliveryPolicy.simulate`."""
POINTS = (50, 95, 99)
DIGITS = 3
DIED, DISCARDED, SUCCEEDED, REDELIVERED, EXPIRED = "dead", "discarded", "acked", "redelivered", "expired"
FAILURES = ("nacked", "lapsed", "passed_on", "poisoned")


def poison_report(dlq: DataFrame) -> DataFrame:
    """Dead letters by kind of failure, the largest kind first.

    Args:
        dlq: rows of the view `dlq`, with at least id, queue, enqueued_at, attempt, dead_at, reason,
            error_class, error_message and fingerprint.

    Returns:
        queue string, fingerprint string, reason string,
        error_class string, error_message string, sample_id string: of the newest one,
        count bigint,
        share double: of all given dead letters, 0 to 1,
        per_hour double: between the first and the last; null if all died at the same moment,
        first_seen timestamp, last_seen timestamp,
        attempts_p50, attempts_p95, attempts_p99 double: of one message,
        wasted_attempts bigint: of all of them,
        wasted_seconds double: from when they were sent until they died, of all of them.
    """
    newest = F.max_by(
        F.struct("error_class", "error_message", F.col("id").alias("sample_id")), F.struct("dead_at", "id")
    )
    groups = dlq.groupBy("queue", "fingerprint", "reason").agg(
        newest.alias("newest"),
        F.count("*").alias("count"),
        F.min("dead_at").alias("first_seen"),
        F.max("dead_at").alias("last_seen"),
        *_percentiles("attempt", "attempts"),
        F.sum("attempt").alias("wasted_attempts"),
        F.sum(_micros("dead_at", "enqueued_at")).alias("micros"),
    )
    hours = _micros("last_seen", "first_seen") / 3_600_000_000
    whole = groups.agg(F.sum("count").alias("total"), F.collect_list(F.struct("*")).alias("groups"))
    return (
        whole.select("total", F.inline("groups"))
        .select(
            "queue",
            "fingerprint",
            "reason",
            "newest.*",
            "count",
            _rounded(F.col("count") / F.col("total")).alias("share"),
            _rounded(F.when(hours > 0, F.col("count") / hours)).alias("per_hour"),
            "first_seen",
            "last_seen",
            *_names("attempts"),
            "wasted_attempts",
            _rounded(F.col("micros") / 1_000_000).alias("wasted_seconds"),
        )
        .orderBy(F.desc("count"), "queue", "fingerprint", "reason")
    )


def queue_report(history: DataFrame, metrics: DataFrame) -> DataFrame:
    """The state of queues: how messages ended, by the outcome history, and the counts of now.

    Args:
        history: rows of the view `history`.
        metrics: rows of the view `metrics`; a queue without a history has only these.

    Returns:
        queue string,
        succeeded, redelivered, died, expired bigint: events of the history; died counts dead letters, and
            messages that a queue without dead letters discarded immediately,
        redelivery_ratio double: of all settled deliveries, 0 to 1; null if there were none,
        expiry_ratio double: of all messages that ended, 0 to 1; null if there were none,
        success_ms_p50, success_ms_p95, success_ms_p99 double: from the sending of a message to its ack,
        waiting bigint: now ready or scheduled,
        leased, dead, expired_now bigint: now.
    """
    outcomes = history.groupBy("queue").agg(
        F.count_if(F.col("event") == SUCCEEDED).alias("succeeded"),
        F.count_if(F.col("event") == REDELIVERED).alias("redelivered"),
        F.count_if(died()).alias("died"),
        F.count_if(F.col("event") == EXPIRED).alias("expired"),
        *_percentiles(F.when(F.col("event") == SUCCEEDED, F.col("age_ms")), "success_ms"),
    )
    now = metrics.select(
        "queue",
        (F.col("ready") + F.col("scheduled")).alias("waiting"),
        "leased",
        "dead",
        F.col("expired").alias("expired_now"),
    )
    settled = F.col("succeeded") + F.col("redelivered") + F.col("died")
    ended = F.col("succeeded") + F.col("died") + F.col("expired")
    counts = ("succeeded", "redelivered", "died", "expired")
    return (
        outcomes.join(now, "queue", "full")
        .select(
            "queue",
            *(F.coalesce(name, F.lit(0)).alias(name) for name in counts),
            _share("redelivered", settled).alias("redelivery_ratio"),
            _share("expired", ended).alias("expiry_ratio"),
            *_names("success_ms"),
            "waiting",
            "leased",
            "dead",
            "expired_now",
        )
        .orderBy("queue")
    )


def collision_report(history: DataFrame) -> DataFrame:
    """How many redeliveries of a queue collide; the more its policy spreads them, the fewer.

    Time is divided into slots of 100 ms. A redelivery collides if another one of its queue falls due
    (at + delay_ms) in the same slot.

    Args:
        history: rows of the view `history`.

    Returns:
        queue string,
        redeliveries bigint, colliding bigint,
        score double: the part of the redeliveries that collides, 0 (none) to 1,
        largest bigint: redeliveries in the fullest slot,
        largest_at timestamp: when the first of the fullest slots begins.
    """
    slot = F.floor((F.unix_millis("at") + F.col("delay_ms")) / SLOT)
    slots = (
        history.where(F.col("event") == REDELIVERED)
        .groupBy("queue", slot.alias("slot"))
        .agg(F.count("*").alias("size"))
    )
    colliding = F.sum(F.when(F.col("size") > 1, F.col("size")).otherwise(0))
    fullest = F.max_by("slot", F.struct("size", -F.col("slot")))
    return (
        slots.groupBy("queue")
        .agg(
            F.sum("size").alias("redeliveries"),
            colliding.alias("colliding"),
            _rounded(colliding / F.sum("size")).alias("score"),
            F.max("size").alias("largest"),
            F.timestamp_millis(fullest * SLOT).alias("largest_at"),
        )
        .orderBy("queue")
    )


def died() -> Column:
    """Whether an event is a death: the message became a dead letter, or was discarded immediately."""
    at_once = (F.col("event") == DISCARDED) & F.col("cause").isin(*FAILURES)
    return (F.col("event") == DIED) | F.coalesce(at_once, F.lit(False))  # noqa: FBT003


def _micros(later: str, earlier: str) -> Column:
    return F.unix_micros(later) - F.unix_micros(earlier)


def _share(part: str, whole: Column) -> Column:
    return _rounded(F.when(whole > 0, F.col(part) / whole))


def _rounded(value: Column) -> Column:
    return F.round(value, DIGITS)


def _percentiles(value: Column | str, name: str) -> Sequence[Column]:
    """Exact percentiles, interpolated between two neighbours."""
    return [
        _rounded(F.percentile(value, point / 100)).alias(column)
        for point, column in zip(POINTS, _names(name), strict=True)
    ]


def _names(name: str) -> Sequence[str]:
    return [f"{name}_p{point}" for point in POINTS]
