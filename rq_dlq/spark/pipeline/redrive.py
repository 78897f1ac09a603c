"""Redrives dead letters by rules: makes a plan, and carries it out.

A message itself knows how often it was redriven, so a run that was cut off is simply run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - as in most Spark programs

from rq_dlq.spark.rate_limit import RateLimit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rq_dlq.client.broker import Broker
    from rq_dlq.spark.pipeline.rules import Rule

CHUNK: Final = 250


class Redrive(NamedTuple):
    """A dead letter that comes back by a rule."""

    rule: str
    queue: str
    id: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What the rules do with the present dead letters.

    Attributes:
        redrives: by rule and queue, the oldest death first.
        quarantined: how many stay dead, since they were redriven often enough, by rule.
    """

    redrives: Sequence[Redrive]
    quarantined: dict[str, int] = field(default_factory=dict[str, int])


def plan(letters: DataFrame, rules: Sequence[Rule]) -> Plan:
    """Plan what to do with dead letters, which are rows of the view `dlq`."""
    names = [rule.name for rule in rules]
    number = F.coalesce(*(F.when(rule.fits(), F.lit(n)) for n, rule in enumerate(rules)))
    limits = F.array(*(F.lit(rule.max_redriven) for rule in rules))
    decided = (
        letters.withColumn("rule", number)
        .where(F.col("rule").isNotNull() & F.col("dead_at").isNotNull())
        .withColumn("spent", F.col("redrive_count") >= limits[F.col("rule")])
        .orderBy("rule", "queue", "dead_at", "id")
        .select("rule", "queue", "id", "spent")
    )
    redrives: list[Redrive] = []
    quarantined = dict.fromkeys(names, 0)
    for row in decided.toLocalIterator():
        rule = names[row["rule"]]
        if row["spent"]:
            quarantined[rule] += 1
        else:
            redrives.append(Redrive(rule, row["queue"], row["id"]))
    return Plan(redrives, quarantined)


def carry_out(plan: Plan, rules: Sequence[Rule], broker: Broker) -> int:
    """Carry out a plan; returns how many messages came back. Messages no longer dead are left alone."""
    rates = {rule.name: rule.rate for rule in rules}
    redriven = 0
    for (rule, queue), group in groupby(plan.redrives, attrgetter("rule", "queue")):
        pace = RateLimit(rates[rule] or 0, CHUNK)
        while chunk := list(islice(group, pace.chunk)):
            redriven += broker.queue(queue).dlq.select(ids=[one.id for one in chunk]).redrive()
            pace.note(len(chunk))
    return redriven
