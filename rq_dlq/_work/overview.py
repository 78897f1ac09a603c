"""All queues at one look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rq_dlq._calls import redrives, upkeep
from rq_dlq._keys import QueueKeys
from rq_dlq._work.groups import NEW_WITHIN, index_groups
from rq_dlq._work.steps import Batch, Steps, chunks
from rq_dlq.values.durations import milliseconds
from rq_dlq.values.failure import moment
from rq_dlq.values.overview import Overview, QueueOverview

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq.values.codec import Codec
    from rq_dlq.values.counts import ErrorGroup, QueueStats
    from rq_dlq.values.redrive import Redrive

AT_ONCE = 50  # queues in one round trip: less than a millisecond of Redis
FRESH, OLD = 5, 60  # seconds: groups that an earlier overview has are not read again, or are in any case


def overview(namespace: str, codec: Codec[Any], before: Overview | None = None) -> Steps[Overview]:
    """Read the counts, groups and redrives of all queues, and how late their schedules are.

    Args:
        before: an earlier overview, whose groups are taken where the queue's counts are the same.
    """
    at: int = yield upkeep.clock()
    found: list[QueueOverview] = []
    for names in chunks((yield upkeep.registered(namespace)), AT_ONCE):
        families = [QueueKeys(namespace, name) for name in names]
        counts: list[tuple[int, QueueStats]]
        counts = yield Batch([upkeep.stats(keys, keys.family) for keys in families])
        jobs: list[list[str]] = yield Batch([redrives.jobs(keys) for keys in families])
        ticks: list[float | None] = yield Batch([upkeep.first_score(keys, "ticks") for keys in families])
        for keys, (now, stats), ids, tick in zip(families, counts, jobs, ticks, strict=True):
            at = now
            records = yield from _records(keys, ids)
            late = 0.0 if tick is None else max(0.0, (now - tick) / 1000)
            known = before.by_name.get(keys.family) if before else None
            if known and _is_good(known, now, stats):
                groups, grouped = known.groups, (known.grouped_at, known.grouped)
            else:
                groups, grouped = (yield from _groups(keys, codec, stats)), (moment(now), stats)
            found.append(QueueOverview(stats, groups, records, *grouped, late))
    return Overview(moment(at), found)


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
