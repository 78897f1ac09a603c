"""All queues at a glance: what metrics, pages and tools for operators show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from rq_dlq.values.cached import cached_property
from rq_dlq.values.readable import many

if TYPE_CHECKING:
    from rq_dlq.values.counts import ErrorGroup, QueueStats
    from rq_dlq.values.redrive import Redrive

FEW = 10  # names in a line


@dataclass(frozen=True, slots=True)
class QueueOverview:
    """A queue at a glance.

    Attributes:
        stats: its counts.
        groups: its dead letters by kind of failure, the largest group first; empty, too, as long as
            maintenance has not put every letter into the index of groups.
        redrives: its redrives that go on or ended within the last week, the newest first.
        grouped_at: when `groups` was read, by the server's clock.
        grouped: the counts at that time.
        schedules_overdue: seconds since the first of its schedules should have sent; 0: none is late.
    """

    stats: QueueStats
    groups: Sequence[ErrorGroup]
    redrives: Sequence[Redrive]
    grouped_at: datetime
    grouped: QueueStats
    schedules_overdue: float = 0.0

    @property
    def name(self) -> str:
        """Of the queue."""
        return self.stats.name


@dataclass(frozen=True, slots=True)
class UnreachableQueue:
    """A queue that could not be read: it is damaged, or its node of a cluster does not answer.

    Attributes:
        name: of the queue.
        node: the address of its node, which does not answer; empty: it does, and `error` says what is wrong.
        error: the whole sentence.
    """

    name: str
    node: str
    error: str

    @property
    def why(self) -> str:
        """What is wrong, in a few words."""
        return f"unreachable: node {self.node}" if self.node else f"unreachable: {self.error}"


@dataclass(frozen=True)
class Overview:
    """All queues of a broker.

    Attributes:
        at: when it was read, by the server's clock.
        queues: those that were read, sorted by name.
        unreachable: the queues that could not be read, sorted by name.
        unlisted: why the list of queues could not be read: the queues are those of the overview before, and
            new ones are missing; empty: it was read.
    """

    at: datetime
    queues: Sequence[QueueOverview]
    unreachable: Sequence[UnreachableQueue] = ()
    unlisted: str = ""

    def why_lost(self, name: str) -> str:
        """Why a queue could not be read, as a sentence; empty: it was, or nobody knows of it."""
        return next((f"{name} is {one.why}" for one in self.unreachable if one.name == name), "")

    @cached_property
    def gaps(self) -> Sequence[str]:
        """What could not be read, in a line for each reason."""
        names: dict[str, list[str]] = {}
        for queue in self.unreachable:
            names.setdefault(queue.why, []).append(queue.name)
        lines = [
            f"{why}, with {many(len(lost), 'queue')}: {', '.join(lost[:FEW])}{', …' if lost[FEW:] else ''}"
            for why, lost in names.items()
        ]
        if self.unlisted:
            lines.append(f"the list of queues cannot be read, so new ones are missing: {self.unlisted}")
        return lines

    @cached_property
    def by_name(self) -> Mapping[str, QueueOverview]:
        """The queues by their names."""
        return {queue.name: queue for queue in self.queues}

    def rates(self, before: Overview) -> Mapping[str, Mapping[str, float]]:
        """How many messages a second were sent, acked and so on in each queue since an earlier overview.

        A counter that was reset in the meantime has the rate 0.

        Args:
            before: the earlier one, of the same broker.

        Returns:
            By the queue's name, then by the name of the counter (`QueueStats.totals`).
        """
        seconds = (self.at - before.at).total_seconds()
        return {queue.name: _rates(queue, before.by_name.get(queue.name), seconds) for queue in self.queues}


def _rates(queue: QueueOverview, before: QueueOverview | None, seconds: float) -> Mapping[str, float]:
    if before is None or seconds <= 0:
        return dict.fromkeys(queue.stats.totals, 0.0)
    then = before.stats.totals
    return {name: max(0, now - then.get(name, 0)) / seconds for name, now in queue.stats.totals.items()}
