"""What dead letters and the outcome history tell, as tables: from DataFrames to DataFrames.

The same rows give the same tables: percentiles are exact, figures rounded, rows sorted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody who uses Spark writes it

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

SLOT = 100
"""Milliseconds within which redeliveries are a crowd, as in `RedeliveryPolicy.simulate`."""
POINTS = (50, 95, 99)
DIGITS = 3
DIED, DISCARDED, SUCCEEDED, REDELIVERED, EXPIRED = "dead", "discarded", "acked", "redelivered", "expired"
FAILURES = ("nacked", "lapsed", "poisoned")


def poison_report(dlq: DataFrame) -> DataFrame:
    """Dead letters by kind of failure, the largest kind first.

    Args:
        dlq: as view `dlq` gives them; needed are id, queue, enqueued_at, delivery_count, dead_at, reason,
            error_class, error_message and fingerprint.

    Returns:
        queue string, fingerprint string, reason string,
        error_class string, error_message string, sample_id string: of the newest one,
        count bigint,
        share double: of all dead letters that were given, 0 to 1,
        per_hour double: between the first and the last; null where they died at the same moment,
        first_seen timestamp, last_seen timestamp,
        attempts_p50, attempts_p95, attempts_p99 double: deliveries of one message,
        wasted_attempts bigint: deliveries of all of them,
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
        *_percentiles("delivery_count", "attempts"),
        F.sum("delivery_count").alias("wasted_attempts"),
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
    """How the queues fared: what ended how, by the outcome history, and what is there now.

    Args:
        history: as view `history` gives it.
        metrics: as view `metrics` gives it; a queue that keeps no history has only this.

    Returns:
        queue string,
        succeeded, redelivered, died, expired bigint: events of the history; died are the dead letters, and
            those that a queue without dead letters discarded at once,
        redelivery_ratio double: of the deliveries that were settled, 0 to 1; null where there were none,
        expiry_ratio double: of the messages that came to an end, 0 to 1; null where there were none,
        success_ms_p50, success_ms_p95, success_ms_p99 double: from when it was sent until its ack,
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
    """How many redeliveries of a queue come back in a crowd; the more its policy spreads them, the fewer.

    Time is cut into slots of 100 ms. A redelivery that falls due (at + delay_ms) in the same slot as another
    one of its queue collides.

    Args:
        history: as view `history` gives it.

    Returns:
        queue string,
        redeliveries bigint, colliding bigint,
        score double: the part of the redeliveries that collide, 0 (none) to 1,
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


def event_order(event_id: str) -> Column:
    """What events are sorted by: the two numbers that their ids are made of."""
    return F.split(event_id, "-").cast("array<bigint>")


def died() -> Column:
    """Whether an event is a death: to be kept as a dead letter, or discarded at once."""
    at_once = (F.col("event") == DISCARDED) & F.col("cause").isin(*FAILURES)
    return (F.col("event") == DIED) | F.coalesce(at_once, F.lit(False))  # noqa: FBT003


def _micros(later: str, earlier: str) -> Column:
    return F.unix_micros(later) - F.unix_micros(earlier)


def _share(part: str, whole: Column) -> Column:
    return _rounded(F.when(whole > 0, F.col(part) / whole))


def _rounded(value: Column) -> Column:
    return F.round(value, DIGITS)


def _percentiles(value: Column | str, name: str) -> Sequence[Column]:
    """Exact ones, that is between two neighbours where the point falls between them."""
    return [
        _rounded(F.percentile(value, point / 100)).alias(column)
        for point, column in zip(POINTS, _names(name), strict=True)
    ]


def _names(name: str) -> Sequence[str]:
    return [f"{name}_p{point}" for point in POINTS]
