"""Finds problems of queues, for `rq-dlq top`, the page, and assistants.

It judges what one overview has read, so it may run each second. `doctor/queues` reads more of each queue,
and says what to change: keys that are held up, calls that last long, failures that charge nothing. A fact
that both look at has one judge: an outage `values/outage`, a queue that stands still
`values/readable.why_still`, what workers hold `core/processes/busy`. Alerts have the limits of this module.
`doctor/vitals` judges its own process without Redis, and `telemetry/health` only tells that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, get_args

from rq_dlq.core.looking.overview import SLOW
from rq_dlq.values import outage
from rq_dlq.values.counted import UNREACHABLE
from rq_dlq.values.outage import Level
from rq_dlq.values.readable import many, paused_until, span, why_still

if TYPE_CHECKING:
    from rq_dlq.core.looking.overview import QueueOverview

UNTAKEN: Final = 30.0  # seconds that a ready message may wait while none is leased
OLD: Final = 300.0  # the same while others are worked on
OVERDUE: Final = 30.0  # seconds that maintenance and schedules may be late
HOUR = 3600
Kind = Literal["outage", "dying", "orphaned", "overdue", "waiting", "paused", "redrive", "undecided"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""The worst first; an outage is often the cause of the others."""
LEVELS: tuple[Level, ...] = get_args(Level)


@dataclass(frozen=True, slots=True)
class Trouble:
    """A problem of a queue.

    Attributes:
        level: bad: messages die or are stuck; warn: an operator should look at it; calm: it waits for a
            decision, or ends by itself.
        size: for comparison with others of its kind.
        what: a short description, with the text of an error, which may contain secrets.
        detail: a sentence, with commands in backticks.
        since: when it began; None: unknown.
        subject: the fingerprint of a group, the id of a redrive, or a dependency; empty: it is about the
            whole queue.
    """

    queue: str
    kind: Kind
    level: Level
    size: float
    what: str
    detail: str
    since: datetime | None = None
    subject: str = ""

    @property
    def line(self) -> str:
        """All of it in one line, with the queue at the end."""
        return f"{self.what}; {self.detail} ({self.queue})"


def troubles(
    queues: Iterable[QueueOverview], at: datetime, died: Mapping[str, float] | None = None
) -> list[Trouble]:
    """The problems of queues, the worst first.

    Args:
        at: when they were read.
        died: dead letters per second, by queue, if known.
    """
    found = [one for queue in queues for one in _of(queue, at, (died or {}).get(queue.name, 0.0))]
    return sorted(found, key=_weight)


def _weight(one: Trouble) -> tuple[int, int, float, str, str]:
    return LEVELS.index(one.level), KINDS.index(one.kind), -one.size, one.queue, one.subject


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
        what = f"{paused_until(stats.until, at)}, {stats.waiting:,} waiting"
        detail = f"`rq-dlq queue resume {name}` resumes it"
        yield Trouble(name, "paused", "warn", stats.waiting, what, detail)
    elif not stats.paused and oldest > (OLD if stats.leased else UNTAKEN):
        what = f"{stats.ready:,} ready, the oldest for {span(oldest)}"
        what += "" if stats.leased else ", and no consumer takes them"
        detail = why_still(stats, at) or _held(queue)
        yield Trouble(name, "waiting", "bad", oldest, what, detail, _ago(at, oldest))
    elif not stats.paused and stats.leased and oldest > SLOW:
        what = f"{stats.ready:,} ready, the oldest for {span(oldest)}"
        yield Trouble(name, "waiting", "warn", oldest, what, _held(queue), _ago(at, oldest))
    yield from _outages(queue, at)
    for redrive in queue.redrives:
        if redrive.state == "paused":
            what, left = f"redrive {redrive.id} is paused", redrive.counts.eligible - redrive.counts.moved
            yield Trouble(name, "redrive", "warn", left, what, redrive.pause, subject=redrive.id)
    yield from _undecided(queue)


def _outages(queue: QueueOverview, at: datetime) -> Iterator[Trouble]:
    for one in queue.dependencies:
        if level := outage.level_of(one):
            what, detail = outage.what(one, at), outage.advice(one, at)
            size, since = one.waiting + one.behind, one.since or one.ended
            yield Trouble(queue.name, "outage", level, size, what, detail, since, one.dependency)


def _undecided(queue: QueueOverview) -> Iterator[Trouble]:
    """Dead letters that are no news, are not being redriven, and are not muted."""
    groups = [group for group in queue.groups if not (group.muted or (group.trends and group.last_hour))]
    running = any(redrive.state == "running" for redrive in queue.redrives)
    if not running and (count := sum(group.count for group in groups)):
        down = all(group.error_class in UNREACHABLE for group in groups)
        of = " of an outage that is over" if down else ""
        what = f"{many(count, 'dead letter')}{of} {'waits' if count == 1 else 'wait'} for a decision"
        detail = f"`rq-dlq dlq groups {queue.name}` lists them by failure: redrive, purge or mute them"
        since = min(group.first_seen for group in groups)
        yield Trouble(queue.name, "undecided", "calm", count, what, detail, since)


def _ago(at: datetime, seconds: float) -> datetime:
    return at - timedelta(seconds=seconds)


def _held(queue: QueueOverview) -> str:
    """What the consumers of a queue hold, as far as it is known: whether they are too few or slow is not."""
    held = str(queue.busy or f"consumers hold {many(queue.stats.leased, 'message')}")
    if not queue.holders:
        return held
    common = "; ".join(map(str, queue.holders))
    return f"{held}; {common}: `rq-dlq msg ls {queue.name} --count-by {queue.holders[0].name}`"


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
