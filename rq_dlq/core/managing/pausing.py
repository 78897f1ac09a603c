"""What operators do to a queue as a whole: pause and resume it, reset its totals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rq_dlq.core.managing import calls
from rq_dlq.core.opening import open_again, open_queue
from rq_dlq.core.queues.queue import forget, only_live
from rq_dlq.core.queues.views import find
from rq_dlq.core.queues.who import act as act_of
from rq_dlq.core.queues.who import who, whoami

if TYPE_CHECKING:
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.step import Steps


def set_paused(queue: QueueState[Any], *, paused: bool, by: str | None = None) -> Steps[bool]:
    """Pause deliveries, or resume them; returns whether that changed anything."""
    name = who(by)
    forget(queue)
    only_live(queue, "pause")
    yield from open_queue(queue) if paused else find(queue)  # a full server cannot register a name
    only_live(queue, "pause")
    user = yield from whoami()
    return (yield calls.pause(queue.keys, paused=paused, by=name, user=user))  # type: ignore[no-any-return]


def reset(queue: QueueState[Any], by: str | None = None) -> Steps[int]:
    """Set the totals to zero; returns how many messages are in the queue."""
    act = yield from act_of("reset", by)
    yield from open_again(queue, "reset")
    return (yield calls.reset(queue.keys, act=act))  # type: ignore[no-any-return]
