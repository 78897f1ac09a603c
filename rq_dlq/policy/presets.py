"""The arithmetic of other brokers, bit for bit, for users who migrate.

It uses the same longs, doubles and order of operations, with one difference: settings that would lead to a
wait in the past or an overflow are refused. As in Java, a number that is too large becomes the largest long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from rq_dlq.errors import PolicyError
from rq_dlq.policy import _checks as check
from rq_dlq.policy.arithmetic import Arithmetic, power

JAVA_LONG: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtemisRedelivery(Arithmetic):
    """ActiveMQ Artemis 2: `QueueImpl.calculateRedeliveryDelay`.

    The maximum is applied after the spread, so waits at the maximum are not spread. Make a policy with
    `RedeliveryPolicy.artemis`.

    Raises:
        PolicyError: a setting is not valid; the error has its name in Artemis.
    """

    max_delay: int

    NAME: ClassVar[str] = "artemis"

    def __post_init__(self) -> None:
        check.whole(self.initial_delay, "redelivery-delay", 0, JAVA_LONG)
        check.whole(self.max_delay, "max-redelivery-delay", 0, JAVA_LONG)
        check.within(self.initial_delay, self.max_delay, "redelivery-delay", "max-redelivery-delay")
        factor = self.collision_avoidance
        check.store(
            self,
            multiplier=check.growth(self.multiplier, "redelivery-delay-multiplier"),
            collision_avoidance=check.part(factor, "redelivery-collision-avoidance-factor"),
        )

    def wait(self, n: int, r: float, previous: int | None) -> int:
        """See `Arithmetic.wait`."""
        del previous
        growth = power(self.multiplier, n - 1)
        base = self.initial_delay if growth == 1 else _long(self.initial_delay * growth)
        return min(_spread(base, self.collision_avoidance, r), self.max_delay)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveMQRedelivery(Arithmetic):
    """ActiveMQ Classic: `RedeliveryPolicy.getNextRedeliveryDelay`.

    The first wait is neither spread nor limited by the maximum; each later wait is computed from the previous
    one with its spread, so spreads compound and can exceed the maximum. If the back-off is not exponential,
    `multiplier` is 1. Make a policy with `RedeliveryPolicy.activemq`.

    Attributes:
        redelivery_delay: each later wait that is not computed from the previous one; negative only if
            there is no such wait.

    Raises:
        PolicyError: a setting is not valid; the error has its name in ActiveMQ.
    """

    redelivery_delay: int

    NAME: ClassVar[str] = "activemq"

    def __post_init__(self) -> None:
        check.whole(self.initial_delay, "initialRedeliveryDelay", 0, JAVA_LONG)
        check.whole(self.redelivery_delay, "redeliveryDelay", -JAVA_LONG, JAVA_LONG)
        if self.max_delay is not None:
            check.whole(self.max_delay, "maximumRedeliveryDelay", 0, JAVA_LONG)
        check.within(self.redelivery_delay, self.max_delay, "redeliveryDelay", "maximumRedeliveryDelay")
        check.store(
            self,
            multiplier=check.growth(self.multiplier, "backOffMultiplier"),
            collision_avoidance=check.part(self.collision_avoidance, "collisionAvoidanceFactor"),
        )
        # ActiveMQ ignores a negative value if waits grow from a first wait that is not 0.
        grows = self.initial_delay > 0 and self.multiplier > 1 and self.max_delay != 0
        if self.redelivery_delay < 0 and not (grows and self.collision_avoidance == 0):
            raise PolicyError(f"redeliveryDelay is {self.redelivery_delay}. Pass 0 milliseconds or more")

    def wait(self, n: int, r: float, previous: int | None) -> int:
        """See `Arithmetic.wait`."""
        if n > 1 and previous is not None:
            return self._next(previous, r)
        wait = self.initial_delay
        for _ in range(n - 1):
            before, wait = wait, self._next(wait, r)
            if wait == before:  # later waits are equal
                break
        return wait

    def _next(self, previous: int, r: float) -> int:
        wait = self.redelivery_delay
        if previous > 0 and self.multiplier > 1:
            wait = _long(previous * self.multiplier)
            if self.max_delay is not None:  # never below redelivery_delay, as checked
                wait = min(wait, self.max_delay)
        if wait < 0:
            raise PolicyError(f"after a wait of 0, redeliveryDelay is the next one: {wait}. Pass 0 or more")
        return _spread(wait, self.collision_avoidance, r)


def usual_maximum(delay: object) -> int:
    """Artemis' default for the longest wait."""
    return min(10 * check.whole(delay, "redelivery-delay", 0, JAVA_LONG), JAVA_LONG)


def deliveries_of_both(client: int | None, broker: int | None) -> int | None:
    """How often ActiveMQ Classic delivers a message that always fails, if client and broker both redeliver.

    The client redelivers until the message's redelivery counter exceeds its maximum, then returns the message
    as poison (`ActiveMQMessageConsumer.rollback`). The broker's `RedeliveryPlugin` sends it again while its
    own counter, which grows by one each time, is below its own maximum. The counter is part of the message:
    in the k-th round the client has k redeliveries fewer, but at least one delivery. The equivalent
    `max_redeliveries` here is the result - 1.

    Args:
        client: `maximumRedeliveries` of the client; -1 or None: no limit.
        broker: `maximumRedeliveries` of the plugin; -1 or None: no limit.

    Returns:
        The number of deliveries; None: no limit, since one of the two has none.

    Raises:
        PolicyError: one of them is not a valid limit.
    """
    mine = check.redeliveries(client, "the client's maximumRedeliveries")
    theirs = check.redeliveries(broker, "the broker's maximumRedeliveries")
    if mine is None or theirs is None:
        return None
    falling = min(mine, theirs)  # rounds after the first in which the client still redelivers
    return (falling + 1) * (mine + 1) - falling * (falling + 1) // 2 + theirs - falling


def after_the_first(attempts: object, name: str) -> int | None:
    """Redeliveries for a limit that counts deliveries, as in Artemis and JetStream; None and -1: no limit.

    In those brokers 0 and all negative numbers also mean no limit. That is surprising, so they are refused.
    """
    if attempts is None or attempts == -1:
        return None
    return (
        check.whole(
            attempts, name, 1, check.LARGEST_WHOLE, "; 1 means no redelivery, -1 no limit, as 0 does there"
        )
        - 1
    )


def _long(number: float) -> int:
    """Java's cast from double to long: towards zero, and the largest long if it does not fit."""
    return int(number) if number < JAVA_LONG else JAVA_LONG


def _spread(wait: int, factor: float, r: float) -> int:
    """The spread of both brokers; their random sign and random number together are our r.

        double variance = (random.nextBoolean() ? factor : -factor) * random.nextDouble();
        wait += wait * variance;

    Without a factor the wait stays a long: a double cannot represent every long.
    """
    return _long(wait + wait * (factor * r)) if factor else wait
