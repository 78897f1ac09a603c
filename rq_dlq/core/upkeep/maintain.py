"""Maintenance of one queue on request, until nothing is due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rq_dlq.core.schedules import calls as schedule_calls
from rq_dlq.core.steps.step import Pipeline, Steps
from rq_dlq.core.upkeep.upkeep import DONE, ROLES, SEVERAL, STEP, call, step
from rq_dlq.core.upkeep.watched import MaintainedQueue

if TYPE_CHECKING:
    from rq_dlq.core.queues.queue import QueueState

PASSES = 2  # messages that were swept or expired in the first may be retired in the second
GOES_ON = {"redriven", "reindexed"}  # steps that repeat, due or not, until they find nothing


def maintain(queue: QueueState[Any]) -> Steps[dict[str, int]]:
    """Do the due work of a queue, and the work that becomes due by it; how many messages each step moved.

    Work that falls due in the meantime is left to the next call, so this ends, however much that is.
    """
    watched = MaintainedQueue(queue.keys, ROLES, queue.policy)
    done = {name: 0 for role in ROLES for name in DONE[role]}
    for _ in range(PASSES):
        if not (yield from _pass(watched, done)):
            break
    return done


def _pass(queue: MaintainedQueue, done: dict[str, int]) -> Steps[bool]:
    """Run each step as long as it finds work that was due at the beginning; whether any found some."""
    asked = yield schedule_calls.due(queue.keys, limit=0)  # the clock of the Lua, which a test may have moved
    began = asked.now
    before, busy = sum(done.values()), list(done)
    while any((found := (yield from _step_each(queue, busy))).values()):
        for name, count in found.items():
            done[name] += count
        _, *looks = yield Pipeline(queue.looks)
        due, _ = queue.due([began, *looks])
        busy = [name for name in busy if found[name] and (name in due or name in GOES_ON)]
        if not busy:
            break
    return sum(done.values()) > before


def _step_each(queue: MaintainedQueue, names: list[str]) -> Steps[dict[str, int]]:
    limit = STEP // len(names)
    alike = [name for name in names if name not in SEVERAL]
    counts = yield Pipeline([call(name, queue.keys, queue.policy, limit) for name in alike])
    found = dict(zip(alike, counts, strict=True))
    for name in names:
        if name in SEVERAL:
            found[name] = yield from step(name, queue.keys, queue.policy, limit)
    return found
