"""Messages to send, messages in a queue, and dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, NoReturn, TypeVar

import msgspec

from rq_dlq.errors import UnprocessableMessage
from rq_dlq.errors.guesses import Answering
from rq_dlq.values import record as records
from rq_dlq.values import state as states
from rq_dlq.values.codec import NO_HEADERS, NO_JSON, Codec
from rq_dlq.values.failure import Cause, Event, cause_of_expiry, last_failure, moment, read_history
from rq_dlq.values.flags import check_flag
from rq_dlq.values.key import text_in
from rq_dlq.values.later import needed, upgrade
from rq_dlq.values.names import check_id
from rq_dlq.values.strings import strings_of
from rq_dlq.values.times import due_of, end_of

if TYPE_CHECKING:
    from rq_dlq.values.durations import Duration
    from rq_dlq.values.sent import OnDuplicate

T = TypeVar("T")
_UNREAD = object()  # marks a body that is not decoded yet
_HEADERS = msgspec.json.Decoder(dict[str, str])


@dataclass(frozen=True, slots=True)
class Message(Generic[T]):
    """A message for `send_many`, or for an ack that sends, with its own options.

    Args:
        body: the body, of the queue's type.
        id: the permanent id, at most 200 bytes; None: a new one is generated.
        delay: time until the first delivery, or `at`: the time of that; None: the call's.
        ttl: time to live, or `expires_at`: the time at which it ends; None: the call's.
        at, expires_at: see `Queue.send`.
        headers: a mapping of text to text, in place of the call's headers; None: the call's headers.
        priority: 9 (first) to 0 (last); None: the call's priority.
        key: at most 200 bytes; None: the call's key.
        dependency: at most 200 bytes; None: the call's dependency.
        persistent: see `Queue.send`; None: the call's value.
        result: True: keep the return value of its handler, for `Queue.result`; None: the call's value.
        on_duplicate, max_delay: what happens if its id is known, see `Queue.send`; None: the call's values.

    Raises:
        InvalidMessage: the id is not valid.
        InvalidDuration: the delay is below 0, or the ttl is below one millisecond.
        InvalidInput: `persistent` or `result` is neither True nor False, a time has no zone, or there is a
            duration beside it.

    Examples:
        >>> orders.send_many([Message({"total": 5.0}, id="order-45", key="customer-7")])
        ['order-45']
    """

    body: T
    id: str | None = field(default=None, kw_only=True)
    delay: Duration | None = field(default=None, kw_only=True)
    ttl: Duration | None = field(default=None, kw_only=True)
    at: datetime | None = field(default=None, kw_only=True)
    expires_at: datetime | None = field(default=None, kw_only=True)
    headers: Mapping[str, str] | None = field(default=None, kw_only=True)
    priority: int | None = field(default=None, kw_only=True)
    key: str | None = field(default=None, kw_only=True)
    dependency: str | None = field(default=None, kw_only=True)
    persistent: bool | None = field(default=None, kw_only=True)
    result: bool | None = field(default=None, kw_only=True)
    on_duplicate: OnDuplicate | None = field(default=None, kw_only=True)
    max_delay: Duration | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.id is not None:
            check_id(self.id)
        if self.delay is not None or self.at is not None:
            due_of(self.delay, self.at)
        if self.ttl is not None or self.expires_at is not None:
            end_of(self.ttl, self.expires_at)
        for name in ("persistent", "result"):
            if getattr(self, name) is not None:
                check_flag(getattr(self, name), name)


class MessageRow(NamedTuple):
    """A message as returned by a verb."""

    id: str
    record: bytes
    state: bytes
    history: bytes
    lease_until: int = 0

    @property
    def version_needed(self) -> str:
        """The version needed to read the message; empty: this version."""
        return needed(self.state) or records.version_needed(self.record)

    def position_in(self, place: str) -> tuple[int, int, bytes, str]:
        """The sort key of the message in a place (lua/order.lua); in `leased`, the end of its lease.

        It needs the state and the head of the record.
        """
        head, sent = self.record[records.BIRTH], records.born_at(self.record)
        if place == "leased":
            return (0, self.lease_until, head, self.id)
        due = (states.read_state(self.state) or states.NEW).due or sent
        flags = self.record[records.FLAGS] if len(self.record) > records.FLAGS else 0  # if not damaged
        last = max(0, 9 - (flags & records.PRIORITY))
        # Within a millisecond, messages that were due when sent follow the others, in the order of sending.
        tie = bytes([16 if due == sent else last]) + head
        return (last if place == "ready" else 0, due, tie, self.id)


class Received(Answering, Generic[T]):
    """A message in a queue. Its fields are read from its record on access.

    Attributes:
        id: the message's permanent id.

    Examples:
        >>> (message,) = orders.peek()
        >>> message.id, message.body, message.delivery_count
        ('order-41', {'total': 9.5}, 0)
        >>> message.queue, message.original_queue, message.data, message.headers
        ('orders', 'orders', b'{"total":9.5}', {})
        >>> message.key, message.dependency, message.priority, message.part
        (None, None, 4, 'live')
        >>> message.attempt, message.redelivered, message.untried, message.released, message.redriven
        (0, False, 0, 0, 0)
        >>> message.charged, message.nacked, message.lapsed, message.history, message.progress_made
        (0, 0, 0, (), None)
        >>> message.reason, message.died_at, message.fingerprint, str(message.cause)
        ('', None, '', '')
        >>> message.expires_at, message.due == round(message.enqueued_at.timestamp() * 1000)
        (None, True)
    """

    _body: Any = _UNREAD

    def __init__(self, row: MessageRow, codec: Codec[T], queue: str) -> None:
        self.id = row.id
        self._row = row
        self._source = (queue, codec)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} of {self.queue!r}>"

    @property
    def queue(self) -> str:
        """The name of the queue it was read from."""
        return self._source[0]

    @property
    def _codec(self) -> Codec[T]:
        return self._source[1]

    @property
    def body(self) -> T:
        """The body, decoded as the queue's type.

        Raises:
            UnprocessableMessage: it cannot be decoded.
            UpgradeRequired: a later version sent it in a form that this version cannot read.
        """
        if self._body is _UNREAD:  # after a claim, `read_bodies` has decoded nearly all
            self._body = self._codec.decode(self._content[1], raw=bool(self._flags & records.BYTES))
        return self._body  # type: ignore[no-any-return]

    @property
    def _flags(self) -> int:
        record = self._row.record
        if len(record) < records.BARE:
            raise UnprocessableMessage(f"the record of message {self.id} is damaged ({len(record)} bytes)")
        if version := records.version_needed(record):
            self._refuse("record", version)
        return record[records.FLAGS]

    @property
    def _content(self) -> tuple[Mapping[str, str], bytes, Mapping[int, bytes]]:
        """The headers, the encoded body, and the other fields by their numbers."""
        _ = self._flags  # raises if the record is damaged
        try:
            fields, headers, body = records.content_of(self._row.record)
            return (NO_HEADERS if headers is None else _HEADERS.decode(headers)), body, fields
        except NO_JSON as why:
            raise UnprocessableMessage(f"the headers of message {self.id} cannot be decoded: {why}") from why

    @property
    def _values(self) -> Iterator[str]:
        """The texts in the message: its id, its headers, the strings of its body."""
        yield self.id
        with suppress(UnprocessableMessage):
            yield from (*self.headers.values(), *strings_of(self.data))

    @property
    def key(self) -> str | None:
        """The key by which the queue may order or limit messages (`PerKey`); None: no key.

        Raises:
            UnprocessableMessage: its headers cannot be decoded.
        """
        return text_in(self._content[2].get(records.KEY))

    @property
    def dependency(self) -> str | None:
        """The dependency by which the queue may detect an outage (`Breaker`); None: no dependency.

        Raises:
            UnprocessableMessage: its headers cannot be decoded.
        """
        return text_in(self._content[2].get(records.DEPENDENCY))

    @property
    def data(self) -> bytes:
        """The stored body, encoded."""
        return self._content[1]

    @property
    def headers(self) -> Mapping[str, str]:
        """The sender's headers, text by name."""
        return self._content[0]

    @property
    def priority(self) -> int:
        """0 (last) to 9 (first)."""
        return self._flags & records.PRIORITY

    @property
    def enqueued_at(self) -> datetime:
        """When it was sent, by the server's clock (UTC)."""
        return moment(records.born_at(self._row.record))

    @property
    def expires_at(self) -> datetime | None:
        """When its time to live ends (UTC); None: never. A redrive may set a new one."""
        _ = self._flags
        end = self._state.expires if self.redriven else records.expiry_of(self._row.record)
        return moment(end) if end else None

    @property
    def _state(self) -> states.State:
        if version := needed(self._row.state):
            self._refuse("state", version)
        return states.read_state(self._row.state) or states.NEW

    def _refuse(self, part: str, version: str) -> NoReturn:
        raise upgrade(f"the {part} of message {self.id} of {self.queue!r}", version)

    @property
    def part(self) -> str:
        """The part of the queue: live, dead or expired."""
        return self._state.part

    @property
    def progress_made(self) -> states.Progress | None:
        """The progress reported in this delivery (`Delivery.progress`); None: nothing was reported."""
        return states.progress_of(self._row.state)

    @property
    def due(self) -> int:
        """When it becomes or became ready, or when it died; milliseconds of the server's clock."""
        return self._state.due or records.born_at(self._row.record)

    @property
    def delivery_count(self) -> int:
        """How often it was delivered, including deliveries that were not attempts (see `attempt`)."""
        return self._state.deliveries

    @property
    def untried(self) -> int:
        """How often it was released before processing began, for example by a stopping worker."""
        return self._state.untried

    @property
    def attempt(self) -> int:
        """The number of attempts: `delivery_count` without `untried`. In a handler 1 is the first attempt."""
        return max(0, self.delivery_count - self.untried)

    @property
    def charged(self) -> int:
        """The number of failures that count against the budget; a redrive resets it to 0."""
        return self._state.charged

    @property
    def nacked(self) -> int:
        """How often a consumer nacked it."""
        return self._state.nacked

    @property
    def lapsed(self) -> int:
        """How often its lease expired, except in Spark batches whose driver was down."""
        return self._state.lapsed

    @property
    def released(self) -> int:
        """How often it was released."""
        return self._state.released

    @property
    def redriven(self) -> int:
        """How often it was redriven."""
        return self._state.redriven

    @property
    def redelivered(self) -> bool:
        """Whether it was tried before; True if that is uncertain."""
        return self.attempt > 1

    @property
    def history(self) -> tuple[Event, ...]:
        """Its history: the first 15 and the last 15 events."""
        return read_history(self._row.history)

    @property
    def original_queue(self) -> str:
        """The queue that it was sent to; if it is dead: where it failed, and where a redrive returns it."""
        return self.queue

    @property
    def reason(self) -> str:
        """Why it died: exhausted, poison, unprocessable or expired; empty: it is not dead, or is damaged."""
        return self._state.reason

    @property
    def died_at(self) -> datetime | None:
        """When it died, by the server's clock (UTC); None: it is not dead."""
        return None if self.part == "live" else moment(self._state.due)

    @property
    def cause(self) -> Cause:
        """The cause of its last failed delivery; for an expired message only if it caused the expiry."""
        last = last_failure(self._row.history)
        if self.reason == "expired" and self.died_at is not None:
            return cause_of_expiry(last, self.died_at)
        return last.cause if last else Cause()

    @property
    def fingerprint(self) -> str:
        """The fingerprint of its kind of failure."""
        return states.group_of(self._row.state) or self.cause.fingerprint


class DeadLetter(Received[T]):
    """A message in a dead-letter or expiry queue, with its history.

    Examples:
        >>> (letter,) = mails.dlq.browse()
        >>> letter.id, letter.reason, letter.cause.message
        ('mail-1', 'poison', 'no address')
        >>> letter.original_queue, letter.died_at >= letter.enqueued_at
        ('mails', True)
        >>> letter.fingerprint == letter.cause.fingerprint
        True
    """

    @property
    def died_at(self) -> datetime:
        """When it died, by the server's clock (UTC)."""
        return moment(self._state.due)
