"""The format for exporting and importing dead letters: one line of JSON each."""

from __future__ import annotations

import base64
from dataclasses import asdict, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec

from rq_dlq.core.sending.packing import SendOptions, packed
from rq_dlq.errors import InvalidMessage
from rq_dlq.values import record
from rq_dlq.values.codec import NO_JSON
from rq_dlq.values.failure import Cause, moment
from rq_dlq.values.message import MessageRow
from rq_dlq.values.state import deadline_of

if TYPE_CHECKING:
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.values.message import Received

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=10**15)]
Word: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[a-z_]*\Z")]
Time: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]


class Failed(msgspec.Struct, frozen=True):
    """The cause of a failure (`values.failure.Cause`)."""

    type: str = ""
    message: str = ""
    fingerprint: str = ""
    traceback: str = ""
    version: str = ""


class Happened(msgspec.Struct, frozen=True):
    """A line of the history (`values.failure.Event`)."""

    event: Word
    at: Time
    delivery: Count
    delay: Annotated[float, msgspec.Meta(ge=0, lt=10**12)]
    consumer: str
    cause: Failed

    def line(self) -> str:
        """The stored form (lua/history.lua, remember)."""
        consumer = msgspec.json.encode(self.consumer).decode() if self.consumer else ""
        cells = (self.event, ms(self.at), self.delivery, round(self.delay * 1000), consumer)
        return "\t".join((*map(str, cells), Cause(**msgspec.structs.asdict(self.cause)).cells()))


class Exported(msgspec.Struct, frozen=True, omit_defaults=True):
    """A dead letter.

    Attributes:
        part: dead or expired.
        body: the body, if it is a JSON value.
        body_base64: the bytes of any other body.
        persistent: the sender's flag.
        expires_at: when the time to live set by the sender or a redrive ends.
    """

    id: str
    queue: str
    part: Literal["dead", "expired"]
    reason: Word
    died_at: Time
    fingerprint: Annotated[str, msgspec.Meta(pattern=r"\A[a-z0-9]{0,12}\Z")]
    priority: int
    enqueued_at: Time
    delivery_count: Count
    charged: Count
    nacked: Count
    lapsed: Count
    released: Count
    redriven: Count
    untried: Count = 0
    headers: dict[str, str] = {}
    key: str | None = None
    dependency: str | None = None
    body: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    body_base64: str | None = None
    persistent: bool = True
    expires_at: Time | None = None
    history: list[Happened] = []


_COUNTS = ("delivery_count", "charged", "nacked", "lapsed", "released", "redriven")
_COPIED = (
    "id",
    "queue",
    "part",
    "reason",
    "fingerprint",
    "priority",
    "key",
    "dependency",
    "enqueued_at",
    *_COUNTS,
    "untried",
)
_LAST = 1 << 42  # milliseconds: no time is later (lua/state.lua)


def exported(row: MessageRow, letter: Received[Any]) -> Exported:
    """A dead letter in the export format.

    Raises:
        UnprocessableMessage: its record is damaged.
    """
    data = letter.data  # raises if it is damaged
    flags = row.record[record.FLAGS]
    return Exported(
        **{name: getattr(letter, name) for name in _COPIED},
        died_at=letter.died_at or letter.enqueued_at,
        headers=dict(letter.headers),
        persistent=not flags & record.TRANSIENT,
        expires_at=None if (ends := deadline_of(row.state, row.record)) is None else moment(ends),
        history=[msgspec.convert(asdict(event), Happened) for event in letter.history],
        **_body(data, raw=bool(flags & record.BYTES)),
    )


def _body(data: bytes, *, raw: bool) -> dict[str, Any]:
    """The body, as JSON; in base64 if it was sent as bytes or is not JSON."""
    try:
        if not raw:
            msgspec.json.decode(data)
            return {"body": msgspec.Raw(data.replace(b"\n", b" ").replace(b"\r", b" "))}
    except NO_JSON:
        pass
    return {"body_base64": base64.b64encode(data).decode()}


def read(line: bytes, number: int, queue: QueueState[Any]) -> MessageRow:
    """The stored form of an exported dead letter.

    Args:
        number: its line number, which keeps the order within a millisecond.

    Raises:
        InvalidInput: it is not a dead letter, or its id, a header or its body is not valid.
    """
    try:
        letter = msgspec.json.decode(line, type=Exported)
        born, died = ms(letter.enqueued_at), ms(letter.died_at)
        ends = None if letter.expires_at is None else ms(letter.expires_at)
        history = "\n".join(event.line() for event in letter.history)
        body: Any = letter.body
        if body is msgspec.UNSET:
            body = base64.b64decode(letter.body_base64 or "", validate=True)
    except NO_JSON as error:
        raise InvalidMessage(f"not a dead letter that `rq-dlq dlq export` wrote: {error}") from None
    options = SendOptions(0, 0, letter.priority, letter.headers, letter.persistent)
    options = replace(options, key=letter.key, dependency=letter.dependency)
    message_id, payload = packed(queue, body, letter.id, options)
    birth = (born << record.NUMBER_BITS) + number % (1 << record.NUMBER_BITS)
    counts = " ".join(str(getattr(letter, name)) for name in _COUNTS)
    reason = f"/{letter.reason}" if letter.reason else ""
    group = f" group={letter.fingerprint}" if letter.part == "dead" else ""
    untried = f" untried={letter.untried}" if letter.untried else ""
    return MessageRow(
        message_id,
        record.sent(birth, payload, ends),
        f"{letter.part}{reason} - {died} {counts} 0{group}{untried}".encode(),
        history.encode(),
    )


def ms(time: datetime) -> int:
    """A time in milliseconds, as in Redis.

    Raises:
        ValueError: it is out of range.
    """
    found = round(time.timestamp() * 1000)
    if not 0 < found < _LAST:
        raise ValueError(f"{time} is not a possible time of a message")
    return found
