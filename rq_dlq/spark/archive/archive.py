"""A run of the archive: add the new events, read them back, trim, write the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as in most Spark programs

from rq_dlq.client.broker import Broker
from rq_dlq.core.looking import calls as looking_calls
from rq_dlq.errors import InvalidInput
from rq_dlq.spark.archive.place import Manifest, folder_of, held
from rq_dlq.spark.archive.store import EVENTS, FORMATS, LETTERS, Store, add, persisted, store_at
from rq_dlq.spark.brokers import USUAL_NAMESPACE, broker_at, resolve
from rq_dlq.spark.option_values import queue_names, queue_text
from rq_dlq.spark.queues import all_chosen
from rq_dlq.values.durations import shown
from rq_dlq.values.outcome import milliseconds_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_BEGINNING = "0-0"  # before each event


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
        source = ArchiveSource.of(self.spark, self.url, self.namespace, queue)
        own = Manifest(url=source.broker.url, namespace=self.namespace, format=self.format)
        with held(self.folder):
            before, store = own.newest(self.spark, self.folder), self._store
            last = {name: before.last_events.get(name, _BEGINNING) for name in source.names}
            with persisted(source.events_after(last)) as events:
                added = add(store, EVENTS, events)
                newest = F.max_by("event_id", _order("event_id")).alias("last")
                last |= {row.queue: row.last for row in events.groupBy("queue").agg(newest).collect()}
            with persisted(source.read("dlq")) as dead:
                letters = add(store, LETTERS, dead)
            trimmed = source.trim(last) if trim else 0
            before.write_next(self.spark, self.folder, last)
        return Archived(queues=source.names, events=added, dead_letters=letters, trimmed=trimmed)

    @property
    def _store(self) -> Store:
        return store_at(self.spark, self.folder, self.format)


@dataclass(frozen=True, slots=True)
class ArchiveSource:
    """The queues of a run.

    Attributes:
        url: of Redis, with its password; never shown.
        names: of the queues, sorted.
    """

    spark: SparkSession
    url: str = field(repr=False)
    namespace: str
    names: tuple[str, ...]

    @classmethod
    def of(cls, spark: SparkSession, url: str | None, namespace: str, queue: str) -> ArchiveSource:
        """Find the queues.

        Raises:
            InvalidInput: there is no such queue.
            BrokerUnavailable: Redis cannot be reached.
        """
        address = resolve(url)
        with Broker(address, namespace=namespace) as broker:  # gives up sooner than those of tasks
            names = tuple(sorted(all_chosen(broker.queues(), queue_names("queue", queue), 0)))
        return cls(spark, address, namespace, names)

    @property
    def broker(self) -> Broker:
        """The broker of this process."""
        return broker_at(self.url, self.namespace)

    def read(self, view: str, **options: str) -> DataFrame:
        """A view of these queues."""
        place = {"url": self.url, "namespace": self.namespace, "queue": queue_text(self.names)}
        return self.spark.read.format("rq_dlq").options(**place, view=view, **options).load()

    def events_after(self, last_events: Mapping[str, str]) -> DataFrame:
        """The events after these, by queue."""
        since = min(map(milliseconds_of, last_events.values()))
        last = self.spark.createDataFrame([*last_events.items()], "queue string, last string")
        events = self.read("history", since=str(since)).join(F.broadcast(last), "queue")
        return events.where(_order("event_id") > _order("last"))

    def trim(self, last_events: Mapping[str, str]) -> int:
        """Drop the events up to these, by queue, from Redis; returns how many."""
        trimmed = 0
        for name, last in last_events.items():
            keys = self.broker.queue(name)._core.keys
            trimmed += self.broker._run(self.broker._step(looking_calls.trim(keys, through=last)))
        return trimmed


def _order(event_id: str) -> Column:
    """The sort key of events: the two numbers in their ids."""
    return F.split(event_id, "-").cast("array<bigint>")
