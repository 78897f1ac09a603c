"""When a failed message is redelivered, and when it is dead."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rq_dlq.errors import InvalidInput, PolicyError
from rq_dlq.errors.guesses import answering
from rq_dlq.policy import _checks as check
from rq_dlq.policy import arguments
from rq_dlq.policy._checks import JSON
from rq_dlq.policy.arithmetic import Backoff
from rq_dlq.policy.fields import BY_PART, in_seconds
from rq_dlq.policy.preview import Preview
from rq_dlq.policy.simulation import RedeliveryPlan, Simulation

if TYPE_CHECKING:
    from tenacity.stop import StopBaseT
    from tenacity.wait import WaitBaseT

    from rq_dlq.policy.arithmetic import Arithmetic
    from rq_dlq.policy.tenacity import Strategies
    from rq_dlq.values.durations import Duration

WAITS: Final = ("initial_delay", "multiplier", "max_delay", "collision_avoidance", "delays")
Wire: TypeAlias = dict[str, JSON]
"""A policy as Redis stores it: JSON values, durations in whole milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class RedeliveryPolicy:
    """How often a message is redelivered, and how long each redelivery waits.

    The n-th redelivery waits `initial_delay * multiplier ** (n - 1)`, at most `max_delay`, spread by
    `collision_avoidance`: 0.5 means anything from half to one and a half times as long. A spread beyond
    `max_delay` is folded back below it, so that messages that failed together are not all redelivered
    together, even at the longest wait.

    A policy is an immutable value, checked when it is made, and computes the same waits in Python and in
    Redis (`Policy.delay`).

    Attributes:
        initial_delay: seconds before the first redelivery.
        multiplier: the factor by which the wait grows from one redelivery to the next.
        max_delay: the longest wait, seconds; None: no maximum except ten years, which no duration exceeds.
        collision_avoidance: how far a wait is randomized: a fraction of it, 0 to 1.
        max_redeliveries: the limit of redeliveries, not counting the first delivery; None: no limit.
        delays: each wait, seconds, the last one repeated; None: waits grow as above.
        fatal: exceptions after which a message is dead immediately. The client checks them, since Redis
            cannot store classes.
        preset: another broker's arithmetic, which determines all waits; None: as above.

    Examples:
        >>> policy = RedeliveryPolicy(initial_delay="1s", max_delay="10m", collision_avoidance=0)
        >>> [policy.delay(n) for n in (1, 2, 3, 12)]
        [1.0, 2.0, 4.0, 600.0]
        >>> policy.arithmetic.NAME
        'rq'
    """

    initial_delay: float
    multiplier: float
    max_delay: float | None
    collision_avoidance: float
    max_redeliveries: int | None
    delays: tuple[float, ...] | None
    fatal: tuple[type[BaseException], ...]
    preset: Arithmetic | None

    @answering
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
        preset: Arithmetic | None = None,
    ) -> None:
        """Check the settings, and store durations as seconds.

        Args:
            initial_delay: by default one second, or the first of `delays`.
            multiplier: 1 or more; by default 2, or 1 with `delays`.
            max_delay: by default ten minutes, or the longest of `delays`; None: no maximum.
            collision_avoidance: 0 to 1; by default 0.5, or 0 with `delays`, which are then exact.
            max_redeliveries: None or -1: no limit.
            delays: one or more; the three arguments above must not contradict them.
            fatal: exception classes.
            preset: see `artemis` and `activemq`; no argument may contradict it.

        Raises:
            PolicyError: a setting is not valid, or contradicts another.
        """
        given = initial_delay, multiplier, max_delay, collision_avoidance, delays
        if preset is not None:
            _check_settled(preset, *given)
        check.store(
            self,
            **_in_seconds(preset or Backoff.of(*given)),
            max_redeliveries=check.redeliveries(max_redeliveries, "max_redeliveries"),
            fatal=check.exceptions(fatal, "fatal"),
            preset=preset,
        )

    @property
    def arithmetic(self) -> Arithmetic:
        """The arithmetic that computes the waits."""
        if self.preset is not None:
            return self.preset
        return Backoff(
            initial_delay=_ms(self.initial_delay),
            multiplier=self.multiplier,
            max_delay=None if self.max_delay is None else _ms(self.max_delay),
            collision_avoidance=self.collision_avoidance,
            delays=None if self.delays is None else tuple(map(_ms, self.delays)),
        )

    def delay_ms(self, n: int, r: float | None = None, previous: int | None = None) -> int:
        """The wait before the n-th redelivery, in whole milliseconds.

        Args:
            n: 1 for the first redelivery.
            r: the position in the spread, -1 to 1; None: random.
            previous: the previous wait in milliseconds, for an arithmetic that builds on it (ActiveMQ's);
                None: computed with the same r.

        Returns:
            Milliseconds.

        Raises:
            InvalidInput: n is below 1, or r is outside -1 to 1 (a ValueError).

        Examples:
            >>> RedeliveryPolicy(initial_delay="1s").delay_ms(3, r=0)
            4000
        """
        if n < 1:
            raise InvalidInput(f"n is {n}. Redeliveries are counted from 1")
        if r is None:
            r = random.uniform(-1, 1)  # noqa: S311 - it spreads load; it is not for security
        elif not -1 <= r <= 1:
            raise InvalidInput(f"r is {r}. Pass a number from -1 to 1, or None for a random one")
        return self.arithmetic.wait(n, r, previous)

    def delay(self, n: int, r: float | None = None, previous: float | None = None) -> float:
        """The wait before the n-th redelivery, in seconds; otherwise like `delay_ms`.

        Args:
            n, r: as for `delay_ms`.
            previous: the previous wait in seconds; None: as for `delay_ms`.

        Returns:
            Seconds.

        Examples:
            >>> policy = RedeliveryPolicy(initial_delay="1s", collision_avoidance=0.5)
            >>> policy.delay(3, r=-1), policy.delay(3, r=0), policy.delay(3, r=1)
            (2.0, 4.0, 6.0)
        """
        return self.delay_ms(n, r, None if previous is None else round(previous * 1000)) / 1000

    def spent(self, charged: int) -> bool:
        """Whether a message with this many charged failures is dead."""
        return self.max_redeliveries is not None and charged > self.max_redeliveries

    def preview(self, n: int | None = None) -> Preview:
        """The waits of the first n redeliveries, and the time to the dead-letter queue.

        Args:
            n: at most 10,000; None: all of them, or the first 12 if there is no limit or one above 10,000.

        Returns:
            The preview; `str()` of it is a table.

        Raises:
            InvalidInput: n is not from 0 to 10,000.

        Examples:
            >>> print(RedeliveryPolicy(delays=["1s", "1m"], max_redeliveries=3).preview())
            n  earliest  nominal  latest  elapsed
            1        1s       1s      1s       1s
            2        1m       1m      1m     1m1s
            3        1m       1m      1m     2m1s
            dead-lettered after 3 redeliveries, 2m1s
        """
        return Preview.of(self.arithmetic, self.max_redeliveries, n)

    def simulate(
        self, messages: int = 1_000, outage: Duration = "5m", rate: float | None = None, seed: int = 0
    ) -> Simulation:
        """Simulate messages that all fail at the same time because a service is down.

        Args:
            messages: the number of messages.
            outage: how long every delivery fails.
            rate: how many deliveries a second can succeed afterwards; more than that fail. None: any number.
            seed: the seed of the random numbers; the same seed gives the same result.

        Returns:
            The simulation; `str()` of it is a table.

        Raises:
            InvalidInput: an argument is not valid, or the simulation would take millions of deliveries.

        Examples:
            >>> simulation = RedeliveryPolicy(max_redeliveries=3).simulate(messages=100, outage="5m")
            >>> simulation.messages, simulation.dead
            (100, 100)
        """
        plan = RedeliveryPlan(self.arithmetic, self.max_redeliveries)
        return Simulation.of(plan, messages, outage, rate, seed)

    def as_wire(self) -> Wire:
        """The policy as Redis stores it: JSON values, whole milliseconds, without `fatal`."""
        arithmetic, limit = self.arithmetic, self.max_redeliveries
        return {"arithmetic": arithmetic.NAME, **arithmetic.as_wire(), "max_redeliveries": limit}

    @staticmethod
    def from_wire(wire: Mapping[str, object]) -> RedeliveryPolicy:
        """Read a policy that `as_wire` wrote.

        Raises:
            PolicyError: it is not a policy.
        """
        return RedeliveryPolicy(**arguments.from_wire(wire))

    @staticmethod
    def artemis(**settings: object) -> RedeliveryPolicy:
        """Redelivery as ActiveMQ Artemis does it, bit for bit; see `presets.ArtemisRedelivery`.

        Args:
            settings: `redelivery-delay`, `redelivery-delay-multiplier`, `max-redelivery-delay`,
                `redelivery-collision-avoidance-factor`, `max-delivery-attempts`, in milliseconds,
                in that spelling or with underscores; left out or None: Artemis' default, but a
                `max-delivery-attempts` of None means no limit, like -1. `fatal` is an addition of this
                package.

        Returns:
            The policy.

        Raises:
            PolicyError: a setting is unknown or not valid.

        Examples:
            >>> policy = RedeliveryPolicy.artemis(redelivery_delay=5_000, redelivery_delay_multiplier=2)
            >>> policy.delay(1), policy.delay(2), policy.max_redeliveries
            (5.0, 10.0, 9)
        """
        return RedeliveryPolicy(**arguments.artemis(settings))

    @staticmethod
    def activemq(**settings: object) -> RedeliveryPolicy:
        """Redelivery as ActiveMQ Classic does it, bit for bit; see `presets.ActiveMQRedelivery`.

        Args:
            settings: `maximumRedeliveries`, `initialRedeliveryDelay`, `redeliveryDelay`,
                `backOffMultiplier`, `useExponentialBackOff`, `maximumRedeliveryDelay`,
                `useCollisionAvoidance`, `collisionAvoidanceFactor` or `collisionAvoidancePercent`,
                in milliseconds, in that spelling or with underscores; left out or None: ActiveMQ's default,
                but `maximumRedeliveries` of None means no limit, like -1. `fatal` is an addition of this
                package.

        Returns:
            The policy.

        Raises:
            PolicyError: a setting is unknown or not valid.

        Examples:
            >>> policy = RedeliveryPolicy.activemq(maximumRedeliveries=4, redeliveryDelay=2_000)
            >>> policy.delay(1), policy.delay(2), policy.max_redeliveries
            (1.0, 2.0, 4)
        """
        return RedeliveryPolicy(**arguments.activemq(settings))

    @staticmethod
    def jetstream(**settings: object) -> RedeliveryPolicy:
        """Redelivery with the settings of a JetStream consumer: a policy with `delays`.

        The times differ from JetStream's. There BackOff replaces AckWait: it applies only when no ack
        arrives, it counts from the delivery, and a plain nak is redelivered immediately. Here a wait begins
        with the failure: at the nack, or, if no ack arrives, at the end of the lease, so the message is
        redelivered after the lease and the wait. For JetStream's times, choose a lease no longer than the
        shortest wait, and reduce every wait by the lease. Without a backoff, messages are redelivered
        immediately in both.

        Args:
            settings: `max_deliver` (deliveries; None or -1: no limit; 0, which JetStream also takes as no
                limit, is an error), `backoff` (durations, so numbers are seconds; the last one repeats),
                spelled as in a JetStream client of any language; left out or None: JetStream's default.
                `ack_wait` is checked and has no effect: pass it to `broker.queue` as `lease`. `fatal` is an
                addition of this package.

        Returns:
            The policy.

        Raises:
            PolicyError: a setting is unknown or not valid, or backoff is longer than max_deliver.

        Examples:
            >>> RedeliveryPolicy.jetstream(max_deliver=4, backoff=["1s", "5s"]).max_redeliveries
            3
        """
        return RedeliveryPolicy(**arguments.jetstream(settings))

    @staticmethod
    def nats_streaming(*, ack_wait: Duration = "30s") -> RedeliveryPolicy:
        """Redelivery as in NATS Streaming: a failed message is redelivered after AckWait, without limit.

        If no ack arrives, it is redelivered after the lease and this wait: also choose a short `lease`.

        Args:
            ack_wait: seconds, a timedelta or "30s", the default.

        Returns:
            The policy.

        Raises:
            PolicyError: AckWait is not a duration of a millisecond or more; a number is seconds.

        Examples:
            >>> policy = RedeliveryPolicy.nats_streaming(ack_wait="10s")
            >>> policy.delay(7), policy.max_redeliveries
            (10.0, None)
        """
        check.duration(ack_wait, "ack_wait", 1)
        return RedeliveryPolicy(delays=[ack_wait], max_redeliveries=None)

    @staticmethod
    def from_tenacity(*, wait: WaitBaseT | None = None, stop: StopBaseT | None = None) -> RedeliveryPolicy:
        """The policy with the same waits and limit as these tenacity strategies.

        Args:
            wait: None: tenacity's default, no wait.
            stop: `stop_after_attempt` or `stop_never`; an attempt is a delivery. None: tenacity's
                default, no limit.

        Returns:
            The policy.

        Raises:
            PolicyError: no policy does exactly the same; the error suggests the closest one.

        Examples:
            >>> from tenacity import stop_after_attempt, wait_fixed
            >>> policy = RedeliveryPolicy.from_tenacity(wait=wait_fixed(2), stop=stop_after_attempt(5))
            >>> policy.delay(1), policy.max_redeliveries
            (2.0, 4)
        """
        from rq_dlq.policy import tenacity  # noqa: PLC0415 - an extra

        policy = tenacity.policy_in(wait, stop)
        if isinstance(policy, RedeliveryPolicy):
            return policy
        return RedeliveryPolicy(**tenacity.arguments_of(wait, stop))

    def as_tenacity(self) -> Strategies:
        """The policy as `wait` and `stop`, for `tenacity.Retrying(**policy.as_tenacity())`.

        `fatal` is not included: pass `retry=retry_if_not_exception_type(policy.fatal)`.

        Returns:
            The keyword arguments `wait` and `stop`.

        Examples:
            >>> from tenacity import Retrying
            >>> for attempt in Retrying(**RedeliveryPolicy(max_redeliveries=3).as_tenacity()):
            ...     with attempt:
            ...         print("paid")
            paid
        """
        from rq_dlq.policy import tenacity  # noqa: PLC0415 - an extra

        return tenacity.strategies_of(self)


def _in_seconds(arithmetic: Arithmetic) -> dict[str, Any]:
    """The waits of an arithmetic, with durations in seconds."""
    wire = arithmetic.as_wire()
    return {name: in_seconds(BY_PART["redelivery"][name], wire.get(name)) for name in WAITS}


def _check_settled(preset: Arithmetic, *given: object) -> None:
    """Check that no argument contradicts a preset; repeating its values, as replace() does, is allowed."""
    for (name, settled), passed in zip(_in_seconds(preset).items(), given, strict=True):
        if passed != settled and passed is not (check.DEFAULT_MAX_DELAY if name == "max_delay" else None):
            message = f"the arithmetic of {preset.NAME} determines {name}. Pass its own settings instead"
            raise PolicyError(message)


def _ms(seconds: float) -> int:
    """Stored seconds as milliseconds; exact, since stored values are whole milliseconds."""
    return round(seconds * 1000)
