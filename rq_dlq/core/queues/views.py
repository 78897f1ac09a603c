"""Views: names that policies give to the dead-letter and expiry queues of other queues.

A view shows the messages that died or expired in those. The set of aliases is only a hint: a name is given as
long as some queue's settings have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from rq_dlq._keys import QueueKeys
from rq_dlq.core.queues import calls
from rq_dlq.core.steps.step import Batch, Steps, chunks
from rq_dlq.values.names import Address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq.core.queues.queue import QueueState

T = TypeVar("T")
LOOKED_AT = 100  # queues whose names one round trip reads


def members(queue: QueueState[T]) -> Steps[list[QueueState[T]]]:
    """The queue itself, or the dead-letter and expiry queues that a view shows now."""
    if queue.view and (found := (yield from _members_of(queue))):
        return found
    yield from find(queue)
    return (yield from _members_of(queue)) if queue.view else [queue]


def _members_of(queue: QueueState[T]) -> Steps[list[QueueState[T]]]:
    families: list[str] = yield calls.registered(queue.keys.namespace)
    return [queue.member(address) for address in (yield from shown(queue, families))]


def shown(queue: QueueState[Any], families: Sequence[str]) -> Steps[list[Address]]:
    """What a view shows of these queues now."""
    family = queue.keys.family
    # "DLQ.all" also means the dead letters of "all", and may be given to those of others as well.
    own = [Address(family, queue.part)] if queue.name != family and family in families else []
    wanted = ("dead", "expired") if queue.name != family or queue.part == "live" else (queue.part,)
    given = yield from called(queue.keys.namespace, queue.name, families)
    return list(dict.fromkeys([*own, *(address for address in given if address.part in wanted)]))


def find(queue: QueueState[Any]) -> Steps[None]:
    """Find out whether the queue is a view now; one whose name has changed hands is opened again."""
    noted = yield calls.is_alias(queue.keys.namespace, queue.name)
    view = bool(noted) and (yield from is_given(queue.keys, queue.name))
    if view != queue.view:
        queue.view, queue.opened = view, False


def is_given(keys: QueueKeys, name: str) -> Steps[bool]:
    """Whether a name is a view's now; a queue that was sent to is never hidden by a view."""
    if name == keys.family and (yield calls.was_sent_to(keys)):
        return False
    families: list[str] = yield calls.registered(keys.namespace)
    return bool((yield from called(keys.namespace, name, families)))


def called(namespace: str, name: str, families: Sequence[str]) -> Steps[list[Address]]:
    """The dead-letter and expiry queues among those of these queues that have this name now."""
    found: list[Address] = []
    for part in chunks(families, LOOKED_AT):
        given = yield Batch([calls.given_names(QueueKeys(namespace, family)) for family in part])
        for family, names in zip(part, given, strict=True):
            places = zip(("dead", "expired", "dead"), names, strict=False)  # the last are aliases
            found += (Address(family, where) for where, others in places if name in others.split(" "))
    return found
