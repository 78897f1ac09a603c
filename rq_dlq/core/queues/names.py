"""What a name means now: a queue, dead letters of other queues to which policies gave it (a view), or both.

This is the one place that finds out. A queue object remembers the last answer (`view`, `also_letters`), and
no verb trusts it: the question rides in the round trip of the verb's first read (`behind`). If the name is
another's by now, what was read is forgotten, and the verb begins again. So a verb sees each name that was
given before it began; one that is given later counts as given after the verb. Sends and claims of an open
queue do not ask, since their scripts refuse an opening that has ended (`registry`).

The set of aliases is only a hint: a name is given as long as some queue's settings have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from rq_dlq._keys import QueueKeys
from rq_dlq.core.queues import calls
from rq_dlq.core.queues.registry import in_use
from rq_dlq.core.steps.driving import as_it_is, drive
from rq_dlq.core.steps.step import Pipeline, Steps, chunks
from rq_dlq.errors import InvalidInput
from rq_dlq.values.names import Address

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rq_dlq.core.queues.queue import QueueName, QueueState
    from rq_dlq.core.steps.call import Command

R = TypeVar("R")
T = TypeVar("T")
LOOKED_AT = 100  # queues whose names one round trip reads


def behind(queue: QueueState[T], run: Callable[[list[QueueState[T]]], Steps[R]]) -> Steps[R]:
    """Run steps on the queues behind a name: itself, and the dead-letter and expiry queues that have it now.

    Args:
        run: makes the steps. The first one only reads, since it is made before the answer is known; the steps
            may be made twice.
    """
    steps: Steps[R] | None = None
    first: Any = None
    if not queue.shows_letters:  # nearly always
        try:
            steps = run([queue])
            first = next(steps)  # not a wait
        except StopIteration as stop:  # there is nothing to read
            return stop.value  # type: ignore[no-any-return]
        except InvalidInput:  # a queue may not do this, but perhaps it is none any more
            steps = None
    if steps is None:
        return (yield from run((yield from members(queue))))
    alone = not isinstance(first, Pipeline)
    asks = calls.is_alias(queue.keys.namespace, queue.name)
    try:
        noted, *replies = yield Pipeline([asks, first] if alone else [asks, *first.calls])
    except BaseException as error:  # noqa: BLE001 - the steps decide
        return (yield from drive(steps, as_it_is, error=error))
    if noted:
        steps.close()
        return (yield from run((yield from members(queue, noted=True))))
    _note(queue, view=False, also_letters=False)
    return (yield from drive(steps, as_it_is, replies[0] if alone else replies))


def members(queue: QueueState[T], *, noted: bool = False) -> Steps[list[QueueState[T]]]:
    """The queues behind a name, as `behind` runs steps on them.

    Args:
        noted: the name was given once, which is known.
    """
    namespace = queue.keys.namespace
    asks: list[Command[Any]] = [calls.is_alias(namespace, queue.name)]
    more: list[Command[Any]] = [
        calls.registered(namespace),
        calls.opening(queue.keys),
        calls.was_sent_to(queue.keys),
    ]
    found: Sequence[Any] = ()
    if not noted:
        noted, *found = yield Pipeline([*asks, *more] if queue.shows_letters else asks)
    if not noted:
        _note(queue, view=False, also_letters=False)
        return [queue]
    families, *used = found or (yield Pipeline(more))
    given = yield from called(namespace, queue.name, families)
    is_queue = queue.part == "live" and (queue.name in families or any(used))
    _note(queue, view=bool(given) and not is_queue, also_letters=is_queue)
    if not queue.shows_letters:
        return [queue]
    others = [queue.member(address) for address in _shown(queue, families, given)]
    return others if queue.view else [queue, *others]


def _note(queue: QueueName, *, view: bool, also_letters: bool) -> None:
    """Note whose name it is; a queue whose name has changed hands is opened again."""
    if (view, also_letters) != (queue.view, queue.also_letters):
        queue.view, queue.also_letters, queue.opened = view, also_letters, False


def shown(queue: QueueName, families: Sequence[str]) -> Steps[list[Address]]:
    """The dead-letter and expiry queues among those of these queues that a name shows now."""
    return _shown(queue, families, (yield from called(queue.keys.namespace, queue.name, families)))


def _shown(queue: QueueName, families: Sequence[str], given: Sequence[Address]) -> list[Address]:
    family = queue.keys.family
    # "DLQ.all" also means the dead letters of "all", and may be given to those of others as well.
    own = [Address(family, queue.part)] if queue.part != "live" and family in families else []
    wanted = ("dead", "expired") if queue.name != family or queue.part == "live" else (queue.part,)
    return list(dict.fromkeys([*own, *(address for address in given if address.part in wanted)]))


def noted_name(queue: QueueName) -> Steps[tuple[bool, bool]]:
    """Whether policies ever gave the name to dead letters, and whether it is then also a queue's."""
    noted = bool((yield calls.is_alias(queue.keys.namespace, queue.name)))
    return noted, noted and queue.part == "live" and (yield from in_use(queue.keys))


def called(namespace: str, name: str, families: Sequence[str]) -> Steps[list[Address]]:
    """The dead-letter and expiry queues among those of these queues that have this name now."""
    found: list[Address] = []
    for part in chunks(families, LOOKED_AT):
        given = yield Pipeline([calls.given_names(QueueKeys(namespace, family)) for family in part])
        for family, names in zip(part, given, strict=True):
            places = zip(("dead", "expired") * 2, names, strict=False)  # the last two are aliases
            found += (Address(family, where) for where, others in places if name in others.split(" "))
    return found
