"""The wait before each redelivery, in whole milliseconds."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from rq_dlq.errors import PolicyError
from rq_dlq.policy import _checks as check
from rq_dlq.values.durations import TEN_YEARS

if TYPE_CHECKING:
    from rq_dlq.policy._checks import JSON
    from rq_dlq.values.durations import Duration

LARGEST_POWER: Final = 2.0**63


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """A way to compute waits: a pure value, with durations in milliseconds, checked when it is made.

    Its fields have the same names as a policy's fields, and Redis stores them unchanged.

    Attributes:
        initial_delay: the first wait.
        multiplier: the factor from one wait to the next.
        max_delay: the longest wait; None: no maximum.
        collision_avoidance: the fraction of a wait, 0 to 1, by which it is randomized.
    """

    initial_delay: int
    multiplier: float
    max_delay: int | None
    collision_avoidance: float

    NAME: ClassVar[str] = ""

    def wait(self, n: int, r: float, previous: int | None) -> int:
        """The wait before the n-th redelivery.

        Args:
            n: 1 for the first redelivery.
            r: the position in the spread, -1 to 1.
            previous: the previous wait, for an arithmetic that builds on it; None: compute it.
        """
        raise NotImplementedError

    def longest(self, n: int, previous: int | None) -> int:
        """The longest possible n-th wait."""
        return self.wait(n, 1, previous)

    def as_wire(self) -> dict[str, JSON]:
        """Its fields as Redis stores them."""
        values: dict[str, JSON | tuple[int, ...]] = asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff(Arithmetic):
    """The arithmetic of this package; `Policy.delay` is the same in Lua.

    It follows Artemis, in the order of its operations, with one exception: Artemis cuts the spread off at the
    maximum, so that all waits there are equal; here it is folded back. Without a maximum no wait is longer
    than ten years.

    Attributes:
        delays: each wait, the last one repeated; None: waits grow.
    """

    delays: tuple[int, ...] | None

    NAME: ClassVar[str] = "rq"

    @staticmethod
    def of(
        initial_delay: Duration | None,
        multiplier: float | None,
        max_delay: Duration | None,
        collision_avoidance: float | None,
        delays: Iterable[Duration] | None,
    ) -> Backoff:
        """The arithmetic for the arguments of `RedeliveryPolicy`.

        Raises:
            PolicyError: an argument is not valid, or contradicts another.
        """
        listed = None if delays is None else check.durations(delays, "delays")
        first, growth, spread = 1.0, 2.0, 0.5
        if listed:
            first, growth, spread = listed[0] / 1000, 1.0, 0.0
            if max_delay is None or max_delay is check.DEFAULT_MAX_DELAY:
                max_delay = max(listed) / 1000
        if collision_avoidance is None:
            collision_avoidance = spread
        made = Backoff(
            initial_delay=check.duration(first if initial_delay is None else initial_delay, "initial_delay"),
            multiplier=check.growth(growth if multiplier is None else multiplier, "multiplier"),
            max_delay=None if max_delay is None else check.duration(max_delay, "max_delay"),
            collision_avoidance=check.part(collision_avoidance, "collision_avoidance"),
            delays=listed,
        )
        check.within(made.initial_delay, made.max_delay, "initial_delay", "max_delay")
        # Passing the values that the list implies is not an error: replace() does that.
        settled = made.initial_delay, made.multiplier, made.max_delay
        if listed and settled != (listed[0], 1.0, max(listed)):
            message = "delays sets initial_delay, multiplier and max_delay: give delays or those"
            raise PolicyError(message)
        return made

    def wait(self, n: int, r: float, previous: int | None) -> int:
        """See `Arithmetic.wait`."""
        del previous
        base, limit = self._base(n), self._limit()
        wait = base + base * (self.collision_avoidance * r)
        return math.floor(2 * limit - wait if wait > limit else wait)

    def longest(self, n: int, previous: int | None) -> int:
        """See `Arithmetic.longest`. If the spread is folded back, the longest wait is not at r = 1."""
        del previous
        base = self._base(n)
        return math.floor(min(base + base * self.collision_avoidance, self._limit()))

    def _base(self, n: int) -> float:
        if self.delays is not None:
            return self.delays[min(n, len(self.delays)) - 1]
        return min(self.initial_delay * power(self.multiplier, n - 1), self._limit())

    def _limit(self) -> int:
        return TEN_YEARS if self.max_delay is None else self.max_delay


def power(multiplier: float, times: int) -> float:
    """The growth factor of a wait, at most 2 ** 63, so that later steps do not overflow."""
    try:
        return min(multiplier**times, LARGEST_POWER)
    except OverflowError:
        return LARGEST_POWER
