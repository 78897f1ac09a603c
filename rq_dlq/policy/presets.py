"""The arithmetic of other brokers, to the bit, for those who migrate.

Their longs, their doubles and the order of their operations, with one difference: what they accept
and then answer with a wait in the past, or an overflow, is refused. As in Java, a number too large
stays the largest long.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rq_dlq.errors import PolicyError
from rq_dlq.policy import _checks as check
from rq_dlq.policy.redelivery import RedeliveryPolicy, Wire, power, seconds, store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

JAVA_LONG: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class ArtemisRedelivery(RedeliveryPolicy):
    """ActiveMQ Artemis 2: `QueueImpl.calculateRedeliveryDelay`.

    The spread comes before the maximum, so at the maximum it is gone. Make one with
    `RedeliveryPolicy.artemis`; the inherited fields say the same in seconds.

    Attributes:
        redelivery_delay: milliseconds.
        max_redelivery_delay: milliseconds.
    """

    redelivery_delay: int
    max_redelivery_delay: int

    ARITHMETIC: ClassVar[str] = "artemis"

    def __init__(
        self,
        *,
        redelivery_delay: int = 0,
        redelivery_delay_multiplier: float = 1.0,
        max_redelivery_delay: int | None = None,
        redelivery_collision_avoidance_factor: float = 0.0,
        max_delivery_attempts: int = 10,
        fatal: Iterable[type[BaseException]] = (),
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
        store(
            self,
            initial_delay=seconds(delay),
            multiplier=check.number(redelivery_delay_multiplier, "redelivery-delay-multiplier", 1),
            max_delay=seconds(limit),
            collision_avoidance=check.number(factor, "redelivery-collision-avoidance-factor", 0, 1),
            max_redeliveries=_after_the_first(max_delivery_attempts),
            delays=None,
            fatal=check.exceptions(fatal, "fatal"),
            redelivery_delay=delay,
            max_redelivery_delay=limit,
        )

    def as_wire(self) -> Wire:
        """As it stands in Redis; see `RedeliveryPolicy.as_wire`."""
        return {
            "arithmetic": self.ARITHMETIC,
            "initial_delay": self.redelivery_delay,
            "multiplier": self.multiplier,
            "max_delay": self.max_redelivery_delay,
            "collision_avoidance": self.collision_avoidance,
            "max_redeliveries": self.max_redeliveries,
        }

    def _wait(self, n: int, r: float, previous: int | None) -> int:  # noqa: ARG002 - theirs needs no previous
        growth = power(self.multiplier, n - 1)
        base = self.redelivery_delay if growth == 1 else _long(self.redelivery_delay * growth)
        return min(_spread(base, self.collision_avoidance, r), self.max_redelivery_delay)

    def _longest(self, n: int, previous: int | None) -> int:
        return self._wait(n, 1, previous)


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class ActiveMQRedelivery(RedeliveryPolicy):
    """ActiveMQ Classic: `RedeliveryPolicy.getNextRedeliveryDelay`.

    The first wait is neither spread nor held to the maximum; each later one is made from the wait
    before, its spread included, so spreads compound and pass the maximum. Make one with
    `RedeliveryPolicy.activemq`; the inherited fields say the same in seconds, with a multiplier of
    1 where the back-off is not exponential.

    Attributes:
        initial_redelivery_delay: milliseconds.
        redelivery_delay: milliseconds; negative only where no wait is made from it.
        maximum_redelivery_delay: milliseconds; None: no maximum.
    """

    initial_redelivery_delay: int
    redelivery_delay: int
    maximum_redelivery_delay: int | None

    ARITHMETIC: ClassVar[str] = "activemq"

    def __init__(
        self,
        *,
        maximum_redeliveries: int | None = 6,
        initial_redelivery_delay: int = 1000,
        redelivery_delay: int = 1000,
        back_off_multiplier: float = 5.0,
        use_exponential_back_off: bool = False,
        maximum_redelivery_delay: int = -1,
        use_collision_avoidance: bool = False,
        collision_avoidance_factor: float | None = None,
        collision_avoidance_percent: float | None = None,
        fatal: Iterable[type[BaseException]] = (),
    ) -> None:
        """Check ActiveMQ's settings, in milliseconds.

        Raises:
            PolicyError: a setting makes no sense.
        """
        growth = check.number(back_off_multiplier, "backOffMultiplier", 1)
        factor = _factor(collision_avoidance_factor, collision_avoidance_percent)
        exponential = check.flag(use_exponential_back_off, "useExponentialBackOff")
        spread = check.flag(use_collision_avoidance, "useCollisionAvoidance")
        initial = check.whole(initial_redelivery_delay, "initialRedeliveryDelay", 0, JAVA_LONG)
        limit = check.whole(maximum_redelivery_delay, "maximumRedeliveryDelay", -1, JAVA_LONG)
        store(
            self,
            initial_delay=seconds(initial),
            multiplier=growth if exponential else 1.0,
            max_delay=None if limit == -1 else seconds(limit),
            collision_avoidance=factor if spread else 0.0,
            max_redeliveries=check.redeliveries(maximum_redeliveries, "maximumRedeliveries"),
            delays=None,
            fatal=check.exceptions(fatal, "fatal"),
            initial_redelivery_delay=initial,
            redelivery_delay=check.whole(redelivery_delay, "redeliveryDelay", -JAVA_LONG, JAVA_LONG),
            maximum_redelivery_delay=None if limit == -1 else limit,
        )
        self._check_redelivery_delay()

    def as_wire(self) -> Wire:
        """As it stands in Redis; see `RedeliveryPolicy.as_wire`."""
        return {
            "arithmetic": self.ARITHMETIC,
            "initial_delay": self.initial_redelivery_delay,
            "redelivery_delay": self.redelivery_delay,
            "multiplier": self.multiplier,
            "max_delay": self.maximum_redelivery_delay,
            "collision_avoidance": self.collision_avoidance,
            "max_redeliveries": self.max_redeliveries,
        }

    def _check_redelivery_delay(self) -> None:
        """ActiveMQ ignores a negative one where waits only grow, from a first one that is not 0."""
        limit = self.maximum_redelivery_delay
        check.within(self.redelivery_delay, limit, "redeliveryDelay", "maximumRedeliveryDelay")
        grows = self.initial_redelivery_delay > 0 and self.multiplier > 1
        if self.redelivery_delay < 0 and not (grows and self.collision_avoidance == 0 and limit != 0):
            message = f"redeliveryDelay is {self.redelivery_delay}. Pass 0 milliseconds or more"
            raise PolicyError(message)

    def _wait(self, n: int, r: float, previous: int | None) -> int:
        if n > 1 and previous is not None:
            return self._next(previous, r)
        wait = self.initial_redelivery_delay
        for _ in range(n - 1):
            before, wait = wait, self._next(wait, r)
            if wait == before:  # and so for ever
                break
        return wait

    def _longest(self, n: int, previous: int | None) -> int:
        return self._wait(n, 1, previous)

    def _next(self, previous: int, r: float) -> int:
        wait = self.redelivery_delay
        if previous > 0 and self.multiplier > 1:
            wait = _long(previous * self.multiplier)
            if self.maximum_redelivery_delay is not None:  # never below redelivery_delay, as checked
                wait = min(wait, self.maximum_redelivery_delay)
        if wait < 0:
            message = f"after a wait of 0 redeliveryDelay counts, and it is {wait}. Pass 0 or more"
            raise PolicyError(message)
        return _spread(wait, self.collision_avoidance, r)


def artemis(settings: Mapping[str, object]) -> ArtemisRedelivery:
    """See `RedeliveryPolicy.artemis`."""
    names = (
        "redelivery-delay",
        "redelivery-delay-multiplier",
        "max-redelivery-delay",
        "redelivery-collision-avoidance-factor",
        "max-delivery-attempts",
        "fatal",
    )
    return ArtemisRedelivery(**_arguments(settings, names, "Artemis"))


def activemq(settings: Mapping[str, object]) -> ActiveMQRedelivery:
    """See `RedeliveryPolicy.activemq`."""
    names = (
        "maximumRedeliveries",
        "initialRedeliveryDelay",
        "redeliveryDelay",
        "backOffMultiplier",
        "useExponentialBackOff",
        "maximumRedeliveryDelay",
        "useCollisionAvoidance",
        "collisionAvoidanceFactor",
        "collisionAvoidancePercent",
        "fatal",
    )
    return ActiveMQRedelivery(**_arguments(settings, names, "ActiveMQ"))


def _arguments(settings: Mapping[str, object], names: Iterable[str], owner: str) -> dict[str, Any]:
    """The settings by the names of our parameters."""
    spellings = {_snake(name): name for name in names}
    arguments: dict[str, Any] = {}
    for name, value in settings.items():
        parameter = _snake(name)
        if parameter not in spellings:
            closest = get_close_matches(parameter, spellings, n=1, cutoff=0)[0]
            unknown = f"{name!r} is no redelivery setting of {owner}"
            message = f"{unknown}. The closest is {spellings[closest]!r}"
            raise PolicyError(message)
        if parameter in arguments:
            message = f"{spellings[parameter]!r} is given twice, in two spellings. Give it once"
            raise PolicyError(message)
        arguments[parameter] = value
    return {parameter: value for parameter, value in arguments.items() if value is not None}


def _snake(name: str) -> str:
    return re.sub("-|(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _after_the_first(attempts: object) -> int | None:
    """Artemis counts deliveries; for it 0 and all negative numbers mean no limit, unexpectedly."""
    if attempts == -1:
        return None
    try:
        return check.whole(attempts, "max-delivery-attempts", 1, check.MOST_REDELIVERIES) - 1
    except PolicyError as error:
        message = f"{error}; 1 is no redelivery, -1 no limit"
        raise PolicyError(message) from None


def _factor(factor: float | None, percent: float | None) -> float:
    if factor is not None and percent is not None:
        message = "collisionAvoidanceFactor and collisionAvoidancePercent say the same. Give one of them"
        raise PolicyError(message)
    if percent is not None:
        return check.number(percent, "collisionAvoidancePercent", 0, 100) * 0.01
    return check.number(0.15 if factor is None else factor, "collisionAvoidanceFactor", 0, 1)


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
