"""Counts of a queue, and of its dead letters by kind of failure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rq_dlq.values.message import DeadLetter


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Dead letters of one kind of failure.

    Attributes:
        error: class and text of the newest failure.
        sample_id: the id of the newest dead letter.
    """

    fingerprint: str
    reason: str
    error: str
    count: int
    first_seen: datetime
    last_seen: datetime
    sample_id: str

    @classmethod
    def of(cls, letter: DeadLetter[Any]) -> ErrorGroup:
        """The group of one dead letter."""
        cause = letter.cause
        died = letter.died_at
        return cls(cause.fingerprint, letter.reason, str(cause), 1, died, died, letter.id)

    def __add__(self, other: ErrorGroup) -> ErrorGroup:
        """Merge two groups of the same kind."""
        newest = other if other.last_seen >= self.last_seen else self
        first_seen = min(self.first_seen, other.first_seen)
        return replace(newest, count=self.count + other.count, first_seen=first_seen)


@dataclass(frozen=True, slots=True)
class QueueStats:
    """A queue's counts.

    Attributes:
        oldest: seconds since the first ready message became due; None: none is ready.
        next_due: seconds until the next scheduled message is due; None: none is scheduled.
        totals: since the queue began, or the last reset: sent, acked, nacked, lapsed, released, exhausted,
            poison, unprocessable, expired, redriven, discarded, moved, purged.
        paused: no messages are delivered until it is resumed.
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

    @property
    def waiting(self) -> int:
        """The number of messages that wait for delivery: ready and scheduled."""
        return self.ready + self.scheduled
