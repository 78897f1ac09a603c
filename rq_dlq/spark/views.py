"""`spark.read.format("rq_dlq")`: the views of queues. It reads and changes nothing.

The driver plans: it finds the queues and divides their present content into shares, one for each task. A task
reads its share page by page, while consumers keep running.

Views are read by ranges of the index, only the parts that a column needs, and Arrow and numpy build columns,
not rows.

Filters of a query are not pushed down. Spark (4.3, where `spark.sql.python.filterPushdown.enabled` is set)
keeps the plan of a reader with the filters of one query, and reads by it in later queries of the same
DataFrame that have none, and on both sides of a union: `dead.where("id = 'x'")`, and then `dead.count()` is
1. `tests/spark/test_filters.py` shows it with a source of three lines, and fails when Spark is mended. So an
option narrows a read. A plan shows no options of a source in Python, only the name of its format.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from rq_dlq._keys import QueueKeys
from rq_dlq.client.broker import Broker
from rq_dlq.core.batches import batches
from rq_dlq.core.looking import outcomes
from rq_dlq.core.pages.plain import plain_pages
from rq_dlq.core.pages.ranges import Stretch, divide, leases, pages, pages_of, shares_of
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.spark.brokers import broker_at, resolve
from rq_dlq.spark.columns import MessageColumns, event_batch, metrics_batch
from rq_dlq.spark.errors import without_traceback
from rq_dlq.spark.options import shard_of
from rq_dlq.spark.partitions import EventRange, Slice, dealt, read_slices
from rq_dlq.spark.queues import all_chosen
from rq_dlq.spark.schemas import check_chosen, schema_of
from rq_dlq.values.outcome import milliseconds_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from rq_dlq.core.pages.calls import Index
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.spark.options import ReadOptions

INDEXES: dict[str, tuple[Index, ...]] = {
    "queue": ("ready", "scheduled"),
    "scheduled": ("scheduled",),
    "dlq": ("dead",),
    "expired": ("expired",),
}
SENT = ("queue", "leased")  # in these views since and until are about the time of sending


class ViewReader(DataSourceReader):
    """Reads a view. It is created beside the driver, and copies of it read in the executors.

    Raises:
        InvalidInput: a chosen column does not exist, or has another type.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check_chosen(schema, schema_of(options.view, options.history), options.view)
        self._options = options
        self._url = resolve(options.url)
        self._schema = schema

    @without_traceback
    def partitions(self) -> list[InputPartition]:
        """Find the queues, and divide their content.

        Raises:
            InvalidInput: the queue does not exist.
            BrokerUnavailable: Redis cannot be reached.
        """
        options = self._options
        with Broker(self._url, namespace=options.namespace) as broker:  # less patient than those of tasks
            families = all_chosen(broker.queues(), options.queues, options.shards)
            shares = broker._run(self._divide([QueueKeys(options.namespace, family) for family in families]))
        return [InputPartition(parts) for parts in shares if parts] or [InputPartition(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a share, in an executor."""
        return self._batches(broker_at(self._url, self._options.namespace), partition.value)

    def _divide(self, queues: Sequence[QueueKeys]) -> Steps[list[list[Any]]]:
        """The shares, each a list of parts."""
        raise NotImplementedError

    def _batches(self, broker: Broker, parts: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        """The rows of the parts of a share."""
        raise NotImplementedError


class MessageReader(ViewReader):
    """Reads waiting messages, by ranges of their indexes."""

    def _divide(self, queues: Sequence[QueueKeys]) -> Steps[list[list[Any]]]:
        options = self._options
        since, until = (None, None) if options.view == "queue" else (options.since, options.until)
        indexes = INDEXES[options.view]
        stretches = [Stretch(keys, index, since, until) for keys in queues for index in indexes]
        if options.ids:
            return [stretches]
        return (yield from divide(stretches, options.partitions, options.cores))

    def _columns(self) -> MessageColumns:
        options = self._options
        since, until = (options.since, options.until) if options.view in SENT else (None, None)
        return MessageColumns(
            self._schema, story=options.history, since=since, until=until, failure=options.failure
        )

    def _batches(self, broker: Broker, parts: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        columns = self._columns()
        read = plain_pages if self._options.view in {"queue", "scheduled"} else pages
        ids, wanted = self._options.ids, columns.wanted
        for part in parts:
            some = pages_of(part.keys, ids, place=part.index, wanted=wanted)
            looks = some if ids else read(part, limit=self._options.fetch_size, wanted=wanted)
            shard = shard_of(part.keys.family, self._options.shards)
            yield from columns.batches(map(broker._run, looks), part.keys.family, shard)


class LeasedReader(MessageReader):
    """Reads leased messages, claim by claim."""

    def _divide(self, queues: Sequence[QueueKeys]) -> Steps[list[list[Any]]]:
        found: list[Slice] = []
        for keys in queues:
            batch = self._options.batch
            tokens = batches.tokens_at(batch, keys.family) if batch else (yield from leases(keys))
            places = yield from batches.sizes_of(keys, tokens)
            shard = shard_of(keys.family, self._options.shards)
            found += (Slice(keys, shard, token, 0, n) for token, n in zip(tokens, places, strict=True) if n)
        total = sum(part.end for part in found)
        return dealt(found, shares_of(total, self._options.partitions, self._options.cores))

    def _batches(self, broker: Broker, parts: Sequence[Slice]) -> Iterator[pa.RecordBatch]:
        return read_slices(parts, broker, self._columns(), self._options.fetch_size)


class HistoryReader(ViewReader):
    """Reads the outcome histories, by ranges of time."""

    def _divide(self, queues: Sequence[QueueKeys]) -> Steps[list[list[EventRange]]]:
        extents: list[outcomes.Extent] = []
        for keys in queues:
            extents.append((yield from outcomes.extent(keys)))  # noqa: PERF401 - a step, for which no list waits
        total = sum(extent.count for extent in extents)
        wanted = shares_of(total, self._options.partitions, self._options.cores)
        found: list[EventRange] = []
        for keys, extent in zip(queues, extents, strict=True):
            if extent.first and extent.last:
                pieces = -(-extent.count * wanted // total)
                found += self._spans(keys, extent.first, extent.last, pieces)
        return [found[number::wanted] for number in range(wanted)]

    def _spans(self, keys: QueueKeys, oldest: str, newest: str, count: int) -> Iterator[EventRange]:
        """Spans of time of the same length, up to the newest event that is there now."""
        since, until = self._options.since, self._options.until
        first = max(milliseconds_of(oldest), since or 0)
        last = milliseconds_of(newest)
        if until is not None and until <= last:
            last, newest = until - 1, str(until - 1)
        length = max(1, -(-(last + 1 - first) // count))
        for start in range(first, last + 1, length):
            end = start + length - 1
            yield EventRange(keys, str(start), newest if end >= last else str(end))

    def _batches(self, broker: Broker, parts: Sequence[EventRange]) -> Iterator[pa.RecordBatch]:
        for part in parts:
            for events in part.read(broker, self._options.fetch_size):
                yield event_batch(self._schema, events, part.keys.family, self._options.failure)


class MetricsReader(ViewReader):
    """Reads the counts: a row for each queue, at the time of reading."""

    def _divide(self, queues: Sequence[QueueKeys]) -> Steps[list[list[QueueKeys]]]:
        yield from ()  # no step is needed
        return [list(queues)]

    def _batches(self, broker: Broker, parts: Sequence[QueueKeys]) -> Iterator[pa.RecordBatch]:
        for keys in parts:
            now, stats = broker._run(broker._step(queue_calls.stats(keys, keys.family)))
            yield metrics_batch(self._schema, now, stats)


_READERS: dict[str, type[ViewReader]] = {
    "leased": LeasedReader,
    "history": HistoryReader,
    "metrics": MetricsReader,
}


def reader(options: ReadOptions, schema: StructType) -> ViewReader:
    """The reader of a view, for these columns."""
    return _READERS.get(options.view, MessageReader)(options, schema)
