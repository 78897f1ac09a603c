"""Periodic readings of all queues: their rates, and the next reading; for `rq-dlq top` and the page."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from rq_dlq.values.counts import DIED, FAILED

if TYPE_CHECKING:
    from rq_dlq.core.looking.overview import Overview
    from rq_dlq.errors import RqDlqError
    from rq_dlq.values.counts import QueueStats

WINDOW = 60.0  # the time span of a rate, seconds: rates of two seconds jump
SHARE, LONGEST = 4, 10.0  # a reading is followed by a pause four times as long, at most ten seconds
ALL = ""
"""The name of all queues together; no queue has it."""


class Rates(NamedTuple):
    """Events of a queue per second."""

    sent: float = 0.0
    acked: float = 0.0
    failed: float = 0.0
    died: float = 0.0


class Point(NamedTuple):
    """A queue at one time: the events since the reading before, and the numbers of messages."""

    sent: int = 0
    acked: int = 0
    failed: int = 0
    died: int = 0
    ready: int = 0
    leased: int = 0
    dead: int = 0


NONE = Point()
EVENTS = len(Rates._fields)  # these are the first numbers of a point


class OverviewReading(NamedTuple):
    """The numbers of one overview. A queue without messages and events has no point.

    Attributes:
        at: when it was read, by the server's clock.
        seconds: time since the reading before; 0: this is the first, or the clock was set back.
    """

    at: float
    seconds: float
    points: Mapping[str, Point]

    def numbers(self, queue: str) -> list[float]:
        """The point of a queue for a chart: the events per second, and the numbers of messages."""
        point, seconds = self.points.get(queue, NONE), self.seconds or 1.0
        return [*(round(number / seconds, 2) for number in point[:EVENTS]), *point[EVENTS:]]


class Monitor:
    """The readings of all queues. It does no reads itself: its caller adds readings or failures.

    Args:
        keep: seconds for which the points for charts are kept.

    Attributes:
        overview: the last one; None: there was none yet.
        failure: why the last reading failed; None: it did not.
        seconds: the time span of the rates, about a minute; 0: the next reading has the first rates.
    """

    def __init__(self, keep: float = 0.0) -> None:
        self.overview: Overview | None = None
        self.failure: RqDlqError | None = None
        self.seconds = 0.0
        self._keep = keep
        self._took = 0.0
        self._kept: deque[OverviewReading] = deque()
        self._recent: deque[OverviewReading] = deque()  # those that the rates are of
        self._grown: dict[str, list[int]] = {}  # how often each event happened in them

    def add(self, now: Overview, took: float) -> None:
        """Take an overview, and how many seconds it took to read it."""
        before = self.overview or now
        seconds = max(0.0, (now.at - before.at).total_seconds())
        grown = now.grown(before if seconds else now)
        points = {queue.name: _point(queue.stats, grown[queue.name]) for queue in now.queues}
        points = {name: point for name, point in points.items() if point != NONE}
        points[ALL] = Point(*(sum(column) for column in zip(NONE, *points.values(), strict=True)))
        reading = OverviewReading(now.at.timestamp(), seconds, points)
        self.overview, self.failure, self._took = now, None, took
        self._kept.append(reading)
        while self._kept[0].at < reading.at - self._keep:
            self._kept.popleft()
        self._count(reading, 1)
        self._recent.append(reading)
        while (seconds := sum(one.seconds for one in self._recent)) - self._recent[0].seconds >= WINDOW:
            self._count(self._recent.popleft(), -1)
        self.seconds = seconds

    def fail(self, error: RqDlqError) -> None:
        """Note a failure to read. A reader tries again as if Redis were quick."""
        self.failure, self._took = error, 0.0

    def pause(self, every: float) -> float:
        """Seconds to wait before the next reading, so that many queues do not wear Redis out.

        Args:
            every: how long to wait if a reading takes no time.
        """
        return max(every, min(LONGEST, SHARE * self._took))

    def rates(self, queue: str) -> Rates:
        """The events of a queue in the last minute, per second."""
        if not self.seconds or queue not in self._grown:
            return Rates()
        return Rates(*(number / self.seconds for number in self._grown[queue]))

    def last(self, queue: str) -> list[float]:
        """The newest point for a chart: the time, and its numbers."""
        return [self._kept[-1].at, *self._kept[-1].numbers(queue)]

    def columns(self, queue: str) -> list[list[float]]:
        """All points for a chart: the times, and the numbers of each line."""
        rows = [(reading.at, *reading.numbers(queue)) for reading in self._kept]
        return [list(column) for column in zip(*rows, strict=True)]

    def _count(self, reading: OverviewReading, sign: int) -> None:
        """Let a reading count for the rates, or let it count no longer."""
        for name, point in reading.points.items():
            if any(point[:EVENTS]):
                had = self._grown.pop(name, [0] * EVENTS)
                if any(has := [a + sign * b for a, b in zip(had, point[:EVENTS], strict=True)]):
                    self._grown[name] = has


def _point(stats: QueueStats, grown: Mapping[str, int]) -> Point:
    def count(*names: str) -> int:
        return sum(grown.get(name, 0) for name in names)

    return Point(
        sent=count("sent"),
        acked=count("acked"),
        failed=count(*FAILED),
        died=count(*DIED),
        ready=stats.ready,
        leased=stats.leased,
        dead=stats.dead,
    )
