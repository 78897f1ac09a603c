"""Maintenance, and looking at a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from rq_dlq import _calls
from rq_dlq._work.jobs import roll_forward
from rq_dlq._work.queue import check_limit, place_of, places_of
from rq_dlq._work.steps import CHUNK, Batch, Steps, seed
from rq_dlq._work.views import members
from rq_dlq.message import QueueStats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq._calls import Call, Place
    from rq_dlq._keys import QueueKeys
    from rq_dlq._work.queue import Queue
    from rq_dlq.message import Row

Role = Literal["redelivery", "expiry", "retention", "commits"]
ROLES: tuple[Role, ...] = ("redelivery", "expiry", "retention", "commits")
STEP = 50  # messages that the scripts of one round trip move at most: about 1 ms of Redis
DONE = {
    "redelivery": ("swept", "promoted"),
    "expiry": ("expired",),
    "retention": ("retired",),
    "commits": ("written",),
}
SEVERAL = frozenset({"written"})  # what takes more than one call


def step(name: str, keys: QueueKeys, default_policy: bytes, limit: int) -> Steps[int]:
    """One step of maintenance, by what it does to messages: how many."""
    if name in SEVERAL:
        return (yield from roll_forward(keys, limit))
    return (yield script(name, keys, default_policy, limit))  # type: ignore[no-any-return]


def script(name: str, keys: QueueKeys, default_policy: bytes, limit: int) -> Call[int]:
    """The same as one call, where it is one."""
    if name == "swept":
        return _calls.sweep(keys, limit=limit, seed=seed(), default_policy=default_policy)
    return _CALLS[name](keys, limit=limit)


_CALLS = {"promoted": _calls.promote, "expired": _calls.expire, "retired": _calls.retire}


def maintain(queue: Queue[Any]) -> Steps[dict[str, int]]:
    """The steps of maintenance until none finds anything: how many messages each concerned."""
    done = {name: 0 for role in ROLES for name in DONE[role]}
    busy = list(done)
    while busy:
        limit = STEP // len(busy)
        alike = [name for name in busy if name not in SEVERAL]
        counts = yield Batch([script(name, queue.keys, queue.policy, limit) for name in alike])
        found = dict(zip(alike, counts, strict=True))
        for name in SEVERAL.intersection(busy):
            found[name] = yield from step(name, queue.keys, queue.policy, limit)
        for name, count in found.items():
            done[name] += count
        more = [name for name in busy if found[name]]
        if not more and len(busy) < len(done):
            more = list(done)  # once more all: what was swept may have died, and be retired now
        busy = more
    return done


def stats(queue: Queue[Any]) -> Steps[QueueStats]:
    """The counts of the queue's family; of a view, what it shows."""
    shown = yield from members(queue)
    if not queue.view:
        return (yield _calls.stats(queue.keys, queue.name))[1]  # type: ignore[no-any-return]
    dead = expired = 0
    for member in shown:
        _, counts = yield _calls.stats(member.keys, member.name)
        dead += counts.dead if member.part == "dead" else 0
        expired += counts.expired if member.part == "expired" else 0
    return QueueStats(queue.name, 0, 0, 0, dead, expired, None, None, {})


def is_drained(queue: Queue[Any]) -> Steps[bool]:
    """Whether a claim in vain was the last: nothing is ready, scheduled or leased, by anybody.

    What fails among dead letters stays there, so of those it always was.
    """
    if queue.part != "live" or queue.view:
        return True
    counts = yield from stats(queue)
    return not (counts.waiting or counts.leased)


def browse(queue: Queue[Any], limit: int, place: Place | None = None) -> Steps[list[Row]]:
    """The first messages of one place, untouched; unless said of the one that is claimed from."""
    check_limit(limit)
    rows: list[Row] = []
    for member in (yield from members(queue)):
        first = 0
        while len(rows) < limit:
            size = min(CHUNK, limit - len(rows))
            page = yield _calls.browse(member.keys, place=place or place_of(member), first=first, limit=size)
            first += size
            rows += page
            if not page:
                break
    return rows[:limit]


def purge(
    queue: Queue[Any],
    *,
    ids: Sequence[str] | None = None,
    older_than: int | None = None,
) -> Steps[int]:
    """Remove waiting messages: these ids, what waits longer (milliseconds), or all; how many."""
    purged = 0
    for member in (yield from members(queue)):
        before: int | str = _calls.EVERYTHING
        if older_than is not None:
            now, _ = yield _calls.stats(member.keys, member.name)
            before = now - older_than
        for place in places_of(member):
            if ids is not None:
                for start in range(0, len(ids), CHUNK):
                    chunk = ids[start : start + CHUNK]
                    purged += len((yield _calls.purge(member.keys, place=place, ids=chunk)))
                continue
            while removed := (yield _calls.purge(member.keys, place=place, limit=CHUNK, before=before)):
                purged += len(removed)
    return purged
