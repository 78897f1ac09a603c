"""Records of messages, decoded together, as Arrow columns."""
# ruff: noqa: D102 - the schema explains the columns

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from rq_dlq.spark.arrow import LAST_MOMENT, pc, times
from rq_dlq.values import record as records
from rq_dlq.values.cached import cached_property
from rq_dlq.values.key import text_in
from rq_dlq.values.later import upgrade
from rq_dlq.values.record import BARE, BYTES, EXPIRES, HEADERS, MORTAL

CONTENT_TYPES = ("application/json", "application/octet-stream")  # bodies that msgspec encoded, and bytes
_WORD = 8  # bytes
_TEXTS = msgspec.json.Decoder(dict[str, str])


class Records:
    """Records. Each column is a property with its name, made on first use.

    Args:
        cells: the records, or their heads.
    """

    def __init__(self, cells: Sequence[bytes]) -> None:
        self._records = cells

    @cached_property
    def _joined(self) -> pa.Array:
        return pa.array(self._records, pa.binary())

    @cached_property
    def _bounds(self) -> np.ndarray[Any, Any]:
        """The start of each record in the bytes of all, and the end of the last one."""
        return np.frombuffer(self._joined.buffers()[1], np.int32, len(self._records) + 1)

    def _words(self, at: int) -> np.ndarray[Any, Any]:
        """The numbers that begin at this byte of each record; 0 if a damaged one is too short."""
        octets, places = self._joined.buffers()[2] or b"", self._bounds[:-1] + at
        if len(octets) < _WORD:
            return np.zeros(len(places), np.uint64)
        words = np.ndarray((len(octets) - _WORD + 1,), ">u8", octets, strides=(1,))  # one begins at each byte
        found: np.ndarray[Any, Any] = words[places.clip(max=len(words) - 1)].astype(np.uint64)
        found[places + _WORD > self._bounds[1:]] = 0
        return found

    @cached_property
    def _head(self) -> np.ndarray[Any, Any]:
        """The birth and the flags of each record, as one number."""
        return self._words(records.BIRTH.start)

    @cached_property
    def _flags(self) -> np.ndarray[Any, Any]:
        return self._head.astype(np.uint8)

    @cached_property
    def enqueued(self) -> np.ndarray[Any, Any]:
        """When they were sent, in epoch milliseconds."""
        return (self._head >> np.uint64(8 + records.NUMBER_BITS)).astype(np.int64)

    @cached_property
    def _ends(self) -> np.ndarray[Any, Any]:
        """When they expire, in epoch milliseconds, if they have a time to live."""
        mask = (1 << 8 * (records.EXPIRY.stop - records.EXPIRY.start)) - 1
        return (self._words(records.EXPIRY.stop - _WORD) & np.uint64(mask)).astype(np.int64)

    @cached_property
    def _expires(self) -> np.ndarray[Any, Any]:
        return np.asarray(self._flags & EXPIRES != 0)

    @cached_property
    def _whole(self) -> np.ndarray[Any, Any]:
        """The records that are complete up to the headers, and of a known form."""
        whole = np.diff(self._bounds) >= np.where(self._expires, MORTAL, BARE)
        whole[[n for n, version in self._later.items() if version]] = False
        return whole

    @cached_property
    def _later(self) -> dict[int, str]:
        """Of records that may be of a later form: the version that they take."""
        found = where(self._flags == records.LATER)
        return {n: records.version_needed(self._records[n]) for n in found}

    @cached_property
    def enqueued_at(self) -> pa.Array:
        return times(self.enqueued, self._whole)

    @cached_property
    def priority(self) -> pa.Array:
        return pa.array((self._flags & records.PRIORITY).astype(np.int32), mask=~self._whole)

    @cached_property
    def content_type(self) -> pa.Array:
        raw = (self._flags & BYTES != 0).astype(np.int8)
        return pa.array(CONTENT_TYPES).take(pa.array(raw, mask=~self._whole))

    @cached_property
    def _packed(self) -> dict[int, tuple[dict[str, str], bytes, str | None] | None]:
        """Headers, body and key of those with headers or a key; None for damaged ones."""
        return {
            n: _content(self._records[n]) if self._whole[n] else None
            for n in where((self._flags & HEADERS != 0) | ~self._whole)
        }

    @cached_property
    def body(self) -> pa.Array:
        bodies = self._from(BARE)
        if self._expires.any():
            bodies = pc.if_else(pa.array(self._expires), self._from(MORTAL), bodies)
        if self._packed:
            places = np.zeros(len(self._records), bool)
            places[[*self._packed]] = True
            packed = pa.array([packed and packed[1] for packed in self._packed.values()], pa.binary())
            bodies = pc.replace_with_mask(bodies, pa.array(places), packed)
        return bodies

    def _from(self, start: int) -> pa.Array:
        """Each record from this byte on."""
        return pc.binary_slice(self._joined, start, max(start, self._joined.nbytes))

    @cached_property
    def headers(self) -> pa.Array:
        if not self._packed:
            nothing = pa.array([], pa.string())
            return pa.MapArray.from_arrays(np.zeros(len(self._records) + 1, np.int32), nothing, nothing)
        items: list[list[tuple[str, str]] | None] = [[]] * len(self._records)
        for n, packed in self._packed.items():
            items[n] = packed and [*packed[0].items()]
        return pa.array(items, pa.map_(pa.string(), pa.string()))

    @cached_property
    def key(self) -> pa.Array:
        keys: list[str | None] = [None] * len(self._records)
        for n, packed in self._packed.items():
            keys[n] = packed and packed[2]
        return pa.array(keys, pa.string())

    def _wrong_records(self) -> dict[int, str]:
        """The damage of records."""
        beyond = self._whole & self._expires & (self._ends > LAST_MOMENT)
        wrong = dict.fromkeys(where(beyond), "the time to live ends beyond the calendar")
        wrong |= {n: "the headers cannot be decoded" for n, packed in self._packed.items() if packed is None}
        return wrong | {n: self._wrong_record(n) for n in where(~self._whole)}

    def _wrong_record(self, n: int) -> str:
        if version := self._later.get(n):
            return str(upgrade("the record", version))
        return f"the record is too short ({len(self._records[n])} bytes)"


def where(mask: np.ndarray[Any, Any]) -> list[int]:
    """The indices where a mask is true."""
    return np.flatnonzero(mask).tolist()


def _content(record: bytes) -> tuple[dict[str, str], bytes, str | None] | None:
    """The headers, the body and the key of a record."""
    try:
        fields, headers, body = records.content_of(record)
        return ({} if headers is None else _TEXTS.decode(headers)), body, text_in(fields.get(records.KEY))
    except (ValueError, RecursionError):
        return None
