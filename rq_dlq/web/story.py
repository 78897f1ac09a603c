"""The story of a message: its events, in order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from rq_dlq.errors import UnprocessableMessage
from rq_dlq.values.masks import MOST
from rq_dlq.values.readable import body_of
from rq_dlq.web.shown import seconds

if TYPE_CHECKING:
    from rq_dlq.core.looking.explain import Explanation
    from rq_dlq.values.failure import Event
    from rq_dlq.values.masks import Masks
    from rq_dlq.values.message import Received

WORDS = {
    "nacked": "failed",
    "lapsed": "the lease expired",
    "poisoned": "poisoned",
    "passed_on": "passed on to another version",
    "redriven": "redriven",
    "undone": "the redrive was undone",
    "dead_lettered": "sent to the dead-letter queue",
}
LEVELS = {"nacked": "warn", "lapsed": "warn", "poisoned": "bad", "redriven": "good", "dead_lettered": "bad"}


@dataclass(frozen=True, slots=True)
class Step:
    """One event.

    Attributes:
        level: bad, warn, good, now, next or empty.
        after: how long after the previous step, in words.
    """

    what: str
    level: str
    at: datetime | None
    after: str = ""
    consumer: str = ""
    error: str = ""
    version: str = ""
    traceback: str = ""


def story_of(explained: Explanation, now: datetime) -> list[Step]:
    """The steps of a message, from its send to its next step."""
    message = explained.message
    if message is None:
        return []
    steps = [Step("sent", "", message.enqueued_at)]
    before = message.enqueued_at
    for event in message.history:
        steps.append(_step(event, before))
        before = event.at
    died = message.died_at
    if died is not None:
        steps.append(Step(f"{explained.place}: {message.reason}", "bad", died, _after(before, died)))
        before = died
    elif explained.place != "unknown":
        steps.append(Step(f"{explained.place}: {explained.why}", "now", now, ""))
    steps.append(Step(f"next: {explained.next}", "next", explained.at))
    return steps


def _step(event: Event, before: datetime) -> Step:
    what = WORDS.get(event.event, event.event)
    if event.delivery and event.event in {"nacked", "lapsed", "poisoned"}:
        what = f"attempt {event.delivery}: {what}"
    if event.delay:
        what = f"{what}, again after {seconds(event.delay)}"
    cause = event.cause
    return Step(what, LEVELS.get(event.event, ""), event.at, _after(before, event.at), event.consumer,
                str(cause), cause.version, cause.traceback)  # fmt: skip


def _after(before: datetime, at: datetime) -> str:
    passed = (at - before).total_seconds()
    return f"{seconds(passed)} later" if passed > 0 else ""


def body_text(message: Received[Any], masks: Masks) -> str:
    """The body as indented JSON, without its secrets."""
    body = body_of(message)
    if isinstance(body, str):
        return str(masks.value(body))
    try:
        text = msgspec.json.format(msgspec.json.encode(masks.value(body))).decode()
        return text if len(text) <= MOST else masks.text(text)
    except (RecursionError, TypeError):
        return masks.text(message.data.decode(errors="replace"))


def headers_of(message: Received[Any], masks: Masks) -> dict[str, str]:
    """The headers without their secrets; empty if they cannot be read."""
    try:
        headers: dict[str, str] = masks.value(dict(message.headers))
    except UnprocessableMessage:
        return {}
    return headers
