"""Reads the messages of a choice page by page, one page in memory at a time.

A page begins after the last row of the one before it, by score and member. So a message that stays is seen
exactly once, even if others redrive, purge, claim or send at the same time.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.core.choosing.choice import Choice
from rq_dlq.core.groups import calls as group_calls
from rq_dlq.core.groups.index import _tell, indexed
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.pages.calls import START, Position
from rq_dlq.core.pages.ranges import Range, leases, pages, pages_of
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.views import members
from rq_dlq.core.steps.driving import as_it_is, drive
from rq_dlq.core.steps.step import CHUNK, Batch, Step, Steps, chunks
from rq_dlq.values.fingerprint import PLACE
from rq_dlq.values.later import upgrade
from rq_dlq.values.message import DeadLetter, Received
from rq_dlq.values.state import NEW, read_state
from rq_dlq.values.wanted import ALL, HEAD, NOTHING, STATE

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.choosing.cutoff import Cutoff
    from rq_dlq.core.pages.calls import Index, Page
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.call import Place
    from rq_dlq.values.message import Row
    from rq_dlq.values.wanted import Wanted

T = TypeVar("T")
logger = logging.getLogger("rq_dlq")
LISTS = 50  # claims whose lists of ids are read in one round trip: about 1 MB
_LAST_MEMBER = b"\xff"  # after every member of an index, which begin with lower bytes (lua/order.lua)


@dataclass(frozen=True, slots=True)
class Found:
    """A page of messages in one state of one queue, with the wanted parts."""

    queue: QueueState[Any]
    place: Place
    rows: Sequence[Row]

    @property
    def ids(self) -> list[str]:
        """Their ids."""
        return [row.id for row in self.rows]

    @property
    def messages(self) -> list[Received[Any]]:
        """The messages, `DeadLetter` if they are dead or expired; only the wanted parts may be read."""
        queue = self.queue
        if self.place in {"dead", "expired"}:
            return [DeadLetter(row, queue.codec, queue.keys.family) for row in self.rows]
        return [Received(row, queue.codec, queue.name) for row in self.rows]


Part: TypeAlias = "tuple[QueueState[Any], Choice]"
Reading: TypeAlias = Generator[Step | Found, Any, None]
"""Steps and, between them, the pages that they found; `following` runs it up to the next page."""


def following(reading: Reading) -> Steps[Found | None]:
    """The next page; None: this is the last."""
    return drive(reading, as_it_is, until=Found)


def sources(queue: QueueState[Any], choice: Choice) -> Steps[list[QueueState[Any]]]:
    """The queues behind the name, which has the places that are chosen."""
    found = yield from members(queue)
    choice.check_places(queue)
    if choice.cutoffs:  # others that have the name by now were not asked about
        found = [member for member in found if member.keys.family in choice.cutoffs]
    return found


def read(
    queue: QueueState[Any],
    choice: Choice,
    wanted: Wanted = NOTHING,
    only: Sequence[Place] | None = None,
    *,
    but: QueueKeys | None = None,
    known: Sequence[QueueState[Any]] | None = None,
) -> Reading:
    """The messages that a choice takes, in pages of at most 250; a limit ends the reading.

    Args:
        wanted: the parts that the caller reads, in addition to those that the conditions need.
        only: in no other state.
        but: the member of a view that is left out.
        known: the queues behind the name, as the caller has read them; None: the current ones.
    """
    found = (yield from sources(queue, choice)) if known is None else known
    shown = [member for member in found if member.keys != but]
    parts: list[Part] = []
    for member in shown:
        parts += [(member, part) for part in (yield from by_group(member, choice))]
    if choice.limit is None or len(parts) < 2:  # noqa: PLR2004 - a single one has an order
        for member, part in parts:
            yield from _of_one(member, part, wanted, only)
    else:
        yield from _first_of_several(parts, choice, wanted, only)


def leased_of(queue: QueueState[Any], choice: Choice) -> Reading:
    """The leased messages of a choice, which no verb changes; none if its states exclude them."""
    if not choice.takes_leased:
        return
    choice = choice.at({})
    for member in (yield from sources(queue, choice)):
        now = (yield queue_calls.stats(member.keys, member.name))[0] if choice.conditional else 0
        reading = _at(member, "leased", choice, now, choice.needs | STATE)
        while page := (yield from following(reading)):
            if member.part != "live":  # of its own dead letters, those that were claimed
                rows = [row for row in page.rows if (read_state(row.state) or NEW).part == member.part]
                page = Found(member, member.part, rows)
            yield replace(page, rows=_taken(page, choice, now))


def _of_one(queue: QueueState[Any], choice: Choice, wanted: Wanted, only: Sequence[Place] | None) -> Reading:
    """The messages of one queue, state by state."""
    left = choice.limit
    for place in choice.places_in(queue):
        if only is not None and place not in only:
            continue
        made, needs = choice.cutoffs.get(queue.keys.family), choice.needs
        if made is not None:
            now, needs = made.at, needs | made.needs(place)
        else:
            now = (yield queue_calls.stats(queue.keys, queue.name))[0] if choice.conditional else 0
        reading = _at(queue, place, choice, now, wanted | needs)
        while left != 0 and (page := (yield from following(reading))):
            found = Found(queue, place, _taken(page, choice, now)[:left])
            if found.rows:
                yield found
            left = left and left - len(found.rows)


def _taken(page: Found, choice: Choice, now: int) -> Sequence[Row]:
    """The messages of a page that this version can read and that meet all conditions."""
    page = replace(page, rows=_readable(page.rows, page.queue.name))
    if (made := choice.cutoffs.get(page.queue.keys.family)) is not None:
        page = replace(page, rows=[row for row in page.rows if made.has(row, page.place) != choice.later])
    if not choice.conditional:
        return page.rows
    pairs = zip(page.rows, page.messages, strict=True)
    return [row for row, message in pairs if choice.takes(message, now, page.queue.masks)]


def _readable(rows: Sequence[Row], name: str) -> Sequence[Row]:
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
    first: list[tuple[int, int, Row]] = []
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
                yield from _these(queue, found.place, found.ids, wanted)
            else:
                yield found


def _at(queue: QueueState[Any], place: Place, choice: Choice, now: int, wanted: Wanted) -> Reading:
    """The messages in a state of a queue: all, or those with the ids of the choice."""
    if choice.ids is not None:
        yield from _named(queue, place, choice, wanted)
    elif place == "leased":
        yield from _leased(queue, wanted)
    elif choice.indexed:
        yield from _grouped(queue, choice, now, wanted)
    else:
        yield from _standing(queue, place, choice, now, wanted)


def _named(queue: QueueState[Any], place: Place, choice: Choice, wanted: Wanted) -> Reading:
    """The messages of a choice with ids, in the order of the place, not of the ids."""
    rows: list[Row] = []
    ids = list(dict.fromkeys(choice.ids or ()))
    reading = _these(queue, place, ids, wanted | HEAD | STATE)
    while page := (yield from following(reading)):
        rows += page.rows
    rows.sort(key=lambda row: row.position_in(place), reverse=choice.newest)
    for part in chunks(rows):
        yield Found(queue, place, part)


def _these(queue: QueueState[Any], place: Place, ids: Sequence[str], wanted: Wanted) -> Reading:
    """The existing ones of these messages, in pages of about half a megabyte."""
    for look in pages_of(queue.keys, ids, place=place, wanted=wanted):
        yield Found(queue, place, (yield from look).rows())


def _leased(queue: QueueState[Any], wanted: Wanted) -> Reading:
    """The leased messages, claim by claim, the first to lapse first."""
    tokens = yield from leases(queue.keys)
    seen: set[str] = set()  # a claim lists the messages that it was given; another claim may hold one by now
    for some in chunks(tokens, LISTS):
        lists = yield Batch([batch_calls.given_ids(queue.keys, token) for token in some])
        given = [message_id for ids in lists for message_id in ids if message_id not in seen]
        seen.update(given)
        yield from _these(queue, "leased", list(dict.fromkeys(given)), wanted)


def _standing(queue: QueueState[Any], place: Index, choice: Choice, now: int, wanted: Wanted) -> Reading:
    """The rows of an index up to the last one there is now, so that the reading ends."""
    last: Position | None = yield page_calls.position(queue.keys, place, -1)
    if last is None:
        return
    after = START
    if place in {"dead", "expired"}:  # whose scores are the times of death
        if choice.since is not None:
            after = Position(choice.since)
        if made := choice.cutoffs.get(queue.keys.family):
            after, last = _around(made, after, last, later=choice.later)
        if choice.older_than is not None and float(last.score) > (until := now - choice.older_than):
            last = Position(until, _LAST_MEMBER)
    yield from _pages(queue, place, choice, Range(queue.keys, place, after, last), wanted)


def _around(made: Cutoff, after: Position, last: Position, *, later: bool) -> tuple[Position, Position]:
    """The part of an index of deaths that a plan has, or the later part."""
    if later:
        return max(after, Position(made.at + 1), key=lambda one: float(one.score)), last
    return after, last if float(last.score) <= made.at else Position(made.at, _LAST_MEMBER)


def _grouped(queue: QueueState[Any], choice: Choice, now: int, wanted: Wanted) -> Reading:
    """The dead letters of a group up to the last one that it has now, in the order of their deaths."""
    name = choice.group or ""
    last: Position | None = yield group_calls.end(queue.keys, name)
    if last is None:
        return
    if choice.older_than is not None:
        last = min(last, group_calls.before(name, now - choice.older_than + 1), key=lambda end: end.member)
    since = choice.since or 0
    if made := choice.cutoffs.get(queue.keys.family):
        if choice.later:
            since = max(since, made.at + 1)
        else:
            last = min(last, group_calls.before(name, made.at + 1), key=lambda end: end.member)
    after = group_calls.before(name, since)
    yield from _pages(queue, "dead", choice, Range(queue.keys, "groups", after, last), wanted)


def _pages(queue: QueueState[Any], place: Place, choice: Choice, part: Range, wanted: Wanted) -> Reading:
    size = CHUNK if choice.limit is None or choice.sparse else min(CHUNK, choice.limit)
    for step in pages(part, limit=size, wanted=wanted, newest=choice.newest):
        page: Page = yield from step
        yield Found(queue, place, page.rows())


def by_group(queue: QueueState[Any], choice: Choice) -> Steps[list[Choice]]:
    """The choice, divided into those that the index of groups answers; itself if it does not."""
    if choice.group is None or choice.ids is not None or choice.places_in(queue) != ["dead"]:
        return [choice]
    if len(choice.group) == PLACE:  # the class and the place of several groups
        found = yield from indexed(queue.keys, choice.group)
        return [choice] if found is None else [choice.of_group(group.name) for group in found[1]]
    dead, grouped = yield Batch(group_calls.sizes(queue.keys))
    if dead != grouped:
        _tell(queue.keys)
        return [choice]
    return [choice.of_group(choice.group)]


def chosen(
    queue: QueueState[T], choice: Choice, only: Sequence[Place] | None = None
) -> Steps[list[Received[T]]]:
    """The messages, unchanged, in the order of their states; those of a group by their deaths.

    If dead letters of other queues are among them, all are in the order in which they died or are due.
    """
    reading = read(queue, choice, ALL, only)
    found: list[Received[T]] = []
    while page := (yield from following(reading)):
        found += page.messages
    if queue.shows_letters or choice.group is not None:
        found.sort(key=lambda message: message.due, reverse=choice.newest)
    return found


def peek(queue: QueueState[T], limit: int) -> Steps[list[Received[T]]]:
    """The messages that the next claims get, unchanged."""
    return (yield from chosen(queue, Choice(limit=limit), ("ready", "dead", "expired")))
