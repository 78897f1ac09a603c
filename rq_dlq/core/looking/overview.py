"""The overview of all queues, for metrics, pages and tools for operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rq_dlq._keys import QueueKeys
from rq_dlq.core.groups.index import NEW_WITHIN, index_groups
from rq_dlq.core.keyed import calls as keyed_calls
from rq_dlq.core.keyed.behind import with_behind
from rq_dlq.core.keyed.outages import of_lanes
from rq_dlq.core.looking.holder import Holder, holders
from rq_dlq.core.processes.busy import Busy, busy
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.each import UnreachableQueue, each_queue, lost_queue
from rq_dlq.core.redrive import calls as redrive_calls
from rq_dlq.core.steps.driving import lost_among, unrepeated
from rq_dlq.core.steps.step import NodeUnavailable, Pipeline, Steps
from rq_dlq.errors import InvalidInput
from rq_dlq.values.cached import cached_property
from rq_dlq.values.durations import milliseconds, shown
from rq_dlq.values.failure import moment
from rq_dlq.values.readable import many

if TYPE_CHECKING:
    from rq_dlq.core.redrive.record import Redrive
    from rq_dlq.values.codec import Codec
    from rq_dlq.values.counts import ErrorGroup, QueueStats
    from rq_dlq.values.dependency import DependencyStats

FEW = 10  # names in a line


@dataclass(frozen=True, slots=True)
class QueueOverview:
    """A queue at a glance.

    Attributes:
        stats: its counts.
        groups: its dead letters by kind of failure, the largest group first; also empty until maintenance has
            indexed all dead letters.
        redrives: its running redrives and those of the last week, the newest first.
        grouped_at: when `groups` was read, by the server's clock.
        grouped: the counts at that time.
        schedules_overdue: how late the first of its schedules is, seconds; 0: none is late.
        dependencies: the dependencies that count as down, are paused, or are recovering.
        holders: common values of most leased messages (a header, a key), if the oldest ready message has
            waited for more than a minute.
        held_at: when these were read, by the server's clock; None: they were not read.
        busy: what the queue's workers hold, read in the same case; None: they do not report it.
    """

    stats: QueueStats
    groups: Sequence[ErrorGroup]
    redrives: Sequence[Redrive]
    grouped_at: datetime
    grouped: QueueStats
    schedules_overdue: float = 0.0
    dependencies: Sequence[DependencyStats] = ()
    holders: Sequence[Holder] = ()
    held_at: datetime | None = None
    busy: Busy | None = None

    @property
    def name(self) -> str:
        """Of the queue."""
        return self.stats.name

    @property
    def parked(self) -> int:
        """How many messages wait for a dependency."""
        return sum(one.waiting for one in self.dependencies)

    @property
    def oldest_parked(self) -> float | None:
        """How long the oldest message that waits for a dependency has waited, seconds; None: none does."""
        return max((one.oldest for one in self.dependencies if one.oldest is not None), default=None)

    @property
    def oldest(self) -> float | None:
        """How long the oldest message has waited that is ready or parked, seconds; None: none does."""
        return max((age for age in (self.stats.oldest, self.oldest_parked) if age is not None), default=None)


@dataclass(frozen=True)
class Overview:
    """All queues of a broker.

    Attributes:
        at: when it was read, by the server's clock.
        queues: the queues that were read, sorted by name.
        unreachable: the queues that could not be read, sorted by name.
        unlisted: why the list of queues could not be read: the queues are those of the previous overview,
            without new ones; empty: it was read.

    Examples:
        >>> overview = broker.overview()
        >>> overview.by_name["mails"].stats.dead, overview.gaps
        (1, [])
    """

    at: datetime
    queues: Sequence[QueueOverview]
    unreachable: Sequence[UnreachableQueue] = ()
    unlisted: str = ""

    @cached_property
    def gaps(self) -> Sequence[str]:
        """The parts that could not be read, one line for each reason."""
        names: dict[str, list[str]] = {}
        for queue in self.unreachable:
            names.setdefault(queue.why, []).append(queue.name)
        lines = [
            f"{why}, with {many(len(lost), 'queue')}: {', '.join(lost[:FEW])}{', …' if lost[FEW:] else ''}"
            for why, lost in names.items()
        ]
        if self.unlisted:
            lines.append(f"the list of queues cannot be read, so new ones are missing: {self.unlisted}")
        return lines

    @cached_property
    def by_name(self) -> Mapping[str, QueueOverview]:
        """The queues by their names."""
        return {queue.name: queue for queue in self.queues}

    def grown(self, before: Overview) -> Mapping[str, Mapping[str, int]]:
        """How many messages were sent, acked and so on in each queue since an earlier overview.

        A counter that was reset in the meantime has not grown, nor has one of a queue that is new.

        Args:
            before: the earlier overview, of the same broker.

        Returns:
            By the queue's name, then by the name of the counter (`QueueStats.totals`).

        Examples:
            >>> before = broker.overview()
            >>> sent = orders.send({"total": 1.0})
            >>> broker.overview(before).grown(before)["orders"]["sent"]
            1
        """
        return {queue.name: _grown(queue, before.by_name.get(queue.name, queue)) for queue in self.queues}


def _grown(queue: QueueOverview, before: QueueOverview) -> Mapping[str, int]:
    then = before.stats.totals
    return {name: max(0, now - then.get(name, 0)) for name, now in queue.stats.totals.items()}


SLOW = 60.0  # seconds that the oldest message may wait before the overview reads what holds the workers
FRESH, OLD = 5, 60  # seconds: groups that an earlier overview has are not read again, or are in any case


def overview(namespace: str, codec: Codec[Any], before: Overview | None = None) -> Steps[Overview]:
    """Read the counts, groups and redrives of all queues, and how late their schedules are.

    A queue that is damaged, or whose cluster node does not answer, is unreachable; the others are read.

    Args:
        before: an earlier overview, whose groups are reused if the queue's counts are the same.

    Raises:
        InvalidInput: `before` is not an overview.
    """
    if not isinstance(before, Overview | None):
        raise InvalidInput(
            f"before is {shown(before)}. Pass the return value of an earlier overview(), or None"
        )
    at: int = yield queue_calls.clock()
    names, unlisted = yield from _names(namespace, before)

    def read(part: Sequence[str]) -> Steps[list[QueueOverview | UnreachableQueue]]:
        nonlocal at
        found: list[QueueOverview | UnreachableQueue] = []
        families = [QueueKeys(namespace, name) for name in part]
        counts = yield Pipeline([queue_calls.stats(keys, keys.family) for keys in families], apart=True)
        jobs = yield Pipeline([redrive_calls.jobs(keys) for keys in families], apart=True)
        ticks = yield Pipeline([queue_calls.first_score(keys, "ticks") for keys in families], apart=True)
        lanes = yield Pipeline([keyed_calls.specials(keys) for keys in families], apart=True)
        for keys, *cells in zip(families, counts, jobs, ticks, lanes, strict=True):
            known = before.by_name.get(keys.family) if before else None
            queue = lost_among(cells) or (yield from _queue(keys, codec, known, cells))
            if isinstance(queue, NodeUnavailable):
                found.append(lost_queue(keys.family, queue))
            else:
                at = cells[0][0]
                found.append(queue)
        return found

    queues = yield from each_queue(names, read)
    lost = [queue for queue in queues if isinstance(queue, UnreachableQueue)]
    there = [queue for queue in queues if isinstance(queue, QueueOverview)]
    if any(queue.held_at for queue in there):
        found = yield from busy(namespace)
        there = [replace(queue, busy=found.get(queue.name) if queue.held_at else None) for queue in there]
    return Overview(moment(at), there, lost, unlisted)


def _names(namespace: str, before: Overview | None) -> Steps[tuple[Sequence[str], str]]:
    """The names of all queues; those of the overview before, and why, if the list cannot be read now."""
    if before is None:
        return (yield queue_calls.registered(namespace)), ""
    (names,) = yield Pipeline([queue_calls.registered(namespace)], apart=True)
    if isinstance(names, NodeUnavailable):
        return sorted({*before.by_name, *(queue.name for queue in before.unreachable)}), str(names)
    return names, ""


def _queue(
    keys: QueueKeys, codec: Codec[Any], known: QueueOverview | None, read: Sequence[Any]
) -> Steps[QueueOverview | NodeUnavailable]:
    """One queue, whose counts, redrives and first tick were read."""
    now: int
    stats: QueueStats
    (now, stats), ids, tick, lanes = read
    late = 0.0 if tick is None else max(0.0, (now - tick) / 1000)
    try:
        records = yield from unrepeated(_records(keys, ids))
        known_of = yield from unrepeated(of_lanes(keys, lanes, now))
        known_of = yield from unrepeated(with_behind(keys, known_of, stats.blocked))
        if known and _is_good(known, now, stats):
            groups, grouped = known.groups, (known.grouped_at, known.grouped)
        else:
            groups, grouped = (yield from unrepeated(_groups(keys, codec, stats))), (moment(now), stats)
        held = yield from unrepeated(_holders(keys, codec, known, now, stats))
    except NodeUnavailable as error:
        return error
    return QueueOverview(stats, groups, records, *grouped, late, known_of, *held)


def _records(keys: QueueKeys, ids: Sequence[str]) -> Steps[list[Redrive]]:
    if not ids:
        return []
    records: list[Redrive | None] = yield Pipeline([redrive_calls.record(keys, job) for job in ids])
    return sorted((one for one in records if one), key=lambda one: one.asked.at, reverse=True)


def _groups(keys: QueueKeys, codec: Codec[Any], stats: QueueStats) -> Steps[list[ErrorGroup]]:
    found = (
        (yield from index_groups(keys, codec, milliseconds(NEW_WITHIN, name="new_within")))
        if stats.dead
        else None
    )
    return sorted(found or [], key=lambda group: (-group.count, group.fingerprint))


def _holders(
    keys: QueueKeys, codec: Codec[Any], known: QueueOverview | None, now: int, stats: QueueStats
) -> Steps[tuple[Sequence[Holder], datetime | None]]:
    """What holds the workers of a queue whose messages wait long, and when that was read."""
    if not stats.leased or (stats.oldest or 0.0) <= SLOW:
        return (), None
    if known and known.held_at and abs((moment(now) - known.held_at).total_seconds()) < FRESH:
        return known.holders, known.held_at
    return (yield from holders(keys, codec)), moment(now)


def _is_good(known: QueueOverview, now: int, stats: QueueStats) -> bool:
    """Whether the groups that were read before do."""
    age = abs((moment(now) - known.grouped_at).total_seconds())
    same = (known.grouped.dead, known.grouped.totals) == (stats.dead, stats.totals)
    if known.grouped.totals.get("mutes") != stats.totals.get("mutes"):
        return False  # an operator who mutes a group checks whether it is muted
    return age < (OLD if same else FRESH)
