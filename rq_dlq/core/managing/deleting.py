"""Deleting a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rq_dlq.core.gathers import calls as gather_calls
from rq_dlq.core.gathers.carrying import carry_left
from rq_dlq.core.jobs.jobs import roll_forward
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.names import behind
from rq_dlq.core.queues.queue import forget, only_live
from rq_dlq.core.queues.registry import unlist
from rq_dlq.core.queues.who import act as act_of
from rq_dlq.core.queues.who import note_beside
from rq_dlq.core.steps.replies import ERRORS, Word
from rq_dlq.core.steps.senders import once
from rq_dlq.core.steps.step import CHUNK, WINDOW, Steps

if TYPE_CHECKING:
    from rq_dlq.core.queues.queue import QueueState


def delete(queue: QueueState[Any], *, force: bool, by: str | None = None) -> Steps[int]:
    """Delete a queue and its name; returns how many messages were in it.

    The keys go first: if this is interrupted, an empty name is left, and a repetition removes it. Children
    of gathers have ended then, and that is carried before the name goes: maintenance looks at those that
    have one.

    Args:
        force: delete it even with messages. Committed messages of jobs are moved into the queue first, since
            their commits for other queues are stored with them.
        by: the operator's name; None: the user and host of this process.

    Raises:
        InvalidInput: it is not empty, or it is a dead-letter or expiry queue.
    """
    return behind(queue, lambda _: _delete(queue, force=force, by=by))


def _delete(queue: QueueState[Any], *, force: bool, by: str | None) -> Steps[int]:
    only_live(queue, "delete")
    act = yield from act_of("deleted", by)
    before: queue_calls.Left | None = None
    while True:
        found = yield from once(queue.client.senders, queue.keys, queue_calls.delete, force=force)
        if not isinstance(found, queue_calls.Left):
            break
        if not force or found == before:
            message = (
                f"{queue.name!r} was not deleted, since it is not empty: {found}. Drain or purge it first, "
                "or delete it with its content: `delete(force=True)`, "
                f"`rq-dlq queue rm {queue.name} --force`"
            )
            raise ERRORS[Word.NOT_EMPTY](message)
        before = found
        yield from roll_forward(queue.keys, CHUNK * WINDOW, early=True)
    keys = queue.keys
    ended = gather_calls.ended(keys)
    gathers = yield from note_beside(ended, keys.namespace, act, queue=queue.name, number=found)
    yield from carry_left(queue, gathers)
    yield from unlist(keys)
    forget(queue)
    return found
