"""What operators do to a queue as a whole: pause and resume it, reset its totals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rq_dlq._calls import manage
from rq_dlq._work.audit import who, whoami
from rq_dlq._work.opening import open_again, open_queue
from rq_dlq._work.queue import forget, only_live
from rq_dlq._work.views import find

if TYPE_CHECKING:
    from rq_dlq._work.queue import Queue
    from rq_dlq._work.steps import Steps


def set_paused(queue: Queue[Any], *, paused: bool, by: str | None = None) -> Steps[bool]:
    """Pause deliveries, or resume them; returns whether that changed anything."""
    name = who(queue, by)
    forget(queue)
    only_live(queue, "pause")
    yield from open_queue(queue) if paused else find(queue)  # a full server cannot register a name
    only_live(queue, "pause")
    user = yield from whoami()
    return (yield manage.pause(queue.keys, paused=paused, by=name, user=user))  # type: ignore[no-any-return]


def reset(queue: Queue[Any]) -> Steps[int]:
    """Set the totals to zero; returns how many messages are in the queue."""
    yield from open_again(queue, "reset")
    return (yield manage.reset(queue.keys))  # type: ignore[no-any-return]
