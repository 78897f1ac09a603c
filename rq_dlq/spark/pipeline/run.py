"""The steps of a run: archive, trim, report, write the manifest, redrive."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from pyspark.sql import functions as F  # noqa: N812 - as in most Spark programs

from rq_dlq.core.looking import calls as looking_calls
from rq_dlq.spark import register
from rq_dlq.spark.pipeline import archive, redrive, tables
from rq_dlq.spark.pipeline.archive import EVENTS, LETTERS, persisted
from rq_dlq.spark.pipeline.manifest import Manifest, held
from rq_dlq.spark.pipeline.redrive import Plan
from rq_dlq.spark.pipeline.source import Source
from rq_dlq.spark.report import collision_report, event_order, queue_report
from rq_dlq.spark.what_if import what_if

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rq_dlq.spark.pipeline.archive import Store
    from rq_dlq.spark.pipeline.manifest import Kind
    from rq_dlq.spark.pipeline.settings import PipelineSettings
    from rq_dlq.spark.pipeline.tables import Rows

_BEGINNING = "0-0"
OFF = "; a queue keeps events only if its setting outcomes is set"
Tell: TypeAlias = "Callable[[str, str], None]"
"""Is told each step of a run, and its result."""


def silent(step: str, result: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a run did.

    Attributes:
        run: its number, 1 for the first into this directory.
        queues: that it read.
        events, letters: new in the archive.
        trimmed: events dropped from Redis.
        new_kinds: kinds of failure that no earlier run saw.
        tables: the rows of the Parquet files, by name.
        plan: what the rules decide.
        redriven: messages that came back; 0 without `apply`.
    """

    run: int
    queues: tuple[str, ...]
    events: int
    letters: int
    trimmed: int
    new_kinds: tuple[Kind, ...]
    tables: Mapping[str, Rows]
    plan: Plan = field(default_factory=lambda: Plan([]))
    redriven: int = 0


def run(spark: SparkSession, settings: PipelineSettings, tell: Tell = silent) -> Summary:
    """Do one run. After an interruption, run it again.

    It archives no event twice, and trims only archived events. Only in a local directory does it notice that
    another run uses it.

    Args:
        tell: is told each step that is done, and its result.

    Returns:
        What the run did.

    Raises:
        InvalidInput: there is no such queue; or the directory cannot be written, is in use, or has the
            archive of another server, namespace or format.
        ConfigurationError: the format is delta, and nothing installed can write it.
        BrokerUnavailable: Redis cannot be reached.
        RqDlqError: the archive does not have what was written.
    """
    register(spark)
    source = Source.of(spark, settings)
    with held(settings.folder), _utc(spark):
        return _Run(source, settings, tell).whole()


class _Run:
    """One run."""

    def __init__(self, source: Source, settings: PipelineSettings, tell: Tell) -> None:
        self.source, self.settings, self.tell = source, settings, tell
        self.broker = source.broker
        place = {"url": self.broker.url, "namespace": settings.namespace, "form": settings.format}
        self.before = Manifest.read(source.spark, settings.folder, **place)
        self.number = self.before.runs + 1
        self.store: Store = archive.store_at(source.spark, settings.folder, settings.format)

    def whole(self) -> Summary:
        """All steps."""
        settings = self.settings
        with persisted(self.source.read("dlq")) as dead:
            events, last_events = self.archive_events()
            letters = self.archive_letters(dead)
            trimmed = self.trim(last_events) if settings.trim else 0
            made = self.report(dead)
            first_runs = {tables.kind_of(row): row["first_run"] for row in made["poison"]}
            after = self.before.after(last_events, self.before.first_run() | first_runs)
            after.write(self.source.spark, settings.folder)
            plan, redriven = self.redrive(dead) if settings.rules else (Plan([]), 0)
        return Summary(
            run=self.number,
            queues=self.source.names,
            events=events,
            letters=letters,
            trimmed=trimmed,
            new_kinds=tuple(kind for kind, first in first_runs.items() if first == self.number),
            tables=made,
            plan=plan,
            redriven=redriven,
        )

    def archive_events(self) -> tuple[int, dict[str, str]]:
        """Archive the new events; returns how many, and the last archived event by queue."""
        with persisted(self._new_events()) as events:
            count = archive.add(self.store, EVENTS, events)
            latest = F.max_by("event_id", event_order("event_id")).alias("last")
            rows = events.groupBy("queue").agg(latest).collect()
        last = {row["queue"]: row["last"] for row in rows}
        none = not last and not self.before.last_events
        self.tell("archive the outcome history", f"{count:,} new events{OFF if none else ''}")
        return count, {**self._last_events(), **last}

    def archive_letters(self, dead: DataFrame) -> int:
        """Archive the new dead letters; returns how many."""
        count = archive.add(self.store, LETTERS, dead)
        self.tell("archive the dead letters", f"{count:,} new dead letters")
        return count

    def trim(self, last_events: Mapping[str, str]) -> int:
        """Drop the events that were read back from the archive from Redis; returns how many."""
        trimmed = 0
        for name, last in last_events.items():
            keys = self.broker.queue(name)._core.keys
            trimmed += self.broker._run(self.broker._step(looking_calls.trim(keys, through=last)))
        self.tell("trim the outcome history", f"{trimmed:,} events dropped from Redis")
        return trimmed

    def report(self, dead: DataFrame) -> dict[str, Rows]:
        """Make the tables. The same archive always gives the same tables."""
        events = self._wanted(self.store.read(EVENTS), "at")
        letters, dead = (self._wanted(rows, "dead_at") for rows in (self.store.read(LETTERS), dead))
        made = {
            "poison": tables.poison(letters, dead, self.before.first_run(), self.number),
            "queues": queue_report(events, self.source.read("metrics")),
            "collisions": collision_report(events),
            "what_if": what_if(events, self.settings.policies),
        }
        written = tables.write(made, self.settings.folder)
        self.tell("report", f"{len(made)} tables in {self.settings.folder}/{tables.FOLDER}")
        return written

    def redrive(self, dead: DataFrame) -> tuple[Plan, int]:
        """Redrive by the rules, or only report the plan; returns the plan and how many came back."""
        rules = self.settings.rules
        plan = redrive.plan(dead, rules)
        count, quarantined = len(plan.redrives), sum(plan.quarantined.values())
        if not self.settings.apply:
            self.tell("redrive by rules", f"{count:,} would come back, {quarantined:,} are quarantined")
            return plan, 0
        redriven = redrive.carry_out(plan, rules, self.broker)
        self.tell("redrive by rules", f"{redriven:,} came back, {quarantined:,} are quarantined")
        return plan, redriven

    def _last_events(self) -> dict[str, str]:
        """The last archived event by queue of this run, from the manifest."""
        known = self.before.last_events
        return {name: known[name] for name in self.source.names if name in known}

    def _new_events(self) -> DataFrame:
        """The events after those in the manifest."""
        known = self._last_events()
        rows = [(name, known.get(name, _BEGINNING)) for name in self.source.names]
        since = min(int(last.partition("-")[0]) for _, last in rows)
        last = F.broadcast(self.source.spark.createDataFrame(rows, "queue string, last string"))
        events = self.source.read("history", since=str(since)).join(last, "queue")
        new = events.where(event_order("event_id") > event_order("last"))
        return new.select(*EVENTS.columns.names)

    def _wanted(self, rows: DataFrame, at: str) -> DataFrame:
        """The rows of these queues, from `since` on."""
        chosen = rows.where(F.col("queue").isin(*self.source.names))
        since = self.settings.since
        return chosen if since is None else chosen.where(F.col(at) >= F.lit(since))


@contextmanager
def _utc(spark: SparkSession) -> Generator[None]:
    """Set the session's time zone to UTC meanwhile, for times as text and in files."""
    name = "spark.sql.session.timeZone"
    before = spark.conf.get(name)
    spark.conf.set(name, "UTC")
    try:
        yield
    finally:
        spark.conf.set(name, before or "UTC")
