"""Reports on dead letters and the outcome history: from DataFrames to DataFrames.

The same rows always give the same tables: percentiles are exact, numbers rounded, rows sorted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
    # The total is collected with the groups, so that the dead letters are read only once.
    text = """
        WITH kinds AS (
            SELECT queue, fingerprint, reason,
                max_by(struct(error_class, error_message, id AS sample_id), struct(dead_at, id)) AS newest,
                count(*) AS count, min(dead_at) AS first_seen, max(dead_at) AS last_seen,
                round(percentile(attempt, 0.50), 3) AS attempts_p50,
                round(percentile(attempt, 0.95), 3) AS attempts_p95,
                round(percentile(attempt, 0.99), 3) AS attempts_p99,
                sum(attempt) AS wasted_attempts,
                round(sum(unix_micros(dead_at) - unix_micros(enqueued_at)) / 1000000, 3) AS wasted_seconds,
                (unix_micros(last_seen) - unix_micros(first_seen)) / 3600000000 AS hours
            FROM {dlq} GROUP BY queue, fingerprint, reason
        ), whole AS (SELECT sum(count) AS total, collect_list(struct(*)) AS kinds FROM kinds)
        SELECT queue, fingerprint, reason, newest.*, count, round(count / total, 3) AS share,
            round(try_divide(count, hours), 3) AS per_hour, first_seen, last_seen,
            attempts_p50, attempts_p95, attempts_p99, wasted_attempts, wasted_seconds
        FROM (SELECT total, inline(kinds) FROM whole)
        ORDER BY count DESC, queue, fingerprint, reason
    """
    return dlq.sparkSession.sql(text, dlq=dlq)


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
    text = """
        WITH outcomes AS (
            SELECT queue,
                count_if(event = 'acked') AS succeeded, count_if(event = 'redelivered') AS redelivered,
                count_if(event = 'dead' OR (event = 'discarded'
                    AND cause IN ('nacked', 'lapsed', 'passed_on', 'poisoned'))) AS died,
                count_if(event = 'expired') AS expired,
                round(percentile(age_ms, 0.50) FILTER (WHERE event = 'acked'), 3) AS success_ms_p50,
                round(percentile(age_ms, 0.95) FILTER (WHERE event = 'acked'), 3) AS success_ms_p95,
                round(percentile(age_ms, 0.99) FILTER (WHERE event = 'acked'), 3) AS success_ms_p99
            FROM {history} GROUP BY queue
        ), now AS (
            SELECT queue, ready + scheduled AS waiting, leased, dead, expired AS expired_now FROM {metrics}
        )
        SELECT queue, coalesce(succeeded, 0) AS succeeded, coalesce(redelivered, 0) AS redelivered,
            coalesce(died, 0) AS died, coalesce(expired, 0) AS expired,
            round(try_divide(redelivered, succeeded + redelivered + died), 3) AS redelivery_ratio,
            round(try_divide(expired, succeeded + died + expired), 3) AS expiry_ratio,
            success_ms_p50, success_ms_p95, success_ms_p99, waiting, leased, dead, expired_now
        FROM outcomes FULL JOIN now USING (queue) ORDER BY queue
    """
    return history.sparkSession.sql(text, history=history, metrics=metrics)


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
    text = """
        WITH slots AS (
            SELECT queue, floor((unix_millis(at) + delay_ms) / 100) AS slot, count(*) AS size
            FROM {history} WHERE event = 'redelivered' GROUP BY ALL
        )
        SELECT queue, sum(size) AS redeliveries, sum(IF(size > 1, size, 0)) AS colliding,
            round(colliding / redeliveries, 3) AS score, max(size) AS largest,
            timestamp_millis(max_by(slot, struct(size, -slot)) * 100) AS largest_at
        FROM slots GROUP BY queue ORDER BY queue
    """
    return history.sparkSession.sql(text, history=history)
