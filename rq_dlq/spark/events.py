"""Events of an outcome history, decoded together, as Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rq_dlq.spark.messages import texts, times
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
