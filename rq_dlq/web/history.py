"""What happened in the last quarter of an hour: points for the charts."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from rq_dlq.values.counts import DIED, FAILED

if TYPE_CHECKING:
    from rq_dlq.core.looking.overview import Overview
    from rq_dlq.values.counts import QueueStats

WINDOW = 900.0  # seconds
SMOOTH = 10.0  # seconds that a rate in a table is of
ALL = ""
"""The name of all queues together; no queue has it."""


class Point(NamedTuple):
    """A queue at one time: what happened a second, and how many messages are there."""

    sent: float = 0
    acked: float = 0
    failed: float = 0
    died: float = 0
    ready: float = 0
    leased: float = 0
    dead: float = 0

    def plus(self, other: Point) -> Point:
        """Both together."""
        return Point(*(a + b for a, b in zip(self, other, strict=True)))


NONE = Point()


class History:
    """The points of all queues. Those of a queue where nothing is and nothing happens take no memory."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, Mapping[str, Point]]] = deque()

    def add(self, before: Overview | None, now: Overview) -> None:
        """Take a look that was made after another one."""
        rates: Mapping[str, Mapping[str, float]] = {} if before is None else now.rates(before)
        points = {queue.name: _point(queue.stats, rates.get(queue.name, {})) for queue in now.queues}
        found = {name: point for name, point in points.items() if point != NONE}
        whole = NONE
        for point in found.values():
            whole = whole.plus(point)
        at = now.at.timestamp()
        self._points.append((at, {**found, ALL: whole}))
        while self._points[0][0] < at - WINDOW:
            self._points.popleft()

    def last(self, queue: str) -> list[float]:
        """The newest point for a chart: the time, and its numbers."""
        at, points = self._points[-1]
        return [at, *(round(number, 2) for number in points.get(queue, NONE))]

    def columns(self, queue: str) -> list[list[float]]:
        """All points for a chart: the times, and the numbers of each line."""
        rows = [(at, *points.get(queue, NONE)) for at, points in self._points]
        return [[round(number, 2) for number in column] for column in zip(*rows, strict=True)]

    def rates(self, queue: str) -> Point:
        """The mean of the last ten seconds."""
        if not self._points:
            return NONE
        last = self._points[-1][0]
        recent: list[Point] = []
        for at, points in reversed(self._points):
            if at < last - SMOOTH:
                break
            recent.append(points.get(queue, NONE))
        return Point(*(sum(column) / len(recent) for column in zip(*recent, strict=True)))


def _point(stats: QueueStats, rates: Mapping[str, float]) -> Point:
    def rate(*names: str) -> float:
        return sum(rates.get(name, 0.0) for name in names)

    return Point(
        sent=rate("sent"),
        acked=rate("acked"),
        failed=rate(*FAILED),
        died=rate(*DIED),
        ready=stats.ready,
        leased=stats.leased,
        dead=stats.dead,
    )
