"""Opening a queue: its name is registered, and its policies are applied."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

from rq_dlq.core.policies.policies import apply_policies
from rq_dlq.core.queues.queue import forget, only_live
from rq_dlq.core.queues.registry import register, unlist
from rq_dlq.core.queues.views import find
from rq_dlq.errors import PolicyError

if TYPE_CHECKING:
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.policy import RedeliveryPolicy

logger = logging.getLogger("rq_dlq")
HOT = (
    "its policy has no delay and no limit, so a message that always fails is delivered again and again, as "
    "fast as consumers are: set delays or max_redeliveries"
)


def open_queue(queue: QueueState[Any]) -> Steps[None]:
    """Register a queue's name and apply its policies, before the first send or claim.

    Raises:
        PolicyError: the program gives dead letters the name of a queue, or declares a policy for a view.
    """
    if queue.opened and not queue.view:
        return
    yield from find(queue)
    yield from open_found(queue)


def open_found(queue: QueueState[Any]) -> Steps[None]:
    """The same where it was just found out whether the queue is a view."""
    if not queue.view:
        _warn_of_topic(queue.name)
        yield from register(queue)
    if queue.view and queue.declared is not None:
        message = f"{queue.name!r} has no policy: it shows what failed in other queues. Set it on those"
        raise PolicyError(message)
    if not queue.view:
        replaced = yield from apply_policies(queue.keys, queue.naming, queue.declared)
        if replaced is not None and queue.declared is not None and replaced != queue.declared:
            logger.warning("%s: this program declares another policy than the last one did", queue.name)
        if queue.declared is not None and queue.declared.part("redelivery") and is_hot(queue.redelivery):
            logger.warning("%s: %s", queue.name, HOT)
    queue.opened = True


def is_hot(policy: RedeliveryPolicy) -> bool:
    """Whether a message that always fails comes back at once, for ever."""
    return policy.max_redeliveries is None and not any(policy.delay_ms(n, 1.0) for n in (1, 2, 100))


def _warn_of_topic(name: str) -> None:
    """Warn of a name that Classic copies messages to or from: here it is a queue like others."""
    if re.match(r"(?:Consumer\.[^.]+\.)?VirtualTopic\.", name):
        logger.warning("%s is a queue like others: there are no virtual topics, see docs/instead.md", name)


def open_live(queue: QueueState[Any], verb: str) -> Steps[None]:
    """Open a queue for a verb that makes no sense on dead letters.

    Raises:
        InvalidInput: it is a dead-letter or expiry queue, which may show only when it is opened.
    """
    if not queue.view:  # which may be a queue by now
        only_live(queue, verb)
    yield from open_queue(queue)
    only_live(queue, verb)


def open_again(queue: QueueState[Any], verb: str) -> Steps[None]:
    """Open a queue that was deleted after it was opened.

    Raises:
        InvalidInput: a policy has given its name to dead letters since.
    """
    forget(queue)
    yield from open_queue(queue)
    if queue.view:  # the name was deleted before it was listed here, perhaps, so nobody else takes it off
        yield from unlist(queue.keys)
    only_live(queue, verb)
