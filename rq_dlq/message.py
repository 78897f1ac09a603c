"""Messages as values: what is sent, what is delivered, what has died. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

import msgspec

from rq_dlq._names import check_id
from rq_dlq.codec import BYTES, EXPIRES, HEADERS, NO_HEADERS, NO_JSON, Codec
from rq_dlq.errors import InvalidInput, UnprocessableMessage
from rq_dlq.failure import EXPIRY, FAILURES, Cause, Event, moment, read_history

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

T = TypeVar("T")
L = TypeVar("L", bound="Leased[Any]")
_UNREAD = object()  # of a body that was not decoded yet

HEAD = 8  # bytes of a record before the expiry: birth and flags
STATE = re.compile(r"[a-z]+(/[a-z]+)? [+-]\S*( [0-9]{1,18}){8}")  # lua/lib/state.lua


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(Generic[T]):
    """A message to be sent, for `send_many` where messages differ in more than their body."""

    body: T
    id: str | None = None
    headers: Mapping[str, str] | None = None
    priority: int | None = None

    def __post_init__(self) -> None:
        if self.id is not None:
            check_id(self.id)


class Row(NamedTuple):
    """A message as a script returns it."""

    id: str
    record: bytes
    state: bytes
    history: bytes
    lease_until: int = 0


class Received(Generic[T]):
    """What is known of a message in the queue; read from its record when asked for.

    Attributes:
        id: the message's id, for life.
        queue: the name of the queue it was read from.
    """

    _body: Any = _UNREAD

    def __init__(self, row: Row, codec: Codec[T], queue: str) -> None:
        self.id = row.id
        self.queue = queue
        self._row = row
        self._codec = codec

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} of {self.queue!r}>"

    @property
    def body(self) -> T:
        """The body, decoded as the queue's type.

        Raises:
            UnprocessableMessage: it does not decode.
        """
        if self._body is _UNREAD:
            record = self._row.record
            if len(record) > HEAD and record[HEAD - 1] < EXPIRES:  # no flag is set: nearly all
                self._body = self._codec.decode(record[HEAD:], raw=False)
            else:
                self._body = self._codec.decode(self._content[1], raw=bool(self._flags & BYTES))
        return self._body  # type: ignore[no-any-return]

    @property
    def _flags(self) -> int:
        record = self._row.record
        if len(record) < HEAD:
            message = f"the record of message {self.id} is damaged ({len(record)} bytes)"
            raise UnprocessableMessage(message)
        return record[HEAD - 1]

    @property
    def _content(self) -> tuple[Mapping[str, str], bytes]:
        """The headers and the encoded body."""
        flags, record = self._flags, self._row.record
        start = 14 if flags & EXPIRES else HEAD
        if not flags & HEADERS:
            return NO_HEADERS, record[start:]
        end = start + 2 + int.from_bytes(record[start : start + 2], "big")
        try:
            headers = msgspec.json.decode(record[start + 2 : end], type=dict[str, str])
        except NO_JSON as error:
            message = f"the headers of message {self.id} do not decode: {error}"
            raise UnprocessableMessage(message) from error
        return headers, record[end:]

    @property
    def data(self) -> bytes:
        """The body as it is stored."""
        return self._content[1]

    @property
    def headers(self) -> Mapping[str, str]:
        """What the sender noted beside the body."""
        return self._content[0]

    @property
    def priority(self) -> int:
        """0 (last) to 9 (first)."""
        return self._flags & 0x0F

    @property
    def enqueued_at(self) -> datetime:
        """When it was sent, by the server's clock (UTC)."""
        return moment(int.from_bytes(self._row.record[:7], "big") >> 12)

    @property
    def expires_at(self) -> datetime | None:
        """When its time to live is over (UTC); None: never. A death ends it: no redrive brings it back."""
        if not self._flags & EXPIRES or self.redriven:
            return None
        return moment(int.from_bytes(self._row.record[8:14], "big"))

    @property
    def _state(self) -> list[str]:
        text = self._row.state.decode(errors="replace")
        return (text if STATE.fullmatch(text) else "live - 0 0 0 0 0 0 0 0").split(" ")

    @property
    def part(self) -> str:
        """Live, dead or expired."""
        return self._state[0].partition("/")[0]

    @property
    def due(self) -> int:
        """When it is, or was, to be ready, or when it died; milliseconds of the server's clock."""
        return int(self._state[2]) or int.from_bytes(self._row.record[:7], "big") >> 12

    @property
    def delivery_count(self) -> int:
        """How often it was handed out, for life."""
        return int(self._state[3])

    @property
    def charged(self) -> int:
        """Failures that count against the budget; a redrive sets it to 0."""
        return int(self._state[4])

    @property
    def nacked(self) -> int:
        """How often a consumer said that it failed."""
        return int(self._state[5])

    @property
    def lapsed(self) -> int:
        """How often a lease on it ran out."""
        return int(self._state[6])

    @property
    def released(self) -> int:
        """How often it was given back uncharged."""
        return int(self._state[7])

    @property
    def redriven(self) -> int:
        """How often it was brought back from the dead."""
        return int(self._state[8])

    @property
    def redelivered(self) -> bool:
        """Whether it was handed out before."""
        return self.delivery_count > 1

    @property
    def history(self) -> tuple[Event, ...]:
        """What befell it: the first 15 events and the last 15."""
        return read_history(self._row.history)


class Leased(Received[T]):
    """A message in the hands of a consumer.

    Attributes:
        token: what proves that it is; the claim's id.
        outcome: what became of it, if it was acked, nacked, poisoned or released through this object.
        begun: its claim says already that its handler runs.
        lost: a worker found that the lease was lost while the handler runs.
    """

    outcome: Outcome | None = None
    begun = False
    lost = False

    def __init__(self, row: Row, codec: Codec[T], queue: str, token: str, lease_until: int) -> None:
        super().__init__(row, codec, queue)
        self.token = token
        self.lease_ends = lease_until

    @property
    def settled(self) -> bool:
        """It was acked, nacked, poisoned or released through this object."""
        return self.outcome is not None

    @property
    def lease_until(self) -> datetime:
        """When the lease runs out, by the server's clock (UTC)."""
        return moment(self.lease_ends)

    @property
    def held(self) -> tuple[str, str]:
        """The id and the token."""
        return (self.id, self.token)


def batch(deliveries: Iterable[L]) -> list[L]:
    """The deliveries of a batch, which may come from any iterable.

    Raises:
        InvalidInput: they are none.
    """
    try:
        return [delivery for delivery in deliveries if delivery.token]
    except (AttributeError, TypeError):
        message = "a batch is a list of deliveries, as claim() returns it"
        raise InvalidInput(message) from None


def held(deliveries: Iterable[Leased[Any]]) -> list[tuple[str, str]]:
    """The ids and tokens of a batch."""
    return [(delivery.id, delivery.token) for delivery in deliveries]


def settled(deliveries: Sequence[Leased[Any]], settlements: list[Settlement]) -> list[Settlement]:
    """Note which deliveries of a batch were settled, so that a block or a session leaves them alone."""
    for delivery, settlement in zip(deliveries, settlements, strict=True):
        if settlement:
            delivery.outcome = settlement.outcome
    return settlements


class DeadLetter(Received[T]):
    """A message in a dead-letter or expiry queue, with its story."""

    @property
    def original_queue(self) -> str:
        """The queue that it failed on, and goes back to."""
        return self.queue

    @property
    def reason(self) -> str:
        """Why it died: exhausted, poison, unprocessable or expired; empty where its state is damaged."""
        return self._state[0].partition("/")[2]

    @property
    def died_at(self) -> datetime:
        """When, by the server's clock (UTC)."""
        return moment(int(self._state[2]))

    @property
    def cause(self) -> Cause:
        """What went wrong in its last delivery."""
        if self.reason == "expired":
            return EXPIRY
        failures = [event for event in self.history if event.event in FAILURES]
        return failures[-1].cause if failures else Cause()

    @property
    def fingerprint(self) -> str:
        """What dead letters of one kind share."""
        return self.cause.fingerprint


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Dead letters of one kind.

    Attributes:
        error: class and text of the newest one.
        sample_id: the id of the newest one.
    """

    fingerprint: str
    reason: str
    error: str
    count: int
    first_seen: datetime
    last_seen: datetime
    sample_id: str


Outcome = Literal[
    "acked", "redelivered", "dead", "expired", "discarded", "released", "kept", "settled", "lost", "gone"
]


class Settlement(NamedTuple):
    """What became of one message of a batch that was settled; true where it was ours to settle.

    Attributes:
        outcome: acked, redelivered, dead, expired, discarded (by the queue's dead-letter strategy), released,
            kept (a dead letter that failed stays one),
            settled (an earlier try of this call did it), lost (the token is stale) or gone (no such message).
        delay: seconds until it is redelivered.
    """

    id: str
    outcome: Outcome
    delay: float | None = None

    def __bool__(self) -> bool:
        return self.outcome not in {"lost", "gone"}


@dataclass(frozen=True, slots=True)
class QueueStats:
    """A queue's counts.

    Attributes:
        oldest: seconds since the message at the head of the ready ones fell due; None: none is ready.
        next_due: seconds until the next scheduled message is due; None: none is scheduled.
        totals: since the queue began, or the last reset: sent, acked, nacked, lapsed, released, exhausted,
            poison, unprocessable, expired, redriven, discarded, moved, purged.
        paused: nothing is handed out until it is resumed.
    """

    name: str
    ready: int
    scheduled: int
    leased: int
    dead: int
    expired: int
    oldest: float | None
    next_due: float | None
    totals: Mapping[str, int]
    paused: bool = False

    @property
    def waiting(self) -> int:
        """Messages that are to be delivered: ready and scheduled."""
        return self.ready + self.scheduled
