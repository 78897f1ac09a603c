"""JetStream's consumer settings as a policy: every row of its cases, under its verdict."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypeAlias

import pytest

from rq_dlq.core.opening import is_hot
from rq_dlq.errors import PolicyError
from rq_dlq.policy import RedeliveryPolicy
from tests.cases import load
from tests.tables import each_row

Row: TypeAlias = dict[str, Any]


def rows(group: str, *events: str) -> list[Row]:
    return [row for row in load(group) if not events or row.get("event") in events]


def policy_of(row: Row) -> RedeliveryPolicy:
    """As its consumer is configured; the rows have milliseconds."""
    backoff = [ms / 1000 for ms in row.get("backoff", range(row.get("backoff_len", 0)))]
    return RedeliveryPolicy.jetstream(max_deliver=row.get("max_deliver"), backoff=backoff)


@each_row("row", rows("js_backoff_valid"))
def test_which_settings_are_valid(row: Row) -> None:
    if row["expect"] != "ok" or "error" in row["rq"].lower():
        with pytest.raises(PolicyError):
            policy_of(row)
        return
    assert row["rq"] == "S"
    limit = None if row["max_deliver"] == -1 else row["max_deliver"] - 1
    assert policy_of(row).max_redeliveries == limit
    assert len(policy_of(row).delays or ()) == max(row["backoff_len"], 1)


@each_row("row", rows("js_wait", "timeout"))
def test_the_wait_after_a_lapse(row: Row) -> None:
    wait = policy_of(row).delay_ms(row["deliveries"])
    if row.get("backoff"):
        assert wait == row["expect"]  # theirs counts from the delivery, ours from the lapse
    else:
        assert row["ack_wait"] + wait == row["expect"]  # the lease is all there is to wait for
    assert row["rq"].startswith("S") or row["rq"] == "D: a lease time and a retry delay are two settings"


@each_row("row", [row for row in rows("js_wait", "nak") if "delay" not in row])
def test_the_wait_after_a_nack(row: Row) -> None:
    backoff = row.get("backoff") or [0]
    wait = policy_of(row).delay_ms(row["deliveries"])
    assert wait == backoff[min(row["deliveries"], len(backoff)) - 1]
    assert (wait == row["expect"]) == row["rq"].startswith("S")


def test_defaults() -> None:
    policy = RedeliveryPolicy.jetstream()
    assert policy == RedeliveryPolicy(delays=[0], max_redeliveries=None)
    assert RedeliveryPolicy.jetstream(max_deliver=None, backoff=None, ack_wait=None) == policy
    assert RedeliveryPolicy.jetstream(backoff=[]) == policy


def test_it_counts_deliveries() -> None:
    once = RedeliveryPolicy.jetstream(max_deliver=1)
    assert (once.spent(0), once.spent(1)) == (False, True)
    assert not RedeliveryPolicy.jetstream(max_deliver=-1).spent(10**9)


def test_no_wait_is_spread_and_the_last_one_repeats() -> None:
    policy = RedeliveryPolicy.jetstream(backoff=("25ms", 0.1, timedelta(seconds=2)))
    assert policy.collision_avoidance == 0
    assert [policy.delay_ms(n) for n in (1, 2, 3, 4, 5_000)] == [25, 100, 2_000, 2_000, 2_000]


@each_row(
    "settings",
    [
        {"max_deliver": 4, "backoff": ["1s", "2s"], "ack_wait": "1m"},
        {"MaxDeliver": 4, "BackOff": ["1s", "2s"], "AckWait": "1m"},
        {"maxDeliver": 4, "backOff": ["1s", "2s"], "ackWait": "1m"},
        {"max-deliver": 4, "back_off": (wait for wait in (1, 2)), "ack-wait": 60},
    ],
)
def test_spellings(settings: dict[str, Any]) -> None:
    expected = RedeliveryPolicy(delays=[1, 2], max_redeliveries=3)
    assert RedeliveryPolicy.jetstream(**settings) == expected


def test_fatal_is_ours_and_the_wire_is_that_of_any_policy() -> None:
    policy = RedeliveryPolicy.jetstream(max_deliver=3, backoff=[1])
    assert RedeliveryPolicy.from_wire(policy.as_wire()) == policy
    assert RedeliveryPolicy.jetstream(fatal=(ValueError,)).fatal == (ValueError,)


@each_row(
    "settings, complaint",
    [
        ({"max_deliver": 0}, "max_deliver is 0.* 1 means no redelivery, -1 no limit"),
        ({"MaxDeliver": -5}, "max_deliver is -5"),
        ({"max_deliver": 2.5}, "max_deliver is 2.5"),
        ({"max_deliver": True, "backoff": [1, 2]}, "max_deliver is True"),
        ({"max_deliver": 2, "backoff": [1, 2, 3]}, "backoff has 3 waits, max_deliver is 2. Shorten"),
        ({"backoff": [1, -1]}, r"backoff\[1\]: -1 is out of range"),
        ({"backoff": "1s"}, "backoff is '1s'. Pass a list"),
        ({"backoff": 0}, "backoff is 0. Pass a list"),
        ({"ack_wait": "soon"}, "ack_wait: 'soon' is not a duration"),
        ({"backoff": [1], "BackOff": [1]}, "'backoff' is given twice"),
        ({"max_delivery": 3}, "'max_delivery' is not a .* of JetStream. The closest is 'max_deliver'"),
    ],
)
def test_it_refuses(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(PolicyError, match=complaint):
        RedeliveryPolicy.jetstream(**settings)


def test_nats_streaming_waits_ack_wait_for_ever() -> None:
    policy = RedeliveryPolicy.nats_streaming(ack_wait="2s")
    assert [policy.delay(n) for n in (1, 2, 1_000)] == [2, 2, 2]
    assert policy.max_redeliveries is None
    assert RedeliveryPolicy.nats_streaming().delay(1) == 30
    for wrong in (0, "soon", -1):
        with pytest.raises(PolicyError, match="ack_wait"):
            RedeliveryPolicy.nats_streaming(ack_wait=wrong)


@each_row(
    ("policy", "hot"),
    [
        (RedeliveryPolicy.jetstream(), True),
        (RedeliveryPolicy(delays=[0], max_redeliveries=None), True),
        (RedeliveryPolicy(initial_delay=0, max_redeliveries=None), True),
        (RedeliveryPolicy.jetstream(max_deliver=5), False),
        (RedeliveryPolicy.jetstream(backoff=[1]), False),
        (RedeliveryPolicy(delays=[0, 0, 5], max_redeliveries=None), False),
        (RedeliveryPolicy.nats_streaming(), False),
        (RedeliveryPolicy(), False),
    ],
)
def test_what_comes_back_at_once_for_ever_is_hot(policy: RedeliveryPolicy, hot: bool) -> None:
    assert is_hot(policy) is hot
