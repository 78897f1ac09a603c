"""Opening a queue: its name is registered, and its policies are applied."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

from rq_dlq.core.policies.policies import apply_policies
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.names import behind, members
from rq_dlq.core.queues.queue import forget, only_own
from rq_dlq.core.queues.registry import register
from rq_dlq.core.steps.driving import unrepeated
from rq_dlq.core.steps.step import NodeUnavailable, Pipeline
from rq_dlq.errors import BrokerRefused, MissingRights

if TYPE_CHECKING:
    from rq_dlq.core.queues.queue import QueueName, QueueState
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.policy import RedeliveryPolicy

logger = logging.getLogger("rq_dlq")
HOT = (
    "its policy has no delay and no limit, so a message that always fails is redelivered forever, as fast "
    "as consumers can claim it: set delays or max_redeliveries"
)

_PREFIXED = re.compile(r"(?:/queue/|jms\.queue\.|arn:aws:sqs:[^:]*:[^:]*:)(.+)")  # STOMP, Artemis 1, SQS


def open_queue(queue: QueueState[Any]) -> Steps[None]:
    """Register a queue's name and apply its policies, before the first send or claim.

    Raises:
        PolicyError: the program declares a name for dead letters that is not possible.
    """
    if queue.opened and not queue.view:
        return
    if queue.part != "live":
        yield from members(queue)
        if queue.view:  # other queues may share the view
            queue.opened = True
            return
    _warn_of_topic(queue.name)
    if (yield from register(queue)):
        _warn_of_prefix(queue.name)
    replaced = yield from apply_policies(queue.keys, queue.naming, queue.declared)
    if replaced is not None and queue.declared is not None and replaced != queue.declared:
        logger.warning("%s: this program declares a different policy from the previous one", queue.name)
    if queue.declared is not None and queue.declared.part("redelivery") and is_hot(queue.redelivery):
        logger.warning("%s: %s", queue.name, HOT)
    queue.opened = True


def open_to_drain(queue: QueueState[Any]) -> Steps[None]:
    """Open a queue before its first claim, even if Redis has no memory to register it.

    Messages on other nodes of a cluster do not wait for the node with the list of queues. The next claim
    tries to open the queue again.
    """
    if queue.opened:
        return
    try:
        yield from unrepeated(_open_if_used(queue))
    except NodeUnavailable:
        if not (yield queue_calls.was_sent_to(queue.keys)):  # it may be a view, or not exist
            yield from _open_if_used(queue)


def _open_if_used(queue: QueueState[Any]) -> Steps[None]:
    """Open a queue for a claim: that does not create it, unless the program declares settings for it."""
    if queue.declared is not None:
        yield from members(queue)
    elif not (yield from behind(queue, lambda _: _is_used(queue))):
        return
    try:
        yield from open_queue(queue)
    except MissingRights:
        raise
    except BrokerRefused:
        pass  # registering the name can wait; draining the queue cannot


def _is_used(queue: QueueName) -> Steps[bool]:
    if queue.view:
        queue.opened = True
        return False
    return any((yield Pipeline([queue_calls.opening(queue.keys), queue_calls.was_sent_to(queue.keys)])))


def is_hot(policy: RedeliveryPolicy) -> bool:
    """Whether a message that always fails is redelivered immediately, forever."""
    return policy.max_redeliveries is None and not any(policy.delay_ms(n, 1.0) for n in (1, 2, 100))


def _warn_of_topic(name: str) -> None:
    """Warn of a name that Classic treats as a virtual topic; here it is an ordinary queue."""
    if re.match(r"(?:Consumer\.[^.]+\.)?VirtualTopic\.", name):
        logger.warning("%s is an ordinary queue: there are no virtual topics, see docs/instead.md", name)


def _warn_of_prefix(name: str) -> None:
    """Warn of a new queue whose name has a prefix of another broker, which has no meaning here.

    It is not refused: who has such queues may go on, also where they do not exist yet.
    """
    if found := _PREFIXED.fullmatch(name):
        logger.warning("%s is a new queue of just that name: did you mean %s?", name, found[1])


def ensure_open(queue: QueueState[Any]) -> Steps[None]:
    """Open a queue unless it is open now, perhaps by another client; the first step only reads.

    A queue that was deleted since this client opened it is opened again, and so is one for which the program
    has declarations that may not be written.
    """
    opening, listed = yield Pipeline(
        [queue_calls.opening(queue.keys), queue_calls.is_registered(queue.keys.namespace, queue.keys.family)]
    )
    written = queue.declared is None or (queue.opened and queue.opening == opening)
    if not (opening and listed and written):
        forget(queue)
        yield from open_queue(queue)


def open_live(queue: QueueState[Any], verb: str) -> Steps[None]:
    """Open a queue for a verb that does not apply to dead letters.

    Raises:
        InvalidInput: it is a dead-letter or expiry queue.
    """
    only_own(queue, verb)
    yield from open_queue(queue)


def open_again(queue: QueueState[Any], verb: str) -> Steps[None]:
    """Open a queue that was deleted after it was opened."""
    forget(queue)
    yield from open_live(queue, verb)
