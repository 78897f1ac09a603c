"""What is wrong with queues, and since when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from rq_dlq.cli._show import many, text_of, trend_of

if TYPE_CHECKING:
    from rq_dlq.values.counts import ErrorGroup
    from rq_dlq.values.overview import QueueOverview

FAILED = ("nacked", "lapsed")
DIED = ("exhausted", "poison", "unprocessable")
FEW = 10  # rates below it have a decimal point
HOUR = 3600
NOTED = 3  # the rank of what is no trouble yet
OVERDUE = 5.0  # seconds: maintenance comes every second, and so does the claim of a worker that waits


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that is wrong with a queue.

    Attributes:
        rank: 0: messages die; 1: nobody maintains the queue; 2: messages wait; NOTED: worth a look.
        size: to compare it with others of its rank.
        since: None: not known.
    """

    queue: str
    rank: int
    size: float
    what: str
    since: datetime | None = None

    @property
    def order(self) -> tuple[int, float, str]:
        """The worst comes first."""
        return self.rank, -self.size, self.queue


def rate(rates: Mapping[str, float], *counters: str) -> float:
    """How much these counters of a queue grow, a second."""
    return sum(rates.get(name, 0.0) for name in counters)


def figure(value: float) -> float:
    """A rate as it is shown, with as many digits as say something."""
    return float(f"{value:.2g}") if 0 < value < FEW else round(value)


def trends(queue: QueueOverview) -> list[ErrorGroup]:
    """The groups that are new, growing or regressed; those of which most died lately come first."""
    found = [group for group in queue.groups if trend_of(group)]
    return sorted(found, key=lambda group: (-group.last_hour, -group.count, group.fingerprint))


def troubles(
    queue: QueueOverview, died: float, at: datetime, *, late: float, worked: bool
) -> Iterator[Trouble]:
    """What is wrong with a queue.

    Args:
        died: dead letters a second.
        at: when its counts were read.
        late: how many seconds the oldest ready message may wait.
        worked: a worker process works on it.
    """
    stats = queue.stats
    yield from _deaths(queue, died)
    if stats.overdue > OVERDUE:
        what = f"overdue for {text_of('age', stats.overdue)}: no worker or `rq-dlq maintain` runs"
        yield Trouble(queue.name, 1, stats.overdue, what, at - timedelta(seconds=stats.overdue))
    if stats.paused:
        if stats.waiting:
            yield Trouble(queue.name, NOTED, stats.waiting, f"paused, {stats.waiting:,} wait")
    elif (stats.oldest or 0) > late:
        oldest = stats.oldest or 0
        what = f"{stats.ready:,} ready, the oldest for {text_of('oldest', oldest)}"
        what += "" if stats.leased else ", none leased" if worked else ", no worker"
        yield Trouble(queue.name, 2, oldest, what, at - timedelta(seconds=oldest))
    for redrive in queue.redrives:
        if redrive.why == "success" and redrive.pause:
            left = redrive.counts.eligible - redrive.counts.moved
            what = f"redrive {redrive.id} paused itself: {many(redrive.counts.died, 'message')} died again"
            yield Trouble(queue.name, NOTED, left, what)


def _deaths(queue: QueueOverview, died: float) -> Iterator[Trouble]:
    lead = next(iter(trends(queue)), None)
    what = f"{figure(died * 60):,} dead/min" if died else f"{queue.stats.dead:,} dead"
    if lead is None:
        if died:
            yield Trouble(queue.name, 0, died, what)
        return
    rank = 0 if died or lead.growing or lead.regressed else NOTED
    since = lead.first_seen if lead.new or lead.regressed else None
    what += f"; {trend_of(lead)}: {lead.error}"
    yield Trouble(queue.name, rank, died or lead.last_hour / HOUR, what, since)
