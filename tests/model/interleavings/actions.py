"""What there is to try in a world: by whom, of which messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from tests.model.interleavings.reduced import NOW
from tests.model.interleavings.world import WAITING, Queue

FRESH, NOBODY, NEW = "t9", "nobody", "m9"  # a token that was just drawn, one that holds nothing, a new id
ALL = 100
GRAVES = ("dead", "expired")
PLACES = (*WAITING, *GRAVES)

Items = tuple[tuple[str, str], ...]  # id, token
Arguments = tuple[Any, ...]
Choices = Callable[[Queue], Iterable[Arguments]]


def always(*arguments: Arguments) -> Choices:
    """The same in every world."""
    return lambda _: arguments


def nothing(queue: Queue) -> tuple[Arguments, ...]:
    """There is nothing to try."""
    del queue
    return ()


# Of what is held


def by_holders(queue: Queue) -> Iterator[tuple[Items]]:
    """Message by message; and all of a claim in one call, one of it twice, with what is not its own."""
    for token in queue.claims:
        held = queue.held_by(token)
        yield from ((((name, token),),) for name in held)
        if len(held) > 1:
            yield (tuple((name, token) for name in (*sorted(queue.messages), held[0])),)


def by_nobody(queue: Queue) -> Iterator[tuple[Items]]:
    """All by a token that holds nothing."""
    if queue.messages:
        yield (tuple((name, NOBODY) for name in queue.messages),)


def committed(most: int) -> Choices:
    """What is acked, and a message that is sent, where there are fewer than so many; or none."""
    new = a_new_one(most)
    return lambda queue: ((items, *names) for (items,) in by_holders(queue) for names in (((),), *new(queue)))


def tokens(queue: Queue) -> Iterator[Arguments]:
    return ((token,) for token in queue.claims)


def divided(queue: Queue) -> Iterator[Arguments]:
    """A claim, to a new token, which is given all, or all but one."""
    return ((token, FRESH, keep) for token in queue.claims for keep in (0, 1))


def divided_before(queue: Queue) -> Iterator[Arguments]:
    """A claim that is over, to one that has what was to be its own."""
    return ((NOBODY, token, 0) for token in queue.claims)


def lapsed(queue: Queue) -> list[str]:
    return [token for token, claim in queue.claims.items() if claim.until <= NOW]


def swept(queue: Queue) -> Iterator[tuple[int, str]]:
    """A message of any lease that lapsed; all at once."""
    yield from ((1, token) for token in lapsed(queue))
    yield ALL, ""


def sweep_first(queue: Queue, limit: int, token: str) -> Queue:
    """The world in which this lease lapsed before the others."""
    del limit
    if not token:
        return queue
    earliest = min(claim.until for claim in queue.claims.values())
    first = queue.claims[token]._replace(until=earliest - 1)
    return replace(queue, claims={**queue.claims, token: first})


def woken(queue: Queue, _: str, count: int) -> Queue:
    """Who claims one message was woken, and took the wake-up; who claims more came by."""
    return replace(queue, woken=False) if count == 1 else queue


# Of what waits


def each_at(*places: str, more: tuple[Arguments, ...] = ((),)) -> Choices:
    """Each message of these places, with each of some more arguments."""
    return lambda queue: (
        (message.place, (name,), *rest)
        for name, message in queue.messages.items()
        if message.place in places
        for rest in more
    )


def none_at(*places: str, more: Arguments = ()) -> Choices:
    """For each place all messages that are elsewhere."""

    def choices(queue: Queue) -> Iterator[Arguments]:
        for place in places:
            if ids := tuple(name for name, message in queue.messages.items() if message.place != place):
                yield place, ids, *more

    return choices


def a_new_one(most: int) -> Choices:
    """Where there are fewer messages than so many."""
    return lambda queue: (((NEW,),),) if len(queue.messages) < most else ()


def all_known(queue: Queue) -> tuple[Arguments, ...]:
    """All that are there, once more."""
    return ((tuple(queue.messages),),) if queue.messages else ()
