"""What is wrong, since when, and where to look: the first lines of the overview."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from rq_dlq.values.readable import why_still
from rq_dlq.web.shown import link, many, seconds

if TYPE_CHECKING:
    from rq_dlq.values.counts import ErrorGroup
    from rq_dlq.values.masks import Masks
    from rq_dlq.values.overview import Overview, QueueOverview

STANDS, LONG, LATE = 30.0, 300.0, 10.0
"""Seconds: a message that nobody takes, one that waits although others are taken, and late maintenance."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong.

    Attributes:
        level: bad: messages die or stand; warn: something waits for a person.
        what: in a few words.
        detail: a sentence.
        since: when it began; None: not known.
        page: the address below the root where to look.
        weight: the larger, the earlier in the list.
    """

    level: Literal["bad", "warn"]
    queue: str
    what: str
    detail: str
    since: datetime | None
    page: str
    weight: float = 0


def findings(seen: Overview, masks: Masks) -> list[Finding]:
    """What is wrong, the worst first."""
    found = [one for queue in seen.queues for one in _of(queue, seen.at, masks)]
    return sorted(found, key=lambda one: (one.level != "bad", -one.weight, one.queue))


def _of(queue: QueueOverview, now: datetime, masks: Masks) -> Iterator[Finding]:
    for group in queue.groups:
        if trend := trend_of(group):
            yield _growing(queue.name, group, trend, masks)
    stats, page = queue.stats, link("queue", name=queue.name)
    oldest = stats.oldest or 0.0
    since = now - timedelta(seconds=oldest)
    if (still := why_still(stats)) and oldest > STANDS and not stats.paused:
        what = f"{many(stats.ready, 'message')} wait, and nobody takes them"
        yield Finding("bad", queue.name, what, still, since, page, stats.ready)
    elif stats.paused and stats.waiting:
        yield Finding("warn", queue.name, f"paused, {many(stats.waiting, 'message')} wait", still, None, page)
    elif oldest > LONG:
        what = f"the oldest message has waited {seconds(oldest)}"
        yield Finding("warn", queue.name, what, f"{many(stats.ready, 'message')} wait", since, page, oldest)
    if stats.overdue > LATE:
        what = f"maintenance is {seconds(stats.overdue)} late"
        yield Finding("warn", queue.name, what, "no worker and no `rq-dlq maintain` moves what is due",
                      now - timedelta(seconds=stats.overdue), page, stats.overdue)  # fmt: skip
    for redrive in queue.redrives:
        if redrive.state == "paused":
            to = link("redrive", queue=queue.name, id=redrive.id)
            yield Finding("warn", queue.name, "a redrive is paused", redrive.pause, None, to)


def trend_of(group: ErrorGroup) -> str:
    """What is remarkable of a group within the last hour, in a word."""
    if not group.last_hour:
        return ""
    trends = ("growing", "regressed", "new")
    return next((name for name in trends if getattr(group, name)), "")


def _growing(queue: str, group: ErrorGroup, trend: str, masks: Masks) -> Finding:
    return Finding(
        "bad",
        queue,
        masks.text(group.error or group.reason),
        f"{trend}: {many(group.last_hour, 'dead letter')} within the last hour, {group.count:,} in all",
        group.first_seen,
        link("group", queue=queue, id=group.fingerprint),
        group.last_hour,
    )
