"""Finds problems of queues, for `rq-dlq top`, the page, and assistants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, get_args

from rq_dlq.core.keyed.outages import in_words
from rq_dlq.core.looking.overview import SLOW
from rq_dlq.values.readable import many, span, why_still

if TYPE_CHECKING:
    from rq_dlq.core.looking.overview import QueueOverview

UNTAKEN: Final = 30.0  # seconds that a ready message may wait while none is leased
OLD: Final = 300.0  # the same while others are worked on
OVERDUE: Final = 30.0  # seconds that maintenance and schedules may be late
HOUR = 3600
Level = Literal["bad", "warn"]
Kind = Literal["dying", "orphaned", "outage", "overdue", "waiting", "paused", "redrive"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""The worst first."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A problem of a queue.

    Attributes:
        level: bad: messages die or are stuck; warn: an operator should look at it.
        size: for comparison with others of its kind.
        what: a short description, with the text of an error, which may contain secrets.
        detail: a sentence, with commands in backticks.
        since: when it began; None: unknown.
        subject: the fingerprint of a group, or the id of a redrive; empty: it is about the whole queue.
    """

    queue: str
    kind: Kind
    level: Level
    size: float
    what: str
    detail: str
    since: datetime | None = None
    subject: str = ""


def troubles(
    queues: Iterable[QueueOverview], at: datetime, died: Mapping[str, float] | None = None
) -> list[Trouble]:
    """The problems of queues, the worst first.

    Args:
        at: when they were read.
        died: dead letters per second, by queue, if known.
    """
    found = [one for queue in queues for one in _of(queue, at, (died or {}).get(queue.name, 0.0))]
    return sorted(found, key=lambda one: (one.level != "bad", KINDS.index(one.kind), -one.size, one.queue))


def _of(queue: QueueOverview, at: datetime, died: float) -> Iterator[Trouble]:
    name, stats, oldest = queue.name, queue.stats, queue.stats.oldest or 0.0
    yield from _deaths(queue, died)
    for late, whose, does in (
        (stats.overdue, "maintenance", "moves what is due"),
        (queue.schedules_overdue, "a schedule", "sends its message"),
    ):
        if late > OVERDUE:
            what, detail = f"{whose} is {span(late)} late", f"no worker and no `rq-dlq maintain` {does}"
            yield Trouble(name, "overdue", "bad", late, what, detail, _ago(at, late))
    if stats.orphaned:
        what = f"{many(stats.orphaned, 'message')} in no index"
        detail = "a key was deleted, or restored in part: a worker or `rq-dlq maintain` puts them back"
        yield Trouble(name, "orphaned", "bad", stats.orphaned, what, detail)
    if stats.paused and stats.waiting:
        what, detail = f"paused, {stats.waiting:,} waiting", f"`rq-dlq queue resume {name}` resumes it"
        yield Trouble(name, "paused", "warn", stats.waiting, what, detail)
    elif not stats.paused and oldest > (OLD if stats.leased else UNTAKEN):
        what = f"{stats.ready:,} ready, the oldest for {span(oldest)}"
        what += "" if stats.leased else ", and no consumer takes them"
        detail = why_still(stats) or "the workers cannot keep up: start more of them"
        yield Trouble(name, "waiting", "bad", oldest, what, _held(queue, detail), _ago(at, oldest))
    elif not stats.paused and stats.leased and oldest > SLOW:
        what = f"{stats.ready:,} ready, the oldest for {span(oldest)}"
        detail = _held(queue, "the workers cannot keep up")
        yield Trouble(name, "waiting", "warn", oldest, what, detail, _ago(at, oldest))
    yield from _outages(queue)
    for redrive in queue.redrives:
        if redrive.state == "paused":
            what, left = f"redrive {redrive.id} is paused", redrive.counts.eligible - redrive.counts.moved
            yield Trouble(name, "redrive", "warn", left, what, redrive.pause, subject=redrive.id)


def _outages(queue: QueueOverview) -> Iterator[Trouble]:
    for down in queue.dependencies:
        if down.open:
            what = f"{down.dependency}: {in_words(down)}"
            resume = f"rq-dlq queue resume {queue.name} --dependency {down.dependency}"
            level: Level = "warn" if down.paused else "bad"
            detail = f"failures are not charged; `{resume}` delivers all messages"
            yield Trouble(queue.name, "outage", level, down.waiting, what, detail, down.since)


def _ago(at: datetime, seconds: float) -> datetime:
    return at - timedelta(seconds=seconds)


def _held(queue: QueueOverview, detail: str) -> str:
    """The messages that hold the workers of a queue, if known."""
    if not queue.holders:
        return detail
    header = queue.holders[0].name
    return f"{'; '.join(map(str, queue.holders))}: `rq-dlq msg ls {queue.name} --count-by {header}`"


def _deaths(queue: QueueOverview, died: float) -> Iterator[Trouble]:
    """At most one problem: the worst group, or the known cause of most deaths."""
    groups = [group for group in queue.groups if group.trends and group.last_hour]
    groups.sort(key=lambda group: (not (group.growing or group.regressed), -group.last_hour, -group.count))
    if groups:
        lead, *others = groups
        what = f"{', '.join(lead.trends)}: {lead.error or lead.reason}"
        detail = f"{many(lead.last_hour, 'dead letter')} within the last hour, {lead.count:,} in all"
        detail += f", and {many(len(others), 'other group')} like it" if others else ""
        level: Level = "bad" if died or lead.growing or lead.regressed else "warn"
        since = lead.first_seen if lead.new or lead.regressed else None
        yield Trouble(queue.name, "dying", level, lead.last_hour, what, detail, since, lead.fingerprint)
    elif died and not _died_muted(queue):
        what, detail = "messages die", f"{many(queue.stats.dead, 'dead letter')}, of no new or growing group"
        yield Trouble(queue.name, "dying", "bad", died * HOUR, what, detail)


def _died_muted(queue: QueueOverview) -> bool:
    """Whether all that died lately is of groups that are muted."""
    lately = [group for group in queue.groups if not group.calm]
    return bool(lately) and all(group.muted for group in lately)
