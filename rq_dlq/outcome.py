"""The outcome history: what became of each delivery and each message, told by its queue's stream. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rq_dlq.failure import moment

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

_EVENT_ID = re.compile(r"[0-9]{1,18}-[0-9]{1,18}")
_DIGITS = 18  # of a number that one can trust
# Of an entry, in this order (lua/lib/outcome.lua).
FIELDS = (
    "id", "event", "attempt", "age", "delay", "consumer", "error", "fingerprint", "reason", "cause",
)  # fmt: skip

RawOutcome = tuple[
    str, list[bytes]
]  # the id of an entry of the stream; its fields and values by turns, as they come


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One event of a queue's outcome history.

    Attributes:
        event_id: names the event in its queue; later ones have greater ids.
        at: when, by the server's clock (UTC).
        queue: the queue in which it happened; of dead letters the one that they failed in.
        id: the message's.
        event: acked, redelivered, dead, expired, discarded, released, redriven, purged or moved.
        attempt: how often the message had been handed out by then.
        age: seconds since it was sent.
        delay: seconds until it is delivered again; 0 where it is not.
        consumer: who held it, or the operator who asked for it; empty: nobody.
        error_class: of the failure; empty where nothing failed.
        fingerprint: what failures of one kind share.
        reason: why it is dead, expired or discarded, also where it leaves these: exhausted, poison,
            unprocessable or expired; empty: it is none of them.
        cause: of a redelivery or an end: nacked, lapsed, poisoned, dead_lettered (by an operator), retired
            (it was kept long enough); empty: none of these.
    """

    event_id: str
    at: datetime
    queue: str
    id: str
    event: str
    attempt: int
    age: float
    delay: float
    consumer: str
    error_class: str
    fingerprint: str
    reason: str
    cause: str


def read_outcome(queue: str, entry: RawOutcome) -> Outcome:
    """An entry of a queue's stream as a value; what is missing or damaged reads as empty, or as 0."""
    event_id, cells = entry
    said = dict(zip(cells[::2], cells[1::2], strict=False))

    def text(name: str) -> str:
        return said.get(name.encode(), b"").decode(errors="replace")

    def number(name: str) -> int:
        digits = said.get(name.encode(), b"")
        return int(digits) if digits.isdigit() and len(digits) <= _DIGITS else 0

    return Outcome(
        event_id=event_id,
        at=moment(milliseconds_of(event_id)),
        queue=queue,
        id=text("id"),
        event=text("event"),
        attempt=number("attempt"),
        age=number("age") / 1000,
        delay=number("delay") / 1000,
        consumer=text("consumer"),
        error_class=text("error"),
        fingerprint=text("fingerprint"),
        reason=text("reason"),
        cause=text("cause"),
    )


def is_event_id(text: str) -> bool:
    """Whether this can be the id of an event."""
    return _EVENT_ID.fullmatch(text) is not None


def milliseconds_of(event_id: str) -> int:
    """When an event happened, in milliseconds of the server's clock."""
    return int(event_id.partition("-")[0])


def after(event_id: str) -> str:
    """The least id that a later event can have."""
    time, _, number = event_id.partition("-")
    return f"{time}-{int(number) + 1}"


def values(entry: RawOutcome) -> Sequence[bytes]:
    """What an entry says, in the order of `FIELDS`."""
    return entry[1][1::2]
