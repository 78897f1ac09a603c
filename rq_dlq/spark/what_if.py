"""What other policies would have done with the same failures.

The rule: the n-th delivery of a message ends as it did, whenever it comes. So a message that failed five
times and then succeeded is lost under a policy of three redeliveries. A message that died is tried again
under a policy with more redeliveries; how that would have ended is unknown. A redelivery waits
`policy.delay(n)`, without the spread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the usual name in Spark programs

from rq_dlq.spark.report import DIED, DIGITS, DISCARDED, EXPIRED, REDELIVERED, SUCCEEDED, died, event_order

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from rq_dlq.policy import RedeliveryPolicy

LOST_SHOWN = 10
ENDS = (SUCCEEDED, DIED, DISCARDED, EXPIRED, "purged", "moved")
"""Events after which a message of the same id is another one, or starts again."""
REDRIVEN = "redriven"
_TABLE = "place int, policy string, redeliveries bigint, allowed bigint, policy_wait_ms bigint"


def what_if(rows: DataFrame, policies: Mapping[str, RedeliveryPolicy]) -> DataFrame:
    """What these policies would have done with messages that succeeded or died. It runs a short job at once.

    Args:
        rows: an outcome history (rows of the view `history`), or dead letters with their history (rows of the
            view `dlq`), of which none succeeded.
        policies: by their name in the table. Their `fatal` has no effect here.

    Returns:
        policy string, queue string: in the order in which the policies are given,
        messages bigint: that succeeded or died; a redriven message counts once for each time,
        succeeded bigint, died bigint: how many of these really did,
        lost bigint: messages that succeeded and would have died,
        lost_ids array<string>: at most ten of them,
        undecided bigint: messages that died exhausted and would have been tried again,
        attempts bigint: the real deliveries,
        attempts_spared bigint: deliveries that would not have happened,
        wait_seconds double: the real waits of all redeliveries together,
        policy_wait_seconds double: under the policy; undecided messages wait no longer than they did.
    """
    lives = _lives_of_letters(rows) if "history" in rows.columns else _lives_of_events(rows)
    most: int = lives.agg(F.coalesce(F.max("redeliveries"), F.lit(0))).collect()[0][0]
    table = [
        (place, name, *row)
        for place, (name, policy) in enumerate(policies.items())
        for row in _waits(policy, most)
    ]
    judged = lives.join(F.broadcast(rows.sparkSession.createDataFrame(table, _TABLE)), "redeliveries")
    succeeded, dead = F.col("outcome") == SUCCEEDED, F.col("outcome") == DIED
    lost = succeeded & (F.col("allowed") < F.col("redeliveries"))
    undecided = dead & F.col("reason").eqNullSafe("exhausted") & (F.col("allowed") > F.col("redeliveries"))
    kept = F.least("redeliveries", "allowed")
    lost_ids = F.array_sort(F.collect_set(F.when(lost, F.col("id"))))
    return (
        judged.groupBy("place", "policy", "queue")
        .agg(
            F.count("*").alias("messages"),
            F.count_if(succeeded).alias("succeeded"),
            F.count_if(dead).alias("died"),
            F.count_if(lost).alias("lost"),
            F.slice(lost_ids, 1, LOST_SHOWN).alias("lost_ids"),
            F.count_if(undecided).alias("undecided"),
            F.sum(F.col("redeliveries") + 1).alias("attempts"),
            F.sum(F.col("redeliveries") - kept).alias("attempts_spared"),
            _seconds("wait_ms").alias("wait_seconds"),
            _seconds("policy_wait_ms").alias("policy_wait_seconds"),
        )
        .orderBy("queue", "place")
        .drop("place")
    )


def _lives_of_events(history: DataFrame) -> DataFrame:
    """One row for each time that a message succeeded or died."""
    story = Window.partitionBy("queue", "id").orderBy("order")
    before = story.rowsBetween(Window.unboundedPreceding, -1)
    ends = F.col("event").isin(*ENDS)
    redelivered = F.col("event") == REDELIVERED
    return (
        history.withColumn("order", event_order("event_id"))
        .withColumn("life", F.count_if(ends).over(before))
        .groupBy("queue", "id", "life")
        .agg(
            F.max_by(F.when(died(), DIED).otherwise(F.col("event")), "order").alias("outcome"),
            F.max_by("reason", "order").alias("reason"),
            F.count_if(redelivered).alias("redeliveries"),
            F.sum(F.when(redelivered, F.col("delay_ms")).otherwise(0)).alias("wait_ms"),
        )
        .where(F.col("outcome").isin(SUCCEEDED, DIED))
        .drop("life")
    )


def _lives_of_letters(dlq: DataFrame) -> DataFrame:
    """The same for dead letters: their history since the last redrive."""

    def since_redriven(add: Column, so_far: Column, event: Column) -> Column:
        return F.when(event["cause"] == REDRIVEN, 0).otherwise(so_far + add)

    failures = F.aggregate("history", F.lit(0), lambda n, event: since_redriven(F.lit(1), n, event))
    waits = F.aggregate(
        "history",
        F.lit(0).cast("bigint"),
        lambda ms, event: since_redriven(F.coalesce(event["delay_ms"], F.lit(0)), ms, event),
    )
    return dlq.where(F.col("reason") != "expired").select(
        "queue",
        "id",
        F.lit(DIED).alias("outcome"),
        "reason",
        F.greatest(failures - 1, F.lit(0)).cast("bigint").alias("redeliveries"),  # the last one was the death
        waits.alias("wait_ms"),
    )


def _waits(policy: RedeliveryPolicy, longest: int) -> Iterator[tuple[int, int, int]]:
    """For each number of redeliveries: how many the policy allows, up to one more, and how long they wait."""
    limit = policy.max_redeliveries
    total, wait = 0, None
    for n in range(longest + 1):
        if n and (limit is None or n <= limit):
            wait = policy.delay_ms(n, 0.0, wait)
            total += wait
        yield n, n + 1 if limit is None else min(limit, n + 1), total


def _seconds(milliseconds: str) -> Column:
    return F.round(F.sum(milliseconds) / 1_000, DIGITS)
