from __future__ import annotations

import json
import math
import pickle
from dataclasses import FrozenInstanceError, fields, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import assume, given

from rq_dlq.errors import InvalidInput, PolicyError
from rq_dlq.policy import RedeliveryPolicy, Row, Span
from tests.policy import policies
from tests.tables import each_row

DECADE = 315_360_000_000


def ceiling(policy: RedeliveryPolicy) -> int:
    return DECADE if policy.max_delay is None else round(policy.max_delay * 1000)


def test_defaults() -> None:
    policy = RedeliveryPolicy()
    assert {field.name: getattr(policy, field.name) for field in fields(policy)} == {
        "initial_delay": 1.0,
        "multiplier": 2.0,
        "max_delay": 600.0,
        "collision_avoidance": 0.5,
        "max_redeliveries": 12,
        "delays": None,
        "fatal": (),
        "preset": None,
    }


def test_takes_durations_in_every_form_and_stores_seconds() -> None:
    one = RedeliveryPolicy(initial_delay="1.5s", max_delay=timedelta(minutes=1), delays=None)
    other = RedeliveryPolicy(initial_delay=1.5, max_delay="1m")
    assert one == other
    assert hash(one) == hash(other)
    assert (one.initial_delay, one.max_delay) == (1.5, 60.0)
    assert RedeliveryPolicy(initial_delay=0.0016).initial_delay == 0.002


def test_a_wait_of_less_than_a_millisecond_grows() -> None:
    policy = RedeliveryPolicy(initial_delay="0.1ms", collision_avoidance=0)
    assert [policy.delay_ms(n) for n in (1, 2, 3)] == [1, 2, 4]


def test_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        RedeliveryPolicy().multiplier = 3.0  # type: ignore[misc]


def test_policies_that_differ_are_not_equal() -> None:
    assert RedeliveryPolicy() != RedeliveryPolicy(max_redeliveries=3)
    assert RedeliveryPolicy() != RedeliveryPolicy(fatal=(ValueError,))


@each_row(
    "settings, complaint",
    [
        ({"initial_delay": -1}, "initial_delay: -1 is out of range"),
        ({"initial_delay": "soon"}, "initial_delay: 'soon' is not a duration"),
        ({"initial_delay": "1h"}, r"initial_delay \(1h\) is longer than max_delay \(10m\)"),
        ({"max_delay": -1}, "max_delay: -1 is out of range"),
        ({"max_delay": "11y"}, "max_delay: '11y' is not a duration"),
        ({"max_delay": "3651d"}, "max_delay: '3651d' is out of range"),
        ({"multiplier": 0.99}, "multiplier is 0.99"),
        ({"multiplier": math.nan}, "multiplier is nan"),
        ({"multiplier": math.inf}, "multiplier is inf"),
        ({"multiplier": True}, "multiplier is True"),
        ({"multiplier": "2"}, "multiplier is '2'"),
        ({"multiplier": 10**400}, "multiplier is 1000"),
        ({"multiplier": 10**5000}, "multiplier is a number with thousands"),
        ({"collision_avoidance": -0.1}, "collision_avoidance is -0.1"),
        ({"collision_avoidance": 1.01}, "collision_avoidance is 1.01"),
        ({"collision_avoidance": math.nan}, "collision_avoidance is nan"),
        ({"max_redeliveries": -2}, "max_redeliveries is -2.* or None"),
        ({"max_redeliveries": 1.5}, "max_redeliveries is 1.5"),
        ({"max_redeliveries": True}, "max_redeliveries is True"),
        ({"max_redeliveries": 2**53 + 1}, "max_redeliveries is 9007199254740993"),
        ({"delays": ()}, "delays is empty"),
        ({"delays": "1s"}, "delays is '1s'"),
        ({"delays": 5}, "delays is 5"),
        ({"delays": ["1s", "x"]}, r"delays\[1\]: 'x' is not a duration"),
        ({"delays": [1, 2], "initial_delay": 2}, "delays sets"),
        ({"delays": [1, 2], "multiplier": 2}, "delays sets"),
        ({"delays": [1, 2], "max_delay": 3}, "delays sets"),
        ({"delays": [1, 2], "max_delay": "10m"}, "delays sets"),
        ({"fatal": (3,)}, "fatal is "),
        ({"fatal": ValueError}, "fatal is "),
    ],
)
def test_refuses(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(PolicyError, match=complaint):
        RedeliveryPolicy(**settings)


@each_row("limit", [None, -1])
def test_no_limit(limit: int | None) -> None:
    policy = RedeliveryPolicy(max_redeliveries=limit)
    assert policy.max_redeliveries is None
    assert not policy.spent(10**9)


@each_row("limit, deliveries", [(0, 1), (1, 2), (12, 13)])
def test_spent(limit: int, deliveries: int) -> None:
    policy = RedeliveryPolicy(max_redeliveries=limit)
    assert [policy.spent(charged) for charged in (deliveries - 1, deliveries)] == [False, True]


@each_row("n", [0, -1])
def test_redeliveries_count_from_one(n: int) -> None:
    with pytest.raises(ValueError, match="counted from 1"):
        RedeliveryPolicy().delay(n, 0)


@each_row("r", [-1.1, 1.1, math.nan])
def test_r_has_bounds(r: float) -> None:
    with pytest.raises(InvalidInput, match="from -1 to 1"):
        RedeliveryPolicy().delay(1, r)


def test_worked_example() -> None:
    policy = RedeliveryPolicy(initial_delay=5, max_delay=15, collision_avoidance=0)
    assert [policy.delay(n) for n in (1, 2, 3, 4)] == [5.0, 10.0, 15.0, 15.0]


def test_folds_back_at_the_maximum() -> None:
    policy = RedeliveryPolicy(initial_delay=8, max_delay=10)
    assert [policy.delay_ms(1, r) for r in (0.25, 0.5, 0.75, 1)] == [9_000, 10_000, 9_000, 8_000]


def test_delays_are_exact_and_the_last_repeats() -> None:
    policy = RedeliveryPolicy(delays=["1s", "1m", "5s"])
    assert [policy.delay(n) for n in (1, 2, 3, 4, 5000)] == [1.0, 60.0, 5.0, 5.0, 5.0]
    assert (policy.initial_delay, policy.multiplier, policy.max_delay) == (1.0, 1.0, 60.0)


def test_delays_are_spread_when_asked_to_be_but_not_past_the_longest() -> None:
    policy = RedeliveryPolicy(delays=["10s", "1m"], collision_avoidance=0.5)
    assert [policy.delay(1, r) for r in (-1, 0, 1)] == [5.0, 10.0, 15.0]
    assert [policy.delay(2, r) for r in (-1, 0, 0.5)] == [30.0, 60.0, 30.0 + 15.0]


def test_replace_keeps_delays() -> None:
    policy = replace(RedeliveryPolicy(delays=[1, 2]), max_redeliveries=3)
    assert policy == RedeliveryPolicy(delays=[1, 2], max_redeliveries=3)


def test_draws_r_itself() -> None:
    drawn = {RedeliveryPolicy().delay_ms(1) for _ in range(200)}
    assert len(drawn) > 100
    assert min(drawn) >= 500
    assert max(drawn) < 1_500


@given(policies.native, policies.n, policies.r)
def test_neither_negative_nor_above_the_maximum(p: RedeliveryPolicy, n: int, r: float) -> None:
    wait = p.delay_ms(n, r)
    assert isinstance(wait, int)
    assert 0 <= wait <= ceiling(p)


@given(policies.growing(), policies.n)
def test_nominal_waits_never_shrink(policy: RedeliveryPolicy, n: int) -> None:
    assert policy.delay_ms(n, 0) <= policy.delay_ms(n + 1, 0)


@given(policies.growing(), policies.n)
def test_the_spread_is_the_same_part_of_every_wait(policy: RedeliveryPolicy, n: int) -> None:
    nominal, shortest = policy.delay_ms(n, 0), policy.delay_ms(n, -1)
    assert shortest == pytest.approx(nominal * (1 - policy.collision_avoidance), abs=1)


@given(policies.growing(), policies.n)
def test_the_spread_is_there_at_the_maximum_and_at_the_first(p: RedeliveryPolicy, n: int) -> None:
    assume(p.collision_avoidance > 0.1 and p.delay_ms(n, 0) > 1_000)
    waits = [p.delay_ms(n, r / 10) for r in range(-10, 10)]
    assert len(set(waits)) >= 10
    assert max(map(waits.count, waits)) <= 2  # folded: two draws may meet, no more


@given(policies.every, policies.n, policies.r)
def test_is_pure(policy: RedeliveryPolicy, n: int, r: float) -> None:
    copy: RedeliveryPolicy = pickle.loads(pickle.dumps(policy))  # noqa: S301
    assert policy.delay_ms(n, r) == policy.delay_ms(n, r) == copy.delay_ms(n, r)
    assert policy.delay(n, r) == policy.delay_ms(n, r) / 1000


@given(policies.every)
def test_pickles(policy: RedeliveryPolicy) -> None:
    copy = pickle.loads(pickle.dumps(policy))  # noqa: S301
    assert copy == policy
    assert hash(copy) == hash(policy)


@given(policies.every)
def test_wire_round_trip(policy: RedeliveryPolicy) -> None:
    wire = policy.as_wire()
    assert json.loads(json.dumps(wire, allow_nan=False)) == wire
    assert RedeliveryPolicy.from_wire(json.loads(json.dumps(wire))) == policy


def test_wire() -> None:
    assert RedeliveryPolicy(fatal=(KeyError,)).as_wire() == {
        "arithmetic": "rq",
        "initial_delay": 1_000,
        "multiplier": 2.0,
        "max_delay": 600_000,
        "collision_avoidance": 0.5,
        "max_redeliveries": 12,
        "delays": None,
    }
    listed = RedeliveryPolicy(delays=[1, 2], max_redeliveries=None).as_wire()
    assert (listed["delays"], listed["max_redeliveries"]) == ([1_000, 2_000], None)


@each_row(
    "change, complaint",
    [
        ({"arithmetic": "nats"}, "its arithmetic is 'nats'"),
        ({"jitter": 1}, "missing or unknown: jitter"),
        ({"initial_delay": "1s"}, "initial_delay, in milliseconds, is '1s'"),
        ({"initial_delay": 1.5}, "initial_delay, in milliseconds, is 1.5"),
        ({"max_delay": True}, "max_delay, in milliseconds, is True"),
        ({"multiplier": None, "delays": [None]}, "delays, in milliseconds, is None"),
        ({"collision_avoidance": 2}, "collision_avoidance is 2"),
    ],
)
def test_wire_that_is_no_policy(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(PolicyError, match=complaint):
        RedeliveryPolicy.from_wire(RedeliveryPolicy().as_wire() | change)


def test_preview() -> None:
    preview = RedeliveryPolicy(initial_delay=4, max_delay=10, max_redeliveries=3).preview()
    assert preview.rows == (
        Row(n=1, earliest=2.0, nominal=4.0, latest=6.0, elapsed=4.0),
        Row(n=2, earliest=4.0, nominal=8.0, latest=10.0, elapsed=12.0),
        Row(n=3, earliest=5.0, nominal=10.0, latest=10.0, elapsed=22.0),
    )
    assert preview.dead_after == Span(earliest=11.0, nominal=22.0, latest=26.0)
    assert json.loads(json.dumps(preview.rows))[0] == [1, 2.0, 4.0, 6.0, 4.0]
    assert str(preview).splitlines() == [
        "n  earliest  nominal  latest  elapsed",
        "1        2s       4s      6s       4s",
        "2        4s       8s     10s      12s",
        "3        5s      10s     10s      22s",
        "dead-lettered after 3 redeliveries, 22s (11s to 26s)",
    ]


def test_preview_of_some() -> None:
    some = RedeliveryPolicy(max_redeliveries=5).preview(2)
    assert [row.n for row in some.rows] == [1, 2]
    assert some.dead_after == RedeliveryPolicy(max_redeliveries=5).preview().dead_after
    assert len(RedeliveryPolicy(max_redeliveries=5).preview(9).rows) == 5
    with pytest.raises(InvalidInput, match="n is -1"):
        RedeliveryPolicy().preview(-1)


@each_row("arithmetic", [{}, {"max_delay": None}, {"delays": [1, 1, 5]}])
def test_preview_of_a_limit_that_nobody_reaches(arithmetic: dict[str, Any]) -> None:
    """It must not take time by the limit: the page for operators shows it."""
    most = 10**12
    preview = RedeliveryPolicy(max_redeliveries=most, **arithmetic).preview()
    some = RedeliveryPolicy(max_redeliveries=10_000, **arithmetic).preview()
    assert preview.rows == some.rows[:12]
    assert preview.dead_after is not None
    assert some.dead_after is not None
    more = (most - 10_000) * some.rows[-1].nominal
    assert preview.dead_after.nominal == pytest.approx(some.dead_after.nominal + more)
    assert str(preview).splitlines()[-1].startswith("dead-lettered after 1000000000000 redeliveries, ")
    with pytest.raises(InvalidInput, match="0 to 10,000"):
        RedeliveryPolicy().preview(10_001)


def test_preview_without_redeliveries_and_without_limit() -> None:
    none = RedeliveryPolicy(max_redeliveries=0).preview()
    assert (none.rows, none.dead_after) == ((), Span(0.0, 0.0, 0.0))
    assert str(none).endswith("dead-lettered after 0 redeliveries, 0s")
    ever = RedeliveryPolicy(max_redeliveries=None).preview()
    assert (len(ever.rows), ever.dead_after) == (12, None)
    assert str(ever).endswith("never dead-lettered: there is no limit on redeliveries")
    assert len(RedeliveryPolicy(max_redeliveries=None).preview(30).rows) == 30


@given(policies.native, policies.n, policies.r)
def test_no_wait_is_outside_its_preview(policy: RedeliveryPolicy, n: int, r: float) -> None:
    assume(n <= 20)
    row = replace(policy, max_redeliveries=n).preview().rows[-1]
    assert row.earliest <= policy.delay(n, r) <= row.latest
    assert row.earliest <= row.nominal <= row.latest
