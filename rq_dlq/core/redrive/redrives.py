"""Redrives as jobs: started once, driven by any process, checked by the outcomes of the messages.

1. `start.begin` lists the ids of the chosen messages, and starts the redrive; a redrive of all takes the
   messages that are there.
2. `drive` moves them in steps. Each step is one call, which counts the messages that it moved, so any
   number of clients may drive it. If the caller ends, maintenance continues it (`go_on`).
3. An ack or a death of a message counts for its redrive, in the scripts that ack and bury.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.each import AT_ONCE
from rq_dlq.core.queues.names import behind
from rq_dlq.core.queues.who import who
from rq_dlq.core.redrive import calls
from rq_dlq.core.steps.replies import ERRORS, Word
from rq_dlq.core.steps.step import Deadline, Pipeline, Steps, chunks
from rq_dlq.errors import InvalidInput, RqDlqError
from rq_dlq.values.durations import shown
from rq_dlq.values.failure import Cause

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.queues.queue import QueueName, QueueState
    from rq_dlq.core.redrive.calls import Steering, Stepped, Undone
    from rq_dlq.core.redrive.record import Redrive

STEP = 15  # messages that one call redrives or takes back: each takes longer than in other changes
GRACE = 10_000  # milliseconds that a driver has between two steps before maintenance takes over
LEFT = 600_000  # before maintenance ends a redrive that only its caller drives; an edit may take long
LEADS_TO = {"pause": "paused", "resume": "running", "cancel": "cancelled"}


def look(keys: QueueKeys, job: str) -> Steps[Redrive]:
    """A redrive in its current state.

    Raises:
        InvalidInput: it does not exist.
    """
    found: Redrive | None = yield calls.record(keys, job)
    if found is None:
        raise unknown(keys, job)
    return found


def unknown(keys: QueueKeys, job: str) -> RqDlqError:
    """The error for a redrive that does not exist."""
    message = (
        f"there is no redrive {shown(job)} of {keys.family!r}: dlq.jobs() lists those of the last seven days"
    )
    return ERRORS[Word.UNKNOWN](message)


def drive(
    keys: QueueKeys, job: str, deadline: Deadline, told: Callable[[Redrive], None] | None = None
) -> Steps[Redrive]:
    """Drive a redrive until it does not run any more.

    Args:
        deadline: then it may still run.
        told: receives the redrive after each step.
    """
    # One a round trip, since Redis runs all scripts of one in one go.
    step = calls.step_redrive(keys, job, limit=STEP, grace=GRACE)
    while True:
        last: Stepped
        found: Redrive | None
        last, found = yield Pipeline([step, calls.record(keys, job)])
        if found is None:
            raise unknown(keys, job)
        if told is not None:
            told(found)
        if found.state != "running" or deadline.is_over:
            return found
        if last.wait:
            yield deadline.wait(keys.silent, last.wait)


def go_on(keys: QueueKeys, limit: int) -> Steps[int]:
    """Continue abandoned redrives, and forget old ones; returns how many messages were moved."""
    moved = 0
    before = ""
    while moved < limit and (some := (yield calls.first(keys))):
        (job,) = some
        stepped: Stepped = yield calls.step_redrive(keys, job, limit=min(STEP, limit - moved), grace=0)
        if not stepped.moved and job == before:
            break
        moved, before = moved + stepped.moved, job
    return moved


def steer(queue: QueueName, redrive: Redrive, verb: Steering, by: str | None = None) -> Steps[Redrive]:
    """Pause, resume or cancel a redrive.

    Raises:
        InvalidInput: its state does not allow that, or it does not exist.
    """
    keys = replace(queue.keys, family=redrive.family)
    name = who(by)
    user: str = yield queue_calls.whoami()
    grace = LEFT if redrive.asked.offered else GRACE
    steering = calls.steer_redrive(keys, redrive.id, verb, by=name, user=user, grace=grace)
    did, found = yield Pipeline([steering, calls.record(keys, redrive.id)])
    if found is None:
        raise unknown(keys, redrive.id)
    if not did and found.state != LEADS_TO[verb]:  # reached by a call whose reply was lost
        raise InvalidInput(f"cannot {verb} redrive {redrive.id}: it is {found.state}")
    return found  # type: ignore[no-any-return]


def undo(queue: QueueName, redrive: Redrive, by: str | None = None) -> Steps[Redrive]:
    """End a redrive, and take back its unclaimed messages.

    Raises:
        InvalidInput: it does not exist, or it edited its messages or moved them to another queue.
    """
    if redrive.asked.offered:
        how = redrive.asked.how
        raise InvalidInput(f"cannot undo redrive {redrive.id}, since it changed its messages ({how})")
    keys = replace(queue.keys, family=redrive.family)
    name = who(by)
    user: str = yield queue_calls.whoami()
    cause = Cause.of(f"redrive {redrive.id} was undone").cells()
    call = calls.undo_redrive(keys, redrive.id, by=name, user=user, cause=cause, limit=STEP)
    while True:
        undone: Undone
        found: Redrive | None
        undone, found = yield Pipeline([call, calls.record(keys, redrive.id)])
        if found is None:
            raise unknown(keys, redrive.id)
        if not undone.left:
            return found


def jobs(queue: QueueState[Any]) -> Steps[list[Redrive]]:
    """The redrives of a queue, or of those behind a view, the newest first."""
    return behind(queue, _jobs)


def _jobs(members: Sequence[QueueName]) -> Steps[list[Redrive]]:
    found: list[Redrive] = []
    for some in chunks([*dict.fromkeys(member.keys for member in members)], AT_ONCE):
        listed: list[list[str]] = yield Pipeline([calls.jobs(keys) for keys in some])
        jobs_of = zip(some, listed, strict=True)
        if asks := [calls.record(keys, job) for keys, ids in jobs_of for job in ids]:
            records: list[Redrive | None] = yield Pipeline(asks)
            found += (one for one in records if one is not None)
    return sorted(found, key=lambda one: one.asked.at, reverse=True)


def find(queue: QueueState[Any], job: str) -> Steps[list[Redrive]]:
    """The redrive of this id.

    Raises:
        InvalidInput: it does not exist.
    """
    if not isinstance(job, str):
        raise unknown(queue.keys, job)
    return behind(queue, partial(_find, queue, job))


def _find(queue: QueueName, job: str, members: Sequence[QueueName]) -> Steps[list[Redrive]]:
    places = {member.keys: None for member in members}
    records: list[Redrive | None] = yield Pipeline([calls.record(keys, job) for keys in places])
    found = [one for one in records if one is not None]
    if not found:
        raise unknown(queue.keys, job)
    return found
