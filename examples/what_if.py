"""The outcomes of other policies for the same failures. `12_spark_archive.py` shows them.

The rule: the n-th delivery of a message ends as it did, whenever it comes. So a message that failed five
times and then succeeded is lost under a policy of three redeliveries. One that died is tried again under a
policy of more; how those tries would have ended is unknown. A redelivery waits `policy.delay(n, r=0)`.
"""

from collections.abc import Iterator, Mapping

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rq_dlq import RedeliveryPolicy

DIED = "event = 'dead' or (event = 'discarded' and cause in ('nacked', 'lapsed', 'poisoned'))"
ENDS = "event in ('acked', 'dead', 'discarded', 'expired', 'purged', 'moved')"
TABLE = "place int, policy string, redeliveries bigint, allowed bigint, policy_wait double"
SUMS = (
    "count(*) messages",
    "count_if(outcome = 'acked') succeeded",
    "count_if(outcome = 'dead') died",
    "count_if(lost) lost",  # they succeeded, and would have died
    "slice(array_sort(collect_set(if(lost, id, null))), 1, 10) lost_ids",
    "count_if(outcome = 'dead' and reason <=> 'exhausted' and allowed > redeliveries) undecided",
    "sum(redeliveries + 1) attempts",
    "sum(redeliveries - least(redeliveries, allowed)) attempts_spared",
    "round(sum(wait_ms) / 1000, 3) wait_seconds",
    "round(sum(policy_wait), 3) policy_wait_seconds",
)


def what_if(history: DataFrame, policies: Mapping[str, RedeliveryPolicy]) -> DataFrame:
    """One row for each queue and policy, from an outcome history (rows of the view `history`)."""
    lives = lives_of(history)
    most = lives.agg(F.max("redeliveries")).collect()[0][0] or 0
    rows = [
        (place, name, *row)
        for place, (name, policy) in enumerate(policies.items())
        for row in waits(policy, most)
    ]
    table = F.broadcast(history.sparkSession.createDataFrame(rows, TABLE))
    judged = lives.join(table, "redeliveries").withColumn(
        "lost", F.expr("outcome = 'acked' and allowed < redeliveries")
    )
    sums = judged.groupBy("queue", "place", "policy").agg(*map(F.expr, SUMS))
    return sums.orderBy("queue", "place").drop("place")


def lives_of(history: DataFrame) -> DataFrame:
    """One row for each time that a message succeeded or died: a redriven one lives again."""
    before = Window.partitionBy("queue", "id").orderBy("order").rowsBetween(Window.unboundedPreceding, -1)
    lives = (
        history.withColumn("order", F.split("event_id", "-").cast("array<bigint>"))
        .withColumn("life", F.count_if(F.expr(ENDS)).over(before))
        .groupBy("queue", "id", "life")
        .agg(
            F.expr(f"max_by(if({DIED}, 'dead', event), order) outcome"),
            F.expr("max_by(reason, order) reason"),
            F.expr("count_if(event = 'redelivered') redeliveries"),
            F.expr("sum(if(event = 'redelivered', delay_ms, 0)) wait_ms"),
        )
    )
    return lives.where("outcome in ('acked', 'dead')")


def waits(policy: RedeliveryPolicy, most: int) -> Iterator[tuple[int, int, float]]:
    """For each number of redeliveries: how many the policy allows, up to one more, and how long they wait."""
    limit = policy.max_redeliveries
    for n in range(most + 1):
        allowed = n + 1 if limit is None else min(limit, n + 1)
        yield n, allowed, sum((policy.delay(i, r=0) for i in range(1, min(n, allowed) + 1)), 0.0)
