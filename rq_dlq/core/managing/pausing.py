"""What operators do to a queue as a whole, or to a lane: pause and resume it; reset the totals."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from rq_dlq.core.managing import calls
from rq_dlq.core.opening import open_again, open_queue
from rq_dlq.core.queues.queue import forget, only_live
from rq_dlq.core.queues.views import find
from rq_dlq.core.queues.who import act as act_of
from rq_dlq.core.queues.who import who, whoami
from rq_dlq.errors import InvalidInput
from rq_dlq.values.durations import Duration, milliseconds, shown
from rq_dlq.values.key import packed

if TYPE_CHECKING:
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.key import Of


def set_paused(
    queue: QueueState[Any], *, paused: bool, until: datetime | Duration | None = None, by: str | None = None
) -> Steps[bool]:
    """Pause deliveries, or resume them; returns whether that changed anything."""
    end, name = until_of(until), who(by)
    user = yield from _user(queue, opens=paused)
    return (yield calls.pause(queue.keys, paused=paused, until=end, by=name, user=user))  # type: ignore[no-any-return]


def set_lane_paused(
    queue: QueueState[Any],
    of: Of,
    text: str,
    *,
    paused: bool,
    until: datetime | Duration | None = None,
    by: str | None = None,
) -> Steps[bool]:
    """Pause the messages of a key or a dependency, or resume them; returns whether that changed anything."""
    packed(text, of)  # raises if it cannot be one
    end, name = until_of(until), who(by)
    user = yield from _user(queue, opens=paused)
    call = calls.pause_lane(queue.keys, of, text, paused=paused, until=end, by=name, user=user)
    return (yield call)  # type: ignore[no-any-return]


def _user(queue: QueueState[Any], *, opens: bool) -> Steps[str]:
    """Look at the queue; the Redis user."""
    forget(queue)
    yield from find(queue)
    only_live(queue, "pause")
    if opens:  # a full server cannot register a name
        yield from open_queue(queue)
    return (yield from whoami())


def until_of(until: datetime | Duration | None) -> calls.Until:
    """When a pause ends.

    Raises:
        InvalidDuration: this is no duration, or the duration is below a millisecond.
        InvalidInput: the time has no zone.
    """
    if until is None:
        return calls.NO_END
    if not isinstance(until, datetime):
        return calls.Until(after=milliseconds(until, name="until", minimum=1))
    if until.tzinfo is None:
        raise InvalidInput(f"until {shown(until)}: pass a time with its zone, or a duration")
    return calls.Until(ends=round(until.timestamp() * 1000))


def reset(queue: QueueState[Any], by: str | None = None) -> Steps[int]:
    """Set the totals to zero; returns how many messages are in the queue."""
    act = yield from act_of("reset", by)
    yield from find(queue)
    only_live(queue, "reset")
    yield from open_again(queue, "reset")
    return (yield calls.reset(queue.keys, act=act))  # type: ignore[no-any-return]
