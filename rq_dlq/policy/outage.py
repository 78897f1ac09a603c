"""The plan of a simulated outage (`rq_dlq/testing/outage.py`), and its results.

It is for operators who choose a breaker: `rq-dlq policy simulate` shows it. Row K6 of `docs/reliability.md`
is the proof, with plans of its own.
"""

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
WORK: Final = 0.2  # seconds for each message, whether it succeeds or fails
MOST: Final = 100_000  # messages; simulating them takes minutes


@dataclass(frozen=True, kw_only=True)
class OutagePlan:
    """The course of a simulated outage.

    Attributes:
        breaker: the queue's breaker; None: it has none.
        outage: the length of the outage, seconds.
        messages: how many are sent during the outage; they are sent at the same rate before it.
        share: the fraction of messages with the dependency that fails; the others belong to another tenant.
        poisons: additional messages that always fail; the first is sent just before the outage, the second as
            it begins.
        at_once: all poisons are sent at the same moment, and nothing is down; the rest goes on for `outage`.
        hang: how long a call takes in the outage until it fails, seconds.
        workers: how many messages the workers process concurrently, 0.2 s each.

    Raises:
        InvalidInput: the workers cannot process this many messages, or the simulation would take too long.
    """

    breaker: Breaker | None
    policy: RedeliveryPolicy = field(default_factory=RedeliveryPolicy)
    outage: float = 1_800
    messages: int = 3_000
    share: float = 0.4
    poisons: int = 5
    at_once: bool = False
    hang: float = WORK
    workers: int = 8

    def __post_init__(self) -> None:
        """Check the values that depend on each other."""
        if self.outage < EVERY:
            raise InvalidInput(f"an outage of {self.outage:g} s is too short. Pass {EVERY:g} s or more")
        if self.messages * (1 + CALM / self.outage) > MOST:
            raise InvalidInput(f"more than {MOST:,} messages are too many to simulate. Pass fewer")
        if (needed := ceil(self.messages / self.outage * WORK)) > self.workers:
            raise InvalidInput(
                f"{self.workers} workers cannot process {self.messages:,} messages in {self.outage:g} s. "
                f"Pass {needed} or more, or fewer messages"
            )


@dataclass
class SimulatedMessage:
    """The outcome of a message; times in seconds since the start.

    Attributes:
        key: of the message.
        acked, died: when it was acked or died; None: never.
        failed: when its attempts failed.
    """

    sent: float
    needs: bool
    poison: bool = False
    key: str = ""
    acked: float | None = None
    died: float | None = None
    failed: list[float] = field(default_factory=list[float])

    @property
    def is_over(self) -> bool:
        """Whether the message was acked or died."""
        return self.acked is not None or self.died is not None


@dataclass(frozen=True)
class Spread:
    """The time that messages took, seconds: the median and the 99th percentile."""

    p50: float
    p99: float

    @classmethod
    def of(cls, messages: Sequence[SimulatedMessage]) -> Spread | None:
        """The spread over acked messages; None: none was acked."""
        times = sorted(round(one.acked - one.sent, 3) for one in messages if one.acked is not None)
        if not times:
            return None
        return cls(*(times[round(part * (len(times) - 1))] for part in (0.5, 0.99)))


@dataclass(frozen=True)
class Outage:
    """The result of a simulated outage.

    Attributes:
        healthy_dead: healthy messages that died.
        poisons_dead, poisons: messages that always fail: how many died, and how many there were.
        wasted: failed attempts of healthy messages.
        waiting: healthy messages that were neither acked nor dead when the outage ended, or when the poisons
            came at once.
        late: how many of these still were a minute later.
        drained: seconds from the end of the outage until all of them were acked or dead; None: over two
            hours.
        calm, meanwhile: the time that messages of the other tenant took, before the outage and since it
            began; None: there were no such messages.
    """

    healthy_dead: int
    poisons_dead: int
    poisons: int
    wasted: int
    waiting: int
    late: int
    drained: float | None
    calm: Spread | None
    meanwhile: Spread | None
