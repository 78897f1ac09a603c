from __future__ import annotations

import pickle
import random
from typing import TYPE_CHECKING, Any

import pytest
import tenacity as t
from hypothesis import given

from rq_dlq.errors import PolicyError
from rq_dlq.policy import RedeliveryPolicy
from tests.policy import policies
from tests.tables import each_row

if TYPE_CHECKING:
    from collections.abc import Iterator


def theirs(wait: Any, attempts: int) -> list[float]:
    """What tenacity itself waits."""
    state = t.RetryCallState(t.Retrying(), None, (), {})
    waits = []
    for state.attempt_number in range(1, attempts + 1):
        waits.append(wait(state))
    return waits


@each_row(
    "wait",
    [
        t.wait_none(),
        t.wait_fixed(3),
        t.wait_fixed(0.25),
        t.wait_exponential(),
        t.wait_exponential(multiplier=0.5, max=60),
        t.wait_exponential(multiplier=0.1, max=60, exp_base=3),
        t.wait_exponential(multiplier=1, min=4, max=10),
        t.wait_exponential(multiplier=100, max=10),
        t.wait_exponential(multiplier=1, exp_base=1),
        t.wait_exponential(multiplier=8, exp_base=0.5),
        t.wait_exponential_jitter(jitter=0, max=100),
        t.wait_exponential_jitter(multiplier=2, jitter=0, min=5, max=100),
        t.wait_incrementing(start=1, increment=2, max=30),
        t.wait_incrementing(start=10, increment=-3),
        t.wait_chain(t.wait_fixed(1), t.wait_fixed(5), t.wait_fixed(2)),
        t.wait_chain(t.wait_fixed(1), t.wait_fixed(1), t.wait_exponential(max=100)),
        t.wait_chain(t.wait_fixed(1), t.wait_chain(*[t.wait_fixed(2)] * 4, t.wait_fixed(9))),
    ],
)
def test_waits_without_chance(wait: Any) -> None:
    policy = RedeliveryPolicy.from_tenacity(wait=wait)
    ours = [policy.delay(n) for n in range(1, 21)]
    assert ours == pytest.approx(theirs(wait, 20), abs=0.001)
    assert policy.max_redeliveries is None


def test_an_exponential_wait_stays_a_formula() -> None:
    policy = RedeliveryPolicy.from_tenacity(wait=t.wait_exponential(max=60))
    assert policy == RedeliveryPolicy(max_delay=60, collision_avoidance=0, max_redeliveries=None)


def test_a_growing_wait_with_an_end_is_a_list() -> None:
    policy = RedeliveryPolicy.from_tenacity(
        wait=t.wait_incrementing(start=1, increment=2), stop=t.stop_after_attempt(4)
    )
    assert policy == RedeliveryPolicy(delays=[1, 3, 5], max_redeliveries=3)


@each_row(
    "wait, n, low, high",
    [
        (t.wait_random(1, 5), 3, 1, 5),
        (t.wait_random(0, 1), 1, 0, 1),
        (t.wait_random(2, 2), 1, 2, 2),
        (t.wait_random_exponential(), 4, 0, 8),
        (t.wait_random_exponential(multiplier=1, max=16), 4, 0, 8),
        (t.wait_random_exponential(multiplier=1, max=16), 5, 0, 16),
        (t.wait_random_exponential(multiplier=1, max=16), 6, 0, 16),
        (t.wait_random_exponential(multiplier=1, max=16), 60, 0, 16),
        (t.wait_random_exponential(multiplier=4, exp_base=1, min=2), 3, 2, 4),
        (t.wait_random_exponential(multiplier=4, max=2), 3, 0, 2),
    ],
)
def test_waits_by_chance_are_as_even(wait: Any, n: int, low: float, high: float) -> None:
    policy = RedeliveryPolicy.from_tenacity(wait=wait)
    ours = sorted(policy.delay(n, k / 5_000 - 1) for k in range(10_000))
    even = [low + (high - low) * k / 9_999 for k in range(10_000)]
    assert ours == pytest.approx(even, abs=0.001 + (high - low) / 4_000)
    state = t.RetryCallState(t.Retrying(), None, (), {})
    state.attempt_number = n
    drawn = [wait(state) for _ in range(200)]
    assert low <= min(drawn) <= max(drawn) <= high


@each_row(
    "stop, limit",
    [
        (None, None),
        (t.stop_never, None),
        (t.stop_after_attempt(1), 0),
        (t.stop_after_attempt(5), 4),
        (t.stop_after_attempt(0), 0),
    ],
)
def test_attempts_are_deliveries(stop: Any, limit: int | None) -> None:
    policy = RedeliveryPolicy.from_tenacity(wait=t.wait_fixed(1), stop=stop)
    assert policy == RedeliveryPolicy(delays=[1], max_redeliveries=limit)


def test_nothing_said_is_what_tenacity_does() -> None:
    assert RedeliveryPolicy.from_tenacity() == RedeliveryPolicy(delays=[0], max_redeliveries=None)


class Doubled(t.wait_fixed):
    def __call__(self, retry_state: t.RetryCallState) -> float:
        return 2 * super().__call__(retry_state)


@each_row(
    "arguments, complaint",
    [
        ({"wait": t.wait_exponential_jitter()}, "wait_exponential_jitter has no equivalent"),
        ({"wait": t.wait_fixed(1) + t.wait_fixed(2)}, "wait_combine has no equivalent"),
        ({"wait": t.wait_chain(t.wait_fixed(1), t.wait_random())}, "wait_chain has no equivalent"),
        ({"wait": t.wait_exception(lambda _: 1)}, "wait_exception has no equivalent"),
        ({"wait": lambda _: 1}, "function has no equivalent"),
        ({"wait": Doubled(1)}, "Doubled has no equivalent"),
        ({"wait": t.wait_incrementing()}, "still changes after 1000 waits"),
        ({"wait": t.wait_random_exponential(max=60)}, r"Pass max=64, or use .*max_delay=60"),
        ({"wait": t.wait_random_exponential(min=1)}, "only with min=0"),
        ({"wait": t.wait_fixed(-1)}, "-1.0 is out of range"),
        ({"stop": t.stop_after_delay(5)}, "stop_after_delay has no equivalent.* ttl"),
        ({"stop": t.stop_after_delay(5) | t.stop_after_attempt(2)}, "stop_any has no equivalent"),
    ],
)
def test_what_has_no_equal_is_refused(arguments: Any, complaint: str) -> None:
    with pytest.raises(PolicyError, match=complaint):
        RedeliveryPolicy.from_tenacity(**arguments)


def retried(policy: RedeliveryPolicy) -> Iterator[float]:
    """What tenacity sleeps under a policy, until it gives up."""
    slept: list[float] = []
    retrying = t.Retrying(**policy.as_tenacity(), sleep=slept.append)
    with pytest.raises(t.RetryError):
        retrying(lambda: 1 / 0)
    return iter(slept)


def test_tenacity_waits_as_the_policy_says() -> None:
    policy = RedeliveryPolicy(collision_avoidance=0, max_redeliveries=4)
    assert list(retried(policy)) == [1.0, 2.0, 4.0, 8.0]
    assert list(retried(RedeliveryPolicy(max_redeliveries=0))) == []


def test_tenacity_spreads_and_builds_on_the_wait_before() -> None:
    random.seed(7)
    policy = RedeliveryPolicy.activemq(useExponentialBackOff=True, useCollisionAvoidance=True)
    first, *later = retried(policy)
    assert first == 1.0
    assert len(later) == 5
    for before, after in zip([first, *later], later, strict=False):
        assert 5 * 0.85 * before - 0.001 <= after <= 5 * 1.15 * before


def test_tenacity_does_not_stop_where_there_is_no_limit() -> None:
    assert RedeliveryPolicy(max_redeliveries=None).as_tenacity()["stop"] is t.stop_never


@given(policies.every)
def test_round_trip(policy: RedeliveryPolicy) -> None:
    strategies = pickle.loads(pickle.dumps(policy.as_tenacity()))  # noqa: S301
    assert RedeliveryPolicy.from_tenacity(**strategies) == policy


def test_another_limit_is_not_that_policy() -> None:
    wait = RedeliveryPolicy().as_tenacity()["wait"]
    with pytest.raises(PolicyError, match="PolicyWait has no equivalent"):
        RedeliveryPolicy.from_tenacity(wait=wait, stop=t.stop_after_attempt(2))
