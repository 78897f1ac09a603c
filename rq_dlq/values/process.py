"""What a process reports of itself: which queues it works on, what it maintains."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal, TypeAlias

import msgspec

from rq_dlq.values.signature import Taken, under

SILENT_AFTER, GONE_AFTER = 15.0, 60.0  # seconds without a report, at the earliest
SILENT_PERIODS, GONE_PERIODS = 2, 3  # periods without a report, likewise

Moment: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]
UNKNOWN = "?"
"""In place of a mark: what such a process takes is not known, so it may take all."""
_NEVER = datetime.fromtimestamp(0, UTC)


class ConsumerReport(msgspec.Struct, frozen=True):
    """The work of a worker process on one queue.

    Attributes:
        concurrency: how many messages it works on at once, at most.
        held: how many messages it holds: it works on them, has claimed them ahead, or is about to ack them.
        oldest: how long it has held the oldest of them, seconds; None: it holds none.
        takes: by task, what it takes there; a queue without tasks has one entry, for its bodies, without a
            name. None: an earlier version, which does not say.

    Examples:
        >>> report = ConsumerReport(concurrency=4, held=2, oldest=1.5)
        >>> report.concurrency - report.held  # so many more it may take
        2
    """

    concurrency: int
    held: int = 0
    oldest: float | None = None
    takes: Taken | None = None


class ProcessReport(msgspec.Struct, frozen=True):
    """What a worker or a maintenance process reported last, every few seconds.

    A process that is killed is `silent` soon, and is forgotten within a minute or three of its periods.

    Attributes:
        process: host and process id, "web-1:4711"; histories and groups name the consumer so, too.
        started_at, seen_at: when it began, and when it reported, by the server's clock (UTC).
        ago: seconds since it reported.
        period: milliseconds between two reports, at most.
        version: of the program (`Broker(version=…)`); empty: unknown.
        rq_dlq_version: of this library, in that process.
        queues: of a worker: by the name of a queue, what it does there. It maintains these queues, too.
        done, failed: of a worker: messages that it acked, and deliveries that failed, since it began.
        stopping: it finishes what it has begun, and claims nothing more.
        roles: of a maintenance process: what it does for all queues (`rq-dlq maintain --roles`).
        longest: its longest round, milliseconds.
        swept, promoted, expired, retired, grouped, reindexed, written, fired, redriven: messages since it
            began.

    Examples:
        >>> queues = {"orders": ConsumerReport(concurrency=4, held=2, oldest=1.5)}
        >>> report = ProcessReport(process="web-1:4711", queues=queues, ago=2.0)
        >>> report.state, report.held, report.oldest, report.up, report.gone
        ('working', 2, 1.5, 2.0, False)
    """

    process: str = ""
    started_at: Moment = _NEVER
    seen_at: Moment = _NEVER
    ago: float = 0.0
    period: int = 0
    version: str = ""
    rq_dlq_version: str = ""
    queues: Mapping[str, ConsumerReport] = {}
    done: int = 0
    failed: int = 0
    stopping: bool = False
    roles: tuple[str, ...] = ()
    longest: int = 0
    swept: int = 0
    promoted: int = 0
    expired: int = 0
    retired: int = 0
    grouped: int = 0
    reindexed: int = 0
    written: int = 0
    fired: int = 0
    redriven: int = 0

    @property
    def held(self) -> int:
        """How many messages it holds, of all queues."""
        return sum(queue.held for queue in self.queues.values())

    @property
    def oldest(self) -> float | None:
        """How long it has held the oldest of them, seconds; None: it holds none."""
        return max((q.oldest for q in self.queues.values() if q.oldest is not None), default=None)

    @property
    def up(self) -> float:
        """How long it has been there, seconds: until now, or until its last report if it is silent."""
        reported = (self.seen_at - self.started_at).total_seconds()
        return reported if self.state == "silent" else reported + self.ago

    @property
    def state(self) -> Literal["working", "idle", "stopping", "silent"]:
        """Whether it holds messages, is about to end, or has missed its reports: it may be dead."""
        if self.ago > max(SILENT_AFTER, SILENT_PERIODS * self.period / 1000):
            return "silent"
        if self.stopping:
            return "stopping"
        return "working" if self.held else "idle"

    def mark_for(self, queue: str, task: str) -> str:
        """The mark of what it takes there, if it may take messages of this task; empty: it does not.

        Args:
            task: the message's; empty: it names none.
        """
        consumer = self.queues.get(queue)
        if consumer is None or self.stopping:
            return ""
        if consumer.takes is None:
            return UNKNOWN
        signature = under(consumer.takes, task)
        return signature.mark if signature else ""

    @property
    def gone(self) -> bool:
        """Whether it counts as ended; or the server's clock was set back meanwhile."""
        return abs(self.ago) > max(GONE_AFTER, GONE_PERIODS * self.period / 1000)
