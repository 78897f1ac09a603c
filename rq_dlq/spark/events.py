"""Events of an outcome history, decoded together, as Arrow columns."""
# ruff: noqa: D102 - the schema explains the columns

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rq_dlq.spark.messages import texts, times
from rq_dlq.values.outcome import FIELDS, milliseconds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq.values.outcome import RawOutcome

_NAMES = [name.encode() for name in FIELDS]
_DIGITS = {pa.int32(): 9, pa.int64(): 18}  # that fit into the type


class Events:
    """Events of one queue. Each column is a property with its name, made on first use."""

    def __init__(self, entries: Sequence[RawOutcome], queue: str) -> None:
        self._ids = [event_id for event_id, _ in entries]
        rows = [_values(cells) for _, cells in entries]
        columns = zip(*rows, strict=True) if rows else [()] * len(FIELDS)
        self._cells: dict[str, Sequence[bytes]] = dict(zip(FIELDS, columns, strict=True))
        self.queue = pa.repeat(queue, len(self._ids))

    def _text(self, field: str) -> pa.Array:
        return texts([cell or None for cell in self._cells[field]])

    def _number(self, field: str, kind: pa.DataType) -> pa.Array:
        cells = self._cells[field]
        return pa.array([int(n) if n.isdigit() and len(n) <= _DIGITS[kind] else None for n in cells], kind)

    @cached_property
    def event_id(self) -> pa.Array:
        return pa.array(self._ids, pa.string())

    @cached_property
    def at(self) -> pa.Array:
        moments = np.array([milliseconds_of(event_id) for event_id in self._ids], np.int64)
        return times(moments, np.ones(len(moments), bool))

    @cached_property
    def id(self) -> pa.Array:
        return self._text("id")

    @cached_property
    def event(self) -> pa.Array:
        return self._text("event")

    @cached_property
    def attempt(self) -> pa.Array:
        return self._number("attempt", pa.int32())

    @cached_property
    def consumer(self) -> pa.Array:
        return self._text("consumer")

    @cached_property
    def delay_ms(self) -> pa.Array:
        return self._number("delay", pa.int64())

    @cached_property
    def age_ms(self) -> pa.Array:
        return self._number("age", pa.int64())

    @cached_property
    def error_class(self) -> pa.Array:
        return self._text("error")

    @cached_property
    def fingerprint(self) -> pa.Array:
        return self._text("fingerprint")

    @cached_property
    def reason(self) -> pa.Array:
        return self._text("reason")

    @cached_property
    def cause(self) -> pa.Array:
        return self._text("cause")


def _values(cells: list[bytes]) -> list[bytes]:
    """The values of an entry, in the order of `FIELDS`; empty if they are damaged."""
    if cells[::2] == _NAMES:
        return cells[1::2]
    known = dict(zip(cells[::2], cells[1::2], strict=False))
    return [known.get(name, b"") for name in _NAMES]
