"""The list of the names of all queues: a name comes onto it, leaves it, or gives way to a policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rq_dlq._calls import manage
from rq_dlq._work.senders import Senders, once
from rq_dlq._work.steps import Batch, Steps
from rq_dlq._work.views import is_given

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq._work.queue import Queue


def register(queue: Queue[Any]) -> Steps[None]:
    """Register the queue's name before the map is read, so that a client that changes the map now finds it.

    A client that gives the name to dead letters records that first and then reads the list of queues, so one
    of the two sees the other. Only the client that added a name to the list removes it, and checks again
    afterwards, since another client may have relied on it.
    """
    keys = queue.keys
    while True:
        new, noted = yield Batch([manage.register(keys), manage.is_alias(keys.namespace, keys.home)])
        if not noted:
            return
        if not (yield from is_given(keys, keys.home)):
            yield manage.drop_aliases(keys.namespace, [keys.home])
            return
        if new:
            yield manage.unregister(keys)
        if not new or (yield from is_given(keys, keys.home)):
            queue.view = True
            return


def unregister(keys: QueueKeys) -> Steps[bool]:
    """Take the name of a queue without messages off the list, unless someone has sent to it meanwhile.

    Who sends to it later registers it again: the reply says that these are its first messages.

    Returns:
        Whether the name is free now.
    """
    _, sent = yield Batch([manage.unregister(keys), manage.was_sent_to(keys)])
    if sent:
        yield manage.register(keys)
    return not sent


def give_way(keys: QueueKeys) -> Steps[bool]:
    """Delete a queue whose name a policy wants for dead letters, if nothing is in it; whether it is free."""
    left = yield from once(Senders(), keys, manage.delete, everything=False)
    return not isinstance(left, manage.Left) and (yield from unregister(keys))


def give_way_unused(keys: QueueKeys) -> Steps[bool]:
    """The same for a queue that was only claimed from, which takes no more rights than to open a queue.

    A program that declares settings for a queue means to send to it.
    """
    sent, (declared, _) = yield Batch([manage.was_sent_to(keys), manage.configured(keys)])
    return not sent and not declared and (yield from unregister(keys))
