"""Starting a redrive: its terms, and its messages."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rq_dlq.core.choosing.counting import Leased
from rq_dlq.core.choosing.reading import following, read, sources
from rq_dlq.core.choosing.targets import check_target, open_target
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.who import who, whoami
from rq_dlq.core.redrive import calls
from rq_dlq.core.redrive.offers import Editor, check_reach
from rq_dlq.core.redrive.record import Redrive, RedriveCounts, RedrivePlan
from rq_dlq.core.redrive.redrives import GRACE, LEFT, look, steer
from rq_dlq.core.steps.step import Batch, Steps
from rq_dlq.errors import BrokerRefused, InvalidInput, RqDlqError
from rq_dlq.values.state import deadline_of
from rq_dlq.values.wanted import NOTHING

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.choosing.choice import Choice
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.redrive.record import Asked
    from rq_dlq.core.redrive.terms import Terms
    from rq_dlq.core.steps.call import Place

LISTING = 3_600_000  # milliseconds that listed ids wait for the start
PLACES: tuple[Place, ...] = ("dead", "expired")


def plan(queue: QueueState[Any], choice: Choice, terms: Terms) -> Steps[RedrivePlan]:
    """Count the messages that a redrive would move; an edit is tried."""
    shown_queues = yield from sources(queue, choice)
    if terms.to is not None:
        yield from check_target(terms.to, shown_queues, "redrive dead letters to", create=terms.create)
    editor = Editor(queue, terms)
    reading = read(queue, choice, editor.wanted, PLACES)
    now, _ = yield queue_calls.stats(queue.keys, queue.name)
    eligible = expired = 0
    in_work = Leased(queue, choice, PLACES)
    yield from in_work.begin()
    while page := (yield from following(reading)):
        in_work.found(page)
        eligible += len(page.rows)
        for row in page.rows:
            late = (deadline_of(row.state, row.record) or now + 1) <= now
            expired += late
            if not (late and terms.keeps_ttl):
                editor.offer(row)
    leased = yield from in_work.end()
    return RedrivePlan(
        eligible=eligible, expired=expired, gone=_gone(choice, eligible + leased),
        refused=editor.refused, refusals=tuple(editor.refusals.values()), leased=leased,
    )  # fmt: skip


def _gone(choice: Choice, found: int) -> int:
    return 0 if choice.ids is None or choice.conditional else max(0, len(set(choice.ids)) - found)


def begin(queue: QueueState[Any], choice: Choice, terms: Terms) -> Steps[list[Redrive]]:
    """Begin a redrive; a view's is one in each of its queues, or, after an error, in none.

    Raises:
        InvalidInput: a view is not redriven gradually, the other queue does not exist, or too many redrives
            are active; nothing was done.
        CrossSlot: the other queue is on another node of the cluster; nothing was done.
        BrokerRefused: the list of ids is gone; nothing was done.
    """
    shown_queues = yield from sources(queue, choice)
    if queue.shows_letters and terms.is_gradual:
        names = ", ".join(member.keys.family for member in shown_queues[:3])
        raise InvalidInput(f"{queue.name!r} shows several queues: redrive them one by one ({names}, …)")
    if terms.to is not None:
        yield from check_target(terms.to, shown_queues, "redrive dead letters to", create=terms.create)
        yield from check_reach(shown_queues, terms.to)
    user = yield from whoami()
    at, _ = yield queue_calls.stats(queue.keys, queue.name)
    parts = {
        (one.keys, place): _Part(one.keys, place) for one in shown_queues for place in _places(one, choice)
    }
    in_work = Leased(queue, choice, PLACES)
    yield from in_work.begin()
    whole = choice.is_all and not terms.offered
    if not whole:
        reading = read(queue, choice, NOTHING, PLACES, known=shown_queues)
        while page := (yield from following(reading)):
            in_work.found(page)
            yield from parts[page.queue.keys, page.place].add(page.ids)
    found = sum(part.listed for part in parts.values())
    if found and terms.to is not None:
        yield from open_target(terms.to)
    leased = yield from in_work.end()
    gone = _gone(choice, found + leased)
    grace = 0 if terms.detach else LEFT if terms.offered else GRACE
    asked = partial(terms.asked, chosen=choice.in_words, by=who(terms.by), user=user, at=at)
    chosen = [part for part in parts.values() if whole or part.listed or not queue.shows_letters]
    starts = [
        part.start(
            asked(part=part.place, job=part.job, source=part.keys.family),
            None if whole else part.listed,
            RedriveCounts() if n else RedriveCounts(gone=gone, leased=leased),
            grace,
        )
        for n, part in enumerate(chosen)
    ]
    return (yield from _start_all(queue, starts, terms.by))


def _start_all(
    queue: QueueState[Any], starts: Sequence[Steps[Redrive]], by: str | None
) -> Steps[list[Redrive]]:
    """Start the redrives of a view; if one fails, cancel those before it, which have moved nothing yet."""
    started: list[Redrive] = []
    try:
        for start in starts:
            started.append((yield from start))  # noqa: PERF401 - a step, for which no list waits
    except RqDlqError as error:
        left: list[str] = []
        for redrive in started:
            try:
                if redrive.counts.eligible:  # otherwise it has no record
                    yield from steer(queue, redrive, "cancel", by)
            except RqDlqError:
                left.append(repr(redrive.family))
        if left:
            error.add_note(
                f"it has started in {', '.join(left)}, and was not cancelled: see dlq.jobs() of each"
            )
        raise
    return started


def _places(queue: QueueState[Any], choice: Choice) -> list[str]:
    return [place for place in choice.places_in(queue) if place in PLACES]


class _Part:
    """A redrive that is about to begin: its list of ids."""

    def __init__(self, keys: QueueKeys, place: str) -> None:
        self.keys = keys
        self.place = place
        self.job = secrets.token_hex(4)
        self.listed = 0

    def add(self, ids: Sequence[str]) -> Steps[None]:
        """Add to the list."""
        self.listed += len(ids)
        yield Batch(
            [
                calls.list_ids(self.keys, self.job, ids),
                calls.cut(self.keys, self.job, self.listed),
                calls.keep(self.keys, self.job, LISTING),
            ]
        )

    def start(self, asked: Asked, listed: int | None, left: RedriveCounts, grace: int) -> Steps[Redrive]:
        """Start it, unless it has no messages.

        Args:
            left: the chosen ones that it leaves out.
        """
        verdict: calls.Verdict = "nothing"
        if listed != 0:
            verdict = yield calls.start_redrive(
                self.keys, self.job, asked, listed=listed, gone=left.gone, leased=left.leased, grace=grace
            )
        if verdict == "nothing":
            return Redrive(self.job, self.keys.family, asked, "done", "", left)
        if verdict == "not whole":
            raise BrokerRefused(
                "nothing was redriven: the list of its messages was lost. Start the redrive again"
            )
        if verdict == "too many":
            message = (
                f"{self.keys.family!r} has a hundred running redrives, so nothing was done: "
                "cancel some; dlq.jobs() lists them"
            )
            raise InvalidInput(message)
        return (yield from look(self.keys, self.job))
