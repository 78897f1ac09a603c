"""Names that policies give to dead-letter and expiry queues, and what they show.

Such a name is no queue of its own but a view of what died or expired in others. The set of aliases only hints
at it: a name is given while some queue's settings carry it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from rq_dlq import _calls
from rq_dlq._keys import QueueKeys
from rq_dlq._names import Address
from rq_dlq._work.steps import WINDOW, Batch, Steps

if TYPE_CHECKING:
    from rq_dlq._work.queue import Queue

T = TypeVar("T")


def members(queue: Queue[T]) -> Steps[list[Queue[T]]]:
    """The queues behind a name: itself, or whose dead letters and expired messages a view shows just now."""
    yield from find(queue)
    if not queue.view:
        return [queue]
    home = queue.keys.home
    # "DLQ.all" means what died in "all", too; it may be given that name as well.
    own = [Address(home, queue.part)] if queue.name != home else []
    wanted = ("dead", "expired") if queue.name != home or queue.part == "live" else (queue.part,)
    given = yield from called(queue.keys.namespace, queue.name)
    shown = dict.fromkeys([*own, *(address for address in given if address.part in wanted)])
    return [queue.member(address) for address in shown]


def find(queue: Queue[Any]) -> Steps[None]:
    """Ask once whether the name is one that policies gave to what died or expired in other queues."""
    if not queue.found and (yield _calls.is_alias(queue.keys.namespace, queue.name)):
        queue.view = yield from is_given(queue.keys, queue.name)
    queue.found = True


def is_given(keys: QueueKeys, name: str) -> Steps[bool]:
    """Whether what died or expired anywhere is called so just now; a queue that was used is not hidden."""
    if name == keys.home and (yield _calls.was_sent_to(keys)):
        return False
    return bool((yield from called(keys.namespace, name)))


def called(namespace: str, name: str) -> Steps[list[Address]]:
    """Whose dead letters and expired messages have this name just now."""
    homes: list[str] = yield _calls.registered(namespace)
    found: list[Address] = []
    for start in range(0, len(homes), WINDOW * 25):
        part = homes[start : start + WINDOW * 25]
        given = yield Batch([_calls.given_names(QueueKeys(namespace, home)) for home in part])
        for home, names in zip(part, given, strict=True):
            places = zip(("dead", "expired"), names, strict=False)
            found += (Address(home, where) for where, other in places if other == name)
    return found
