"""Every row of the cases about delays and attempts, under its verdict.

S: our policy and the preset give the same. P: the preset does. N: none of our business.
D: different on purpose; where the preset gives the system's own number all the same, both are
checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from rq_dlq.errors import PolicyError
from rq_dlq.policy import RedeliveryPolicy
from tests.cases import load
from tests.tables import each_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Row: TypeAlias = dict[str, Any]
DECADE = 315_360_000_000
DRAWS = [k / 2_000 - 1 for k in range(4_000)]


def rows(group: str) -> list[Row]:
    """Those that have a counterpart here."""
    return [row for row in load(group) if row["rq"] != "N"]


def refused(row: Row) -> bool:
    return row["rq"].startswith("D") and ("ValueError" in row["rq"] or "error" in row["rq"])


def draw(row: Row) -> float:
    return float(row.get("sign", 1) * row.get("u", 0))


def fails(*attempts: Callable[[], object]) -> None:
    for attempt in attempts:
        with pytest.raises(PolicyError):
            attempt()


def artemis(row: Row) -> RedeliveryPolicy:
    return RedeliveryPolicy.artemis(
        **{
            "redelivery-delay": row["d"],
            "redelivery-delay-multiplier": row["m"],
            "max-redelivery-delay": row["max"],
            "redelivery-collision-avoidance-factor": row["f"],
        }
    )


def like_artemis(row: Row) -> RedeliveryPolicy:
    longest = row["d"] * 10 if row["max"] is None else row["max"]
    return native(row["d"], row["m"], longest, row["f"])


def native(initial: int, multiplier: float, longest: int | None, factor: float) -> RedeliveryPolicy:
    return RedeliveryPolicy(
        initial_delay=initial / 1000,
        multiplier=multiplier,
        max_delay=None if longest is None else longest / 1000,
        collision_avoidance=factor,
    )


@each_row("row", rows("artemis_delay"))
def test_artemis_delay(row: Row) -> None:
    n, r = row["attempt"], draw(row)
    if refused(row):
        fails(lambda: artemis(row), lambda: like_artemis(row))
        return
    theirs = artemis(row).delay_ms(n, r)
    expected = 0 if row["expect"] == "none" else row["expect"]
    if row["rq"] == "D: 1844674407370955161":
        assert theirs == 1844674407370955161
    elif row["rq"] == "D: spread kept below the cap":
        assert theirs == expected == row["max"]
        assert like_artemis(row).delay_ms(n, r) == 2 * row["max"] - 14_500
    else:
        assert theirs == expected
        assert like_artemis(row).delay_ms(n, r) == expected
        assert row["rq"] in {"S", "P"}


@each_row("row", rows("artemis_validate"))
def test_artemis_validate(row: Row) -> None:
    settings = {row["setting"]: row["value"]}
    if row["expect"] == "error" or refused(row):
        fails(lambda: RedeliveryPolicy.artemis(**settings))
    else:
        assert row["rq"] == "S"
        assert RedeliveryPolicy.artemis(**settings).collision_avoidance == row["value"]


@each_row("row", rows("artemis_jitter_stat"))
def test_artemis_jitter(row: Row) -> None:
    def waits(policy: RedeliveryPolicy) -> tuple[int, int, float]:
        drawn = [policy.delay_ms(row["attempt"], r) for r in DRAWS]
        return min(drawn), max(drawn), drawn.count(row["max"]) / len(drawn)

    low, high, share = waits(artemis(row))
    assert row["min_ge"] <= low <= high <= row["max_le"]
    assert share == pytest.approx(row["share_at_max"], abs=0.01)
    low, high, share = waits(like_artemis(row))
    assert high <= row["max_le"]
    assert share < 0.001
    if row["id"] == "ART-J05":
        assert (low, high) == (5_000, 10_000)
        assert row["rq"].startswith("D: spread over [5000, 10000]")
    else:
        assert low >= min(row["min_ge"], 5_000)
        assert row["rq"] in {"S", "D: no atom at the cap"}


def activemq(row: Row) -> RedeliveryPolicy:
    return RedeliveryPolicy.activemq(
        initialRedeliveryDelay=row["initial"],
        redeliveryDelay=row["rd"],
        backOffMultiplier=row["m"],
        useExponentialBackOff=row["exp"],
        maximumRedeliveryDelay=row["max"],
        useCollisionAvoidance="f" in row,
        collisionAvoidanceFactor=row.get("f"),
    )


def like_activemq(row: Row, initial: int) -> RedeliveryPolicy:
    """One that waits `initial`, then by the row."""
    longest = None if row["max"] == -1 else row["max"]
    return native(initial, row["m"] if row["exp"] else 1, longest, row.get("f", 0))


@each_row("row", rows("classic_next"))
def test_classic_next(row: Row) -> None:
    if refused(row):
        fails(lambda: activemq(row).delay_ms(2, draw(row), previous=row["prev"]))
        return
    theirs = activemq(row).delay_ms(2, draw(row), previous=row["prev"])
    assert theirs == row["expect"]
    if row["rq"] == "S":
        before = row["prev"] if row["exp"] else row["rd"]
        assert like_activemq(row, before).delay_ms(2, draw(row)) == row["expect"]
    elif row["rq"] == "D: an unset maximum still has a hard ceiling":
        assert like_activemq(row, DECADE).delay_ms(2, draw(row)) == DECADE
    elif row["rq"] == "D: never above max_delay":
        ours = like_activemq(row, row["max"]).delay_ms(2, draw(row))
        assert ours == 850  # 1149.99… folded back at 1000
    else:
        assert row["rq"] == "P"


@each_row("row", rows("classic_schedule"))
def test_classic_schedule(row: Row) -> None:
    assert [activemq(row).delay_ms(n) for n in row["n"]] == row["expect"]
    previous = None
    for n, expected in zip(row["n"], row["expect"], strict=True):  # as the scripts ask: one by one
        previous = activemq(row).delay_ms(n, previous=previous)
        assert previous == expected
    if row["rq"] == "S":
        ours = like_activemq(row, row["initial"])
        assert [ours.delay_ms(n) for n in row["n"]] == row["expect"]
    else:
        assert row["rq"] == "P"


@each_row("row", rows("classic_jitter_stat"))
def test_classic_jitter(row: Row) -> None:
    def bounds(waits: Iterable[int]) -> tuple[float, float]:
        shares = [wait / row["nominal"] for wait in waits]
        return min(shares), max(shares)

    theirs = RedeliveryPolicy.activemq(
        useExponentialBackOff=True, backOffMultiplier=2, useCollisionAvoidance=True
    )
    n = row["n"]
    assert theirs.delay_ms(n, 0) == row["nominal"]
    assert bounds(theirs.delay_ms(n, r) for r in (-1, 1)) == pytest.approx((row["lo"], row["hi"]), abs=0.001)
    ours = native(1_000, 2, None, 0.15)
    assert bounds(ours.delay_ms(n, r) for r in DRAWS) == pytest.approx((0.85, 1.15), abs=0.001)
    assert (row["rq"] == "S") == ((row["lo"], row["hi"]) == (0.85, 1.15))


def deliveries(policy: RedeliveryPolicy) -> float:
    """How often a handler that always fails sees the message."""
    seen = charged = 0
    while not policy.spent(charged):
        seen += 1  # delivered
        charged += 1  # failed
        if seen == 1_000:
            return float("inf")
    return seen


def with_limit(row: Row) -> RedeliveryPolicy:
    """The policy that the row's system has under that setting; null: it is left out."""
    settings = {} if row["value"] is None else {row["setting"]: row["value"]}
    if row["system"] == "artemis":
        return RedeliveryPolicy.artemis(**settings)
    if row["system"] == "classic":
        return RedeliveryPolicy.activemq(**settings)
    return RedeliveryPolicy(max_redeliveries=row["value"] - 1)


@each_row("row", rows("attempts"))
def test_attempts(row: Row) -> None:
    if refused(row):
        fails(lambda: with_limit(row))
        return
    assert row["rq"] in {"S", "P"}
    assert deliveries(with_limit(row)) == row["deliveries"]
    assert deliveries(RedeliveryPolicy(max_redeliveries=row["deliveries"] - 1)) == row["deliveries"]


@each_row("limit", [None, -1])
def test_unlimited_attempts(limit: int | None) -> None:
    assert deliveries(RedeliveryPolicy(max_redeliveries=limit)) == float("inf")
    assert deliveries(RedeliveryPolicy.artemis(**{"max-delivery-attempts": limit})) == float("inf")
    assert deliveries(RedeliveryPolicy.activemq(maximumRedeliveries=limit)) == float("inf")
    assert deliveries(RedeliveryPolicy.jetstream(max_deliver=limit)) == float("inf")


@each_row("row", rows("rq_delay"))
def test_rq_delay(row: Row) -> None:
    policy = native(row["initial"], row["mult"], row["max"], row["jitter"])
    assert policy.delay_ms(row["n"], row["r"]) == row["expect"]
    assert policy.delay(row["n"], row["r"]) == row["expect"] / 1000
