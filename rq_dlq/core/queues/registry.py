"""The list of the names of all queues: a name comes onto it, and leaves it.

A queue is open while its settings hold an opening, a random word. A client opens it before it lists the name,
and checks then that no policy gives the name to dead letters. What it sends names the opening, so the script
refuses it if the queue was deleted since. See `docs/design.md`, "Deleting queues".
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from rq_dlq.core.queues import calls
from rq_dlq.core.queues.views import is_given
from rq_dlq.core.steps.step import Batch, Steps

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.queues.queue import QueueState


def register(queue: QueueState[Any]) -> Steps[None]:
    """Open a queue and list its name before the map is read, so that who changes the map now finds it.

    A client that gives the name to dead letters records that first and then looks whether the queue is open,
    so one of the two sees the other.
    """
    keys = queue.keys
    while True:
        opening, noted = yield from enlist(keys)
        if not noted or not (yield from is_given(keys, keys.family)):
            queue.opening = opening  # not before, since another thread may use it at once
            return
        yield calls.close(keys)
        yield from unlist(keys)
        if (yield from is_given(keys, keys.family)):
            queue.view = True
            return


def enlist(keys: QueueKeys) -> Steps[tuple[str, bool]]:
    """Open a queue, then list its name; its opening, and whether a policy ever gave the name."""
    while True:
        _, opening, _, noted = yield Batch(
            [
                calls.open_as(keys, secrets.token_hex(4)),
                calls.opening(keys),
                calls.register(keys),
                calls.is_alias(keys.namespace, keys.family),
            ]
        )
        if opening:  # else it was deleted between two of these
            return opening, bool(noted)


def unlist(keys: QueueKeys) -> Steps[bool]:
    """Take the name of a queue that was closed off the list; whether the name is free now.

    Who opens it while this goes on is seen by a look after that, and the name stays. Who opens it later also
    lists it later.
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
