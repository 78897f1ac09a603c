"""Reads the messages of a choice page by page, one page in memory at a time.

A page begins after the last row of the one before it, by score and member. So a message that stays is seen
exactly once, even if others redrive, purge, claim or send at the same time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from rq_dlq.core.choosing.choice import Choice
from rq_dlq.core.choosing.rows import Found, Reading, at, following, these
from rq_dlq.core.groups import calls as group_calls
from rq_dlq.core.groups.index import _tell, indexed
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.names import behind
from rq_dlq.core.steps.driving import beside
from rq_dlq.core.steps.step import Pipeline, R, Steps, chunks
from rq_dlq.values.fingerprint import PLACE
from rq_dlq.values.later import upgrade
from rq_dlq.values.state import NEW, read_state
from rq_dlq.values.wanted import ALL, NOTHING, STATE

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.queues.queue import QueueName, QueueState
    from rq_dlq.core.steps.call import Place
    from rq_dlq.values.message import MessageRow, Received
    from rq_dlq.values.wanted import Wanted

T = TypeVar("T")
logger = logging.getLogger("rq_dlq")


Part: TypeAlias = "tuple[QueueState[Any], Choice]"


def among(
    queue: QueueState[Any], choice: Choice, run: Callable[[list[QueueState[Any]]], Steps[R]]
) -> Steps[R]:
    """Run steps on the queues behind the name, which has the places that are chosen; as `behind`."""

    def begin(members: list[QueueState[Any]]) -> Steps[R]:
        choice.check_places(queue)
        if choice.cutoffs and not choice.later:  # others that have the name by now were not asked about
            members = [member for member in members if member.keys.family in choice.cutoffs]
        return run(members)

    return behind(queue, begin)


def read(
    members: Sequence[QueueState[Any]],
    choice: Choice,
    wanted: Wanted = NOTHING,
    only: Sequence[Place] | None = None,
    *,
    but: QueueKeys | None = None,
) -> Reading:
    """The messages that a choice takes, in pages of at most 250; a limit ends the reading.

    Args:
        members: the queues behind the name.
        wanted: the parts that the caller reads, in addition to those that the conditions need.
        only: in no other state.
        but: the member of a view that is left out.
    """
    shown = [member for member in members if member.keys != but]
    if len(shown) == 1 and _is_one_group(shown[0], choice):
        yield from _of_group(shown[0], choice, wanted, only)
        return
    parts: list[Part] = []
    for member in shown:
        parts += [(member, part) for part in (yield from by_group(member, choice))]
    if choice.limit is None or len(parts) < 2:  # noqa: PLR2004 - a single one has an order
        for member, part in parts:
            yield from _of_one(member, part, wanted, only)
    else:
        yield from _first_of_several(parts, choice, wanted, only)


def leased_of(members: Sequence[QueueState[Any]], choice: Choice) -> Reading:
    """The leased messages of a choice, which no verb changes; none if its states exclude them."""
    if not choice.takes_leased:
        return
    choice = choice.at({})
    for member in members:
        now, page, reading = yield from _begun(member, "leased", choice, choice.needs | STATE)
        while page is not None:
            if member.part != "live":  # of its own dead letters, those that were claimed
                rows = [row for row in page.rows if (read_state(row.state) or NEW).part == member.part]
                page = Found(member, member.part, rows)
            yield replace(page, rows=_taken(page, choice, now))
            page = yield from following(reading)


def _begun(
    queue: QueueState[Any], place: Place, choice: Choice, wanted: Wanted
) -> Steps[tuple[int, Found | None, Reading]]:
    """Begin to read a state of a queue; the time that conditions see, the first page, and the reading."""
    made = choice.cutoffs.get(queue.keys.family)
    if made is not None or not choice.conditional or choice.older_than is not None:
        now = 0 if made is None else made.at
        if made is None and choice.conditional:
            now = yield from _clock(queue)
        reading = at(queue, place, choice, now, wanted)
        return now, (yield from following(reading)), reading
    reading = at(queue, place, choice, 0, wanted)
    now, page = yield from beside(_clock(queue), following(reading))
    return now, page, reading


def _clock(queue: QueueName) -> Steps[int]:
    return (yield queue_calls.stats(queue.keys, queue.name))[0]  # type: ignore[no-any-return]


def _of_one(queue: QueueState[Any], choice: Choice, wanted: Wanted, only: Sequence[Place] | None) -> Reading:
    """The messages of one queue, state by state."""
    left = choice.limit
    for place in choice.places_in(queue):
        if only is not None and place not in only:
            continue
        if left == 0:
            return
        made, needs = choice.cutoffs.get(queue.keys.family), choice.needs
        if made is not None:
            needs |= made.needs(place)
        now, page, reading = yield from _begun(queue, place, choice, wanted | needs)
        while page is not None:
            found = Found(queue, place, _taken(page, choice, now)[:left])
            if found.rows:
                yield found
            left = left and left - len(found.rows)
            page = (yield from following(reading)) if left != 0 else None


def _taken(page: Found, choice: Choice, now: int) -> Sequence[MessageRow]:
    """The messages of a page that this version can read and that meet all conditions."""
    page = replace(page, rows=_readable(page.rows, page.queue.name))
    if (made := choice.cutoffs.get(page.queue.keys.family)) is not None:
        page = replace(page, rows=[row for row in page.rows if made.has(row, page.place) != choice.later])
    if not choice.conditional:
        return page.rows
    pairs = zip(page.rows, page.messages, strict=True)
    return [row for row, message in pairs if choice.takes(message, now, page.queue.masks)]


def _readable(rows: Sequence[MessageRow], name: str) -> Sequence[MessageRow]:
    """The messages that this version can read; the number of the others is logged."""
    versions = [row.version_needed for row in rows]
    if not any(versions):
        return rows
    count = len(versions) - versions.count("")
    logger.warning("%s", upgrade(f"{name}: each of {count} messages here", max(versions)))
    return [row for row, version in zip(rows, versions, strict=True) if not version]


def _first_of_several(
    parts: Sequence[Part], choice: Choice, wanted: Wanted, only: Sequence[Place] | None
) -> Reading:
    """The first that died, or are due, among several queues or groups, one after another.

    Only the states of all are read, then the wanted parts of the first.
    """
    whole = wanted | STATE != STATE
    first: list[tuple[int, int, MessageRow]] = []
    sources: list[tuple[QueueState[Any], Place]] = []
    for queue, part in parts:
        reading = _of_one(queue, part, STATE, only)
        while found := (yield from following(reading)):
            if (found.queue, found.place) not in sources[-1:]:
                sources.append((found.queue, found.place))
            pairs = zip(found.messages, found.rows, strict=True)
            first += ((message.due, len(sources), row) for message, row in pairs)
    first.sort(key=lambda one: one[0], reverse=choice.newest)
    for number, (queue, place) in enumerate(sources, 1):
        for rows in chunks([row for _, whose, row in first[: choice.limit] if whose == number]):
            found = Found(queue, place, rows)
            if whole:
                yield from these(queue, found.place, found.ids, wanted)
            else:
                yield found


def by_group(queue: QueueName, choice: Choice) -> Steps[list[Choice]]:
    """The choice, divided into those that the index of groups answers; itself if it does not."""
    if not _is_of_index(queue, choice):
        return [choice]
    name = choice.group or ""
    if _is_one_group(queue, choice):
        return [choice.of_group(name)] if (yield from _is_whole(queue)) else [choice]
    found = yield from indexed(queue.keys, name)  # the class and the place of several groups
    return [choice] if found is None else [choice.of_group(group.name) for group in found[1]]


def _is_of_index(queue: QueueName, choice: Choice) -> bool:
    """Whether the index of groups may answer a choice."""
    return choice.group is not None and choice.ids is None and choice.places_in(queue) == ["dead"]


def _is_one_group(queue: QueueName, choice: Choice) -> bool:
    """Whether a choice has the whole name of a group."""
    return _is_of_index(queue, choice) and len(choice.group or "") != PLACE


def _is_whole(queue: QueueName) -> Steps[bool]:
    """Whether the index of groups has every dead letter."""
    dead, grouped = yield Pipeline(group_calls.sizes(queue.keys))
    if dead != grouped:
        _tell(queue.keys)
    return bool(dead == grouped)


def _of_group(
    queue: QueueState[Any], choice: Choice, wanted: Wanted, only: Sequence[Place] | None
) -> Reading:
    """The dead letters of one group; whether the index has them all is read along with the first page."""
    reading = _of_one(queue, choice.of_group(choice.group or ""), wanted, only)
    whole, page = yield from beside(_is_whole(queue), following(reading))
    if not whole:
        yield from _of_one(queue, choice, wanted, only)
        return
    while page is not None:
        yield page
        page = yield from following(reading)


def chosen(
    queue: QueueState[T], choice: Choice, only: Sequence[Place] | None = None
) -> Steps[list[Received[T]]]:
    """The messages, unchanged, in the order of their states; those of a group by their deaths.

    If dead letters of other queues are among them, all are in the order in which they died or are due.
    """
    return among(queue, choice, partial(_chosen, queue, choice, only))


def _chosen(
    queue: QueueState[T],
    choice: Choice,
    only: Sequence[Place] | None,
    members: Sequence[QueueState[T]],
) -> Steps[list[Received[T]]]:
    reading = read(members, choice, ALL, only)
    found: list[Received[T]] = []
    while page := (yield from following(reading)):
        found += page.messages
    if queue.shows_letters or choice.group is not None:
        found.sort(key=lambda message: message.due, reverse=choice.newest)
    return found


def peek(queue: QueueState[T], limit: int) -> Steps[list[Received[T]]]:
    """The messages that the next claims get, unchanged."""
    return (yield from chosen(queue, Choice(limit=limit), ("ready", "dead", "expired")))
