"""The queue that messages of other queues go to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rq_dlq.core.opening import open_live
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.queue import only_own
from rq_dlq.core.steps.step import Pipeline
from rq_dlq.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq.core.queues.queue import QueueName, QueueState
    from rq_dlq.core.steps.step import Steps

WHAT = "put messages into"


def check_target(
    target: QueueName, sources: Sequence[QueueName], verb: str = WHAT, *, create: bool = False
) -> Steps[str]:
    """Check that messages of these queues can go to this one; its opening, empty: it is not open.

    Args:
        verb: the change, for the error.
        create: it may be one that does not exist yet.

    Raises:
        InvalidInput: it is the same queue, a dead-letter or expiry queue, or does not exist.
    """
    only_own(target, verb)
    keys = target.keys
    listed, opening = yield Pipeline(
        [queue_calls.is_registered(keys.namespace, target.name), queue_calls.opening(keys)]
    )
    if not listed and not create:
        hint = (
            "send to it first, open() it, or pass create=True"
            if verb == WHAT
            else "check the name, or pass create=True"
        )
        raise InvalidInput(f"there is no queue {target.name!r} to {verb}: {hint}")
    if sources and all(source.keys == target.keys for source in sources):
        message = f"{target.name!r} is their own queue: pass another queue, or redrive dead letters"
        raise InvalidInput(message)
    return opening  # type: ignore[no-any-return]


def open_target(target: QueueState[Any]) -> Steps[str]:
    """Create the queue, unless it exists; its opening."""
    yield from open_live(target, WHAT)
    return target.opening
