"""Starting a redrive: its terms, and its messages."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from rq_dlq.core.changing.plans import Planned, count_later, new_mark, now_of
from rq_dlq.core.changing.targets import check_target, open_target
from rq_dlq.core.choosing.counting import LeasedCount
from rq_dlq.core.choosing.reading import among, read
from rq_dlq.core.choosing.rows import following
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.who import who
from rq_dlq.core.redrive import calls
from rq_dlq.core.redrive.offers import Editor, check_reach
from rq_dlq.core.redrive.record import Redrive, RedriveCounts
from rq_dlq.core.redrive.redrives import GRACE, LEFT, look, steer, unknown
from rq_dlq.core.steps.driving import beside
from rq_dlq.core.steps.replies import ERRORS, Word
from rq_dlq.core.steps.step import Pipeline, Steps
from rq_dlq.errors import InvalidInput, RqDlqError
from rq_dlq.values.state import deadline_of
from rq_dlq.values.wanted import NOTHING

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.choosing.choice import Choice
    from rq_dlq.core.choosing.rows import Found
    from rq_dlq.core.queues.queue import QueueName, QueueState
    from rq_dlq.core.redrive.record import Asked
    from rq_dlq.core.redrive.terms import Terms
    from rq_dlq.core.steps.call import Place

LISTING = 3_600_000  # milliseconds that listed ids wait for the start
PLACES: tuple[Place, ...] = ("dead", "expired")


def plan(queue: QueueState[Any], choice: Choice, terms: Terms) -> Steps[Planned]:
    """Plan a redrive; an edit is tried."""
    return among(queue, choice, partial(_plan, queue, choice, terms))


def _plan(
    queue: QueueState[Any], choice: Choice, terms: Terms, shown_queues: Sequence[QueueState[Any]]
) -> Steps[Planned]:
    if terms.to is not None:
        yield from check_target(terms.to, shown_queues, "redrive dead letters to", create=terms.create)
    editor = Editor(queue, terms)
    chosen = yield from now_of(shown_queues, choice)
    reading = read(shown_queues, chosen, editor.wanted, PLACES)
    ids: list[str] = []
    eligible = expired = 0
    in_work = LeasedCount(shown_queues, chosen, PLACES)
    (now, *_), _, page = yield from beside(_now_and_user(queue, ()), in_work.begin(), following(reading))
    while page is not None:
        in_work.found(page)
        eligible += len(page.rows)
        if choice.limit is not None:
            ids += page.ids
        for row in page.rows:
            late = (deadline_of(row.state, row.record) or now + 1) <= now
            expired += late
            if not (late and terms.keeps_ttl):
                editor.offer(row)
        page = yield from following(reading)
    leased = yield from in_work.end()
    return Planned(
        verb="redrive", mark=new_mark(), choice=chosen if choice.limit is None else chosen.of_ids(ids),
        chosen=choice.in_words, eligible=eligible, leased=leased, expired=expired,
        gone=_gone(choice, eligible + leased),
        refused=editor.refused, refusals=tuple(editor.refusals.values()), died=True,
    )  # fmt: skip


def _gone(choice: Choice, found: int) -> int:
    return 0 if choice.ids is None or choice.conditional else max(0, len(set(choice.ids)) - found)


def begin(
    queue: QueueState[Any], choice: Choice, terms: Terms, planned: Planned | None = None
) -> Steps[list[Redrive]]:
    """Begin a redrive; a view's is one in each of its queues, or, after an error, in none.

    Args:
        planned: the plan that it carries out, with the same choice; None: it has none. If it was carried out
            before, the redrive of then.

    Raises:
        InvalidInput: a view is not redriven gradually, the other queue does not exist, or too many redrives
            are active; nothing was done.
        CrossSlot: the other queue is on another node of the cluster; nothing was done.
        BrokerRefused: the list of ids is gone; nothing was done.
    """
    who(terms.by)  # raises before anything is asked
    return among(queue, choice, partial(_begin, queue, choice, terms, planned))


def _begin(
    queue: QueueState[Any],
    choice: Choice,
    terms: Terms,
    planned: Planned | None,
    members: Sequence[QueueState[Any]],
) -> Steps[list[Redrive]]:
    if queue.shows_letters and terms.is_gradual:
        names = ", ".join(member.keys.family for member in members[:3])
        raise InvalidInput(f"{queue.name!r} shows several queues: redrive them one by one ({names}, …)")
    if terms.to is not None:
        yield from check_target(terms.to, members, "redrive dead letters to", create=terms.create)
        yield from check_reach(members, terms.to)
    places = [(one.keys, place) for one in members for place in _places(one, choice)]
    parts = {(keys, place): _RedriveStart(keys, place, planned) for keys, place in places}
    asks = _now_and_user(queue, [*parts.values()] if planned else ())
    whole = choice.is_all and not terms.offered and planned is None
    listing = _Listing(members, choice, {} if whole else parts, planned)
    begun: list[Redrive]
    (at, user, begun), _ = yield from beside(asks, listing.begin())
    if begun:
        return begun
    if planned is not None:
        planned.check_age(at)
    found, leased = yield from listing.end()
    if found and terms.to is not None:
        yield from open_target(terms.to)
    gone, later = yield from _missing(queue, choice, planned, found, leased)
    words = choice.in_words if planned is None else planned.chosen
    asked = partial(terms.asked, chosen=words, by=who(terms.by), user=user, at=at)
    starts: list[Steps[Redrive]] = []
    for part in parts.values():
        if whole or part.listed or not queue.shows_letters:
            record = asked(part=part.place, job=part.job, source=part.keys.family)
            left = RedriveCounts() if starts else RedriveCounts(gone=gone, leased=leased)
            record = _by_plan(record, planned, later, first=not starts)
            starts.append(part.start(record, None if whole else part.listed, left, _grace(terms)))
    return (yield from _start_all(queue, starts, terms.by))


def _grace(terms: Terms) -> int:
    """Milliseconds until maintenance takes over."""
    return 0 if terms.detach else LEFT if terms.offered else GRACE


class _Listing:
    """Lists the messages of a redrive.

    Args:
        members: the queues behind the name.
        parts: where the lists are; without any, only messages that are being processed are counted.
    """

    def __init__(
        self,
        members: Sequence[QueueState[Any]],
        choice: Choice,
        parts: Mapping[tuple[QueueKeys, str], _RedriveStart],
        planned: Planned | None,
    ) -> None:
        self._leased = LeasedCount(members, choice, PLACES)
        self._reading = read(members, choice, NOTHING, PLACES)
        self._parts = parts
        self._planned = planned
        self._page: Found | None = None

    def begin(self) -> Steps[None]:
        """Read the first page, and what is being processed."""
        first: list[Steps[Any]] = [self._leased.begin()]
        if self._parts:
            first.append(following(self._reading))
        _, *pages = yield from beside(*first)
        self._page = pages[0] if pages else None

    def end(self) -> Steps[tuple[int, int]]:
        """List them; returns how many, and how many more are being processed."""
        found, page = 0, self._page
        while page is not None:
            self._leased.found(page)
            planned = self._planned
            if ids := page.ids if planned is None else page.ids[: planned.eligible - found]:
                yield from self._parts[page.queue.keys, page.place].add(ids)
                found += len(ids)
            page = yield from following(self._reading)
        return found, (yield from self._leased.end())


def _now_and_user(
    queue: QueueName, planned: Sequence[_RedriveStart]
) -> Steps[tuple[int, str, list[Redrive]]]:
    """The server's clock, the Redis user, and the redrives that have carried out the plan before."""
    asks = [calls.job_of(part.keys, part.mark) for part in planned]
    (now, _), user, *jobs = yield Pipeline(
        [queue_calls.stats(queue.keys, queue.name), queue_calls.whoami(), *asks]
    )
    found: list[Redrive] = []
    for part, job in zip(planned, jobs, strict=True):
        if job is not None:
            found.append((yield from look(part.keys, job)))
    return now, user, found


def _missing(
    queue: QueueState[Any], choice: Choice, planned: Planned | None, found: int, leased: int
) -> Steps[tuple[int, int]]:
    """How many of the chosen messages are gone, and how many more have died since the plan."""
    if planned is None:
        return _gone(choice, found + leased), 0
    gone = max(0, planned.eligible - found - max(0, leased - planned.leased))
    return gone, (yield from count_later(queue, choice, PLACES))


def _by_plan(asked: Asked, planned: Planned | None, later: int, *, first: bool) -> Asked:
    """The request with the numbers of its plan; the first of a view has them."""
    if planned is None:
        return asked
    numbers = {"planned": planned.eligible, "later": later} if first else {"planned": 0}
    return msgspec.structs.replace(asked, **numbers)


def _start_all(queue: QueueName, starts: Sequence[Steps[Redrive]], by: str | None) -> Steps[list[Redrive]]:
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


def _places(queue: QueueName, choice: Choice) -> list[str]:
    return [place for place in choice.places_in(queue) if place in PLACES]


class _RedriveStart:
    """A redrive that is about to begin: its list of ids."""

    def __init__(self, keys: QueueKeys, place: str, planned: Planned | None) -> None:
        self.keys = keys
        self.place = place
        self.job = secrets.token_hex(4)
        self.mark, self.returned = "", 0
        self.made: int | None = None
        if planned is not None:
            made = planned.cutoffs[keys.family]
            self.mark, self.made, self.returned = f"{planned.mark}.{place}", made.at, made.returned
        self.listed = 0

    def add(self, ids: Sequence[str]) -> Steps[None]:
        """Add to the list."""
        self.listed += len(ids)
        yield Pipeline(
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
        verdict, started = Word.NOTHING, None
        if listed != 0:
            start = calls.start_redrive(
                self.keys, self.job, asked, listed=listed, gone=left.gone, leased=left.leased, grace=grace,
                mark=self.mark, made=self.made, returned=self.returned,
            )  # fmt: skip
            verdict, started = yield Pipeline([start, calls.record(self.keys, self.job)])
        first: str | None = None  # that of another client with the same plan
        if self.mark and verdict in {Word.DONE_BEFORE, Word.NOTHING}:
            first = yield calls.job_of(self.keys, self.mark)
        if first is not None:
            return (yield from look(self.keys, first))
        if verdict in {Word.DONE_BEFORE, Word.NOTHING}:
            return Redrive(self.job, self.keys.family, asked, "done", "", left)
        if verdict is Word.INCOMPLETE:
            raise ERRORS[verdict](
                "nothing was redriven: the list of its messages was lost. Start the redrive again"
            )
        if verdict is Word.FULL:
            message = (
                f"{self.keys.family!r} has a hundred running redrives, so nothing was done: "
                "cancel some; dlq.jobs() lists them"
            )
            raise ERRORS[verdict](message)
        if started is None:
            raise unknown(self.keys, self.job)
        return started  # type: ignore[no-any-return]
