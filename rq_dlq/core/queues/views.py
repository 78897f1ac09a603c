"""The dead-letter or expiry queues of other queues under a name that policies give to them.

It shows the messages that died or expired in those: it is a view. If it is also the name of a queue, it shows
both. The set of aliases is only a hint: a name is given as long as some queue's settings have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from rq_dlq._keys import QueueKeys
from rq_dlq.core.queues import calls
from rq_dlq.core.queues.registry import in_use
from rq_dlq.core.steps.step import Batch, Steps, chunks
from rq_dlq.values.names import Address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq.core.queues.queue import QueueState

T = TypeVar("T")
LOOKED_AT = 100  # queues whose names one round trip reads


def members(queue: QueueState[T]) -> Steps[list[QueueState[T]]]:
    """The queue itself, and the dead-letter and expiry queues that are under its name now."""
    if queue.view:
        found, is_queue = yield from _members_of(queue)
        if found and not is_queue:
            return found
    yield from find(queue)
    found = (yield from _members_of(queue))[0] if queue.shows_letters else []
    return found if queue.view else [queue, *found]


def _members_of(queue: QueueState[T]) -> Steps[tuple[list[QueueState[T]], bool]]:
    """The queues whose dead letters a name shows, and whether it is also a queue's."""
    families: list[str] = yield calls.registered(queue.keys.namespace)
    found = [queue.member(address) for address in (yield from shown(queue, families))]
    return found, queue.part == "live" and queue.name in families


def shown(queue: QueueState[Any], families: Sequence[str]) -> Steps[list[Address]]:
    """The dead-letter and expiry queues among those of these queues that a name shows now."""
    family = queue.keys.family
    # "DLQ.all" also means the dead letters of "all", and may be given to those of others as well.
    own = [Address(family, queue.part)] if queue.part != "live" and family in families else []
    wanted = ("dead", "expired") if queue.name != family or queue.part == "live" else (queue.part,)
    given = yield from called(queue.keys.namespace, queue.name, families)
    return list(dict.fromkeys([*own, *(address for address in given if address.part in wanted)]))


def find(queue: QueueState[Any]) -> Steps[None]:
    """Find the members of the name now; a queue whose name has changed hands is opened again."""
    noted, also_letters = yield from noted_name(queue)
    view = noted and not also_letters and (yield from is_given(queue.keys.namespace, queue.name))
    if (view, also_letters) != (queue.view, queue.also_letters):
        queue.view, queue.also_letters, queue.opened = view, also_letters, False


def noted_name(queue: QueueState[Any]) -> Steps[tuple[bool, bool]]:
    """Whether policies ever gave the name to dead letters, and whether it is then also a queue's."""
    noted = bool((yield calls.is_alias(queue.keys.namespace, queue.name)))
    return noted, noted and queue.part == "live" and (yield from in_use(queue.keys))


def is_given(namespace: str, name: str) -> Steps[bool]:
    """Whether policies give a name to dead letters or expired messages now."""
    families: list[str] = yield calls.registered(namespace)
    return bool((yield from called(namespace, name, families)))


def called(namespace: str, name: str, families: Sequence[str]) -> Steps[list[Address]]:
    """The dead-letter and expiry queues among those of these queues that have this name now."""
    found: list[Address] = []
    for part in chunks(families, LOOKED_AT):
        given = yield Batch([calls.given_names(QueueKeys(namespace, family)) for family in part])
        for family, names in zip(part, given, strict=True):
            places = zip(("dead", "expired") * 2, names, strict=False)  # the last two are aliases
            found += (Address(family, where) for where, others in places if name in others.split(" "))
    return found
