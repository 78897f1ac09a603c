"""The outcome history: outcomes of deliveries and messages, read from a queue's stream."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from rq_dlq.values.failure import moment

_EVENT_ID = re.compile(r"[0-9]{1,18}-[0-9]{1,18}")
_DIGITS = 18  # a number with more digits is damaged
# The fields of an entry, in this order (lua/outcomes.lua, note).
FIELDS = (
    "id", "event", "attempt", "age", "delay", "consumer", "error", "fingerprint", "reason", "cause",
    "birth",
)  # fmt: skip

RawOutcome = tuple[str, list[bytes]]
"""The id of a stream entry; its fields and values, alternating."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One event of a queue's outcome history.

    Attributes:
        event_id: the event's id in its queue; later events have greater ids.
        at: the time, by the server's clock (UTC).
        queue: the queue of the event; for dead letters, the queue in which they failed.
        id: the message's id.
        event: acked, redelivered, dead, expired, discarded, released, passed_on (by a program that does not
            accept it), kept (a dead letter failed), redriven, undone (its redrive was undone), cancelled,
            purged or moved.
        attempt: the number of attempts up to the event.
        age: seconds since the message was sent.
        delay: seconds until the redelivery; 0: no delay, or no redelivery.
        consumer: the consumer that held the message, or the operator; empty: neither.
        error_class: the class of the error; empty: there was none.
        fingerprint: the fingerprint of the kind of failure.
        reason: why the message is dead, expired or discarded, or was before the event: exhausted, poison,
            unprocessable or expired; empty: none of these.
        cause: how the message failed or ended: nacked, lapsed, poisoned, dead_lettered (by an operator),
            retired (its retention ended); empty: none of these.
        birth: which message with this id it is about (`Sent.birth`); None: version 0.1.0 recorded the event.

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
    birth: int | None = None


def read_outcome(queue: str, entry: RawOutcome) -> Outcome:
    """Read an entry of a queue's stream; missing or damaged fields are empty or 0."""
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
        birth=number("birth") or None,
    )


def is_event_id(text: str) -> bool:
    """Whether this is a valid event id."""
    return _EVENT_ID.fullmatch(text) is not None


def milliseconds_of(event_id: str) -> int:
    """When an event happened, in milliseconds of the server's clock."""
    return int(event_id.partition("-")[0])


def after(event_id: str) -> str:
    """The smallest possible id of a later event."""
    time, _, number = event_id.partition("-")
    return f"{time}-{int(number) + 1}"
