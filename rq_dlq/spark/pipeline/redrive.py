"""Redrives dead letters by rules: makes a plan, and carries it out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as in most Spark programs

from rq_dlq.spark.pace import Pace
from rq_dlq.spark.pipeline import ledger
from rq_dlq.spark.pipeline.ledger import QUARANTINE, REDRIVE, Line

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from rq_dlq.client.broker import Broker
    from rq_dlq.spark.pipeline.rules import Rule
    from rq_dlq.spark.pipeline.stages import Stage

CHUNK: Final = 250
QUARANTINED: Final = "quarantined"
"""Quarantined by an earlier run."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the rules do with the present dead letters.

    Attributes:
        lines: redrive or quarantine, by rule and queue, the oldest death first.
        quarantined: how many earlier runs quarantined, by rule.
    """

    lines: Sequence[Line]
    quarantined: dict[str, int] = field(default_factory=dict[str, int])

    def count(self, action: str, rule: str | None = None) -> int:
        """The number of messages with an action, of one rule or of all."""
        return sum(line.action == action and rule in {None, line.rule} for line in self.lines)


def plan(letters: DataFrame, rules: Sequence[Rule], folder: Path, run: int) -> Plan:
    """Plan what to do with dead letters, which are rows of the view `dlq`."""
    names = [rule.name for rule in rules]
    number = F.coalesce(*(F.when(rule.fits(), F.lit(n)) for n, rule in enumerate(rules)))
    limits = F.array(*(F.lit(rule.max_redriven) for rule in rules))
    spent = F.greatest(F.size(F.array_remove("deaths", F.col("dead_at"))), _redriven_before())
    action = (
        F.when(F.col("quarantined"), QUARANTINED)
        .when(spent >= limits[F.col("rule")], QUARANTINE)
        .otherwise(REDRIVE)
    )
    decided = (
        letters.withColumn("rule", number)
        .where(F.col("rule").isNotNull() & F.col("dead_at").isNotNull())
        .join(ledger.read(letters.sparkSession, folder), ["queue", "id"], "left")
        .withColumn("deaths", F.coalesce("deaths", F.array().cast("array<timestamp>")))
        .select("rule", "queue", "id", F.unix_micros("dead_at").alias("dead_at"), action.alias("action"))
        .orderBy("rule", "queue", "dead_at", "id")
    )
    lines: list[Line] = []
    quarantined = dict.fromkeys(names, 0)
    for row in decided.toLocalIterator():
        rule = names[row["rule"]]
        if row["action"] == QUARANTINED:
            quarantined[rule] += 1
        else:
            died = datetime.fromtimestamp(row["dead_at"] / 1_000_000, UTC)  # Spark collects microseconds
            lines.append(Line(row["action"], rule, row["queue"], row["id"], died, run))
    return Plan(lines, quarantined)


def carry_out(plan: Plan, rules: Sequence[Rule], broker: Broker, folder: Path, stage: Stage) -> int:
    """Carry out a plan; returns how many messages came back. Messages no longer dead are left alone."""
    ledger.append(folder, (line for line in plan.lines if line.action == QUARANTINE))
    lines = [line for line in plan.lines if line.action == REDRIVE]
    stage.expect(len(lines))
    rates = {rule.name: rule.rate for rule in rules}
    redriven = 0
    for (rule, queue), group in groupby(lines, attrgetter("rule", "queue")):
        pace = Pace(rates[rule] or 0, CHUNK)
        while chunk := list(islice(group, pace.chunk)):
            ledger.append(folder, chunk)
            redriven += broker.queue(queue).dlq.select(ids=[line.id for line in chunk]).redrive()
            stage.advance(len(chunk))
            pace.note(len(chunk))
    return redriven


def _redriven_before() -> Column:
    """How often a message was redriven at all, as far as its bounded history shows."""
    events = F.filter("history", lambda event: event["cause"] == "redriven")
    return F.coalesce(F.size(events), F.lit(0))
