"""How a verb changes chosen messages: chunk by chunk, after first reads that share a round trip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rq_dlq.core.choosing.counting import LeasedCount, count_leased
from rq_dlq.core.choosing.reading import among, read
from rq_dlq.core.choosing.rows import Found, following
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.pages.calls import END, START
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.steps import senders
from rq_dlq.core.steps.driving import beside, drive
from rq_dlq.core.steps.step import Pipeline, Step, Steps, bounded, chunks
from rq_dlq.values.changed import Changed
from rq_dlq.values.state import length_of
from rq_dlq.values.wanted import NOTHING, STATE

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.changing.calls import ChangedRange
    from rq_dlq.core.changing.plans import Carrying
    from rq_dlq.core.choosing.choice import Choice
    from rq_dlq.core.choosing.rows import Reading
    from rq_dlq.core.pages.calls import Index, Position
    from rq_dlq.core.queues.queue import QueueName, QueueState
    from rq_dlq.core.steps.call import Call, Place

WAITING: Final[tuple[Index, ...]] = ("ready", "scheduled")


Verb: TypeAlias = "Callable[..., Call[Changed]]"
"""A call that changes the messages `ids` of a `place`; it reads as how many it changed."""


VerbOfAll: TypeAlias = "Callable[..., Call[ChangedRange]]"
"""The same for the first messages of a `place` from `after` `upto`; it also reads as the next position."""


def change(
    queue: QueueState[Any],
    choice: Choice,
    verb: Verb,
    places: Sequence[Place],
    act: Callable[[], Steps[str]],
    *,
    but: QueueKeys | None = None,
    all_first: bool = False,
    whole: bool = False,
    check: Callable[[Sequence[QueueState[Any]]], Steps[None]] | None = None,
    plan: Carrying | None = None,
) -> Steps[Changed]:
    """Change the chosen messages that wait in one of `places`; returns how many were changed.

    Args:
        act: makes the entry for the audit, which `verb` gets.
        but: the member of a view that is left alone.
        all_first: choose all before the first is changed, since a changed one could be chosen again.
        whole: the verb writes whole records, so a call gets about half a megabyte of them.
        check: is run before anything is changed, on the queues behind the name; an error refuses the verb.
        plan: the plan that it carries out; None: it has none.
    """
    all_first = all_first or choice.limit is not None

    def begin(members: Sequence[QueueState[Any]]) -> Steps[Changed]:
        leased, turns = LeasedCount(members, choice), _in_turn(choice, places)
        reads = partial(read, members, choice, STATE if whole else NOTHING, but=but)
        early = [_begun(reads(only=some)) for some in turns]
        checks = [] if check is None else [check(members)]
        noted, blocked, _, *begun = yield from beside(
            act(), _are_blocked(members, places), leased.begin(), *early, *checks
        )
        noted_verb = partial(verb, act=noted)
        once = _once(queue, plan, partial(noted_verb, place=places[0], ids=()))
        changing, late = _Changing(once, noted_verb, later=all_first or blocked), False
        for some, first in zip(turns, begun, strict=False):
            # If that took time, some have come here from the places before in the meantime.
            reading, page, at_once = (yield from _begun(reads(only=some))) if late else first
            late = late or page is not None or not at_once
            while page is not None:
                leased.found(page)
                yield from changing.take(page)
                page = yield from following(reading)
        yield from changing.end()
        return Changed(changing.done, changing.left + (yield from leased.end()))

    return among(queue, choice, begin)


class _Changing:
    """The changes of a verb, chunk by chunk.

    Args:
        once: makes a call that takes effect once.
        verb: the call.
        later: all are chosen before the first is changed.

    Attributes:
        done: how many were changed.
        left: how many it found leased.
    """

    def __init__(self, once: Callable[..., Steps[Any]], verb: Verb, *, later: bool) -> None:
        self._once = once
        self._verb = verb
        self._later = later
        self._waiting: list[tuple[QueueKeys, Place, Sequence[str]]] = []
        self.done = self.left = 0

    def take(self, page: Found) -> Steps[None]:
        """Change the messages of a page, now or at the end."""
        for rows in bounded(page.rows, lambda row: length_of(row.state or b"")):
            chunk = page.queue.keys, page.place, [row.id for row in rows]
            if self._later:
                self._waiting.append(chunk)
            else:
                yield from self._change(*chunk)

    def end(self) -> Steps[None]:
        """Change those that waited for the end, the scheduled ones last."""
        for chunk in sorted(self._waiting, key=lambda chunk: chunk[1] == "scheduled"):
            yield from self._change(*chunk)

    def _change(self, keys: QueueKeys, place: Place, ids: Sequence[str]) -> Steps[None]:
        changed = yield from self._once(keys, self._verb, place=place, ids=ids)
        self.done, self.left = self.done + changed, self.left + changed.leased


def _begun(reading: Reading) -> Steps[tuple[Reading, Found | None, bool]]:
    """A reading, its first page, and whether one round trip was enough for that."""
    trips = 0

    def count(step: Step) -> Steps[Any]:
        nonlocal trips
        trips += 1
        return (yield step)

    return reading, (yield from drive(reading, count, until=Found)), trips <= 1


def _once(
    queue: QueueState[Any], plan: Carrying | None, last: Callable[..., Call[Any]]
) -> Callable[..., Steps[Any]]:
    """How calls are made that take effect once; `last` makes the last call of a plan."""
    if plan is None:
        return partial(senders.once, queue.client.senders)
    plan.last = last
    return plan.once


def _are_blocked(members: Sequence[QueueName], places: Sequence[Place]) -> Steps[bool]:
    """Whether keys may block messages: the head of a key must be changed first, and lets in the next one.

    If it were changed before the others were read, these would be missed; after them, they would overtake it.
    """
    for some in chunks(members) if {*WAITING} <= {*places} else ():
        heeded = yield Pipeline([queue_calls.heeded(member.keys) for member in some])
        if any("key" in rules for rules in heeded):
            return True
    return False


def _in_turn(choice: Choice, places: Sequence[Place]) -> list[Sequence[Place]]:
    """The places to read one after another; the first of all of them, if there is a limit.

    Scheduled messages are read before ready ones, so that one that becomes ready meanwhile is not missed.
    """
    if choice.limit is not None or "scheduled" not in places:
        return [places]
    return [("scheduled",), [place for place in places if place != "scheduled"]]


def change_all(
    queue: QueueState[Any],
    choice: Choice,
    verb: VerbOfAll,
    places: Sequence[Index],
    act: Callable[[], Steps[str]],
    *,
    plan: Carrying | None = None,
) -> Steps[Changed]:
    """Change all messages that are in `places` now, a chunk at a time; returns how many were changed.

    The verb finds them itself, so it also takes damaged messages, and rows that an interrupted call left.
    Each chunk begins after the last row of the one before it. Messages of a later version are skipped, and so
    are changed messages that returned.

    Args:
        act, plan: as for `change`.
    """

    def begin(members: Sequence[QueueState[Any]]) -> Steps[Changed]:
        done, stale = 0, False
        parts: list[tuple[QueueKeys, Index]] = [
            (one.keys, place) for one in members for place in places if place in choice.places_in(one)
        ]
        noted, left, ends = yield from beside(act(), count_leased(members, choice), _ends(parts))
        once = _once(queue, plan, partial(verb, place=places[0], after=END, upto=START, act=noted))
        for (keys, place), end in zip(parts, ends, strict=True):
            # What was changed so far took time, in which messages have come here from the places before.
            upto = (yield page_calls.position(keys, place, -1)) if stale else end
            if upto is not None:
                stale = True
                done += yield from _change_range(partial(once, keys, verb, place=place, upto=upto, act=noted))
        return Changed(done, left)

    return among(queue, choice, begin)


def _change_range(once: Callable[..., Steps[ChangedRange]]) -> Steps[int]:
    """Change a range, a chunk at a time; returns how many were changed."""
    done, after = 0, START
    while True:
        part = yield from once(after=after)
        done += part.changed
        if part.next is None:
            return done
        after = part.next


def _ends(parts: Sequence[tuple[QueueKeys, Index]]) -> Steps[list[Position | None]]:
    """The last row of each of these places."""
    ends: list[Position | None] = []
    for some in chunks(parts):
        ends += yield Pipeline([page_calls.position(keys, place, -1) for keys, place in some])
    return ends
