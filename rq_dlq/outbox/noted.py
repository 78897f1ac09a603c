"""What a relay has noted: the calls that it makes next, each with its number and the rows that it sends.

A relay writes this to the database before it makes the calls. So whichever relay goes on makes the same calls
under the same numbers, and Redis carries out each number once (I12).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from rq_dlq.core.steps.step import CHUNK, CHUNK_BYTES

CLUSTER: Final = """
SELECT system_identifier || '/' || (SELECT oid FROM pg_database WHERE datname = current_database())
FROM pg_control_system()"""
"""Asks PostgreSQL which database it is; a copy from a dump is another one, a replica of its files is not."""


def place_of(*words: object) -> str:
    """A short name for a database."""
    return blake2b(repr(words).encode(), digest_size=6).hexdigest()


class UnnotedRow(NamedTuple):
    """A row that is not noted yet.

    Attributes:
        number: its number in the table.
        size: bytes of its payload.
    """

    number: int
    queue: str
    delay: int
    ttl: int
    size: int


class NotedCall(msgspec.Struct, frozen=True, array_like=True):
    """A call that sends some rows to a queue.

    Attributes:
        rows: their numbers, in order.
        place: the database in which it was noted first; see `RelayCalls`.
    """

    number: int
    queue: str
    delay: int
    ttl: int
    rows: tuple[int, ...]
    place: str = ""


class RelayCalls(NamedTuple):
    """The calls of a relay.

    Attributes:
        sender: its sender in Redis, drawn once for an outbox.
        last: the number of the last call that was ever noted.
        calls: those that may not be done yet, in ascending order.
        place: this database, which is a part of the sender of new calls: a copy of the database has the same
            sender, and the same numbers for other rows.
    """

    sender: str
    last: int
    calls: tuple[NotedCall, ...] = ()
    place: str = ""

    @property
    def text(self) -> str:
        """The calls, as the database keeps them."""
        return msgspec.json.encode(self.calls).decode()

    @classmethod
    def read(cls, sender: str, last: int, text: str, place: str = "") -> RelayCalls:
        """The calls that the database keeps."""
        return cls(sender, last, msgspec.json.decode(text, type=tuple[NotedCall, ...]), place)

    def sender_of(self, call: NotedCall) -> str:
        """Who makes this call, to Redis."""
        return f"{self.sender}.{call.place}" if call.place else self.sender

    def without(self, done: Sequence[NotedCall]) -> RelayCalls:
        """The same without these calls."""
        return self._replace(calls=tuple(call for call in self.calls if call not in done))

    def adding(self, rows: Iterable[UnnotedRow], floor: int) -> RelayCalls:
        """The same with calls for these rows.

        Each queue gets its rows in the order of their numbers, in calls of rows with the same times.

        Args:
            floor: the server's clock when this relay began, milliseconds. Numbers begin above it: a database
                that was restored from a backup knows an earlier last number than Redis does.
        """
        last = max(self.last, floor)
        open_calls: dict[str, tuple[NotedCall, int]] = {}  # of each queue the last one, and its bytes
        made: dict[int, NotedCall] = {}
        for row in rows:
            call, size = open_calls.get(row.queue, (None, 0))
            if (
                call is None
                or (call.delay, call.ttl) != (row.delay, row.ttl)
                or len(call.rows) == CHUNK
                or size + row.size > CHUNK_BYTES
            ):
                last += 1
                call, size = NotedCall(last, row.queue, row.delay, row.ttl, (), self.place), 0
            call = msgspec.structs.replace(call, rows=(*call.rows, row.number))
            open_calls[row.queue] = call, size + row.size
            made[call.number] = call
        return self._replace(last=last, calls=(*self.calls, *made.values())) if made else self
