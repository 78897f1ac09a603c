"""Redelivery: when a failed message comes back, and when it has failed for good."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from rq_dlq import RedeliveryPolicy
from tests.behaviour.helpers import AT_ONCE, after, bring_to, counts, fail, one
from tests.conftest import Clock
from tests.tables import each_row_afresh


async def waits(queue: Any, failures: int, clock: Clock) -> list[int]:
    """Fail one message again and again: the milliseconds of each wait, by the server's clock.

    A claim one millisecond before the end of each finds nothing (I5).
    """
    await queue.send("x")
    found = []
    for _ in range(failures):
        settlement = await (await one(queue)).nack("boom")
        wait = round(settlement.delay * 1000)
        if wait:
            clock.advance((wait - 1) / 1000)
            assert await queue.claim() == []
            clock.advance("1ms")
        found.append(wait)
    return found


async def test_waits_are_the_policy_s(broker: Any, clock: Clock) -> None:
    """I5."""
    policy = RedeliveryPolicy(initial_delay="1s", max_delay="10s", collision_avoidance=0)
    queue = broker.queue("a", redelivery=policy)
    assert await waits(queue, 6, clock) == [1000, 2000, 4000, 8000, 10_000, 10_000]


async def test_waits_of_a_list(broker: Any, clock: Clock) -> None:
    """I5: the last one is repeated."""
    queue = broker.queue("a", redelivery=after("3s", "1s", "7ms"))
    assert await waits(queue, 5, clock) == [3000, 1000, 7, 7, 7]


async def test_the_spread_keeps_its_bounds(broker: Any) -> None:
    """I5: each message is spread by itself, the first redelivery, too."""
    policy = RedeliveryPolicy(initial_delay="10s", collision_avoidance=0.5)
    queue = broker.queue("a", redelivery=policy)
    await queue.send_many(range(500))
    delays = [s.delay for s in await queue.nack(await queue.claim(500))]
    assert 5 <= min(delays) < 6
    assert 14 < max(delays) <= 15
    assert len(set(delays)) >= 250  # two scripts, each of which spreads its own evenly
    assert 9.5 < sum(delays) / len(delays) < 10.5


async def test_the_spread_does_not_vanish_at_the_maximum(broker: Any) -> None:
    """What it would carry past the maximum is folded back."""
    policy = RedeliveryPolicy(initial_delay="10s", max_delay="10s", collision_avoidance=0.5)
    queue = broker.queue("a", redelivery=policy)
    await queue.send_many(range(250))
    delays = [s.delay for s in await queue.nack(await queue.claim(250))]
    assert max(Counter(delays).values()) <= 2, "what is folded back may meet one that was not"
    assert max(delays) <= 10


async def test_without_a_policy_it_is_the_default_one(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x")
    settlement = await (await one(queue)).nack()
    assert 0.5 <= settlement.delay <= 1.5


async def test_explicit_delay_takes_the_place_of_the_policy_s(broker: Any, clock: Clock) -> None:
    """It is not added to it, and the next wait is the policy's again."""
    queue = broker.queue("a", redelivery=after("1s", "2s"))
    await queue.send("x")
    assert (await (await one(queue)).nack(delay="30s")).delay == 30.0
    clock.advance("30s")
    assert (await (await one(queue)).nack()).delay == 2.0


async def test_the_shortest_delay_is_waited_for(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x")
    assert (await (await one(queue)).nack(delay="1ms")).delay == 0.001
    assert await queue.claim() == []
    clock.advance("1ms")
    assert (await one(queue)).body == "x"


async def test_explicit_delay_of_a_batch(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(3))
    settlements = await queue.nack(await queue.claim(3), delay="7s")
    assert [settlement.delay for settlement in settlements] == [7.0] * 3


async def test_explicit_delay_does_not_save_a_spent_message(broker: Any) -> None:
    """I6."""
    queue = broker.queue("a", redelivery=after("1s", most=0))
    await queue.send("x")
    assert (await (await one(queue)).nack(delay="30s")).outcome == "dead"


async def test_uncharged_failure_leaves_the_budget(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("5s", most=0))
    await queue.send("x")
    settlement = await (await one(queue)).nack("throttled", charge=False)
    assert (settlement.outcome, settlement.delay) == ("redelivered", 5.0)
    clock.advance("5s")
    delivery = await one(queue)
    assert (delivery.charged, delivery.nacked, delivery.delivery_count) == (0, 1, 2)
    assert (await delivery.nack()).outcome == "dead"


@pytest.mark.parametrize("most", [0, 1, 3])
async def test_dead_when_charged_more_often_than_allowed(most: int, broker: Any, clock: Clock) -> None:
    """I6: max_redeliveries counts redeliveries, so the first delivery comes on top."""
    queue = broker.queue("a", redelivery=after("1s", most=most))
    await queue.send("x")
    assert await fail(queue, 10, clock) == list(range(1, most + 2))
    (letter,) = await queue.dlq.browse()
    assert (letter.reason, letter.charged) == ("exhausted", most + 1)
    assert len(letter.history) == most + 1


@pytest.mark.parametrize("most", [None, -1])
async def test_never_dead_without_a_limit(most: int | None, broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("1s", most=most))
    await queue.send("x")
    assert await fail(queue, 50, clock) == list(range(1, 51))
    assert (await queue.stats()).dead == 0


async def test_a_lapse_is_charged_and_waits_as_a_nack_does(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("5s", "50s"), lease="10s")
    await queue.send("x")
    for wait in ("5s", "50s"):
        await one(queue)
        clock.advance("10s")
        assert await queue.claim() == []  # this sees the lapse; the wait begins
        clock.advance(wait)
    delivery = await one(queue)
    assert (delivery.charged, delivery.lapsed, delivery.nacked) == (2, 2, 0)
    assert [event.event for event in delivery.history] == ["lapsed", "lapsed"]
    assert [event.delay for event in delivery.history] == [5.0, 50.0]


@pytest.mark.parametrize("most", [0, 2])
async def test_a_message_that_kills_its_holder_dies(most: int, broker: Any, clock: Clock) -> None:
    """I6: no handler sees it again."""
    queue = broker.queue("a", redelivery=after("0s", most=most), lease="10s")
    await queue.send("x")
    seen = 0
    for _ in range(6):
        seen += len(await queue.claim())
        clock.advance("10s")
    assert seen == most + 1
    (letter,) = await queue.dlq.browse()
    assert (letter.reason, letter.cause.type, letter.lapsed) == ("exhausted", "Lapsed", most + 1)


async def test_the_causes_are_counted_apart(broker: Any, clock: Clock) -> None:
    """Nacked, lapsed, released, redriven; never mixed."""
    queue = broker.queue("a", redelivery=after("1s", most=4), lease="10s")
    await queue.send("x")
    for end in ("nack", "release", "release", "lapse", "lapse", "nack", "nack", "redrive"):
        clock.advance("1s")
        if end == "redrive":
            await queue.dlq.redrive(all=True)
        elif end == "lapse":
            await one(queue)
            clock.advance("10s")
            await queue.maintain()
        else:
            await getattr(await one(queue), end)()
    delivery = await one(queue)
    found = {
        name: getattr(delivery, name)
        for name in ("nacked", "lapsed", "released", "redriven", "charged", "delivery_count")
    }
    assert found == {
        "nacked": 3, "lapsed": 2, "released": 2, "redriven": 1, "charged": 0, "delivery_count": 8
    }  # fmt: skip


async def test_a_later_declaration_holds_for_queued_messages(broker: Any, clock: Clock) -> None:
    await bring_to("ready", broker.queue("a", redelivery=after("1s", most=9)), clock)
    queue = broker.queue("a", redelivery=after("7s", most=1))
    assert (await (await one(queue)).nack()).delay == 7.0
    clock.advance("7s")
    assert (await (await one(queue)).nack()).outcome == "dead"


async def test_a_queue_object_of_before_judges_by_the_later_declaration(broker: Any) -> None:
    """The policy stands in Redis, for whoever settles or sweeps."""
    old = broker.queue("a", redelivery=after("1s"))
    await old.send("x")
    delivery = await one(old)
    await broker.queue("a", redelivery=after("7s")).send("y")
    assert (await delivery.nack()).delay == 7.0


async def test_a_lapse_is_judged_by_the_declared_policy(broker: Any, clock: Clock) -> None:
    """Whoever sweeps need not know it."""
    queue = broker.queue("a", redelivery=after("7s", most=0))
    await queue.send("x")
    await one(queue, lease="1s")
    clock.advance("1s")
    await broker.queue("a").maintain()
    assert await counts(queue) == {"dead": 1}


async def test_a_lowered_limit_is_judged_when_a_message_is_next_touched(broker: Any, clock: Clock) -> None:
    """I6: by a nack of what is held, and by the claim of what waits, which does not hand it out."""
    queue = broker.queue("a", redelivery=after("0s", most=9))
    await queue.send_many(["held", "waits"])
    await fail(queue, 5, clock)
    held = await one(queue)
    lower = broker.queue("a", redelivery=after("0s", most=2))
    assert await lower.claim() == []
    assert [letter.body for letter in await queue.dlq.browse()] == ["waits"]
    assert (await held.nack(charge=False)).outcome == "dead"


async def test_artemis_end_to_end(broker: Any, clock: Clock) -> None:
    """The numbers of its manual."""
    policy = RedeliveryPolicy.artemis(
        **{
            "redelivery-delay": 5000,
            "redelivery-delay-multiplier": 2,
            "max-redelivery-delay": 15000,
            "max-delivery-attempts": 5,
        }
    )
    queue = broker.queue("a", redelivery=policy)
    assert await waits(queue, 4, clock) == [5000, 10_000, 15_000, 15_000]
    assert (await (await one(queue)).nack()).outcome == "dead"


async def test_activemq_end_to_end(broker: Any, clock: Clock) -> None:
    policy = RedeliveryPolicy.activemq(
        maximumRedeliveries=4,
        initialRedeliveryDelay=100,
        redeliveryDelay=200,
        useExponentialBackOff=True,
        backOffMultiplier=3,
        maximumRedeliveryDelay=800,
    )
    queue = broker.queue("a", redelivery=policy)
    assert await waits(queue, 4, clock) == [100, 300, 800, 800]
    assert (await (await one(queue)).nack()).outcome == "dead"


async def test_activemq_spread_compounds(broker: Any, clock: Clock) -> None:
    """Each wait is made from the wait before, as theirs; the first is not spread."""
    policy = RedeliveryPolicy.activemq(
        initialRedeliveryDelay=1000,
        useExponentialBackOff=True,
        backOffMultiplier=2,
        useCollisionAvoidance=True,
        collisionAvoidanceFactor=0.5,
    )
    queue = broker.queue("a", redelivery=policy)
    found = await waits(queue, 4, clock)
    assert found[0] == 1000
    assert all(before <= wait <= 3 * before for before, wait in pairwise(found))
    assert found[1:] != [2000, 4000, 8000]


async def test_settlement_tells_the_wait_to_the_millisecond(broker: Any) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x")
    settlement = await (await one(queue)).nack(delay=1.234)
    assert (settlement.outcome, settlement.delay) == ("redelivered", 1.234)
    assert (await queue.stats()).next_due == 1.234


@each_row_afresh("stored", ["", "{", "[]", "null", '{"redelivery": 7}', '{"redelivery": {"arithmetic": 7}}'])
async def test_a_policy_that_cannot_be_read_gives_way_to_the_client_s(
    stored: str, broker: Any, clock: Clock, raw: Any
) -> None:
    """Neither a nack nor the sweep of a lapse fails on it."""
    queue = broker.queue("a", redelivery=after(7))
    await queue.send_many([1, 2])
    (first,) = await queue.claim()
    await queue.claim(lease="1s")
    raw.hset("rq:{a}:settings", "redelivery", stored)
    assert (await first.nack()).delay == 7
    clock.advance("1s")
    assert (await queue.maintain())["swept"] == 1
    assert (await queue.stats()).scheduled == 2


async def test_a_delay_longer_than_the_lease_makes_no_copies(broker: Any, clock: Clock) -> None:
    """The lease begins with the claim, not with the send."""
    queue = broker.queue("a", lease="1s")
    await queue.send_many(range(20), delay="3s")
    ran = Counter[int]()
    for _ in range(14):
        for delivery in await queue.claim(5):
            ran[delivery.body] += 1
            await delivery.ack()
        clock.advance("500ms")
        await queue.maintain()
    assert ran == dict.fromkeys(range(20), 1)
