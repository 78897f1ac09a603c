"""Passing on messages that this program does not accept to another version of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rq_dlq.core.processes import processes
from rq_dlq.core.queues.queue import taken_of
from rq_dlq.core.settling import settle
from rq_dlq.core.steps.driving import unrepeated
from rq_dlq.core.steps.step import NodeUnavailable
from rq_dlq.errors import MissingRights
from rq_dlq.values.process import UNKNOWN
from rq_dlq.values.signature import BODIES, TASK, under

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.errors import UnfitMessage
    from rq_dlq.values.leased import Leased
    from rq_dlq.values.settlement import Settlement


def pass_on(queue: QueueState[Any], delivery: Leased[Any], error: UnfitMessage) -> Steps[Settlement]:
    """Pass on a message that this program does not accept; a dead letter is kept, and rests.

    The verb decides, by the marks of the live workers. It cannot read their reports, which lie elsewhere in
    a cluster, so they are read just before.
    """
    held = [delivery._held]
    if queue.part != "live":
        (settlement,) = yield from settle.poison(
            queue, held, error, reason="unprocessable", values=delivery._values
        )
        return settlement
    task = delivery.headers.get(TASK, BODIES)
    own = under(taken_of(queue), task)
    (settlement,) = yield from settle.pass_on(
        queue,
        held,
        error,
        mark=own.mark if own else "",
        takers=(yield from _marks(queue, task)),
        values=delivery._values,
    )
    return settlement


def _marks(queue: QueueState[Any], task: str) -> Steps[Iterable[str]]:
    """The marks of the live workers that may accept it; if unknown, one may."""
    try:
        found = yield from unrepeated(processes.takers(queue.keys.namespace, queue.name, task))
    except NodeUnavailable:
        return [UNKNOWN]
    except MissingRights:  # a user of an earlier version: such workers did not see others, either
        return []
    return sorted({mark for _, mark in found})
