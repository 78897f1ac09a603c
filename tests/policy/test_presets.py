from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rq_dlq.errors import PolicyError
from rq_dlq.policy import ActiveMQRedelivery, ArtemisRedelivery, RedeliveryPolicy
from tests.policy import policies
from tests.tables import each_row

LONGEST = 2**63 - 1


def artemis(**settings: Any) -> RedeliveryPolicy:
    return RedeliveryPolicy.artemis(**{name.replace("_", "-"): v for name, v in settings.items()})


def test_artemis_defaults() -> None:
    policy = RedeliveryPolicy.artemis()
    assert isinstance(policy.preset, ArtemisRedelivery)
    assert policy.as_wire() == {
        "arithmetic": "artemis",
        "initial_delay": 0,
        "multiplier": 1.0,
        "max_delay": 0,
        "collision_avoidance": 0.0,
        "max_redeliveries": 9,
    }
    assert RedeliveryPolicy.artemis(**{"redelivery-delay": 5_000}).max_delay == 50.0


def test_activemq_defaults() -> None:
    policy = RedeliveryPolicy.activemq()
    assert isinstance(policy.preset, ActiveMQRedelivery)
    assert policy.as_wire() == {
        "arithmetic": "activemq",
        "initial_delay": 1_000,
        "redelivery_delay": 1_000,
        "multiplier": 1.0,
        "max_delay": None,
        "collision_avoidance": 0.0,
        "max_redeliveries": 6,
    }
    spread = RedeliveryPolicy.activemq(useExponentialBackOff=True, useCollisionAvoidance=True)
    assert (spread.multiplier, spread.collision_avoidance) == (5.0, 0.15)


def test_the_fields_of_the_policy_say_the_same_in_seconds() -> None:
    policy = artemis(redelivery_delay=1_500, max_redelivery_delay=9_000, max_delivery_attempts=3)
    assert (policy.initial_delay, policy.max_delay, policy.max_redeliveries) == (1.5, 9.0, 2)


def test_spellings() -> None:
    dashed = RedeliveryPolicy.artemis(**{"max-delivery-attempts": 3, "redelivery-delay": 5})
    assert RedeliveryPolicy.artemis(max_delivery_attempts=3, redelivery_delay=5) == dashed
    camel = RedeliveryPolicy.activemq(maximumRedeliveries=3, useExponentialBackOff=True)
    snake = RedeliveryPolicy.activemq(maximum_redeliveries=3, use_exponential_back_off=True)
    assert camel == snake


def test_none_is_no_limit_and_otherwise_the_default() -> None:
    assert RedeliveryPolicy.artemis(max_delivery_attempts=None).max_redeliveries is None
    assert RedeliveryPolicy.activemq(maximum_redeliveries=None).max_redeliveries is None
    assert RedeliveryPolicy.jetstream(max_deliver=None).max_redeliveries is None
    assert RedeliveryPolicy.artemis(redelivery_delay=None) == RedeliveryPolicy.artemis()
    assert RedeliveryPolicy.activemq(redeliveryDelay=None) == RedeliveryPolicy.activemq()
    assert RedeliveryPolicy.jetstream(backoff=None) == RedeliveryPolicy.jetstream()


def test_fatal_is_ours() -> None:
    assert RedeliveryPolicy.artemis(fatal=(ValueError,)).fatal == (ValueError,)
    assert RedeliveryPolicy.activemq(fatal=(ValueError,)).fatal == (ValueError,)


def test_percent() -> None:
    by_percent = RedeliveryPolicy.activemq(useCollisionAvoidance=True, collisionAvoidancePercent=29)
    assert by_percent.collision_avoidance == 29 * 0.01


def test_replace_keeps_the_arithmetic() -> None:
    policy = RedeliveryPolicy.activemq(redeliveryDelay=7, useCollisionAvoidance=True, fatal=(ValueError,))
    assert replace(policy, fatal=()) == RedeliveryPolicy.activemq(
        redeliveryDelay=7, useCollisionAvoidance=True
    )
    with pytest.raises(PolicyError, match="the arithmetic of activemq determines max_delay"):
        replace(policy, max_delay=300.0)


@given(policies.every)
def test_replace_keeps_what_it_is_not_told(policy: RedeliveryPolicy) -> None:
    fatal = replace(policy, fatal=(ValueError,), max_redeliveries=3)
    assert (fatal.fatal, fatal.max_redeliveries, fatal.arithmetic) == ((ValueError,), 3, policy.arithmetic)
    assert replace(fatal, fatal=policy.fatal, max_redeliveries=policy.max_redeliveries) == policy


@each_row(
    "settings, complaint",
    [
        ({"redelivry-delay": 1}, "'redelivry-delay' is not a .* closest is 'redelivery-delay'"),
        ({"maxDeliveryAttemps": 1}, "closest is 'max-delivery-attempts'"),
        ({"redelivery-delay": 1, "redelivery_delay": 1}, "given twice"),
        ({"redelivery-delay": -1}, "redelivery-delay is -1"),
        ({"redelivery-delay": 2**63}, "redelivery-delay is 9223372036854775808"),
        ({"redelivery-delay": 1.5}, "redelivery-delay is 1.5"),
        ({"redelivery-delay": 2, "max-redelivery-delay": 1}, r"\(2ms\) is longer than max-"),
        ({"max-redelivery-delay": -1}, "max-redelivery-delay is -1"),
        ({"redelivery-delay-multiplier": 0.5}, "redelivery-delay-multiplier is 0.5"),
        ({"redelivery-collision-avoidance-factor": 1.01}, "factor is 1.01"),
        ({"max-delivery-attempts": 0}, "attempts is 0.* 1 means no redelivery, -1 no limit"),
        ({"max-delivery-attempts": -7}, "attempts is -7"),
    ],
)
def test_artemis_refuses(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(PolicyError, match=complaint):
        RedeliveryPolicy.artemis(**settings)


@each_row(
    "settings, complaint",
    [
        ({"foo": 1}, "'foo' is not a redelivery setting of ActiveMQ. Possible are "),
        ({"maximumRedelivery": 1}, "closest is 'maximumRedeliveries'"),
        ({"maximumRedeliveries": -2}, "maximumRedeliveries is -2"),
        ({"initialRedeliveryDelay": -1}, "initialRedeliveryDelay is -1"),
        ({"redeliveryDelay": -1}, "redeliveryDelay is -1"),
        ({"redeliveryDelay": 2, "maximumRedeliveryDelay": 1}, r"redeliveryDelay \(2ms\) is longer"),
        ({"maximumRedeliveryDelay": -2}, "maximumRedeliveryDelay is -2"),
        ({"backOffMultiplier": 0.5}, "backOffMultiplier is 0.5"),
        ({"useExponentialBackOff": 1}, "useExponentialBackOff is 1"),
        ({"collisionAvoidanceFactor": 2}, "collisionAvoidanceFactor is 2"),
        ({"collisionAvoidancePercent": 101}, "collisionAvoidancePercent is 101"),
        ({"collisionAvoidancePercent": 15, "collisionAvoidanceFactor": 0.15}, "are the same setting"),
    ],
)
def test_activemq_refuses(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(PolicyError, match=complaint):
        RedeliveryPolicy.activemq(**settings)


@each_row(
    "settings",
    [
        {"useCollisionAvoidance": True},
        {"backOffMultiplier": 1},
        {"initialRedeliveryDelay": 0},
        {"maximumRedeliveryDelay": 0},
    ],
)
def test_a_negative_redelivery_delay_must_be_out_of_reach(settings: dict[str, Any]) -> None:
    ignored = {"redeliveryDelay": -1, "useExponentialBackOff": True}
    assert RedeliveryPolicy.activemq(**ignored).delay_ms(3) == 25_000
    with pytest.raises(PolicyError, match="redeliveryDelay is -1"):
        RedeliveryPolicy.activemq(**(ignored | settings))


def test_activemq_builds_on_the_wait_before() -> None:
    policy = RedeliveryPolicy.activemq(useExponentialBackOff=True, backOffMultiplier=2)
    assert policy.delay_ms(5, 0, previous=300) == 600
    assert policy.delay(5, 0, previous=0.3) == 0.6
    assert policy.delay_ms(1, 0, previous=300) == 1_000
    assert policy.delay_ms(5, 0, previous=0) == 1_000


def test_activemq_works_out_the_wait_before_with_the_same_r() -> None:
    policy = RedeliveryPolicy.activemq(useExponentialBackOff=True, useCollisionAvoidance=True)
    wait = policy.delay_ms(1, 0.5)
    for n in range(2, 8):
        wait = policy.delay_ms(n, 0.5, previous=wait)
        assert policy.delay_ms(n, 0.5) == wait


def test_the_longest_long_is_the_longest_wait() -> None:
    theirs = {"redelivery-delay": LONGEST, "redelivery-delay-multiplier": 1e300}
    assert RedeliveryPolicy.artemis(**theirs).delay_ms(5_000) == LONGEST
    endless = RedeliveryPolicy.activemq(useExponentialBackOff=True, backOffMultiplier=1e300)
    assert endless.delay_ms(10**9, 0) == LONGEST


def test_artemis_spread_is_cut_off_at_the_maximum() -> None:
    settings = {"redelivery-delay": 1_000, "redelivery-delay-multiplier": 2}
    policy = RedeliveryPolicy.artemis(
        **settings, **{"redelivery-collision-avoidance-factor": 0.5, "max-redelivery-delay": 10_000}
    )
    assert {policy.delay_ms(6, r / 100) for r in range(-100, 101)} == {10_000}


def test_presets_are_not_the_native_policy() -> None:
    native = RedeliveryPolicy(initial_delay=1, multiplier=1, collision_avoidance=0, max_delay=10)
    assert native != RedeliveryPolicy.artemis(**{"redelivery-delay": 1_000})


@given(policies.artemis(), policies.n, policies.r)
def test_artemis_waits_within_its_maximum(policy: RedeliveryPolicy, n: int, r: float) -> None:
    assert isinstance(policy.preset, ArtemisRedelivery)
    assert 0 <= policy.delay_ms(n, r) <= policy.preset.max_delay


@given(st.integers(0, 100_000), st.integers(1, 3), policies.factor, st.integers(1, 9), policies.r)
def test_artemis_and_ours_agree_below_the_maximum(
    delay: int, multiplier: int, factor: float, n: int, r: float
) -> None:
    ours = RedeliveryPolicy(
        initial_delay=delay / 1000,
        multiplier=multiplier,
        collision_avoidance=factor,
        max_delay=None,
    )
    theirs = artemis(
        redelivery_delay=delay,
        redelivery_delay_multiplier=multiplier,
        redelivery_collision_avoidance_factor=factor,
        max_redelivery_delay=LONGEST,
    )
    assert theirs.delay_ms(n, r) == ours.delay_ms(n, r)
