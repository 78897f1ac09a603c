"""Reads the messages of a choice page by page, one page in memory at a time.

A page begins after the last row of the one before it, by score and member. So a message that stays is seen
exactly once, whatever others redrive, purge, claim or send meanwhile.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from rq_dlq._calls import claims, scans, upkeep
from rq_dlq._calls.scans import START, Position
from rq_dlq._work.later import readable
from rq_dlq._work.queue import place_of
from rq_dlq._work.scans import Range, leases, pages
from rq_dlq._work.steps import CHUNK, Batch, Step, Steps
from rq_dlq.values.message import DeadLetter, Received
from rq_dlq.values.order import position_of
from rq_dlq.values.wanted import HEAD, NOTHING, STATE

if TYPE_CHECKING:
    from datetime import datetime

    from rq_dlq._calls import Place
    from rq_dlq._calls.scans import Index, Page
    from rq_dlq._work.choice import Choice
    from rq_dlq._work.queue import Queue
    from rq_dlq.values.message import Row
    from rq_dlq.values.wanted import Wanted

LISTS = 50  # claims whose lists of ids are read in one round trip: about 1 MB
_LAST_MEMBER = b"\xff"  # after every member of an index, which begin with lower bytes (lua/lib/place.lua)


@dataclass(frozen=True, slots=True)
class Found:
    """A page of messages in one state of one queue, with the wanted parts."""

    queue: Queue[Any]
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
            return [DeadLetter(row, queue.codec, queue.keys.home) for row in self.rows]
        return [Received(row, queue.codec, queue.name) for row in self.rows]


Reading: TypeAlias = Generator[Step | Found, Any, None]
"""Steps and, between them, the pages that they found; `following` runs it up to the next page."""


def following(reading: Reading) -> Steps[Found | None]:
    """The next page; None: there is none."""
    reply: Any = None
    while True:
        try:
            step = reading.send(reply)
        except StopIteration:
            return None
        if isinstance(step, Found):
            return step
        reply = yield step


def read(
    queues: Sequence[Queue[Any]],
    choice: Choice,
    wanted: Wanted = NOTHING,
    only: Sequence[Place] | None = None,
) -> Reading:
    """The messages that a choice takes, in pages of at most 250; a limit ends the reading.

    Args:
        queues: one, or the members of a view.
        wanted: the parts that the caller reads, besides those that the conditions need.
        only: in no other state.
    """
    if choice.limit is not None and len(queues) > 1:
        yield from _first_of_several(queues, choice, wanted, only)
        return
    left = choice.limit
    for queue in queues:
        for place in choice.places_in(queue):
            if only is not None and place not in only:
                continue
            now = (yield upkeep.stats(queue.keys, queue.name))[0] if choice.conditions else 0
            reading = _at(queue, place, choice, now, wanted | choice.needs)
            while left != 0 and (page := (yield from following(reading))):
                found = Found(queue, place, _taken(page, choice, now)[:left])
                if found.rows:
                    yield found
                left = left and left - len(found.rows)


def _taken(page: Found, choice: Choice, now: int) -> Sequence[Row]:
    """The messages of a page that this version can read and that meet all conditions."""
    page = replace(page, rows=readable(page.rows, page.queue.name))
    conditions = choice.conditions
    if not conditions:
        return page.rows
    pairs = zip(page.rows, page.messages, strict=True)
    return [row for row, message in pairs if all(one.takes(message, now) for one in conditions)]


def _first_of_several(
    queues: Sequence[Queue[Any]], choice: Choice, wanted: Wanted, only: Sequence[Place] | None
) -> Reading:
    """The first that died among several queues, queue by queue."""
    first: list[tuple[datetime, int, Row]] = []
    for number, queue in enumerate(queues):
        reading = read([queue], choice, wanted | STATE, only)
        while found := (yield from following(reading)):
            deaths = (letter.died_at for letter in found.messages if isinstance(letter, DeadLetter))
            first += ((died, number, row) for died, row in zip(deaths, found.rows, strict=True))
    first.sort(key=lambda one: one[0], reverse=choice.newest)
    for number, queue in enumerate(queues):
        rows = [row for _, whose, row in first[: choice.limit] if whose == number]
        for start in range(0, len(rows), CHUNK):
            yield Found(queue, place_of(queue), rows[start : start + CHUNK])


def _at(queue: Queue[Any], place: Place, choice: Choice, now: int, wanted: Wanted) -> Reading:
    """The messages in a state of a queue: all, or those with the ids of the choice."""
    if choice.ids is not None:
        yield from _named(queue, place, choice, wanted)
    elif place == "leased":
        yield from _leased(queue, wanted)
    else:
        yield from _standing(queue, place, choice, now, wanted)


def _named(queue: Queue[Any], place: Place, choice: Choice, wanted: Wanted) -> Reading:
    """What is there of the ids of a choice, in the order of the place, whatever the order of the ids."""
    reading = _these(queue, place, list(dict.fromkeys(choice.ids or ())), wanted | HEAD | STATE)
    rows: list[Row] = []
    while page := (yield from following(reading)):
        rows += page.rows
    rows.sort(key=partial(position_of, place), reverse=choice.newest)
    for start in range(0, len(rows), CHUNK):
        yield Found(queue, place, rows[start : start + CHUNK])


def _these(queue: Queue[Any], place: Place, ids: Sequence[str], wanted: Wanted) -> Reading:
    for start in range(0, len(ids), CHUNK):
        page = yield scans.browse(queue.keys, place=place, ids=ids[start : start + CHUNK], wanted=wanted)
        yield Found(queue, place, page.rows())


def _leased(queue: Queue[Any], wanted: Wanted) -> Reading:
    """The leased messages, claim by claim, the first to lapse first."""
    tokens = yield from leases(queue.keys)
    seen: set[str] = set()  # a claim lists what it was given; another one may hold it by now
    for start in range(0, len(tokens), LISTS):
        lists = yield Batch([claims.given_ids(queue.keys, token) for token in tokens[start : start + LISTS]])
        ids = [message_id for given in lists for message_id in given if message_id not in seen]
        seen.update(ids)
        yield from _these(queue, "leased", list(dict.fromkeys(ids)), wanted)


def _standing(queue: Queue[Any], place: Index, choice: Choice, now: int, wanted: Wanted) -> Reading:
    """The rows of an index up to the last one there is now, so that the reading ends."""
    last: Position | None = yield scans.position(queue.keys, place, -1)
    if last is None:
        return
    after = START
    if choice.died is not None and place in {"dead", "expired"}:  # whose scores are the times of death
        after = START if choice.died.since is None else Position(choice.died.since)
        until = choice.died.until(now)
        last = last if float(last.score) <= until else Position(int(until), _LAST_MEMBER)
    size = CHUNK if choice.limit is None or choice.conditions else min(CHUNK, choice.limit)
    for step in pages(Range(queue.keys, place, after, last), limit=size, wanted=wanted, newest=choice.newest):
        page: Page = yield from step
        yield Found(queue, place, page.rows())
