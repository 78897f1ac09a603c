"""Converts between tenacity's strategies and a policy's arguments. Importing this needs tenacity.

A wait that no policy matches exactly (to the millisecond, and in distribution if it is random) is refused,
and the error says what is possible: an almost correct schedule would only be noticed in production.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypedDict, TypeGuard, TypeVar

import tenacity as t

from rq_dlq.errors import PolicyError
from rq_dlq.values.durations import TEN_YEARS

if TYPE_CHECKING:
    from tenacity.stop import StopBaseT
    from tenacity.wait import WaitBaseT, wait_base

T = TypeVar("T")

LONGEST_LIST: Final = 1_000
FAR: Final = 10_000
"""By this attempt, every wait that ever becomes constant is constant."""


class Strategies(TypedDict):
    """Arguments of `tenacity.Retrying`."""

    wait: WaitBaseT
    stop: StopBaseT


class Policy(Protocol):
    """The part of a policy that tenacity needs."""

    @property
    def max_redeliveries(self) -> int | None:
        """None: no limit."""
        ...

    def delay(self, n: int, r: float | None = None, previous: float | None = None) -> float:
        """The wait before the n-th redelivery, in seconds."""
        ...


@dataclass(frozen=True, slots=True)
class PolicyWait:
    """A policy as a tenacity wait; it can be pickled."""

    policy: Policy

    def __call__(self, retry_state: t.RetryCallState) -> float:
        """The seconds to wait after this attempt."""
        n = retry_state.attempt_number
        return self.policy.delay(n, previous=retry_state.upcoming_sleep if n > 1 else None)


def strategies_of(policy: Policy) -> Strategies:
    """See `RedeliveryPolicy.as_tenacity`."""
    limit = policy.max_redeliveries
    return {
        "wait": PolicyWait(policy),
        "stop": t.stop_never if limit is None else t.stop_after_attempt(limit + 1),
    }


def policy_in(wait: WaitBaseT | None, stop: StopBaseT | None) -> Policy | None:
    """The policy of strategies that `strategies_of` made; None: these are tenacity's own."""
    found = wait.policy if isinstance(wait, PolicyWait) else None
    return found if found is not None and found.max_redeliveries == _limit(stop) else None


def arguments_of(wait: WaitBaseT | None, stop: StopBaseT | None) -> dict[str, Any]:
    """See `RedeliveryPolicy.from_tenacity`."""
    limit = _limit(stop)
    return {**_settings(wait, limit), "max_redeliveries": limit}


def _limit(stop: StopBaseT | None) -> int | None:
    """The limit of redeliveries; an attempt is a delivery, and the first is not a redelivery."""
    if stop is None or _is(stop, type(t.stop_never)):
        return None
    if _is(stop, t.stop_after_attempt):
        return max(stop.max_attempt_number, 1) - 1
    raise PolicyError(
        f"{type(stop).__name__} has no equivalent. Possible are stop_after_attempt and stop_never; "
        "to stop after a time, send the message with a ttl"
    )


def _settings(wait: WaitBaseT | None, limit: int | None) -> dict[str, Any]:
    """The settings of a policy with the same waits."""
    if wait is None:
        return {"delays": [0]}
    if _is(wait, t.wait_random):
        return _uniform(wait.wait_random_min, wait.wait_random_max)
    if _is(wait, t.wait_random_exponential):
        return _random_exponential(wait)
    if _exponential(wait) and _grows(wait):
        return _growing(wait.multiplier, wait.exp_base, _capped(wait.max), 0)
    if _certain(wait):
        return {"delays": _tabulated(wait, limit)}
    raise PolicyError(
        f"{type(wait).__name__} has no equivalent. Possible are wait_none, wait_fixed, wait_random, "
        "wait_random_exponential, wait_incrementing, wait_exponential, wait_exponential_jitter "
        "without jitter, and wait_chain of those without randomness; "
        "for a spread of another kind, use RedeliveryPolicy(collision_avoidance=...)"
    )


def _growing(initial: float, multiplier: float, longest: float | None, spread: float) -> dict[str, Any]:
    """Waits that grow, as arguments of a policy."""
    grown = {"initial_delay": initial, "multiplier": multiplier, "max_delay": longest}
    return {**grown, "collision_avoidance": spread}


def _uniform(low: float, high: float) -> dict[str, Any]:
    """A wait that is uniform between two others: their mean, spread by half their difference."""
    spread = (high - low) / (high + low) if high > 0 else 0
    return _growing((low + high) / 2, 1, None, spread)


def _random_exponential(wait: t.wait_random_exponential) -> dict[str, Any]:
    """A wait that is uniform from 0 to a growing limit: half the limit, with a spread of 1.

    At the maximum the spread is folded back to the same uniform range. For a half between half the maximum
    and the maximum it would not be uniform, so such settings are refused.
    """
    if wait.exp_base == 1:
        return _uniform(wait.min, min(wait.multiplier, wait.max))
    limit, half = _capped(wait.max), wait.multiplier / 2
    if wait.min != 0 or wait.multiplier <= 0 or wait.exp_base < 1:
        raise PolicyError(
            "wait_random_exponential has an equivalent only with min=0, multiplier > 0 and exp_base >= 1"
        )
    while limit is not None and half < limit / 2:
        half *= wait.exp_base
    if limit is not None and limit / 2 < half < limit:
        raise PolicyError(
            "wait_random_exponential has an equivalent only where max is one of its waits. "
            f"Pass max={2 * half:g}, or use RedeliveryPolicy("
            f"initial_delay={wait.multiplier / 2:g}, multiplier={wait.exp_base:g}, "
            f"max_delay={limit:g}, collision_avoidance=1), which is less uniform up to the maximum"
        )
    return _growing(min(wait.multiplier / 2, wait.max), wait.exp_base, limit, 1)


def _exponential(wait: object) -> TypeGuard[t.wait_exponential | t.wait_exponential_jitter]:
    """Whether it is an exponential wait without randomness."""
    return _is(wait, t.wait_exponential) or (_is(wait, t.wait_exponential_jitter) and not wait.jitter)


def _grows(wait: t.wait_exponential | t.wait_exponential_jitter) -> bool:
    """Whether it starts at a whole number of milliseconds and grows up to its maximum."""
    start = wait.multiplier * 1000
    in_order = max(wait.min, 0) <= wait.multiplier <= wait.max and wait.exp_base >= 1
    return in_order and math.isclose(start, round(start))


def _capped(longest: float) -> float | None:
    """A maximum; None for one beyond ten years, such as tenacity's default."""
    return longest if longest * 1000 < TEN_YEARS else None


def _certain(wait: object) -> TypeGuard[wait_base]:
    """Whether the wait depends only on the attempt, and is monotonic after the links of a chain."""
    if _is(wait, t.wait_chain):
        return all(map(_certain, wait.strategies))
    return _exponential(wait) or type(wait) in {t.wait_none, t.wait_fixed, t.wait_incrementing}


def _tabulated(wait: wait_base, limit: int | None) -> list[float]:
    """The waits, in seconds, until they become constant or the redeliveries end."""
    last, links = _at(wait, FAR), _links(wait)
    waits: list[int] = []
    for n in range(1, LONGEST_LIST + 1):
        waits.append(_at(wait, n))
        if (n >= links and waits[-1] == last) or (limit is not None and n >= limit):
            return [ms / 1000 for ms in waits]
    changes = f"{type(wait).__name__} still changes after {LONGEST_LIST} waits"
    raise PolicyError(f"{changes}. Pass max, or stop_after_attempt")


def _links(wait: object) -> int:
    """The attempts until a chain reaches its last link."""
    links: tuple[object, ...] = getattr(wait, "strategies", ())
    return max([len(links), *map(_links, links)])


def _at(wait: wait_base, attempt: int) -> int:
    """The wait after an attempt, in milliseconds."""
    state = t.RetryCallState(t.Retrying(), None, (), {})
    state.attempt_number = attempt
    return round(min(wait(state) * 1000, TEN_YEARS))


def _is(value: object, kind: type[T]) -> TypeGuard[T]:
    """Whether it is of exactly this class: a subclass may compute another wait."""
    return type(value) is kind
