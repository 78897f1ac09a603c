"""Beginning a redrive: how it is to go on, which messages it takes."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any

from rq_dlq._calls import redrives as calls
from rq_dlq._calls import upkeep
from rq_dlq._work.reading import following, read, sources
from rq_dlq._work.redrives import GRACE, look, who, whoami
from rq_dlq._work.steps import Batch, Steps
from rq_dlq.errors import BrokerRefused, InvalidInput
from rq_dlq.values.durations import shown
from rq_dlq.values.failure import Cause, moment
from rq_dlq.values.redrive import Asked, Redrive, RedriveCounts, RedrivePlan
from rq_dlq.values.wanted import HEAD, NOTHING, STATE

if TYPE_CHECKING:
    from rq_dlq._calls import Place
    from rq_dlq._keys import QueueKeys
    from rq_dlq._work.choice import Choice
    from rq_dlq._work.queue import Queue

LISTING = 3_600_000  # milliseconds that listed ids wait for the start
MOST_CANARY = 1_000  # lua/lib/room_of_redrive.lua looks at so many
USUAL_SUCCESS = 0.95  # what a canary has to reach
PLACES: tuple[Place, ...] = ("dead", "expired")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a redrive goes on.

    Args:
        rate: messages a second; None: no limit.
        canary: how many come first; the others wait until all of them have come to an end.
        min_success: the part of the ends that have to be acks, else it pauses; None: what is usual for a
            canary, else it is not judged.
        by: who asks; None: this process.
        detach: leave it to workers and maintenance.

    Raises:
        InvalidInput: an argument is not valid.
    """

    rate: float | None = None
    canary: int | None = None
    min_success: float | None = None
    by: str | None = None
    detach: bool = False

    def __post_init__(self) -> None:
        rate, canary, part = self.rate, self.canary, self.min_success
        if rate is not None and not (_is_number(rate) and 0 < rate <= 1_000_000):  # noqa: PLR2004
            raise InvalidInput(f"rate {shown(rate)}: pass messages a second, more than 0; None: no limit")
        if canary is not None and not (type(canary) is int and 0 < canary <= MOST_CANARY):
            raise InvalidInput(
                f"canary {shown(canary)}: pass how many messages come first, 1 to {MOST_CANARY:,}"
            )
        if part is not None and not (_is_number(part) and 0 < part <= 1):
            raise InvalidInput(
                f"min_success {shown(part)}: pass a part, more than 0 and at most 1, such as 0.95"
            )
        if part is not None and rate is None and canary is None:
            raise InvalidInput(
                "min_success needs a canary or a rate: without one, all are back before any has ended"
            )

    @property
    def is_gradual(self) -> bool:
        """Whether it takes time, or others drive it."""
        return self.detach or self.rate is not None or self.canary is not None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def in_words(choice: Choice) -> str:
    """Which messages a choice takes."""
    since = choice.since and moment(choice.since).astimezone(UTC)
    conditions = {
        "ids": choice.ids and f"{len(choice.ids):,}",
        "group": choice.group,
        "reason": choice.reason,
        "since": since and f"{since:%Y-%m-%d %H:%M:%S} UTC",
        "older than": choice.older_than and f"{choice.older_than} ms",
        "where": choice.where and choice.where.text,
        "limit": choice.limit and f"{choice.limit:,}",
    }
    words = [f"{name} {value}" for name, value in conditions.items() if value]
    return ", ".join([*words, "newest first"] if choice.newest else words) or "all"


def plan(queue: Queue[Any], choice: Choice) -> Steps[RedrivePlan]:
    """Count what a redrive would bring back."""
    reading = read(queue, choice, HEAD | STATE, PLACES)
    now, _ = yield upkeep.stats(queue.keys, queue.name)
    eligible = expired = 0
    while page := (yield from following(reading)):
        eligible += len(page.rows)
        ends = (message.expires_at for message in page.messages)
        expired += sum(end is not None and end <= moment(now) for end in ends)
    return RedrivePlan(eligible, expired, _gone(choice, eligible))


def _gone(choice: Choice, found: int) -> int:
    return 0 if choice.ids is None or choice.conditional else max(0, len(set(choice.ids)) - found)


def begin(queue: Queue[Any], choice: Choice, terms: Terms) -> Steps[list[Redrive]]:
    """Begin a redrive; a view's is one in each of its queues.

    Raises:
        InvalidInput: a view is not redriven gradually, or too many redrives go on.
        BrokerRefused: the list of ids is gone; nothing was done.
    """
    shown_queues = yield from sources(queue, choice)
    if queue.view and terms.is_gradual:
        names = ", ".join(member.name for member in shown_queues[:3])
        raise InvalidInput(f"{queue.name!r} shows several queues: redrive them one by one ({names}, …)")
    user = yield from whoami()
    at, _ = yield upkeep.stats(queue.keys, queue.name)
    parts = {
        (one.keys, place): _Part(one.keys, place) for one in shown_queues for place in _places(one, choice)
    }
    gone = 0
    if not choice.is_all:
        reading = read(queue, choice, NOTHING, PLACES)
        while page := (yield from following(reading)):
            yield from parts[page.queue.keys, page.place].add(page.ids)
        found = sum(part.listed for part in parts.values())
        gone = _gone(choice, found)
    started: list[Redrive] = []
    for part in parts.values():
        if queue.view and not (part.listed or choice.is_all):
            continue
        asked = Asked(
            part=part.place,
            chosen=in_words(choice),
            rate=terms.rate or 0,
            canary=terms.canary or 0,
            min_success=terms.min_success or (USUAL_SUCCESS if terms.canary else 0),
            by=who(queue, terms.by),
            user=user,
            at=at,
            cause=Cause.of(f"redrive {part.job}").cells(),
        )
        listed = None if choice.is_all else part.listed
        started.append((yield from part.start(asked, listed, gone, 0 if terms.detach else GRACE)))
        gone = 0
    return started


def _places(queue: Queue[Any], choice: Choice) -> list[str]:
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

    def start(self, asked: Asked, listed: int | None, gone: int, grace: int) -> Steps[Redrive]:
        """Start it, unless there is nothing to bring back: then nothing is left behind."""
        verdict: calls.Verdict = "nothing"
        if listed != 0:
            verdict = yield calls.start_redrive(
                self.keys, self.job, asked, listed=listed, gone=gone, grace=grace
            )
        if verdict == "nothing":
            return Redrive(self.job, self.keys.family, asked, "done", "", RedriveCounts(gone=gone))
        if verdict == "not whole":
            raise BrokerRefused(
                "nothing was redriven: the list of its messages was lost. Start the redrive again"
            )
        if verdict == "too many":
            message = (
                f"{self.keys.family!r} has a hundred redrives that are not over, so nothing was done: "
                "cancel some; dlq.jobs() lists them"
            )
            raise InvalidInput(message)
        return (yield from look(self.keys, self.job))
