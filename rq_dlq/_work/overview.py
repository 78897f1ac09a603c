"""All queues at one look."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

from rq_dlq._calls import redrives, upkeep
from rq_dlq._keys import QueueKeys
from rq_dlq._work.groups import NEW_WITHIN, index_groups
from rq_dlq._work.steps import Batch, NodeUnavailable, Steps, chunks, lost_among, unrepeated
from rq_dlq.errors import BrokerRefused, InvalidInput, MissingRights
from rq_dlq.values.durations import milliseconds, shown
from rq_dlq.values.failure import moment
from rq_dlq.values.overview import Overview, QueueOverview, UnreachableQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rq_dlq.values.codec import Codec
    from rq_dlq.values.counts import ErrorGroup, QueueStats
    from rq_dlq.values.redrive import Redrive

Q = TypeVar("Q")
AT_ONCE = 50  # queues in one round trip: less than a millisecond of Redis
FRESH, OLD = 5, 60  # seconds: groups that an earlier overview has are not read again, or are in any case


def overview(namespace: str, codec: Codec[Any], before: Overview | None = None) -> Steps[Overview]:
    """Read the counts, groups and redrives of all queues, and how late their schedules are.

    A queue that is damaged, or in a cluster one whose node does not answer, is among the unreachable ones,
    and the others are read.

    Args:
        before: an earlier overview, whose groups are taken where the queue's counts are the same.

    Raises:
        InvalidInput: `before` is not an overview.
    """
    if not isinstance(before, Overview | None):
        raise InvalidInput(f"before is {shown(before)}. Pass what an earlier overview() returned, or None")
    at: int = yield upkeep.clock()
    names, unlisted = yield from _names(namespace, before)

    def read(part: Sequence[str]) -> Steps[list[QueueOverview | UnreachableQueue]]:
        nonlocal at
        found: list[QueueOverview | UnreachableQueue] = []
        families = [QueueKeys(namespace, name) for name in part]
        counts = yield Batch([upkeep.stats(keys, keys.family) for keys in families], apart=True)
        jobs = yield Batch([redrives.jobs(keys) for keys in families], apart=True)
        ticks = yield Batch([upkeep.first_score(keys, "ticks") for keys in families], apart=True)
        for keys, *cells in zip(families, counts, jobs, ticks, strict=True):
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
    return Overview(
        moment(at), [queue for queue in queues if isinstance(queue, QueueOverview)], lost, unlisted
    )


def counts(namespace: str) -> Steps[list[QueueStats | UnreachableQueue]]:
    """Read the counts of all queues, sorted by name."""

    def read(part: Sequence[str]) -> Steps[list[QueueStats | UnreachableQueue]]:
        replies = yield Batch([upkeep.stats(QueueKeys(namespace, name), name) for name in part], apart=True)
        return [
            lost_queue(name, reply) if isinstance(reply, NodeUnavailable) else reply[1]
            for name, reply in zip(part, replies, strict=True)
        ]

    return (yield from each_queue((yield upkeep.registered(namespace)), read))


def lost_queue(name: str, error: NodeUnavailable) -> UnreachableQueue:
    """A queue whose node does not answer."""
    return UnreachableQueue(name, error.node, str(error))


def each_queue(
    names: Sequence[str], read: Callable[[Sequence[str]], Steps[list[Q | UnreachableQueue]]]
) -> Steps[list[Q | UnreachableQueue]]:
    """Read queues, many in one round trip; one that the server refuses to read is unreachable.

    Raises:
        MissingRights: the user may not read one of them.
        BrokerRefused: the server refuses to read any.
    """
    found: list[Q | UnreachableQueue] = []
    parts, refused = deque(chunks(names, AT_ONCE)), 0
    while parts:
        part = parts.popleft()
        try:
            found += yield from read(part)
        except MissingRights:
            raise
        except BrokerRefused as error:
            if len(part) > 1:  # a damaged one must not hide the others
                parts.extendleft([name] for name in reversed(part))
                continue
            if refused == len(found) and refused + 1 >= min(len(names), AT_ONCE):
                raise
            refused += 1
            found.append(UnreachableQueue(part[0], "", str(error)))
    return found


def _names(namespace: str, before: Overview | None) -> Steps[tuple[Sequence[str], str]]:
    """The names of all queues; those that were known before, and why, if the list cannot be read now."""
    if before is None:
        return (yield upkeep.registered(namespace)), ""
    (names,) = yield Batch([upkeep.registered(namespace)], apart=True)
    if isinstance(names, NodeUnavailable):
        return sorted({*before.by_name, *(queue.name for queue in before.unreachable)}), str(names)
    return names, ""


def _queue(
    keys: QueueKeys, codec: Codec[Any], known: QueueOverview | None, read: Sequence[Any]
) -> Steps[QueueOverview | NodeUnavailable]:
    """One queue, of which the counts, the redrives and the first tick were read."""
    now: int
    stats: QueueStats
    (now, stats), ids, tick = read
    late = 0.0 if tick is None else max(0.0, (now - tick) / 1000)
    try:
        records = yield from unrepeated(_records(keys, ids))
        if known and _is_good(known, now, stats):
            groups, grouped = known.groups, (known.grouped_at, known.grouped)
        else:
            groups, grouped = (yield from unrepeated(_groups(keys, codec, stats))), (moment(now), stats)
    except NodeUnavailable as error:
        return error
    return QueueOverview(stats, groups, records, *grouped, late)


def _records(keys: QueueKeys, ids: Sequence[str]) -> Steps[list[Redrive]]:
    if not ids:
        return []
    records: list[Redrive | None] = yield Batch([redrives.record(keys, job) for job in ids])
    return sorted((one for one in records if one), key=lambda one: one.asked.at, reverse=True)


def _groups(keys: QueueKeys, codec: Codec[Any], stats: QueueStats) -> Steps[list[ErrorGroup]]:
    found = (
        (yield from index_groups(keys, codec, milliseconds(NEW_WITHIN, name="new_within")))
        if stats.dead
        else None
    )
    return sorted(found or [], key=lambda group: (-group.count, group.fingerprint))


def _is_good(known: QueueOverview, now: int, stats: QueueStats) -> bool:
    """Whether the groups that were read before do."""
    age = abs((moment(now) - known.grouped_at).total_seconds())
    same = (known.grouped.dead, known.grouped.totals) == (stats.dead, stats.totals)
    return age < (OLD if same else FRESH)
