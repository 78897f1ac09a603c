"""How long each redelivery waits, in whole milliseconds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from rq_dlq.errors import PolicyError
from rq_dlq.policy import _checks as check
from rq_dlq.values.durations import TEN_YEARS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rq_dlq.policy._checks import JSON
    from rq_dlq.values.durations import Duration

LARGEST_POWER: Final = 2.0**63


class Arithmetic(Protocol):
    """A way to compute waits: a pure value, checked when it is made."""

    NAME: ClassVar[str]

    def wait(self, n: int, r: float, previous: int | None) -> int:
        """The wait before the n-th redelivery.

        Args:
            n: 1 for the first redelivery.
            r: where in the spread, -1 to 1.
            previous: the wait before, for an arithmetic that builds on it; None: compute it.
        """
        ...

    def longest(self, n: int, previous: int | None) -> int:
        """The longest that the n-th wait can be."""
        ...

    def as_wire(self) -> Mapping[str, JSON]:
        """Its numbers as Redis stores them, by the names of a policy's fields."""
        ...


@dataclass(frozen=True, slots=True)
class Backoff:
    """The arithmetic of this package; `lua/lib/delay.lua` has it, too.

    It is Artemis', in the order of its operations, with one exception: theirs cuts the spread off at the
    maximum, so that all waits there are equal. Here the spread is folded back.

    Attributes:
        initial: the first wait.
        multiplier: by which a wait is longer than the one before.
        limit: the longest wait; None: ten years.
        spread: the part of a wait, 0 to 1, by which it is spread.
        delays: each wait, the last one repeated; None: they grow.
    """

    initial: int
    multiplier: float
    limit: int | None
    spread: float
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
        """The arithmetic by the arguments of `RedeliveryPolicy`.

        Raises:
            PolicyError: one of them makes no sense, or contradicts another.
        """
        listed = None if delays is None else check.durations(delays, "delays")
        if collision_avoidance is None:
            collision_avoidance = 0 if listed else 0.5
        spread = check.part(collision_avoidance, "collision_avoidance")
        if listed:
            return Backoff(*_listed(listed, initial_delay, multiplier, max_delay), spread, listed)
        return Backoff(*_growing(initial_delay, multiplier, max_delay), spread, None)

    def wait(self, n: int, r: float, previous: int | None) -> int:
        """See `Arithmetic.wait`."""
        del previous
        base, limit = self._base(n), self._limit()
        wait = base + base * (self.spread * r)
        return math.floor(2 * limit - wait if wait > limit else wait)

    def longest(self, n: int, previous: int | None) -> int:
        """See `Arithmetic.longest`; it is not the wait at r = 1, where the spread is folded back."""
        del previous
        base = self._base(n)
        return math.floor(min(base + base * self.spread, self._limit()))

    def as_wire(self) -> Mapping[str, JSON]:
        """See `Arithmetic.as_wire`."""
        return {
            "initial_delay": self.initial,
            "multiplier": self.multiplier,
            "max_delay": self.limit,
            "collision_avoidance": self.spread,
            "delays": None if self.delays is None else list(self.delays),
        }

    def _base(self, n: int) -> float:
        if self.delays is not None:
            return self.delays[min(n, len(self.delays)) - 1]
        return min(self.initial * power(self.multiplier, n - 1), self._limit())

    def _limit(self) -> int:
        return TEN_YEARS if self.limit is None else self.limit


def _growing(
    initial_delay: Duration | None, multiplier: float | None, max_delay: Duration | None
) -> tuple[int, float, int | None]:
    """The first wait, its growth and the longest wait."""
    initial = check.duration(1 if initial_delay is None else initial_delay, "initial_delay")
    limit = None if max_delay is None else check.duration(max_delay, "max_delay")
    check.within(initial, limit, "initial_delay", "max_delay")
    return initial, check.growth(2 if multiplier is None else multiplier, "multiplier"), limit


def _listed(
    waits: tuple[int, ...],
    initial_delay: Duration | None,
    multiplier: float | None,
    max_delay: Duration | None,
) -> tuple[int, float, int | None]:
    """The same, from a list of waits. Passing the same values again, as replace() does, is not an error."""
    settled = waits[0], 1.0, max(waits)
    limit = settled[2] / 1000 if max_delay is None or max_delay is check.DEFAULT_MAX_DELAY else max_delay
    said = _growing(
        settled[0] / 1000 if initial_delay is None else initial_delay,
        settled[1] if multiplier is None else multiplier,
        limit,
    )
    if said != settled:
        message = "delays settles initial_delay, multiplier and max_delay. Give either delays or those"
        raise PolicyError(message)
    return settled


def power(multiplier: float, times: int) -> float:
    """The growth of a wait, at most 2 ** 63, so that nothing overflows later."""
    try:
        return min(multiplier**times, LARGEST_POWER)
    except OverflowError:
        return LARGEST_POWER
