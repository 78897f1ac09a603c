"""Messages as values: what is sent, what is delivered, what has died. No I/O."""

from __future__ import annotations

import itertools
import os
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

import msgspec

from rq_dlq._names import check_id
from rq_dlq.errors import InvalidInput, InvalidMessage, MessageTooLarge, UnprocessableMessage
from rq_dlq.failure import Cause, Event, moment, read_history

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

T = TypeVar("T")
_UNREAD = object()  # of a body that was not decoded yet

PRIORITIES = range(10)
DEFAULT_PRIORITY = 4
NO_HEADERS: Mapping[str, str] = {}

# The flags of a record (lua/lib/record.lua): the priority in the low four bits, then these.
_EXPIRES, _HEADERS, _BYTES = 0x10, 0x20, 0x40
HEAD = 8  # bytes of a record before the expiry: birth and flags
STATE_CELLS = 10  # of a state line (lua/lib/state.lua)
MAX_HEADERS = 0xFFFF  # bytes, encoded: their length takes two
SHORTEST = 3  # digits of the count in an id
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Ids:
    """Draws message ids: a random prefix for each process, then a count; twelve characters at first."""

    def __init__(self) -> None:
        self._process = 0
        self._prefix = ""
        self._count = itertools.count()

    def draw(self) -> str:
        """The next id."""
        if self._process != os.getpid():  # after a fork the child must not repeat its parent
            self._prefix = "".join(secrets.choice(_DIGITS) for _ in range(9))
            self._count = itertools.count()
            self._process = os.getpid()
        number = next(self._count)
        tail = ""
        while number or len(tail) < SHORTEST:
            number, digit = divmod(number, 62)
            tail = _DIGITS[digit] + tail
        return self._prefix + tail


class Codec(Generic[T]):
    """Bodies to bytes and back, by msgspec.

    Args:
        type: any type msgspec knows; `bytes` pass untouched. Any: JSON values, and bytes.
        max_bytes: the largest encoded message.
    """

    def __init__(self, type: Any, max_bytes: int) -> None:
        self.type = type
        self._max_bytes = max_bytes
        self._encoder = msgspec.json.Encoder()
        self._raw = type is bytes
        self._decoder: msgspec.json.Decoder[Any] | None = None
        try:
            if not self._raw:
                self._decoder = msgspec.json.Decoder(type)
        except TypeError as error:
            message = f"{type!r} is not a type of bodies that msgspec knows: {error}"
            raise InvalidMessage(message) from None

    def pack(self, body: T, priority: int, headers: Mapping[str, str]) -> bytes:
        """The payload of a record: flags, headers, body.

        Raises:
            InvalidMessage: the body does not encode, or the priority or a header makes no sense.
            MessageTooLarge: it is longer than the broker takes.
        """
        if type(priority) is not int or priority not in PRIORITIES:
            message = f"priority {priority!r}: use a whole number from 0 (last) to 9 (first)"
            raise InvalidMessage(message)
        flags, data = priority, body if isinstance(body, bytes) else b""
        if isinstance(body, bytes):
            flags |= _BYTES
        else:
            data = self._encode(body)
        packed = b""
        if headers:
            flags |= _HEADERS
            packed = _pack_headers(headers)
        if len(data) + len(packed) > self._max_bytes:
            message = (
                f"a message of {len(data) + len(packed):,} bytes is over the limit of "
                f"{self._max_bytes:,}: send a reference to the data, or raise max_message_bytes"
            )
            raise MessageTooLarge(message)
        return bytes((flags,)) + packed + data

    def _encode(self, body: T) -> bytes:
        if self._raw:
            message = f"the queue carries bytes, not {type(body).__name__}"
            raise InvalidMessage(message)
        try:
            return self._encoder.encode(body)
        except Exception as error:  # msgspec calls hooks and properties of the body's type
            message = f"a body of type {type(body).__name__} does not encode as JSON: {error}"
            raise InvalidMessage(message) from error

    def decode(self, data: bytes, *, raw: bool) -> T:
        """The body of a record.

        Raises:
            UnprocessableMessage: it does not decode as the queue's type.
        """
        if raw and (self._raw or self.type is Any):
            return data  # type: ignore[return-value]
        if self._decoder is None:
            message = "the body was not sent as bytes, but the queue's type is bytes"
            raise UnprocessableMessage(message)
        try:
            return self._decoder.decode(data)  # type: ignore[no-any-return]
        except Exception as error:  # RecursionError, ValueError, UnicodeError, hooks …
            message = f"the body does not decode as {_type_name(self.type)}: {error}"
            raise UnprocessableMessage(message) from error


def _type_name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _pack_headers(headers: Mapping[Any, Any]) -> bytes:
    for name, value in headers.items():
        if not (isinstance(name, str) and isinstance(value, str)):
            message = f"header {name!r}: names and values are text, not {type(value).__name__}"
            raise InvalidMessage(message)
    try:
        data = msgspec.json.encode(dict(headers))
    except UnicodeEncodeError:
        message = "a header holds text that UTF-8 cannot say (a lone surrogate)"
        raise InvalidMessage(message) from None
    if len(data) > MAX_HEADERS:
        message = f"headers of {len(data):,} bytes: {MAX_HEADERS:,} are the most; put data into the body"
        raise MessageTooLarge(message)
    return len(data).to_bytes(2, "big") + data


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

    def __init__(self, row: Row, codec: Codec[T], queue: str) -> None:
        self.id = row.id
        self.queue = queue
        self._row = row
        self._codec = codec
        self._body: Any = _UNREAD

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} of {self.queue!r}>"

    @property
    def body(self) -> T:
        """The body, decoded as the queue's type.

        Raises:
            UnprocessableMessage: it does not decode.
        """
        if self._body is _UNREAD:
            self._body = self._codec.decode(self._content[1], raw=bool(self._flags & _BYTES))
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
        start = 14 if flags & _EXPIRES else HEAD
        if not flags & _HEADERS:
            return NO_HEADERS, record[start:]
        end = start + 2 + int.from_bytes(record[start : start + 2], "big")
        try:
            headers = msgspec.json.decode(record[start + 2 : end], type=dict[str, str])
        except (ValueError, RecursionError) as error:
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
        if not self._flags & _EXPIRES or self.redriven:
            return None
        return moment(int.from_bytes(self._row.record[8:14], "big"))

    @property
    def _state(self) -> list[str]:
        cells = self._row.state.decode(errors="replace").split(" ")
        return cells if len(cells) == STATE_CELLS else ["live", "-", "0", "0", "0", "0", "0", "0", "0", "0"]

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
        settled: it was acked, nacked, poisoned or released through this object.
        lost: a worker found that the lease was lost while the handler runs.
    """

    def __init__(self, row: Row, codec: Codec[T], queue: str, token: str, lease_until: int) -> None:
        super().__init__(row, codec, queue)
        self.token = token
        self.settled = False
        self.lost = False
        self.lease_ends = lease_until

    @property
    def lease_until(self) -> datetime:
        """When the lease runs out, by the server's clock (UTC)."""
        return moment(self.lease_ends)

    @property
    def held(self) -> tuple[str, str]:
        """The id and the token."""
        return (self.id, self.token)


def held(deliveries: Sequence[Leased[Any]]) -> list[tuple[str, str]]:
    """The ids and tokens of a batch.

    Raises:
        InvalidInput: it is not a list of deliveries.
    """
    if isinstance(deliveries, Leased) or not all(isinstance(one, Leased) for one in deliveries):
        message = "a batch is a list of deliveries, as claim() returns it"
        raise InvalidInput(message)
    return [delivery.held for delivery in deliveries]


Reason = Literal["exhausted", "poison", "unprocessable", "expired"]


class DeadLetter(Received[T]):
    """A message in a dead-letter or expiry queue, with its story."""

    @property
    def original_queue(self) -> str:
        """The queue that it failed on, and goes back to."""
        return self.queue

    @property
    def reason(self) -> str:
        """Why it died: exhausted, poison, unprocessable or expired."""
        return self._state[0].partition("/")[2]

    @property
    def died_at(self) -> datetime:
        """When, by the server's clock (UTC)."""
        return moment(int(self._state[2]))

    @property
    def cause(self) -> Cause:
        """What went wrong in its last delivery."""
        failures = [event for event in self.history if event.event != "redriven"]
        if self.reason == "expired" or not failures:
            return Cause("Expired", "the time to live was over", "expired")
        return failures[-1].cause

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


Outcome = Literal["acked", "redelivered", "dead", "expired", "released", "kept", "settled", "lost", "gone"]


@dataclass(frozen=True, slots=True)
class Settlement:
    """What became of one message of a batch that was settled; true where it was ours to settle.

    Attributes:
        outcome: acked, redelivered, dead, expired, released, kept (a dead letter that failed stays one),
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
        totals: since the queue began: sent, delivered, acked, nacked, lapsed, released, exhausted, poison,
            unprocessable, expired, redriven, purged.
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

    @property
    def waiting(self) -> int:
        """Messages that are to be delivered: ready and scheduled."""
        return self.ready + self.scheduled
