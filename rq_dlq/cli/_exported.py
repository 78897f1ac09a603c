"""The form in which dead letters leave and come back: a line of JSON each."""

from __future__ import annotations

import base64
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from rq_dlq.values import record
from rq_dlq.values.codec import NO_JSON

if TYPE_CHECKING:
    from rq_dlq.values.message import Received, Row


class Failed(msgspec.Struct, frozen=True):
    """What went wrong (`values.failure.Cause`)."""

    type: str = ""
    message: str = ""
    fingerprint: str = ""
    traceback: str = ""
    version: str = ""


class Happened(msgspec.Struct, frozen=True):
    """A line of the history (`values.failure.Event`)."""

    event: str
    at: datetime
    delivery: int
    delay: float
    consumer: str
    cause: Failed


class Exported(msgspec.Struct, frozen=True, omit_defaults=True):
    """A dead letter.

    Attributes:
        part: dead or expired.
        body: a JSON value; of a body that is none: nothing.
        body_base64: of such a body, its bytes.
        persistent: as it was sent.
    """

    id: str
    queue: str
    part: str
    reason: str
    died_at: datetime
    group: str
    priority: int
    enqueued_at: datetime
    delivery_count: int
    charged: int
    nacked: int
    lapsed: int
    released: int
    redriven: int
    headers: dict[str, str] = {}
    body: Any = None
    body_base64: str | None = None
    persistent: bool = True
    history: list[Happened] = []


_COPIED = (
    *("id", "queue", "part", "reason", "priority", "enqueued_at", "delivery_count", "charged"),
    *("nacked", "lapsed", "released", "redriven"),
)


def exported(row: Row, letter: Received[Any]) -> Exported:
    """A dead letter in this form.

    Raises:
        UnprocessableMessage: its record is damaged.
    """
    data = letter.data  # raises if it is
    flags = row.record[record.FLAGS]
    return Exported(
        **{name: getattr(letter, name) for name in _COPIED},
        died_at=letter.died_at or letter.enqueued_at,
        group=letter.fingerprint,
        headers=dict(letter.headers),
        persistent=not flags & record.TRANSIENT,
        history=[msgspec.convert(asdict(event), Happened) for event in letter.history],
        **_body(data, raw=bool(flags & record.BYTES)),
    )


def _body(data: bytes, *, raw: bool) -> dict[str, Any]:
    """The body, unchanged if it is JSON."""
    try:
        if not raw:
            msgspec.json.decode(data)
            return {"body": msgspec.Raw(data.replace(b"\n", b" ").replace(b"\r", b" "))}
    except NO_JSON:
        pass
    return {"body_base64": base64.b64encode(data).decode()}
