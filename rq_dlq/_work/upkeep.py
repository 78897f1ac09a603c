"""Maintenance, and looking at a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rq_dlq import _calls
from rq_dlq._work.queue import check_limit
from rq_dlq._work.steps import CHUNK, Batch, Steps, seed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq._calls import Place
    from rq_dlq._work.queue import Queue
    from rq_dlq.message import QueueStats, Row


def maintain(queue: Queue[Any], limit: int = 200) -> Steps[dict[str, int]]:
    """The steps of maintenance until none finds anything: how many were swept, promoted and expired."""
    done = {"swept": 0, "promoted": 0, "expired": 0}
    while True:
        found = yield Batch(
            [
                _calls.sweep(
                    queue.keys,
                    limit=limit,
                    seed=seed(),
                    default_policy=queue.policy,
                ),
                _calls.promote(queue.keys, limit=limit),
                _calls.expire(queue.keys, limit=limit),
            ]
        )
        for name, count in zip(done, found, strict=True):
            done[name] += count
        if not any(found):
            return done


def stats(queue: Queue[Any]) -> Steps[QueueStats]:
    """The counts of the queue's family."""
    reply: tuple[int, QueueStats] = yield _calls.stats(queue.keys, queue.name)
    return reply[1]


def browse(queue: Queue[Any], place: Place, limit: int) -> Steps[list[Row]]:
    """The first messages of one place, untouched."""
    check_limit(limit)
    rows: list[Row] = []
    while len(rows) < limit:
        page = yield _calls.browse(
            queue.keys, place=place, first=len(rows), limit=min(CHUNK, limit - len(rows))
        )
        rows += page
        if not page:
            break
    return rows


def purge(
    queue: Queue[Any],
    places: Sequence[Place],
    *,
    ids: Sequence[str] | None = None,
    older_than: int | None = None,
) -> Steps[int]:
    """Remove waiting messages: these ids, what waits longer (milliseconds), or all; how many."""
    before: int | str = _calls.EVERYTHING
    if older_than is not None:
        now, _ = yield _calls.stats(queue.keys, queue.name)
        before = now - older_than
    purged = 0
    for place in places:
        if ids is not None:
            for start in range(0, len(ids), CHUNK):
                chunk = ids[start : start + CHUNK]
                purged += len((yield _calls.purge(queue.keys, place=place, ids=chunk)))
            continue
        while removed := (yield _calls.purge(queue.keys, place=place, limit=CHUNK, before=before)):
            purged += len(removed)
    return purged
