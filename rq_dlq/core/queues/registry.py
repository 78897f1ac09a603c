"""The list of the names of all queues: how a name is added, and removed.

A queue is open while its settings hold an opening, a random word. A client opens it before it lists the name.
Its sends have the opening, so the verb refuses them if the queue was deleted since. An opening with the
mark makes clients also search for dead letters under the name. See `docs/design.md`, "Deleting queues".
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

from rq_dlq.core.queues import calls
from rq_dlq.core.steps.step import Batch, Steps

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.queues.queue import QueueState


LETTERS = "+"  # the mark of an opening: policies gave the name to dead letters, and claims search for these


class Opened(NamedTuple):
    """The opening of a queue, and whether the queue is a new one."""

    opening: str
    new: bool


def register(queue: QueueState[Any]) -> Steps[bool]:
    """Open a queue and list its name before the map is read, so that a later change of the map finds it.

    Returns:
        Whether it is a new queue.
    """
    queue.opening, new = yield from enlist(queue.keys)
    queue.view, queue.also_letters = False, queue.part == "live" and LETTERS in queue.opening
    return new


def enlist(keys: QueueKeys) -> Steps[Opened]:
    """Open a queue, then list its name; its opening has the mark if policies ever gave the name.

    A client that gives the name to dead letters notes that first, and then ends an opening without the mark,
    so one of the two clients sees the other.
    """
    mark = ""
    while True:
        own = secrets.token_hex(4) + mark
        opening: str
        _, opening, _, noted = yield Batch(
            [
                calls.open_as(keys, own),
                calls.opening(keys),
                calls.register(keys),
                calls.is_alias(keys.namespace, keys.family),
            ]
        )
        mark = LETTERS if noted else ""
        if opening and mark in opening:
            return Opened(opening, opening == own)
        if opening:  # otherwise it was deleted between two of these
            yield calls.close(keys)


def unlist(keys: QueueKeys) -> Steps[bool]:
    """Take the name of a queue that was closed off the list; whether the name is free now.

    A client that opens it at the same time is seen by the check after that, and the name stays. A client that
    opens it later also lists it later.
    """
    looks = calls.opening(keys), calls.was_sent_to(keys)
    while True:
        if not any((yield Batch([calls.unregister(keys), *looks]))[1:]):
            return True
        if any((yield Batch([calls.register(keys), *looks]))[1:]):
            return False


def in_use(keys: QueueKeys) -> Steps[bool]:
    """Whether a name is that of a queue: listed, open, or ever sent to."""
    looks = calls.is_registered(keys.namespace, keys.family), calls.opening(keys), calls.was_sent_to(keys)
    return any((yield Batch(looks)))
