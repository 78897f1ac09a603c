"""Rows of views as Arrow batches. Only the parts of messages that the chosen columns need are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rq_dlq.spark.arrow import arrow_schema, pc, texts, times
from rq_dlq.spark.messages import Messages
from rq_dlq.spark.schemas import COUNTS, TOTALS
from rq_dlq.values.failure import moment
from rq_dlq.values.outcome import FIELDS, milliseconds_of
from rq_dlq.values.wanted import Wanted

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from rq_dlq.core.pages.calls import Page
    from rq_dlq.values.counts import QueueStats
    from rq_dlq.values.outcome import RawOutcome
ROWS, BYTES = 4_000, 8 << 20  # of an Arrow batch: whichever is reached first
# The sources of columns. "record" is all of it, "head" its first bytes, with times and flags.
_OF_RECORD = frozenset({"body", "headers", "key", "corrupt"})
_OF_HEAD = frozenset({"content_type", "priority", "enqueued_at", "visible_at", "expires_at"})
_OF_DEATH = frozenset({"error_class", "error_message", "fingerprint"})
_OF_STATE = _OF_DEATH | {
    "visible_at", "expires_at", "delivery_count", "attempt", "corrupt", "dead_at", "reason", "redrive_count",
}  # fmt: skip
_OF_HISTORY = _OF_DEATH | {"last_error_class", "last_error_message", "history"}
# Of events:
_FIELDS = [name.encode() for name in FIELDS]
_RENAMED = {"delay_ms": "delay", "age_ms": "age", "error_class": "error"}  # the fields of columns
_DIGITS = {pa.int32(): 9, pa.int64(): 18}  # that fit into the type


class MessageColumns:
    """Makes batches with the columns of a schema.

    Args:
        schema: the view's, or its chosen columns.
        story: the form of `history`: struct, json, none.
        since, until: epoch milliseconds; only messages sent from `since` on and before `until`.
        failure: only messages that died of this, by column.

    Attributes:
        wanted: the parts of messages that the columns need.
    """

    def __init__(
        self,
        schema: StructType,
        *,
        story: str = "struct",
        since: int | None = None,
        until: int | None = None,
        failure: Mapping[str, str] | None = None,
    ) -> None:
        self._schema = arrow_schema(schema)
        self._story = story
        self._since, self._until = since, until
        self._failure = failure or {}
        needed = {*self._schema.names, *self._failure}
        if since is not None or until is not None:
            needed.add("enqueued_at")
        if story == "none":
            needed.discard("history")
        part = "head" if needed & _OF_HEAD else "no"
        self.wanted = Wanted(
            record="whole" if needed & _OF_RECORD else part,  # type: ignore[arg-type]
            state=bool(needed & _OF_STATE),
            history=bool(needed & _OF_HISTORY),
        )

    def batches(self, pages: Iterable[Page], queue: str, shard: int) -> Iterator[pa.RecordBatch]:
        """Pages of a queue as batches. Pages are joined: a column of few rows costs nearly what many cost."""
        waiting: list[Page] = []
        rows = size = 0
        for page in pages:
            waiting.append(page)
            rows += len(page.ids)
            size += sum(map(len, page.records))
            if rows >= ROWS or size >= BYTES:
                yield self._batch(Messages(waiting, queue, shard))
                waiting, rows, size = [], 0, 0
        if rows:
            yield self._batch(Messages(waiting, queue, shard))

    def _batch(self, messages: Messages) -> pa.RecordBatch:
        """A batch of messages with the parts in `wanted`."""
        columns = [self._column(messages, name) for name in self._schema.names]
        return _filtered(pa.RecordBatch.from_arrays(columns, schema=self._schema), self._passed(messages))

    def _column(self, messages: Messages, name: str) -> pa.Array:
        if name == "history" and self._story != "struct":
            nothing = pa.nulls(len(messages), self._schema.field(name).type)
            return messages.history_json if self._story == "json" else nothing
        return getattr(messages, name)

    def _passed(self, messages: Messages) -> list[pa.BooleanArray]:
        """Which messages pass each condition."""
        passed = [pc.equal(getattr(messages, name), value) for name, value in self._failure.items()]
        if self._since is not None:
            passed.append(pa.array(messages.enqueued >= self._since))
        if self._until is not None:
            passed.append(pa.array(messages.enqueued < self._until))
        return passed


def event_batch(
    schema: StructType, entries: Sequence[RawOutcome], queue: str, failure: Mapping[str, str] | None = None
) -> pa.RecordBatch:
    """Events of a queue as a batch with these columns; `failure`: only such failures, by column."""
    ids = [event_id for event_id, _ in entries]
    values = zip(*(_values(cells) for _, cells in entries), strict=True)
    fields: dict[str, tuple[bytes, ...]] = dict(zip(FIELDS, values, strict=True))

    def column(name: str, kind: pa.DataType) -> pa.Array:
        if name == "queue":
            return pa.repeat(queue, len(ids))
        if name == "event_id":
            return pa.array(ids, kind)
        if name == "at":
            moments = np.array([milliseconds_of(event_id) for event_id in ids], np.int64)
            return times(moments, np.ones(len(ids), bool))
        cells = fields[_RENAMED.get(name, name)]
        if kind == pa.string():
            return texts([cell or None for cell in cells])
        return pa.array([int(n) if n.isdigit() and len(n) <= _DIGITS[kind] else None for n in cells], kind)

    columns = arrow_schema(schema)
    batch = pa.RecordBatch.from_arrays([column(each.name, each.type) for each in columns], schema=columns)
    passed = [pc.equal(column(name, pa.string()), value) for name, value in (failure or {}).items()]
    return _filtered(batch, passed)


def _values(cells: list[bytes]) -> list[bytes]:
    """The values of an entry, in the order of `FIELDS`; empty if they are damaged."""
    if cells[::2] == _FIELDS:
        return cells[1::2]
    known = dict(zip(cells[::2], cells[1::2], strict=False))
    return [known.get(name, b"") for name in _FIELDS]


def metrics_batch(schema: StructType, now: int, stats: QueueStats) -> pa.RecordBatch:
    """The counts of a queue at a time, in epoch milliseconds, as a batch of one row."""
    totals = {"expired_total" if name == "expired" else name: total for name, total in stats.totals.items()}
    row = {
        **dict.fromkeys(TOTALS, 0),
        **totals,
        **{name: getattr(stats, name) for name in COUNTS},
        "queue": stats.name,
        "at": moment(now),
        "oldest_ms": None if stats.oldest is None else round(stats.oldest * 1000),
        "next_due_ms": None if stats.next_due is None else round(stats.next_due * 1000),
        "paused": stats.paused,
    }
    return pa.RecordBatch.from_pylist([row], arrow_schema(schema))


def _filtered(batch: pa.RecordBatch, passed: Sequence[pa.BooleanArray]) -> pa.RecordBatch:
    """The rows that pass all of these."""
    return batch.filter(reduce(pc.and_, passed)) if passed else batch
