"""`spark.readStream` of the view `history`: the outcome histories as a replayable log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from rq_dlq._keys import QueueKeys
from rq_dlq.core.looking import outcomes
from rq_dlq.core.policies import policies
from rq_dlq.errors import InvalidInput
from rq_dlq.spark.brokers import broker_at, resolve
from rq_dlq.spark.columns import event_batch
from rq_dlq.spark.errors import without_traceback
from rq_dlq.spark.offsets import check_format
from rq_dlq.spark.partitions import EventRange
from rq_dlq.spark.queues import all_chosen, check_queues
from rq_dlq.spark.subscription import Subscription, lose
from rq_dlq.values.outcome import after, is_event_id

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from rq_dlq.client.broker import Broker
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.spark.options import StreamOptions

OLDEST = "0-0"  # before every event


class HistoryStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads events. An offset is the id of the last event of each queue; nothing is claimed or acked."""

    def __init__(self, options: StreamOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._url = resolve(options.url)
        self._subscription = Subscription(options, partial(QueueKeys, options.namespace))
        self._until: dict[str, str] | None = None  # the last event by queue, if the trigger is AvailableNow
        if options.starting not in {"earliest", "latest"} and not is_event_id(options.starting):
            raise InvalidInput(
                f"option startingOffsets: {options.starting!r} is not earliest, latest or the id of an event"
            )

    @property
    def _broker(self) -> Broker:
        return broker_at(self._url, self._options.namespace)

    @without_traceback
    def initialOffset(self) -> dict[str, str]:  # noqa: N802 - Spark's names, here and below
        """The offset at which a new query begins."""
        options = self._options
        check_queues(self._url, options.namespace)
        known = all_chosen(self._broker.queues(), options.queues, options.shards, whole=True)
        if options.starting == "latest":
            return self.reportLatestOffset()
        return dict.fromkeys(known, OLDEST if options.starting == "earliest" else options.starting)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read no further than the newest events of now."""
        self._until = self.reportLatestOffset()

    def reportLatestOffset(self) -> dict[str, str]:  # noqa: N802
        """The newest events, for the progress report."""
        return self._broker._run(self._newest())

    def _newest(self) -> Steps[dict[str, str]]:
        yield from self._subscription.look()
        newest: dict[str, str] = {}
        for family, keys in self._subscription.queues.items():
            newest[family] = (yield from outcomes.extent(keys)).last or OLDEST
        return newest

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """`maxMessagesPerTrigger`, here of events."""
        return ReadMaxRows(self._options.max_messages)

    @without_traceback
    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:  # noqa: N802
        """The last events of the next batch."""
        _check_form(start)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self._broker._run(self._next(start, most))

    def _next(self, start: Mapping[str, str], most: int | None) -> Steps[dict[str, str]]:
        begun = [family for family, last in start.items() if last != OLDEST]
        yield from self._subscription.look(start, begun)
        queues, end = self._subscription.queues, dict[str, str]()
        for family, keys in queues.items():
            share = most and max(1, most // len(queues))
            end[family] = yield from self._end(keys, start.get(family, OLDEST), share)
        if end == start and self._until is None:
            yield self._subscription.pause(self._options.max_wait)
        return end

    def _end(self, keys: QueueKeys, start: str, most: int | None) -> Steps[str]:
        """The last event of a queue's next batch; `start` if there is no new event."""
        until = "+" if self._until is None else self._until.get(keys.family, OLDEST)
        yield from self._check(keys, start)
        if most is None:
            last = (yield from outcomes.extent(keys)).last or OLDEST if until == "+" else until
            return max(start, last, key=lambda event_id: [*map(int, event_id.split("-"))])
        found = yield from outcomes.entries(keys, start=after(start), end=until, limit=most)
        return found[-1][0] if found else start

    def _check(self, keys: QueueKeys, start: str) -> Steps[None]:
        if start == OLDEST or (yield from outcomes.entries(keys, start=start, end=start)):
            return
        settings = yield from policies.explain_policy(keys, self._broker.settings.naming)
        extent = yield from outcomes.extent(keys)
        if not settings.outcomes or extent.count < settings.outcomes:
            return  # another program has read and trimmed them
        lose(
            self._options,
            f"the outcome history of {keys.family!r} is full, and event {start}, the last one read, is gone: "
            "later ones may be gone, too",
            "Keep more events (outcomes=…), or set failOnDataLoss=false to continue with the others",
        )

    @without_traceback
    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
        """One task for each queue with new events."""
        _check_form(start)
        _check_form(end)
        spans = [
            EventRange(QueueKeys(self._options.namespace, family), after(done), last)
            for family, last in end.items()
            if last != (done := start.get(family, OLDEST))
        ]
        return [InputPartition([span]) for span in spans] or [InputPartition(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read events, in an executor."""
        for span in partition.value:
            for events in span.read(self._broker, self._options.fetch_size):
                yield event_batch(self._schema, events, span.keys.family)


def _check_form(offset: object) -> None:
    """Refuse an offset that Spark has stored for another stream, or by a later version."""
    check_format(offset)
    events = offset.values() if isinstance(offset, Mapping) else [None]
    if not all(isinstance(event_id, str) and is_event_id(event_id) for event_id in events):
        message = "the checkpoint is not of a stream of a history: another view or source needs a new one"
        raise InvalidInput(message)
