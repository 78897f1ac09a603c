"""When a message that failed comes back, and when it has failed for good."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from rq_dlq.durations import TEN_YEARS, Duration
from rq_dlq.errors import InvalidInput
from rq_dlq.policy import _checks as check
from rq_dlq.policy.preview import Preview
from rq_dlq.policy.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tenacity.stop import StopBaseT
    from tenacity.wait import WaitBaseT

    from rq_dlq.policy.tenacity import Strategies

Wire: TypeAlias = dict[str, int | float | str | list[int] | None]
"""A policy as it stands in Redis: JSON values, durations in whole milliseconds."""

LARGEST_POWER: Final = 2.0**63


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class RedeliveryPolicy:
    """How often a message is redelivered, and how long each redelivery waits.

    The n-th redelivery waits `initial_delay * multiplier ** (n - 1)`, at most `max_delay`, spread
    by `collision_avoidance`: 0.5 means anything from half to one and a half times as long. What the
    spread would carry past `max_delay` is folded back below it, so that messages that failed
    together never all return together, not even when they wait the longest.

    A policy is a value: checked once, pure, equal to its equals, and the same in Python and in
    Redis (`lua/lib/delay.lua`).

    Attributes:
        initial_delay: seconds before the first redelivery.
        multiplier: by which the wait grows from one redelivery to the next.
        max_delay: seconds; None: no maximum but ten years, which no duration exceeds.
        collision_avoidance: the part of a wait, 0 to 1, by which it is spread.
        max_redeliveries: redeliveries, not deliveries; 0: none; None: no limit.
        delays: seconds of each wait, the last one repeated; None: they grow as said above.
        fatal: errors after which a message is dead at once. The client judges them, since classes
            do not go to Redis.
    """

    initial_delay: float
    multiplier: float
    max_delay: float | None
    collision_avoidance: float
    max_redeliveries: int | None
    delays: tuple[float, ...] | None
    fatal: tuple[type[BaseException], ...]

    ARITHMETIC: ClassVar[str] = "rq"

    def __init__(
        self,
        *,
        initial_delay: Duration | None = None,
        multiplier: float | None = None,
        max_delay: Duration | None = check.DEFAULT_MAX_DELAY,
        collision_avoidance: float | None = None,
        max_redeliveries: int | None = 12,
        delays: Iterable[Duration] | None = None,
        fatal: Iterable[type[BaseException]] = (),
    ) -> None:
        """Check the settings, and store durations as seconds.

        Args:
            initial_delay: unless said, one second, or the first of `delays`.
            multiplier: 1 or more; unless said 2, or 1 with `delays`.
            max_delay: None: no maximum; unless said ten minutes, or the longest of `delays`.
            collision_avoidance: 0 to 1; unless said 0.5, or 0 with `delays`, which then are exact.
            max_redeliveries: None or -1: no limit.
            delays: one or more; the three that they settle must not say otherwise.
            fatal: exception classes.

        Raises:
            PolicyError: a setting makes no sense, or contradicts another.
        """
        listed = None if delays is None else check.durations(delays, "delays")
        if listed:
            initial, growth, limit = check.listed(listed, initial_delay, multiplier, max_delay)
        else:
            initial, growth, limit = check.growing(initial_delay, multiplier, max_delay)
        if collision_avoidance is None:
            collision_avoidance = 0 if listed else 0.5
        check.store(
            self,
            initial_delay=seconds(initial),
            multiplier=growth,
            max_delay=seconds(limit),
            collision_avoidance=check.number(collision_avoidance, "collision_avoidance", 0, 1),
            max_redeliveries=check.redeliveries(max_redeliveries, "max_redeliveries"),
            delays=tuple(wait / 1000 for wait in listed) if listed else None,
            fatal=check.exceptions(fatal, "fatal"),
        )

    def delay_ms(self, n: int, r: float | None = None, previous: int | None = None) -> int:
        """The wait before the n-th redelivery, in whole milliseconds.

        Args:
            n: 1 for the first redelivery.
            r: where in the spread, -1 to 1; None: drawn.
            previous: milliseconds of the wait before, for the arithmetic that builds on it
                (ActiveMQ's); None: what it would have been with the same r.

        Raises:
            InvalidInput: n is below 1, or r is outside -1 to 1 (a ValueError).
        """
        if n < 1:
            message = f"n is {n}. Redeliveries are counted from 1"
            raise InvalidInput(message)
        if r is None:
            r = random.uniform(-1, 1)  # noqa: S311 - it spreads load, it guards nothing
        elif not -1 <= r <= 1:
            message = f"r is {r}. Pass a number from -1 to 1, or None to have it drawn"
            raise InvalidInput(message)
        return self._wait(n, r, previous)

    def delay(self, n: int, r: float | None = None, previous: float | None = None) -> float:
        """The wait before the n-th redelivery, in seconds; otherwise as `delay_ms`."""
        return self.delay_ms(n, r, None if previous is None else round(previous * 1000)) / 1000

    def spent(self, charged: int) -> bool:
        """Whether a message that failed this often, by the count that is charged, is dead."""
        return self.max_redeliveries is not None and charged > self.max_redeliveries

    def preview(self, n: int | None = None) -> Preview:
        """The waits of the first n redeliveries, and the time to the dead-letter queue.

        Args:
            n: None: all of them, or the first 12 where there is no limit.
        """
        return Preview.of(self, n)

    def simulate(
        self, messages: int = 1_000, outage: Duration = "5m", rate: float | None = None, seed: int = 0
    ) -> Simulation:
        """What becomes of messages that all fail at once, of something that is down.

        Args:
            messages: how many.
            outage: until when every delivery fails.
            rate: how many a second can be done afterwards; what comes beyond fails. None: any number.
            seed: of the random numbers; the same gives the same.

        Raises:
            InvalidInput: an argument makes no sense, or it would take millions of deliveries.
        """
        return Simulation.of(self, messages, outage, rate, seed)

    def as_wire(self) -> Wire:
        """The policy as it stands in Redis: JSON values, whole milliseconds, without `fatal`."""
        return {
            "arithmetic": self.ARITHMETIC,
            "initial_delay": whole_ms(self.initial_delay),
            "multiplier": self.multiplier,
            "max_delay": None if self.max_delay is None else whole_ms(self.max_delay),
            "collision_avoidance": self.collision_avoidance,
            "max_redeliveries": self.max_redeliveries,
            "delays": None if self.delays is None else [whole_ms(wait) for wait in self.delays],
        }

    @staticmethod
    def from_wire(wire: Mapping[str, object]) -> RedeliveryPolicy:
        """The policy that `as_wire` wrote.

        Raises:
            PolicyError: it is not one.
        """
        from rq_dlq.policy.wire import read  # noqa: PLC0415 - it knows every variant of this class

        return read(wire)

    @staticmethod
    def artemis(**settings: object) -> RedeliveryPolicy:
        """Redelivery as ActiveMQ Artemis does it, to the bit; see `presets.ArtemisRedelivery`.

        Args:
            settings: `redelivery-delay`, `redelivery-delay-multiplier`, `max-redelivery-delay`,
                `redelivery-collision-avoidance-factor`, `max-delivery-attempts`, in milliseconds,
                in that spelling or with underscores; left out or None: Artemis'
                default. And `fatal`, which is ours.

        Raises:
            PolicyError: a setting is unknown or makes no sense.
        """
        from rq_dlq.policy.foreign import artemis  # noqa: PLC0415 - the presets build on this class

        return artemis(settings)

    @staticmethod
    def activemq(**settings: object) -> RedeliveryPolicy:
        """Redelivery as ActiveMQ Classic does it, to the bit; see `presets.ActiveMQRedelivery`.

        Args:
            settings: `maximumRedeliveries`, `initialRedeliveryDelay`, `redeliveryDelay`,
                `backOffMultiplier`, `useExponentialBackOff`, `maximumRedeliveryDelay`,
                `useCollisionAvoidance`, `collisionAvoidanceFactor` or `collisionAvoidancePercent`,
                in milliseconds, in that spelling or with underscores; left out or None: ActiveMQ's
                default. And `fatal`, which is ours.

        Raises:
            PolicyError: a setting is unknown or makes no sense.
        """
        from rq_dlq.policy.foreign import activemq  # noqa: PLC0415 - the presets build on this class

        return activemq(settings)

    @staticmethod
    def jetstream(**settings: object) -> RedeliveryPolicy:
        """Redelivery as a JetStream consumer is told to do it; it is a policy with `delays`.

        There BackOff counts from the delivery; here the lease is one setting and the wait after it
        another. A plain nack, too, waits by the policy. Without a backoff both come back at once.

        Args:
            settings: `max_deliver` (deliveries; -1: no limit; 0, which JetStream reads so too, is
                an error), `backoff` (durations, so numbers are seconds; the last one repeats), in
                JetStream's spelling of any language; left out or None: JetStream's default.
                `ack_wait` is checked and has no effect: pass it to `broker.queue` as `lease`. And
                `fatal`, which is ours.

        Raises:
            PolicyError: a setting is unknown or makes no sense, or backoff is longer than max_deliver.
        """
        from rq_dlq.policy.foreign import jetstream  # noqa: PLC0415 - the presets build on this class

        return jetstream(settings)

    @staticmethod
    def from_tenacity(*, wait: WaitBaseT | None = None, stop: StopBaseT | None = None) -> RedeliveryPolicy:
        """The policy that waits and stops as these strategies of tenacity do.

        Args:
            wait: None: tenacity's default, no wait.
            stop: `stop_after_attempt` or `stop_never`; an attempt is a delivery. None: tenacity's
                default, no limit.

        Raises:
            PolicyError: no policy does exactly that; it says what comes closest.
        """
        from rq_dlq.policy.tenacity import policy_of  # noqa: PLC0415 - only those who use tenacity need it

        return policy_of(wait, stop)

    def as_tenacity(self) -> Strategies:
        """The policy as `wait` and `stop`, for `tenacity.Retrying(**policy.as_tenacity())`.

        `fatal` is not in it: pass `retry=retry_if_not_exception_type(policy.fatal)`.
        """
        from rq_dlq.policy.tenacity import strategies_of  # noqa: PLC0415 - only those who use tenacity need it

        return strategies_of(self)

    def _wait(self, n: int, r: float, previous: int | None) -> int:  # noqa: ARG002 - `previous` is for variants
        """The arithmetic, in milliseconds.

        It is Artemis', in the order of its operations, but that theirs cuts the spread off at the
        maximum, where all waits end up equal.
        """
        base, limit = self._base(n), self._limit()
        wait = base + base * (self.collision_avoidance * r)
        return math.floor(2 * limit - wait if wait > limit else wait)

    def _longest(self, n: int, previous: int | None) -> int:  # noqa: ARG002 - `previous` is for variants
        """The longest that the n-th wait can be; not at r = 1, where the spread is folded back."""
        base = self._base(n)
        return math.floor(min(base + base * self.collision_avoidance, self._limit()))

    def _base(self, n: int) -> float:
        if self.delays is not None:
            return whole_ms(self.delays[min(n, len(self.delays)) - 1])
        return min(whole_ms(self.initial_delay) * power(self.multiplier, n - 1), self._limit())

    def _limit(self) -> int:
        return TEN_YEARS if self.max_delay is None else whole_ms(self.max_delay)


def power(multiplier: float, times: int) -> float:
    """What a wait has grown by, held to 2 ** 63, so that nothing overflows after it."""
    try:
        return min(multiplier**times, LARGEST_POWER)
    except OverflowError:
        return LARGEST_POWER


def seconds(ms: int | None) -> float | None:
    """Milliseconds as they are stored."""
    return None if ms is None else ms / 1000


def whole_ms(span: float) -> int:
    """Stored seconds in milliseconds; exact, since what is stored is a whole number of them."""
    return round(span * 1000)
