"""An outage that is to be played (`rq_dlq/testing/outage.py`), and what becomes of the messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Final

from rq_dlq.errors import InvalidInput
from rq_dlq.policy.redelivery import RedeliveryPolicy

if TYPE_CHECKING:
    from rq_dlq.policy.breaker import Breaker

CALM: Final = 300.0  # seconds before the outage
AFTER: Final = 7_200.0  # seconds after it, at most
EVERY: Final = 30.0  # seconds between two batches of messages
WORK: Final = 0.2  # seconds of one message, whether it succeeds or fails
MOST: Final = 100_000  # messages: minutes


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What happens.

    Attributes:
        breaker: of the queue; None: it has none.
        outage: seconds.
        messages: that are sent meanwhile; as many a minute before.
        share: of them that need what goes down; the others are those of a tenant that does not.
        poisons: messages besides that fail always; the first comes before the outage, the next is the first
            of it.
        workers: how many messages the fleet works on at once, 0.2 s each.

    Raises:
        InvalidInput: the fleet cannot do so many, or they would take too long to play.
    """

    breaker: Breaker | None
    policy: RedeliveryPolicy = field(default_factory=RedeliveryPolicy)
    outage: float = 1_800
    messages: int = 3_000
    share: float = 0.4
    poisons: int = 5
    workers: int = 8

    def __post_init__(self) -> None:
        """Check what depends on each other."""
        if self.outage < EVERY:
            raise InvalidInput(f"an outage of {self.outage:g} s is too short. Pass {EVERY:g} s or more")
        if self.messages * (1 + CALM / self.outage) > MOST:
            raise InvalidInput(f"more than {MOST:,} messages are too many to play through. Pass fewer")
        if (needed := ceil(self.messages / self.outage * WORK)) > self.workers:
            raise InvalidInput(
                f"{self.workers} workers cannot do {self.messages:,} messages in {self.outage:g} s. "
                f"Pass {needed} or more, or fewer messages"
            )


@dataclass
class Message:
    """What became of a message; times in seconds since the beginning.

    Attributes:
        acked, died: None: it was not, or did not.
        failed: when its attempts did.
    """

    sent: float
    needs: bool
    poison: bool = False
    acked: float | None = None
    died: float | None = None
    failed: list[float] = field(default_factory=list[float])

    @property
    def is_over(self) -> bool:
        """Whether nothing becomes of it any more."""
        return self.acked is not None or self.died is not None


@dataclass(frozen=True)
class Spread:
    """How long messages took, seconds: the median, and the 99th percentile."""

    p50: float
    p99: float

    @classmethod
    def of(cls, messages: Sequence[Message]) -> Spread | None:
        """Of those that were done; None: none was."""
        times = sorted(round(one.acked - one.sent, 3) for one in messages if one.acked is not None)
        if not times:
            return None
        return cls(*(times[round(part * (len(times) - 1))] for part in (0.5, 0.99)))


@dataclass(frozen=True)
class Outage:
    """What became of all.

    Attributes:
        healthy_dead: messages that died though nothing was wrong with them.
        poisons_dead, poisons: messages that fail always: those that died, and how many there were.
        wasted: attempts of healthy messages that failed.
        waiting: healthy messages that were neither done nor dead when all was well again.
        drained: seconds from then until all of those were; None: they were not within two hours.
        calm, meanwhile: how long messages of the other tenant took: before, and since the outage began; None:
            there were none.
    """

    healthy_dead: int
    poisons_dead: int
    poisons: int
    wasted: int
    waiting: int
    drained: float | None
    calm: Spread | None
    meanwhile: Spread | None
