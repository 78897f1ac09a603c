"""The report of a process: its queues, and its maintenance."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal, TypeAlias

import msgspec

from rq_dlq.values.signature import Taken, under

SILENT_AFTER, GONE_AFTER = 15.0, 60.0  # the minimum, seconds without a report
SILENT_PERIODS, GONE_PERIODS = 2, 3  # the minimum, periods without a report

Moment: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]
UNKNOWN = "?"
"""In place of a mark: the process may accept any message, since it does not report its signatures."""
_NEVER = datetime.fromtimestamp(0, UTC)


class ConsumerReport(msgspec.Struct, frozen=True):
    """A worker process's report for one queue.

    Attributes:
        concurrency: how many messages it processes concurrently, at most.
        held: how many messages it holds: being processed, claimed ahead, or about to be acked.
        oldest: how long it has held the oldest of these, seconds; None: it holds none.
        takes: the signatures that it accepts, by task; a queue without tasks has one entry, for its bodies,
            under an empty name. None: the process has an earlier version, which does not report them.
        uncounted: the classes of errors that failed messages with a dependency, and did not count against it,
            since `Breaker(errors=…)` does not include them; "": failures without an exception.

    Examples:
        >>> report = ConsumerReport(concurrency=4, held=2, oldest=1.5)
        >>> report.concurrency - report.held  # so many more it may take
        2
    """

    concurrency: int
    held: int = 0
    oldest: float | None = None
    takes: Taken | None = None
    uncounted: tuple[str, ...] = ()


class OutboxReport(msgspec.Struct, frozen=True):
    """What a relay reports of its outbox.

    Attributes:
        name: of the outbox.
        rows: that are committed and not yet sent.
        oldest: how long ago the first of these was written, seconds.
    """

    name: str
    rows: int = 0
    oldest: float = 0.0


class ProcessReport(msgspec.Struct, frozen=True):
    """The last report of a worker or maintenance process, which reports every few seconds.

    A killed process soon becomes `silent`. It is forgotten after a minute, or after three of its periods if
    that is longer.

    Attributes:
        process: host and process id, "web-1:4711"; histories and groups use the same name for the consumer.
        started_at, seen_at: when it began, and when it reported, by the server's clock (UTC).
        ago: seconds since that report.
        period: the longest time between two reports, milliseconds.
        version: the program's version (`Broker(version=…)`); empty: unknown.
        rq_dlq_version: the version of this library in that process.
        queues: for a worker: its report for each queue, by name. It also maintains these queues.
        done, failed: for a worker: acked messages and failed deliveries since its start.
        stopping: it finishes running calls, and claims no more messages.
        roles: for a maintenance process: its roles for all queues (`rq-dlq maintain --roles`).
        longest: its longest round of maintenance, milliseconds.
        library: the library of Redis Functions that its version uses; empty: unknown.
        outbox: for the relay of an outbox: what it has seen there.
        unsent: messages that a Django process has not sent after their commits, since its start.
        swept, promoted, expired, retired, grouped, reindexed, written, fired, redriven: the number of
            messages since its start.
        gathered: how often it has looked at a gather since its start.

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
    library: str = ""
    outbox: OutboxReport | None = None
    unsent: int = 0
    gathered: int = 0

    @property
    def held(self) -> int:
        """The number of messages it holds, in all queues."""
        return sum(queue.held for queue in self.queues.values())

    @property
    def oldest(self) -> float | None:
        """How long it has held the oldest of them, seconds; None: it holds none."""
        return max((q.oldest for q in self.queues.values() if q.oldest is not None), default=None)

    @property
    def up(self) -> float:
        """Its uptime, seconds: until now, or until its last report if it is silent."""
        reported = (self.seen_at - self.started_at).total_seconds()
        return reported if self.state == "silent" else reported + self.ago

    @property
    def state(self) -> Literal["working", "idle", "stopping", "silent"]:
        """The state; working: it holds messages; silent: it has missed reports, and may be dead."""
        if self.ago > max(SILENT_AFTER, SILENT_PERIODS * self.period / 1000):
            return "silent"
        if self.stopping:
            return "stopping"
        return "working" if self.held else "idle"

    def mark_for(self, queue: str, task: str) -> str:
        """The mark of its signature for messages of this task; empty: it does not accept them.

        Args:
            task: the message's task; empty: none.
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
        """Whether the process counts as ended; it also does if the server's clock was set back that far."""
        return abs(self.ago) > max(GONE_AFTER, GONE_PERIODS * self.period / 1000)
