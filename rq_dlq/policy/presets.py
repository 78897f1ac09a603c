"""The arithmetic of other brokers, to the bit, for those who migrate.

Their longs, their doubles and the order of their operations, with one difference: what they accept
and then answer with a wait in the past, or an overflow, is refused. As in Java, a number too large
stays the largest long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from rq_dlq.errors import PolicyError
from rq_dlq.policy import _checks as check
from rq_dlq.policy.arithmetic import power

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rq_dlq.policy._checks import JSON

JAVA_LONG: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class ArtemisRedelivery:
    """ActiveMQ Artemis 2: `QueueImpl.calculateRedeliveryDelay`.

    The spread comes before the maximum, so at the maximum it is gone. Make a policy of it with
    `RedeliveryPolicy.artemis`.

    Attributes:
        redelivery_delay: milliseconds.
        multiplier: by which a wait is longer than the one before.
        max_redelivery_delay: milliseconds.
        spread: the part of a wait, 0 to 1, by which it is spread.
    """

    redelivery_delay: int
    multiplier: float
    max_redelivery_delay: int
    spread: float

    NAME: ClassVar[str] = "artemis"

    def __init__(
        self,
        *,
        redelivery_delay: int = 0,
        redelivery_delay_multiplier: float = 1.0,
        max_redelivery_delay: int | None = None,
        redelivery_collision_avoidance_factor: float = 0.0,
    ) -> None:
        """Check Artemis' settings, in milliseconds; unsaid, the maximum is ten times the delay.

        Raises:
            PolicyError: a setting makes no sense.
        """
        delay = check.whole(redelivery_delay, "redelivery-delay", 0, JAVA_LONG)
        limit = max_redelivery_delay
        if limit is None:
            limit = min(10 * delay, JAVA_LONG)
        check.whole(limit, "max-redelivery-delay", 0, JAVA_LONG)
        check.within(delay, limit, "redelivery-delay", "max-redelivery-delay")
        factor = redelivery_collision_avoidance_factor
        check.store(
            self,
            redelivery_delay=delay,
            multiplier=check.growth(redelivery_delay_multiplier, "redelivery-delay-multiplier"),
            max_redelivery_delay=limit,
            spread=check.part(factor, "redelivery-collision-avoidance-factor"),
        )

    def wait(self, n: int, r: float, previous: int | None) -> int:
        """See `Arithmetic.wait`."""
        del previous
        growth = power(self.multiplier, n - 1)
        base = self.redelivery_delay if growth == 1 else _long(self.redelivery_delay * growth)
        return min(_spread(base, self.spread, r), self.max_redelivery_delay)

    def longest(self, n: int, previous: int | None) -> int:
        """See `Arithmetic.longest`."""
        return self.wait(n, 1, previous)

    def as_wire(self) -> Mapping[str, JSON]:
        """See `Arithmetic.as_wire`."""
        return {
            "initial_delay": self.redelivery_delay,
            "multiplier": self.multiplier,
            "max_delay": self.max_redelivery_delay,
            "collision_avoidance": self.spread,
        }


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class ActiveMQRedelivery:
    """ActiveMQ Classic: `RedeliveryPolicy.getNextRedeliveryDelay`.

    The first wait is neither spread nor held to the maximum; each later one is made from the wait
    before, its spread included, so spreads compound and pass the maximum. Make a policy of it with
    `RedeliveryPolicy.activemq`.

    Attributes:
        initial_redelivery_delay: milliseconds.
        redelivery_delay: milliseconds; negative only where no wait is made from it.
        multiplier: by which a wait is longer than the one before; 1 where the back-off is not
            exponential.
        maximum_redelivery_delay: milliseconds; None: no maximum.
        spread: the part of a wait, 0 to 1, by which it is spread.
    """

    initial_redelivery_delay: int
    redelivery_delay: int
    multiplier: float
    maximum_redelivery_delay: int | None
    spread: float

    NAME: ClassVar[str] = "activemq"

    def __init__(
        self,
        *,
        initial_redelivery_delay: int = 1000,
        redelivery_delay: int = 1000,
        back_off_multiplier: float = 5.0,
        use_exponential_back_off: bool = False,
        maximum_redelivery_delay: int = -1,
        use_collision_avoidance: bool = False,
        collision_avoidance_factor: float | None = None,
        collision_avoidance_percent: float | None = None,
    ) -> None:
        """Check ActiveMQ's settings, in milliseconds.

        Raises:
            PolicyError: a setting makes no sense.
        """
        growth = check.growth(back_off_multiplier, "backOffMultiplier")
        factor = _factor(collision_avoidance_factor, collision_avoidance_percent)
        exponential = check.flag(use_exponential_back_off, "useExponentialBackOff")
        spread = check.flag(use_collision_avoidance, "useCollisionAvoidance")
        initial = check.whole(initial_redelivery_delay, "initialRedeliveryDelay", 0, JAVA_LONG)
        limit = check.whole(maximum_redelivery_delay, "maximumRedeliveryDelay", -1, JAVA_LONG)
        check.store(
            self,
            initial_redelivery_delay=initial,
            redelivery_delay=check.whole(redelivery_delay, "redeliveryDelay", -JAVA_LONG, JAVA_LONG),
            multiplier=growth if exponential else 1.0,
            maximum_redelivery_delay=None if limit == -1 else limit,
            spread=factor if spread else 0.0,
        )
        self._check_redelivery_delay()

    def wait(self, n: int, r: float, previous: int | None) -> int:
        """See `Arithmetic.wait`."""
        if n > 1 and previous is not None:
            return self._next(previous, r)
        wait = self.initial_redelivery_delay
        for _ in range(n - 1):
            before, wait = wait, self._next(wait, r)
            if wait == before:  # and so for ever
                break
        return wait

    def longest(self, n: int, previous: int | None) -> int:
        """See `Arithmetic.longest`."""
        return self.wait(n, 1, previous)

    def as_wire(self) -> Mapping[str, JSON]:
        """See `Arithmetic.as_wire`."""
        return {
            "initial_delay": self.initial_redelivery_delay,
            "redelivery_delay": self.redelivery_delay,
            "multiplier": self.multiplier,
            "max_delay": self.maximum_redelivery_delay,
            "collision_avoidance": self.spread,
        }

    def _check_redelivery_delay(self) -> None:
        """ActiveMQ ignores a negative one where waits only grow, from a first one that is not 0."""
        limit = self.maximum_redelivery_delay
        check.within(self.redelivery_delay, limit, "redeliveryDelay", "maximumRedeliveryDelay")
        grows = self.initial_redelivery_delay > 0 and self.multiplier > 1
        if self.redelivery_delay < 0 and not (grows and self.spread == 0 and limit != 0):
            message = f"redeliveryDelay is {self.redelivery_delay}. Pass 0 milliseconds or more"
            raise PolicyError(message)

    def _next(self, previous: int, r: float) -> int:
        wait = self.redelivery_delay
        if previous > 0 and self.multiplier > 1:
            wait = _long(previous * self.multiplier)
            if self.maximum_redelivery_delay is not None:  # never below redelivery_delay, as checked
                wait = min(wait, self.maximum_redelivery_delay)
        if wait < 0:
            message = f"after a wait of 0 redeliveryDelay counts, and it is {wait}. Pass 0 or more"
            raise PolicyError(message)
        return _spread(wait, self.spread, r)


def deliveries_of_both(client: int | None, broker: int | None) -> int | None:
    """How often ActiveMQ Classic delivers a message that always fails, with both of its redeliveries on.

    The client redelivers until the message's redelivery counter is above its maximum, then hands it
    back as poison (`ActiveMQMessageConsumer.rollback`). The broker's `RedeliveryPlugin` sends it
    again as long as the counter that it sent with, which is one more each time, is below its own
    maximum. The counter travels with the message: the k-th time the client has k redeliveries
    less, though never less than one delivery. In one policy here: a `max_redeliveries` of the
    result - 1.

    Args:
        client: `maximumRedeliveries` of the client; -1 or None: no limit.
        broker: `maximumRedeliveries` of the plugin; -1 or None: no limit.

    Returns:
        Deliveries; None: no limit, since one of the two has none.

    Raises:
        PolicyError: one of them is no limit that there can be.
    """
    mine = check.redeliveries(client, "the client's maximumRedeliveries")
    theirs = check.redeliveries(broker, "the broker's maximumRedeliveries")
    if mine is None or theirs is None:
        return None
    falling = min(mine, theirs)  # rounds after the first of which the client still has a say
    return (falling + 1) * (mine + 1) - falling * (falling + 1) // 2 + theirs - falling


def after_the_first(attempts: object, name: str) -> int | None:
    """Both count deliveries; for both 0 and all negative numbers mean no limit, unexpectedly."""
    if attempts == -1:
        return None
    try:
        return check.whole(attempts, name, 1, check.LARGEST_WHOLE) - 1
    except PolicyError as error:
        message = f"{error}; 1 is no redelivery, -1 no limit"
        raise PolicyError(message) from None


def _factor(factor: float | None, percent: float | None) -> float:
    if factor is not None and percent is not None:
        message = "collisionAvoidanceFactor and collisionAvoidancePercent say the same. Give one of them"
        raise PolicyError(message)
    if percent is not None:
        return check.number(percent, "collisionAvoidancePercent", 0, 100) * 0.01
    return check.part(0.15 if factor is None else factor, "collisionAvoidanceFactor")


def _long(number: float) -> int:
    """Java's cast from double to long: towards zero, and the largest long where it does not fit."""
    return int(number) if number < JAVA_LONG else JAVA_LONG


def _spread(wait: int, factor: float, r: float) -> int:
    """Both brokers' spread; their random sign and random number together are our r.

        double variance = (random.nextBoolean() ? factor : -factor) * random.nextDouble();
        wait += wait * variance;

    Without a factor a wait stays a long, which a double cannot always hold.
    """
    return _long(wait + wait * (factor * r)) if factor else wait
