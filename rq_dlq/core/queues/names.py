"""What a name means now: a queue, dead letters of other queues to which policies gave it (a view), or both.

This is the one place that finds out. A queue object remembers the last answer (`view`, `also_letters`,
`shown`), and no verb trusts it: the question rides in the round trip of the verb's first read (`behind`). If
other queues are behind the name by now, what was read is forgotten, and the verb begins again. So a verb sees
each name that was given before it began; one that is given later counts as given after the verb. Sends and
claims of an open queue do not ask, since their scripts refuse an opening that has ended (`registry`).

The set of aliases is only a hint: a name is given as long as some queue's settings have it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rq_dlq._keys import QueueKeys
from rq_dlq.core.queues import calls
from rq_dlq.core.queues.registry import in_use
from rq_dlq.core.queues.view_state import LastShown
from rq_dlq.core.steps.driving import as_it_is, drive
from rq_dlq.core.steps.step import Pipeline, Steps, chunks
from rq_dlq.errors import InvalidInput
from rq_dlq.values.names import Address

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rq_dlq.core.queues.queue import QueueName, QueueState
    from rq_dlq.core.steps.call import Command

R = TypeVar("R")
T = TypeVar("T")
LOOKED_AT = 100  # queues whose names one round trip reads
NONE: Final[Mapping[str, Sequence[str]]] = {}


def behind(queue: QueueState[T], run: Callable[[list[QueueState[T]]], Steps[R]]) -> Steps[R]:
    """Run steps on the queues behind a name: itself, and the dead-letter and expiry queues that have it now.

    Args:
        run: makes the steps. The first one only reads, since it is made before the answer is known; the steps
            may be made twice.
    """
    steps: Steps[R] | None = None
    first: Any = None
    guess, meaning = _last_seen(queue), (queue.view, queue.also_letters)
    if guess:
        try:
            steps = run(guess)
            first = next(steps)  # not a wait
        except StopIteration as stop:  # there is nothing to read
            if not queue.shows_letters:
                return stop.value  # type: ignore[no-any-return]
            steps = None
        except InvalidInput:  # a queue may not do this, but perhaps it is none any more
            steps = None
    if steps is None:
        return (yield from run((yield from members(queue))))
    alone = not isinstance(first, Pipeline)
    asks = _asks(queue)
    try:
        replies = yield Pipeline([*asks, *([first] if alone else first.calls)])
    except BaseException as error:  # noqa: BLE001 - the steps decide
        return (yield from drive(steps, as_it_is, error=error))
    found = yield from _meant(queue, replies[: len(asks)])
    if [*map(id, found)] != [*map(id, guess)] or (queue.view, queue.also_letters) != meaning:
        steps.close()
        return (yield from run(found))
    replies = replies[len(asks) :]
    return (yield from drive(steps, as_it_is, replies[0] if alone else replies))


def members(queue: QueueState[T]) -> Steps[list[QueueState[T]]]:
    """The queues behind a name, as `behind` runs steps on them."""
    return (yield from _meant(queue, (yield Pipeline(_asks(queue)))))


def _last_seen(queue: QueueState[T]) -> list[QueueState[T]]:
    """The queues behind the name when a verb last asked; empty: none did, or there were none."""
    if not queue.shows_letters:  # nearly always
        return [queue]
    return [] if queue.shown is None else _behind(queue, queue.shown)


def _asks(queue: QueueState[Any]) -> list[Command[Any]]:
    """Ask whether the name is an alias; of one that showed letters, also whose it was last."""
    asks: list[Command[Any]] = [calls.is_alias(queue.keys.namespace, queue.name)]
    if not queue.shows_letters:
        return asks
    families = () if queue.shown is None else queue.shown.families[:LOOKED_AT]
    return [*asks, *_more(queue), *(calls.given_names(replace(queue.keys, family=one)) for one in families)]


def _more(queue: QueueName) -> list[Command[Any]]:
    return [calls.registered(queue.keys.namespace), calls.opening(queue.keys), calls.was_sent_to(queue.keys)]


def _meant(queue: QueueState[T], replies: Sequence[Any]) -> Steps[list[QueueState[T]]]:
    """The queues behind a name, from the replies to `_asks`, and further reads where these do not tell."""
    noted, *found = replies
    if not noted:
        _note(queue, view=False, also_letters=False)
        return [queue]
    families, *used = found[:3] or (yield Pipeline(_more(queue)))
    known = {} if queue.shown is None else dict(zip(queue.shown.families, found[3:], strict=False))
    given = yield from called(queue.keys.namespace, queue.name, families, known)
    is_queue = queue.part == "live" and (queue.name in families or any(used))
    _note(queue, view=bool(given) and not is_queue, also_letters=is_queue)
    if not queue.shows_letters:
        return [queue]
    queue.shown = LastShown(families, given)
    return _behind(queue, queue.shown)


def _behind(queue: QueueState[T], seen: LastShown) -> list[QueueState[T]]:
    others = [queue.member(address) for address in _shown(queue, seen.families, seen.given)]
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


def called(
    namespace: str, name: str, families: Sequence[str], known: Mapping[str, Sequence[str]] = NONE
) -> Steps[list[Address]]:
    """The dead-letter and expiry queues among those of these queues that have this name now.

    Args:
        known: the names of the letters of some, which were just read.
    """
    names = {**known}
    for part in chunks([family for family in families if family not in known], LOOKED_AT):
        found = yield Pipeline([calls.given_names(QueueKeys(namespace, family)) for family in part])
        names |= zip(part, found, strict=True)
    addresses: list[Address] = []
    for family in families:
        places = zip(("dead", "expired") * 2, names[family], strict=False)  # the last two are aliases
        addresses += (Address(family, where) for where, others in places if name in others.split(" "))
    return addresses
