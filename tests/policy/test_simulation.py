from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import assume, given

from rq_dlq.errors import InvalidInput
from rq_dlq.policy import RedeliveryPolicy, simulation
from tests.policy import policies
from tests.tables import each_row


def after(*delays: float, most: int | None = None) -> RedeliveryPolicy:
    return RedeliveryPolicy(delays=delays, max_redeliveries=most)


def test_by_hand() -> None:
    """At 1 s and 3 s it is down, at 7 s two of the three are done, at 15 s the last."""
    seen = after(1, 2, 4, 8).simulate(messages=3, outage=5, rate=2)
    assert (seen.done, seen.dead, seen.deliveries, seen.wasted) == (3, 0, 13, 10)
    assert seen.drained == 10
    assert seen.crowd == (3, 1.0, 1.0)
    assert seen.crowd_after == (3, 1.0, 7.0)
    assert seen.dead_after is None
    assert [row for row in seen.rows if row[1:] != (0, 0)] == [(1, 3, 0), (3, 3, 0), (7, 1, 2), (15, 0, 1)]


def test_what_can_be_done_in_a_second_is_not_saved_up() -> None:
    seen = after(10, 0.5).simulate(messages=5, outage=1, rate=2)  # at 10 s two, each 0.5 s later one
    assert seen.drained == 10 - 1 + 3 * 0.5
    assert after(10, 1).simulate(messages=3, outage=1, rate=0.5).drained == 10 - 1 + 2 * 2


def test_without_a_limit_all_that_come_after_the_outage_are_done() -> None:
    seen = after(1, 2, 4).simulate(messages=50, outage=5)
    assert (seen.drained, seen.wasted, seen.done) == (2, 150, 50)


def test_the_budget_may_be_spent_before_it_is_up_again() -> None:
    seen = after(1, most=3).simulate(messages=10, outage="1m")
    assert (seen.done, seen.dead, seen.drained, seen.deliveries) == (0, 10, 0, 40)
    assert seen.crowd_after is None
    assert seen.dead_after == (3, 3, 3)


def test_no_redelivery_at_all() -> None:
    seen = RedeliveryPolicy(max_redeliveries=0).simulate(messages=10)
    assert (seen.dead, seen.deliveries, seen.crowd, seen.rows) == (10, 10, None, ())
    assert "no redelivery" in str(seen)


def test_it_is_up_at_once() -> None:
    seen = after(0, most=3).simulate(messages=10, outage=0)
    assert (seen.done, seen.drained, seen.rows) == (10, 0, ((0, 0, 10),))


def test_the_default_does_not_make_the_time_to_the_dead_letter_queue_a_lottery() -> None:
    dead_after = RedeliveryPolicy().simulate().dead_after
    assert dead_after is not None
    p1, p50, p99 = dead_after
    assert p1 < p50 < p99 < 1.7 * p1
    preview = RedeliveryPolicy().preview().dead_after
    assert preview is not None
    assert preview.earliest < p1
    assert p99 < preview.latest


@each_row("rate, most_spread", [(20, 90), (25, 60), (50, 60)])
def test_an_outage_drains_the_sooner_the_more_is_spread(rate: float, most_spread: float) -> None:
    """What the default spread was chosen by: 60 s with 50 %, 120 s with Artemis' 15 %, 2,584 s with none.

    Its rate and its longest wait are not on record. With a minute at most, and a round 25 a second, here it
    is 58 s, 186 s and 2,343 s: the same direction, roughly the same size.
    """
    spread = RedeliveryPolicy(max_delay="1m", max_redeliveries=None)
    theirs = RedeliveryPolicy.artemis(
        **{
            "redelivery-delay": 1_000,
            "redelivery-delay-multiplier": 2,
            "max-redelivery-delay": 60_000,
            "redelivery-collision-avoidance-factor": 0.15,
            "max-delivery-attempts": -1,
        }
    )
    together = RedeliveryPolicy(max_delay="1m", max_redeliveries=None, collision_avoidance=0)
    half, little, none = (p.simulate(1_000, "5m", rate) for p in (spread, theirs, together))
    assert half.drained <= most_spread
    assert half.drained < little.drained < none.drained
    assert none.drained > 10 * half.drained
    assert none.drained == 3 + 60 * (1_000 / rate - 1)  # the crowd stays one: `rate` of it each minute
    assert none.crowd_after is not None
    assert half.crowd_after is not None
    assert (none.crowd_after.size, none.crowd_after.share) == (1_000, 1.0)
    assert half.crowd_after.share < 0.01
    assert none.wasted > 1.5 * half.wasted


def test_the_same_seed_gives_the_same() -> None:
    policy = RedeliveryPolicy()
    assert policy.simulate(seed=7) == policy.simulate(seed=7)
    assert policy.simulate(seed=7) != policy.simulate(seed=8)


@given(policies.every)
def test_all_are_done_or_dead(policy: RedeliveryPolicy) -> None:
    assume(policy.max_redeliveries is not None)
    seen = policy.simulate(messages=3, outage="10s", rate=1)
    assert seen.done + seen.dead == seen.messages
    assert seen.done == sum(row.done for row in seen.rows)
    assert seen.wasted == seen.messages + sum(row.failed for row in seen.rows)
    assert seen.deliveries == seen.done + seen.wasted
    assert len(seen.rows) <= 24
    assert math.isfinite(seen.drained)
    assert str(seen)


def test_rows_are_ready_for_json() -> None:
    seen = after(1, 2, 4).simulate(messages=2, outage=5)
    assert json.loads(json.dumps(seen.rows))[2] == [1.0, 2, 0]


def test_a_picture() -> None:
    assert str(after(1, 2, 4, most=5).simulate(messages=100, outage=5, rate=20)).splitlines() == [
        "100 messages fail together, at 0s; after 5s 20 messages a second can be done",
        "",
        "drained           10s after the outage",
        "deliveries        540, of which 480 failed",
        "dead-lettered     40",
        "biggest crowd     100 redeliveries in 100 ms (100.0% of the messages), at 1s",
        "after the outage  100 redeliveries in 100 ms (100.0% of the messages), at 7s",
        "if it stays down  dead-lettered after 15s (p1 15s, p99 15s)",
        "",
        "redeliveries in 1s each: . failed, # done",
        " 0s  0",
        f" 1s  {'.' * 50} 100",
        " 2s  0",
        f" 3s  {'.' * 50} 100",
        " 4s  0",
        " 5s  0  < up again",
        " 6s  0",
        f" 7s  {'.' * 40}{'#' * 10} 100",
        " 8s  0",
        " 9s  0",
        "10s  0",
        f"11s  {'.' * 30}{'#' * 10} 80",
        "12s  0",
        "13s  0",
        "14s  0",
        f"15s  {'.' * 20}{'#' * 10} 60",
    ]


@each_row(
    "arguments, complaint",
    [
        ({"messages": 0}, "messages is 0. Pass a whole number, 1 or more"),
        ({"messages": 1.5}, "messages is 1.5"),
        ({"messages": 10**9}, "more than 2,000,000 deliveries"),
        ({"outage": "never"}, "outage: 'never' is not a duration"),
        ({"rate": 0}, "rate is 0. Pass a number above 0"),
        ({"rate": math.nan}, "rate is nan"),
        ({"rate": "1"}, "rate is '1'"),
    ],
)
def test_it_refuses(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        RedeliveryPolicy().simulate(**arguments)


def test_a_policy_that_would_never_be_through_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "MOST_DELIVERIES", 10_000)
    with pytest.raises(InvalidInput, match=r"more than 10,000 .* a policy that waits longer"):
        after(0).simulate()


def test_a_limit_that_few_messages_can_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "MOST_DELIVERIES", 10_000)
    assert after(1, most=10_001).simulate(outage=5).dead_after is None
    assert after(1, most=5_000).simulate(outage=5).dead_after == (5_000, 5_000, 5_000)


def test_one_message_and_no_redelivery() -> None:
    one = str(after(1, 2).simulate(messages=1, outage=2))
    assert one.startswith("1 message fails, at 0s; after 2s anything can be done")
    assert "1 redelivery in 100 ms (100.0% of the messages)" in one
    none = str(after(1, most=0).simulate(messages=3, outage=2))
    assert "drained           nothing was left to do\n" in none
    assert "redeliveries in" not in none
