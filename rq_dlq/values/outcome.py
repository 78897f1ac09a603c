"""The outcome history: what became of deliveries and messages, read from a queue's stream."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from rq_dlq.values.failure import moment

_EVENT_ID = re.compile(r"[0-9]{1,18}-[0-9]{1,18}")
_DIGITS = 18  # a number with more digits is damaged
# The fields of an entry, in this order (lua/lib/outcome.lua).
FIELDS = (
    "id", "event", "attempt", "age", "delay", "consumer", "error", "fingerprint", "reason", "cause",
)  # fmt: skip

RawOutcome = tuple[str, list[bytes]]
"""The id of an entry of the stream; its fields and values by turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One event of a queue's outcome history.

    Attributes:
        event_id: the event's id in its queue; later events have greater ids.
        at: when, by the server's clock (UTC).
        queue: where it happened; for dead letters, the queue in which they failed.
        id: the message's id.
        event: acked, redelivered, dead, expired, discarded, released, passed_on (by a program that does not
            take it), kept (a dead letter failed), redriven, undone (it was redriven, and is dead again),
            cancelled, purged or moved.
        attempt: how often it was tried up to the event.
        age: seconds since the message was sent.
        delay: seconds until the redelivery; 0: there is none.
        consumer: the consumer that held the message, or the operator; empty: neither.
        error_class: of the failure; empty: there was none.
        fingerprint: identifies the kind of failure.
        reason: why the message is, or was until now, dead, expired or discarded: exhausted, poison,
            unprocessable or expired; empty: it is not.
        cause: of a failure or an end: nacked, lapsed, poisoned, dead_lettered (by an operator), retired
            (it was kept long enough); empty: none of these.

    Examples:
        >>> stock = broker.queue("stock", outcomes=1_000)
        >>> sent = stock.send("tea", id="tea-1")
        >>> settled = stock.poison(stock.claim(), "none left")
        >>> (outcome,) = stock.outcomes()
        >>> outcome.id, outcome.event, outcome.reason, outcome.attempt
        ('tea-1', 'dead', 'poison', 1)
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
    """An entry of a queue's stream as a value; missing or damaged fields are empty, or 0."""
    event_id, cells = entry
    fields = dict(zip(cells[::2], cells[1::2], strict=False))

    def text(name: str) -> str:
        return fields.get(name.encode(), b"").decode(errors="replace")

    def number(name: str) -> int:
        digits = fields.get(name.encode(), b"")
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
    """Whether this is a valid id of an event."""
    return _EVENT_ID.fullmatch(text) is not None


def milliseconds_of(event_id: str) -> int:
    """When an event happened, in milliseconds of the server's clock."""
    return int(event_id.partition("-")[0])


def after(event_id: str) -> str:
    """The smallest id that a later event can have."""
    time, _, number = event_id.partition("-")
    return f"{time}-{int(number) + 1}"
