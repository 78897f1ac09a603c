"""Counts of a queue, and of its dead letters by kind of failure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rq_dlq.values.failure import FAILURES, moment

if TYPE_CHECKING:
    from rq_dlq.values.failure import Event
    from rq_dlq.values.message import DeadLetter


DIED, FAILED = ("exhausted", "poison", "unprocessable"), ("nacked", "lapsed")
"""Names of a queue's totals: messages that died, by reason, and failed deliveries."""
NEWEST, _ENOUGH = 10, 100  # dead letters of a group whose versions and consumers are counted
_HOUR, _DAY = 3_600_000, 86_400_000  # milliseconds
CALM = 300_000  # a group without a death for this long is calm; milliseconds
_TIMES = 2  # a group grows if its last hour exceeds this multiple of the hourly average of the day before


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Dead letters of one kind of failure.

    Attributes:
        fingerprint: its id, twelve hexadecimal digits; the first six stand for the class and place.
        reason: exhausted, poison, unprocessable or expired, of the newest dead letter.
        error: class and text of the newest failure.
        sample_id: the id of the newest dead letter.
        count: how many dead letters the group has now, without those redriven or removed.
        first_seen, last_seen: when the first and the last one died.
        last_hour: how many died within the last hour.
        new: the first one died within `new_within`, and no dead letter was taken out of the group before.
        growing: more than one died within the last hour, and more than twice as many as in an average hour
            of the day before; and the group is not calm.
        regressed: the group was emptied, by a redrive, a purge, a move or its retention, and messages died
            again.
        versions: how many of the newest ten dead letters died under each version of the program
            (`Broker(version=…)`), as far as known.
        consumers: the same, by the consumer that held them.
        error_class: the class of the newest failure; empty: it had none, such as a poison with a reason in
            words.
        calm: none died within the last five minutes.
        muted: an operator muted the group (`dlq.mute`), so it is not reported as a problem.
        muted_until: when the mute ends; None: at the next death, or it is not muted.

    Examples:
        >>> (group,) = mails.dlq.groups()
        >>> group.count, group.error, group.trends
        (1, 'no address', ('new',))
    """

    fingerprint: str
    reason: str
    error: str
    count: int
    first_seen: datetime
    last_seen: datetime
    sample_id: str
    last_hour: int = 0
    new: bool = False
    growing: bool = False
    regressed: bool = False
    versions: Mapping[str, int] = field(default_factory=dict[str, int])
    consumers: Mapping[str, int] = field(default_factory=dict[str, int])
    error_class: str = ""
    calm: bool = False
    muted: bool = False
    muted_until: datetime | None = None

    @property
    def trends(self) -> tuple[str, ...]:
        """Which of new, growing and regressed apply; empty if the group is calm or muted."""
        if self.calm or self.muted:
            return ()
        return tuple(name for name in ("new", "growing", "regressed") if getattr(self, name))

    def __add__(self, other: ErrorGroup) -> ErrorGroup:
        """Merge the groups of two queues for the same kind of failure."""
        newest = other if other.last_seen >= self.last_seen else self
        return replace(
            newest,
            count=self.count + other.count,
            first_seen=min(self.first_seen, other.first_seen),
            last_hour=self.last_hour + other.last_hour,
            new=self.new and other.new,
            growing=self.growing or other.growing,
            regressed=self.regressed or other.regressed,
            calm=self.calm and other.calm,
            muted=self.muted and other.muted,
            versions=Counter(self.versions) + Counter(other.versions),
            consumers=Counter(self.consumers) + Counter(other.consumers),
        )


@dataclass(slots=True)
class GroupCount:
    """The counts of a group; times are milliseconds of the server's clock.

    Attributes:
        newest: its newest dead letters, the newest last.
        cleared: when a dead letter was last taken out of the group; None: unknown.
        muted: the start and the end of its mute (end 0: until the next death); None: not muted.
    """

    name: str
    count: int = 0
    first: int = 0
    last: int = 0
    hour: int = 0
    day: int = 0
    newest: list[DeadLetter[Any]] = field(default_factory=list["DeadLetter[Any]"])
    cleared: int | None = None
    muted: tuple[int, int] | None = None

    def add(self, letter: DeadLetter[Any], now: int) -> None:
        """Count a dead letter."""
        died = letter.due
        self.count += 1
        self.first, self.last = min(self.first, died), max(self.last, died)
        self.hour += died >= now - _HOUR
        self.day += died >= now - _DAY
        self.newest.append(letter)
        if len(self.newest) > _ENOUGH:
            self._trim()

    def _trim(self) -> None:
        self.newest = sorted(self.newest, key=lambda letter: letter.due)[-NEWEST:]

    def group(self, now: int, new_within: int) -> ErrorGroup:
        """The group, for users."""
        self._trim()
        newest, cleared, calm = self.newest[-1], self.cleared, now - self.last > CALM
        since, until = self.muted or (-1, 0)
        failures = [_last_failure(letter) for letter in self.newest]
        hours_before = min(max((now - _HOUR - self.first) / _HOUR, 1), _DAY / _HOUR - 1)
        return ErrorGroup(
            fingerprint=self.name,
            reason=newest.reason,
            error=str(newest.cause),
            count=self.count,
            first_seen=moment(self.first),
            last_seen=moment(self.last),
            sample_id=newest.id,
            last_hour=self.hour,
            new=cleared is None and now - self.first < new_within,
            growing=not calm and self.hour > max(1, _TIMES * (self.day - self.hour) / hours_before),
            regressed=cleared is not None and cleared < self.first,
            versions=Counter(event.cause.version for event in failures if event and event.cause.version),
            consumers=Counter(event.consumer for event in failures if event and event.consumer),
            error_class=newest.cause.type,
            calm=calm,
            muted=now < until or (not until and self.last <= since),
            muted_until=moment(until) if now < until else None,
        )


def _last_failure(letter: DeadLetter[Any]) -> Event | None:
    return next((event for event in reversed(letter.history) if event.event in FAILURES), None)


@dataclass(frozen=True, slots=True)
class QueueStats:
    """A queue's counts.

    Attributes:
        name: the queue's name.
        ready: messages that can be claimed now.
        scheduled: messages that wait for their due time, or for others of their key.
        leased: messages held by consumers.
        dead: dead letters.
        expired: expired messages that are kept.
        oldest: seconds since the first ready message became due; None: none is ready.
        next_due: seconds until the next scheduled message is due; None: no message is scheduled, or all are
            blocked.
        totals: counts since the queue was created, or since the last reset: sent, acked, nacked, lapsed,
            released, exhausted, poison, unprocessable, expired, redriven, discarded, moved, purged,
            cancelled, passed_on, known, replaced, again, results_dropped. `passed_on` counts releases that
            wait for another version of the program; `known` counts sends that were ignored since a dead
            letter has the id; `replaced` counts waiting messages to which a later send with the same id gave
            a new body, and `again` runs that followed another one for the same reason (`on_duplicate`);
            `results_dropped` counts results dropped for lack of memory.
        paused: no messages are delivered until the pause ends.
        overdue: how late maintenance is, seconds: the longest time that a due message or an expired lease has
            waited; 0: none is waiting.
        orphaned: messages that are in no index, since a key of the queue was deleted or restored in part:
            they are not delivered until maintenance has repaired the index. With more than 5,000 concurrent
            claims: 0.
        blocked: how many scheduled messages are due, but wait for others of their key (`PerKey`).
        gathers: gathers whose `then` waits in this queue for their children (`Broker.gather`).
        oldest_gather: seconds since the oldest of these was opened; None: there is none.
        until: when the pause ends (UTC); None: at `resume`, or the queue is not paused.

    Examples:
        >>> stats = orders.stats()
        >>> stats.waiting, stats.totals["sent"]
        (1, 1)
        >>> stats.waiting
        1
    """

    name: str
    ready: int
    scheduled: int
    leased: int
    dead: int
    expired: int
    oldest: float | None
    next_due: float | None
    totals: Mapping[str, int]
    paused: bool = False
    overdue: float = 0.0
    orphaned: int = 0
    blocked: int = 0
    gathers: int = 0
    oldest_gather: float | None = None
    until: datetime | None = None

    @property
    def waiting(self) -> int:
        """The number of messages that wait for delivery: ready and scheduled."""
        return self.ready + self.scheduled
