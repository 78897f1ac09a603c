"""Histories as Arrow columns: the outcome history of a queue, and the histories of single messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql.types import ArrayType

from rq_dlq.spark.arrow import arrow_type, texts, times
from rq_dlq.spark.schemas import FAILURE
from rq_dlq.values.failure import read_history
from rq_dlq.values.outcome import FIELDS, milliseconds_of

if TYPE_CHECKING:
    from rq_dlq.values.outcome import RawOutcome

_NAMES = [name.encode() for name in FIELDS]
_FIELDS = {"delay_ms": "delay", "age_ms": "age", "error_class": "error"}  # columns with names of their own
_DIGITS = {pa.int32(): 9, pa.int64(): 18}  # that fit into the type


class Events:
    """Events of one queue."""

    def __init__(self, entries: Sequence[RawOutcome], queue: str) -> None:
        self._ids = [event_id for event_id, _ in entries]
        rows = [_values(cells) for _, cells in entries]
        columns = zip(*rows, strict=True) if rows else [()] * len(FIELDS)
        self._cells: dict[str, Sequence[bytes]] = dict(zip(FIELDS, columns, strict=True))
        self._queue = queue

    def column(self, name: str, kind: pa.DataType) -> pa.Array:
        """A column of the view `history`."""
        if name == "queue":
            return pa.repeat(self._queue, len(self._ids))
        if name == "event_id":
            return pa.array(self._ids, kind)
        if name == "at":
            moments = np.array([milliseconds_of(event_id) for event_id in self._ids], np.int64)
            return times(moments, np.ones(len(moments), bool))
        cells = self._cells[_FIELDS.get(name, name)]
        if kind == pa.string():
            return texts([cell or None for cell in cells])
        return pa.array([int(n) if n.isdigit() and len(n) <= _DIGITS[kind] else None for n in cells], kind)


def _values(cells: list[bytes]) -> list[bytes]:
    """The values of an entry, in the order of `FIELDS`; empty if they are damaged."""
    if cells[::2] == _NAMES:
        return cells[1::2]
    known = dict(zip(cells[::2], cells[1::2], strict=False))
    return [known.get(name, b"") for name in _NAMES]


def as_structs(texts: Sequence[bytes | None]) -> pa.Array:
    """Histories as lists of events."""
    return pa.array([_story(text) for text in texts], arrow_type(ArrayType(FAILURE)))


def as_json(texts: Sequence[bytes | None]) -> pa.Array:
    """Histories as JSON: an array of objects with the fields of the struct; times in ISO format."""
    names = FAILURE.fieldNames()
    stories = ([dict(zip(names, event, strict=True)) for event in _story(text)] for text in texts)
    return pa.array([msgspec.json.encode(story) for story in stories], pa.string())


def _story(text: bytes | None) -> list[tuple[object, ...]]:
    """The events of a history, each in the order of the struct's fields."""
    return [
        (
            event.delivery, event.at, event.consumer or None, event.event,
            event.cause.type or None, event.cause.message or None, round(event.delay * 1000),
        )
        for event in read_history(text or b"")
    ]  # fmt: skip
