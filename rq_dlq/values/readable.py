"""Readable text about messages and queues, for the command line and the page."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rq_dlq.errors import UnprocessableMessage
from rq_dlq.values.durations import human

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rq_dlq.values.counts import QueueStats
    from rq_dlq.values.message import Received

UPKEEP = {
    "swept": "taken from dead workers",
    "promoted": "made ready",
    "expired": "expired",
    "retired": "dropped after their retention",
    "grouped": "grouped",
    "reindexed": "checked for a lost index",
    "gathered": "gathers looked at",
    "written": "moved for ended senders",
    "fired": "sent by schedules",
    "redriven": "redriven",
}


def utc(moment: datetime) -> str:
    """A time as shown by the command line and the page: 2026-11-27 09:30:05 UTC."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def clock(time: datetime | None, at: datetime) -> str:
    """A time as people say it: 21:11 UTC, with its day if that is not today."""
    if time is None:
        return "an unknown time"
    time, at = time.astimezone(UTC), at.astimezone(UTC)
    return f"{time:%H:%M} UTC" if time.date() == at.date() else f"{time:%m-%d %H:%M} UTC"


def paused_until(until: datetime | None, at: datetime) -> str:
    """A pause of a queue, a key or a dependency: "paused until 22:00 UTC"; None: until it is resumed."""
    return f"paused until {'it is resumed' if until is None else clock(until, at)}"


def utc_short(moment: datetime) -> str:
    """The same in a cell of a table: 11-27 09:30:05Z."""
    return f"{moment.astimezone(UTC):%m-%d %H:%M:%SZ}"


def span(seconds: float) -> str:
    """Seconds rounded for display: to a tenth of a second, from ten seconds on to a second."""
    return human(round(seconds * 10) * 100 if seconds < 10 else round(seconds) * 1000)  # noqa: PLR2004


def many(number: int, what: str, plural: str = "") -> str:
    """A number with its noun: 1 message, 2 messages; 1 entry, 2 entries."""
    return f"{number:,} {what if number == 1 else plural or f'{what}s'}"


def some(names: Sequence[str], most: int) -> str:
    """The first names, and the number of further ones."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def upkeep(counts: Mapping[str, int]) -> str:
    """The counts of maintenance in a `ProcessReport`, in words: 3 made ready, 2 expired."""
    done = [f"{counts[name]:,} {words}" for name, words in UPKEEP.items() if counts.get(name)]
    return ", ".join(done) or "nothing was due"


def body_of(message: Received[Any]) -> Any:
    """The body: a JSON value, text, or its bytes in base64."""
    try:
        body = message.body
    except UnprocessableMessage:
        body = message.data
    if not isinstance(body, bytes):
        return body
    try:
        return body.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode()}


def why_still(stats: QueueStats, at: datetime) -> str:
    """Why a queue makes no progress, in a sentence; empty: it does, or no message waits.

    Args:
        at: when the counts were read.
    """
    if stats.leased or not stats.waiting:
        return ""
    if stats.paused:
        return f"it is {paused_until(stats.until, at)}: `rq-dlq queue resume {stats.name}` resumes it"
    if stats.blocked and not stats.ready and stats.next_due is None:
        return f"nothing is ready: {many(stats.blocked, 'message')} blocked, and no consumer holds a message"
    if stats.ready or not stats.next_due:  # due messages, too, only wait for a consumer
        return "no consumer holds a message: start one, for example with `rq-dlq worker MODULE:BROKER`"
    scheduled = many(stats.scheduled, "message")
    return f"nothing is ready: {scheduled} scheduled, the next due in {span(stats.next_due)}"
