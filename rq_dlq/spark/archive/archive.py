"""A run of the archive: add the new events, read them back, trim, write the manifest."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as in most Spark programs

from rq_dlq.errors import InvalidInput
from rq_dlq.spark.archive.folder import folder_of, held
from rq_dlq.spark.archive.manifest import Manifest
from rq_dlq.spark.archive.source import Source
from rq_dlq.spark.archive.store import EVENTS, FORMATS, LETTERS, Store, add, persisted, store_at
from rq_dlq.spark.brokers import USUAL_NAMESPACE
from rq_dlq.values.durations import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

_BEGINNING = "0-0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """The result of a run.

    Attributes:
        queues: their names, sorted.
        events: new events of the outcome history in the archive.
        dead_letters: new dead letters in the archive.
        trimmed: events dropped from Redis.
    """

    queues: tuple[str, ...]
    events: int
    dead_letters: int
    trimmed: int


@dataclass(frozen=True, slots=True)
class Archive:
    """Outcome histories and dead letters, kept by queue and day beyond what Redis keeps.

    Attributes:
        out: its location: a URL of any file system that Spark can write to, or a directory that the driver
            and all executors can reach by this name.
        format: parquet or delta.
        url: the URL of Redis; None: $RQ_DLQ_URL, or the embedded server if that is unset.
        namespace: the prefix of all keys.

    Raises:
        InvalidInput: the format is another one, or `out` is a URL that became a path.
    """

    spark: SparkSession
    out: str | Path
    _: KW_ONLY
    format: str = "parquet"
    url: str | None = field(default=None, repr=False)
    namespace: str = USUAL_NAMESPACE

    def __post_init__(self) -> None:
        """Check the values."""
        if self.format not in FORMATS:
            raise InvalidInput(f"format is {shown(self.format)}. Pass one of {', '.join(FORMATS)}")
        folder_of(self.out)

    @property
    def folder(self) -> str:
        """The URL of `out`."""
        return folder_of(self.out)

    @property
    def history(self) -> DataFrame:
        """All archived events: the columns of the view `history`, and `date`, the day in UTC.

        Raises:
            ConfigurationError: as for `add`.
        """
        return self._store.read(EVENTS)

    @property
    def dead_letters(self) -> DataFrame:
        """All archived dead letters: the columns of the view `dlq`, and `date`, the day in UTC.

        Raises:
            ConfigurationError: as for `add`.
        """
        return self._store.read(LETTERS)

    def add(self, queue: str, *, trim: bool = False) -> Archived:
        """Archive new events and dead letters. After an interruption, repeat it: no row is added twice.

        Another run in the same place is only detected in a local directory.

        Args:
            queue: a name, several separated by commas or as a JSON array, or patterns with `*`.
            trim: drop the archived events from Redis, once they are read back.

        Returns:
            The counts of new rows.

        Raises:
            InvalidInput: there is no such queue; or the directory cannot be written, is in use, or has the
                archive of another server, namespace or format.
            ConfigurationError: the format is delta, and no installed package can write it.
            BrokerUnavailable: Redis cannot be reached.
            RqDlqError: the archive lacks written rows; nothing was trimmed.
        """
        source = Source.of(self.spark, self.url, self.namespace, queue)
        place = {"url": source.broker.url, "namespace": self.namespace, "form": self.format}
        with held(self.folder):
            before = Manifest.read(self.spark, self.folder, **place)
            store = self._store
            known = {name: before.last_events[name] for name in source.names if name in before.last_events}
            with persisted(_after(known, source)) as events:
                added = add(store, EVENTS, events)
                latest = F.max_by("event_id", event_order("event_id")).alias("last")
                last = known | {row.queue: row.last for row in events.groupBy("queue").agg(latest).collect()}
            with persisted(source.read("dlq")) as dead:
                letters = add(store, LETTERS, dead)
            trimmed = source.trim(last) if trim else 0
            before.after(last).write(self.spark, self.folder)
        return Archived(queues=source.names, events=added, dead_letters=letters, trimmed=trimmed)

    @property
    def _store(self) -> Store:
        return store_at(self.spark, self.folder, self.format)


def _after(known: Mapping[str, str], source: Source) -> DataFrame:
    """The events after these, by queue."""
    rows = [(name, known.get(name, _BEGINNING)) for name in source.names]
    since = min(int(last.partition("-")[0]) for _, last in rows)
    last = F.broadcast(source.spark.createDataFrame(rows, "queue string, last string"))
    events = source.read("history", since=str(since)).join(last, "queue")
    new = events.where(event_order("event_id") > event_order("last"))
    return new.select(*EVENTS.columns.names)


def event_order(event_id: str) -> Column:
    """The sort key of events: the two numbers in their ids."""
    return F.split(event_id, "-").cast("array<bigint>")
