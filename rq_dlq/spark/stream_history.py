"""`spark.readStream` of the view `history`: the outcome histories as a replayable log."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, ReadMinRows, SupportsTriggerAvailableNow

from rq_dlq._keys import QueueKeys
from rq_dlq.core.looking import outcomes
from rq_dlq.core.policies import policies
from rq_dlq.core.steps.step import Wait
from rq_dlq.errors import DataLoss, InvalidInput
from rq_dlq.spark.brokers import broker_at, resolve
from rq_dlq.spark.columns import event_batch
from rq_dlq.spark.errors import without_traceback
from rq_dlq.spark.offsets import check_format
from rq_dlq.spark.partitions import Span
from rq_dlq.spark.queues import all_chosen, check_queues
from rq_dlq.spark.subscription import Subscription
from rq_dlq.values.cached import cached_property
from rq_dlq.values.outcome import after, is_event_id

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from rq_dlq.client.broker import Broker
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.spark.options import StreamOptions

logger = logging.getLogger("rq_dlq.spark")
R = TypeVar("R")
OLDEST = "0-0"  # before every event


class HistoryStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads events. An offset is the id of the last event of each queue; nothing is claimed or acked."""

    def __init__(self, options: StreamOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._url = resolve(options.url)
        self._until: dict[str, str] | None = None  # the last event by queue, if the trigger is AvailableNow
        if options.starting not in {"earliest", "latest"} and not is_event_id(options.starting):
            raise InvalidInput(
                f"option startingOffsets: {options.starting!r} is not earliest, latest or the id of an event"
            )

    @cached_property
    def _subscription(self) -> Subscription[QueueKeys]:
        return Subscription(self._options, partial(QueueKeys, self._options.namespace))

    def _keys(self, read: Mapping[str, str]) -> Mapping[str, QueueKeys]:
        """The queues that there are now, by name; `read`: an offset."""
        begun = [family for family, last in read.items() if last != OLDEST]
        self._run(self._subscription.look(read, begun))
        return self._subscription.queues

    @property
    def _broker(self) -> Broker:
        return broker_at(self._url, self._options.namespace)

    def _run(self, steps: Steps[R]) -> R:
        return self._broker._run(steps)

    @without_traceback
    def initialOffset(self) -> dict[str, str]:  # noqa: N802 - Spark's names, here and below
        """The offset at which a new query begins."""
        options = self._options
        check_queues(self._url, options.namespace)
        known = all_chosen(self._broker.queues(), options.queues, options.shards, whole=True)
        if options.starting == "latest":
            return self._last()
        return dict.fromkeys(known, OLDEST if options.starting == "earliest" else options.starting)

    def _last(self) -> dict[str, str]:
        self._run(self._subscription.look())
        queues = self._subscription.queues.items()
        return {family: self._run(outcomes.extent(keys)).last or OLDEST for family, keys in queues}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read no further than the newest events of now."""
        self._until = self._last()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """`maxMessagesPerTrigger`, here of events."""
        return ReadMaxRows(self._options.max_messages)

    @without_traceback
    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:  # noqa: N802
        """The last events of the next batch.

        Raises:
            DataLoss: events after `start` were dropped before they were read, and `failOnDataLoss` is set.
            InvalidInput: the checkpoint belongs to another stream.
        """
        _check_form(start)
        keys, most = self._keys(start), None
        if isinstance(limit, ReadMaxRows):
            most = max(1, limit.max_rows // max(1, len(keys)))
        elif isinstance(limit, ReadMinRows):
            logger.debug("a minimum number of events is ignored")
        end = {
            family: self._run(self._end(at, start.get(family, OLDEST), most)) for family, at in keys.items()
        }
        if end == start and self._until is None:
            some = QueueKeys(self._options.namespace, self._options.queues[0])
            self._run(self._broker._step(Wait(some.silent, max(1, self._options.max_wait))))
        return end

    def _end(self, keys: QueueKeys, start: str, most: int | None) -> Steps[str]:
        """The last event of a queue's next batch; `start` if there is no new event."""
        until = "+" if self._until is None else self._until.get(keys.family, OLDEST)
        yield from self._check(keys, start)
        if most is None:
            last = (yield from outcomes.extent(keys)).last or OLDEST if until == "+" else until
            return max(start, last, key=_place)
        found = yield from outcomes.entries(keys, start=after(start), end=until, limit=most)
        return found[-1][0] if found else start

    def _check(self, keys: QueueKeys, start: str) -> Steps[None]:
        if start == OLDEST or (yield from outcomes.entries(keys, start=start, end=start)):
            return
        settings = yield from policies.explain_policy(keys, self._broker.settings.naming)
        extent = yield from outcomes.extent(keys)
        if not settings.outcomes or extent.count < settings.outcomes:
            return  # another program has read and trimmed them
        message = (
            f"the outcome history of {keys.family!r} is full, and event {start}, the last one read, is gone: "
            "later ones may be gone, too"
        )
        if self._options.fail_on_loss:
            message += (
                ". Keep more events (outcomes=…), or set failOnDataLoss=false to continue with the others"
            )
            raise DataLoss(message)
        logger.warning("%s", message)

    @without_traceback
    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
        """One task for each queue with new events."""
        _check_form(start)
        _check_form(end)
        shares = []
        for family, last in end.items():
            if last != (done := start.get(family, OLDEST)):
                span = Span(QueueKeys(self._options.namespace, family), after(done), last)
                shares.append(InputPartition([span]))
        return shares or [InputPartition(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read events, in an executor."""
        for span in partition.value:
            for events in span.read(self._broker, self._options.fetch_size):
                yield event_batch(self._schema, events, span.keys.family)

    def reportLatestOffset(self) -> dict[str, str]:  # noqa: N802
        """The newest events, for the progress report."""
        return self._last()


def _check_form(offset: object) -> None:
    """Check an offset that Spark has stored.

    Raises:
        InvalidInput: it belongs to a stream of messages, or to another source.
        UpgradeRequired: a later version wrote it.
    """
    check_format(offset)
    events = offset.values() if isinstance(offset, Mapping) else [None]
    if not all(isinstance(event_id, str) and is_event_id(event_id) for event_id in events):
        message = "the checkpoint is not of a stream of a history: another view or source needs a new one"
        raise InvalidInput(message)


def _place(event_id: str) -> tuple[int, ...]:
    return tuple(map(int, event_id.split("-")))
