"""Messages, decoded all at once, as columns of Arrow."""
# ruff: noqa: D102 - what a column is, the schema says

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

from rq_dlq.codec import BYTES, EXPIRES, HEADERS
from rq_dlq.failure import EXPIRY, Cause
from rq_dlq.message import STATE
from rq_dlq.spark.stories import as_json, as_structs, last_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rq_dlq._calls.scans import Page

HEAD, BARE = 14, 8  # bytes of a record before headers and body: with a time to live, and without one
CONTENT_TYPES = (
    "application/json",
    "application/octet-stream",
)  # of bodies that msgspec encoded, and of bytes
LAST_MOMENT = 253_402_300_799_999  # milliseconds: the year 9999, beyond which Python has no datetime
_TIME = pa.timestamp("us", tz="UTC")
_TEXTS = msgspec.json.Decoder(dict[str, str])


class Messages:
    """Messages of one queue. Each column is a property of that name, made when it is asked for.

    Args:
        page: the parts of them that were fetched.
        queue: its name.
        shard: its number among the shards.
        token: of the claim that holds them; None: none does.
    """

    def __init__(self, page: Page, queue: str, shard: int = 0, token: str | None = None) -> None:
        self._page = page
        self._count = len(page.ids)
        self.queue = pa.repeat(queue, self._count)
        self.original_queue = self.queue
        self.shard = pa.repeat(pa.scalar(shard, pa.int32()), self._count)
        self.batch = pa.repeat(pa.scalar(token, pa.string()), self._count)

    def __len__(self) -> int:
        return self._count

    @cached_property
    def id(self) -> pa.Array:
        return texts(self._page.ids)

    # ------------------------------------------------------------------------------------ the record

    @cached_property
    def _heads(self) -> np.ndarray[Any, Any]:
        heads = b"".join([record[:HEAD].ljust(HEAD, b"\0") for record in self._page.records])
        return np.frombuffer(heads, np.uint8).reshape(self._count, HEAD)

    @cached_property
    def _flags(self) -> np.ndarray[Any, Any]:
        return self._heads[:, BARE - 1]

    @cached_property
    def _whole(self) -> np.ndarray[Any, Any]:
        """Which records are long enough to be one."""
        sizes = np.fromiter(map(len, self._page.records), np.int64, self._count)
        return sizes >= self._starts

    @cached_property
    def _starts(self) -> np.ndarray[Any, Any]:
        """Where what the sender packed begins."""
        return np.where(self._flags & EXPIRES, HEAD, BARE)

    @cached_property
    def enqueued(self) -> np.ndarray[Any, Any]:
        """When they were sent, milliseconds."""
        return _number(self._heads[:, : BARE - 1]) >> 12

    @cached_property
    def _ends(self) -> np.ndarray[Any, Any]:
        """When the time to live is over of those that have one, milliseconds."""
        return _number(self._heads[:, BARE:])

    @cached_property
    def enqueued_at(self) -> pa.Array:
        return times(self.enqueued, self._whole)

    @cached_property
    def priority(self) -> pa.Array:
        return pa.array((self._flags & 0x0F).astype(np.int32), mask=~self._whole)

    @cached_property
    def content_type(self) -> pa.Array:
        raw = (self._flags & BYTES != 0).astype(np.int8)
        return pa.array(CONTENT_TYPES).take(pa.array(raw, mask=~self._whole))

    @cached_property
    def _packed(self) -> dict[int, tuple[dict[str, str], int] | None]:
        """Of those with headers, and of damaged ones: headers, and where the body begins; None: who knows."""
        return {
            n: _headers(self._page.records[n], int(self._starts[n])) if self._whole[n] else None
            for n in _places((self._flags & HEADERS != 0) | ~self._whole)
        }

    @cached_property
    def body(self) -> pa.Array:
        pairs = zip(self._page.records, self._starts.tolist(), strict=True)
        bodies: list[bytes | None] = [record[start:] for record, start in pairs]
        for n, packed in self._packed.items():
            bodies[n] = packed and self._page.records[n][packed[1] :]
        return pa.array(bodies, pa.binary())

    @cached_property
    def headers(self) -> pa.Array:
        if not self._packed:
            nothing = pa.array([], pa.string())
            return pa.MapArray.from_arrays(np.zeros(self._count + 1, np.int32), nothing, nothing)
        items: list[list[tuple[str, str]] | None] = [[]] * self._count
        for n, packed in self._packed.items():
            items[n] = packed and [*packed[0].items()]
        return pa.array(items, pa.map_(pa.string(), pa.string()))

    # ------------------------------------------------------------------------------------- the state

    @cached_property
    def _states(self) -> dict[int, tuple[str, ...] | None]:
        """The words of the states that there are; None: it cannot be read."""
        return {n: _words(text) for n, text in enumerate(self._page.states) if text is not None}

    def _of_state(self, word: int) -> np.ndarray[Any, Any]:
        """A number of each state; 0 where there is no state yet."""
        numbers = np.zeros(self._count, np.int64)
        for n, words in self._states.items():
            numbers[n] = int(words[word]) if words else 0
        return numbers

    @cached_property
    def _readable(self) -> np.ndarray[Any, Any]:
        """Which states can be read."""
        return self._but(words is None for words in self._states.values())

    @cached_property
    def _is_live(self) -> np.ndarray[Any, Any]:
        return self._but(words is None or words[0] != "live" for words in self._states.values())

    def _but(self, excepted: Iterable[bool]) -> np.ndarray[Any, Any]:
        """True, but where a state is an exception."""
        mask = np.ones(self._count, bool)
        mask[[n for n, one in zip(self._states, excepted, strict=True) if one]] = False
        return mask

    @cached_property
    def delivery_count(self) -> pa.Array:
        counts = self._of_state(3)
        return pa.array(counts.clip(max=2**31 - 1).astype(np.int32), mask=~self._readable)

    @cached_property
    def visible_at(self) -> pa.Array:
        due = self._of_state(2)
        known = self._is_live & ((due > 0) | self._whole)
        return times(np.where(due > 0, due, self.enqueued), known)

    @cached_property
    def expires_at(self) -> pa.Array:
        mortal = (self._flags & EXPIRES != 0) & (self._of_state(8) == 0)
        return times(self._ends, self._whole & self._readable & mortal)

    @cached_property
    def dead_at(self) -> pa.Array:
        died = self._of_state(2)
        return times(died, ~self._is_live & (died > 0))

    @cached_property
    def _reasons(self) -> list[str | None]:
        found = (self._states.get(n) for n in range(self._count))
        return [(words[0].partition("/")[2] or None) if words else None for words in found]

    @cached_property
    def reason(self) -> pa.Array:
        return pa.array(self._reasons, pa.string())

    @cached_property
    def corrupt(self) -> pa.Array:
        """What is wrong with them."""
        beyond = self._whole & (self._flags & EXPIRES != 0) & (self._ends > LAST_MOMENT)
        records = self._page.records
        wrong = dict.fromkeys(_places(~self._readable), "the state does not read")
        wrong |= dict.fromkeys(_places(beyond), "the time to live ends beyond the calendar")
        wrong |= {n: "the headers do not decode" for n, packed in self._packed.items() if packed is None}
        wrong |= {n: f"the record is too short ({len(records[n])} bytes)" for n in _places(~self._whole)}
        if not wrong:
            return pa.nulls(self._count, pa.string())
        return pa.array([wrong.get(n) for n in range(self._count)], pa.string())

    # ----------------------------------------------------------------------------------- the history

    @cached_property
    def _failures(self) -> list[Cause | None]:
        return [(text and last_failure(text)) or None for text in self._page.histories]

    @cached_property
    def _causes(self) -> list[Cause | None]:
        """Why each is dead."""
        pairs = zip(self._failures, self._reasons, strict=True)
        return [EXPIRY if reason == "expired" else failure for failure, reason in pairs]

    @cached_property
    def last_error_class(self) -> pa.Array:
        return _column(self._failures, lambda cause: cause.type)

    @cached_property
    def last_error_message(self) -> pa.Array:
        return _column(self._failures, lambda cause: cause.message)

    @cached_property
    def error_class(self) -> pa.Array:
        return _column(self._causes, lambda cause: cause.type)

    @cached_property
    def error_message(self) -> pa.Array:
        return _column(self._causes, lambda cause: cause.message)

    @cached_property
    def fingerprint(self) -> pa.Array:
        return _column(self._causes, lambda cause: cause.fingerprint)

    @cached_property
    def history(self) -> pa.Array:
        """All that befell them."""
        return as_structs(self._page.histories)

    @cached_property
    def history_json(self) -> pa.Array:
        """The same as text."""
        return as_json(self._page.histories)


def _number(octets: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The numbers that rows of bytes say, the highest byte first."""
    powers = 256 ** np.arange(octets.shape[1] - 1, -1, -1)
    return np.asarray(octets.astype(np.int64) @ powers)


def _places(mask: np.ndarray[Any, Any]) -> list[int]:
    """Where it is true."""
    return np.flatnonzero(mask).tolist()


def _headers(record: bytes, start: int) -> tuple[dict[str, str], int] | None:
    """The headers of a record and where its body begins."""
    end = start + 2 + int.from_bytes(record[start : start + 2], "big")
    try:
        return _TEXTS.decode(record[start + 2 : end]), end
    except (ValueError, RecursionError):
        return None


@lru_cache(1_000)  # messages that were claimed, or died, together have the same state
def _words(state: bytes) -> tuple[str, ...] | None:
    text = state.decode(errors="replace")
    return tuple(text.split(" ")) if STATE.fullmatch(text) else None


def texts(cells: Sequence[bytes | None]) -> pa.Array:
    """Text as it comes from Redis; what is no UTF-8 has question marks."""
    try:
        return pa.array(cells, pa.string())
    except pa.ArrowInvalid:
        return pa.array([cell and cell.decode(errors="replace") for cell in cells], pa.string())


def times(milliseconds: np.ndarray[Any, Any], known: np.ndarray[Any, Any]) -> pa.Array:
    """Times as Spark has them; null where they are not known, or beyond the calendar."""
    known = known & (milliseconds <= LAST_MOMENT)
    return pa.array(milliseconds * 1000, mask=~known).view(_TIME)


def _column(causes: Sequence[Cause | None], cell: Callable[[Cause], str]) -> pa.Array:
    return pa.array([(cell(cause) or None) if cause else None for cause in causes], pa.string())
