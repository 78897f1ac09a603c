"""The messages of one queue in one state, page by page: all, or those of some ids, or of a group."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.core.groups import calls as group_calls
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.pages.calls import END, START, Position
from rq_dlq.core.pages.ranges import Range, leases, pages, pages_of
from rq_dlq.core.steps.driving import as_it_is, drive
from rq_dlq.core.steps.step import CHUNK, Pipeline, Step, Steps, chunks
from rq_dlq.values.message import DeadLetter, Received
from rq_dlq.values.wanted import HEAD, STATE

if TYPE_CHECKING:
    from rq_dlq.core.choosing.choice import Choice
    from rq_dlq.core.pages.calls import Index, Page
    from rq_dlq.core.queues.queue import QueueName, QueueState
    from rq_dlq.core.steps.call import Command, Place
    from rq_dlq.values.message import MessageRow
    from rq_dlq.values.wanted import Wanted

LISTS = 50  # claims whose lists of ids are read in one round trip: about 1 MB


_LAST_MEMBER = b"\xff"  # after every member of an index, which begin with lower bytes (lua/order.lua)


@dataclass(frozen=True, slots=True)
class Found:
    """A page of messages in one state of one queue, with the wanted parts."""

    queue: QueueState[Any]
    place: Place
    rows: Sequence[MessageRow]

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


Reading: TypeAlias = Generator[Step | Found, Any, None]
"""Steps and, between them, the pages that they found; `following` runs it up to the next page."""


def following(reading: Reading) -> Steps[Found | None]:
    """The next page; None: this is the last."""
    return drive(reading, as_it_is, until=Found)


def at(queue: QueueState[Any], place: Place, choice: Choice, now: int, wanted: Wanted) -> Reading:
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
    rows: list[MessageRow] = []
    ids = list(dict.fromkeys(choice.ids or ()))
    reading = these(queue, place, ids, wanted | HEAD | STATE)
    while page := (yield from following(reading)):
        rows += page.rows
    rows.sort(key=lambda row: row.position_in(place), reverse=choice.newest)
    for part in chunks(rows):
        yield Found(queue, place, part)


def these(queue: QueueState[Any], place: Place, ids: Sequence[str], wanted: Wanted) -> Reading:
    """The existing ones of these messages, in pages of about half a megabyte."""
    for look in pages_of(queue.keys, ids, place=place, wanted=wanted):
        yield Found(queue, place, (yield from look).rows())


def _leased(queue: QueueState[Any], wanted: Wanted) -> Reading:
    """The leased messages, claim by claim, the first to lapse first."""
    tokens = yield from leases(queue.keys)
    seen: set[str] = set()  # a claim lists the messages that it was given; another claim may hold one by now
    for some in chunks(tokens, LISTS):
        lists = yield Pipeline([batch_calls.given_ids(queue.keys, token) for token in some])
        given = [message_id for ids in lists for message_id in ids if message_id not in seen]
        seen.update(given)
        yield from these(queue, "leased", list(dict.fromkeys(given)), wanted)


def _standing(queue: QueueState[Any], place: Index, choice: Choice, now: int, wanted: Wanted) -> Reading:
    """The rows of an index up to the last one there is now, so that the reading ends."""
    after, upto = START, END
    if place in {"dead", "expired"}:  # whose scores are the times of death
        since, until = _times(choice, queue, now)
        after = START if since is None else Position(since)
        upto = END if until is None else Position(until, _LAST_MEMBER)
    part = Range(queue.keys, place, after, upto)
    last = page_calls.position(queue.keys, place, -1)
    yield from _pages(queue, place, choice, part, last, wanted=wanted)


def _times(choice: Choice, queue: QueueName, now: int) -> tuple[int | None, int | None]:
    """The first and the last time of death that a choice takes, milliseconds; None: any."""
    since = [] if choice.since is None else [choice.since]
    until = [] if choice.older_than is None else [now - choice.older_than]
    if made := choice.cutoffs.get(queue.keys.family):
        if choice.later:
            since.append(made.at + 1)
        else:
            until.append(made.at)
    return max(since, default=None), min(until, default=None)


def _grouped(queue: QueueState[Any], choice: Choice, now: int, wanted: Wanted) -> Reading:
    """The dead letters of a group up to the last one that it has now, in the order of their deaths."""
    name = choice.group or ""
    since, until = _times(choice, queue, now)
    upto = group_calls.after_all(name) if until is None else group_calls.before(name, until + 1)
    part = Range(queue.keys, "groups", group_calls.before(name, since or 0), upto)
    last = group_calls.end(queue.keys, name)
    yield from _pages(queue, "dead", choice, part, last, wanted=wanted)


def _pages(
    queue: QueueState[Any],
    place: Place,
    choice: Choice,
    part: Range,
    last: Command[Position | None],
    *,
    wanted: Wanted,
) -> Reading:
    size = CHUNK if choice.limit is None or choice.sparse else min(CHUNK, choice.limit)
    for step in pages(part, limit=size, wanted=wanted, newest=choice.newest, last=last):
        page: Page = yield from step
        yield Found(queue, place, page.rows())
