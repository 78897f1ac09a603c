"""Claiming."""

from __future__ import annotations

from typing import Any

import pytest

from tests.behaviour.helpers import AT_ONCE, bodies, claim_all, counts, one
from tests.conftest import Clock


async def test_an_empty_queue_gives_an_empty_list(broker: Any) -> None:
    assert await broker.queue("a").claim(10) == []


async def test_a_claimed_message_is_given_to_nobody_else(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x")
    await one(queue)
    assert await queue.claim() == []
    assert await broker.queue("a").claim() == []


@pytest.mark.parametrize(("count", "sizes"), [(1, [1, 1]), (999, [999, 999]), (1000, [1000, 1000])])
async def test_count_is_the_most(count: int, sizes: list[int], broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(2_500))
    assert [len(await queue.claim(count)) for _ in sizes] == sizes


async def test_the_rest_is_fewer_than_asked_for(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(2_500))
    claimed = [await bodies(queue) for _ in range(4)]
    assert [len(part) for part in claimed] == [1000, 1000, 500, 0]
    assert [body for part in claimed for body in part] == list(range(2_500))


async def test_the_count_is_in_redis_before_anyone_sees_it(broker: Any, raw: Any) -> None:
    """I3."""
    queue = broker.queue("a")
    await queue.send("x", id="m")
    await queue.claim()
    assert raw.hget("rq:{a}:states", "m").split(b" ")[3] == b"1"


async def test_the_count_goes_up_with_every_delivery(broker: Any, clock: Clock) -> None:
    """I4: whatever ends a delivery; a redrive, too."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x")
    seen = []
    for end in ("nack", "release", "lapse", "redrive", "last"):
        delivery = await one(queue, lease="1s")
        seen.append((delivery.delivery_count, delivery.redelivered))
        if end == "lapse":
            clock.advance("1s")
        elif end == "redrive":
            await delivery.poison()
            assert (await queue.dlq.redrive(all=True)).counts.moved == 1
        elif end != "last":
            await getattr(delivery, end)()
    assert seen == [(1, False), (2, True), (3, True), (4, True), (5, True)]


async def test_one_claim_is_one_lease(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(10))
    claimed = await queue.claim(10)
    assert len({delivery.token for delivery in claimed}) == 1
    assert raw.zcard("rq:{a}:leases") == 1


async def test_tokens_are_random(broker: Any) -> None:
    """I2: not a counter, which repeats itself after a failover."""
    queue = broker.queue("a")
    await queue.send_many(range(100))
    assert len({(await one(queue)).token for _ in range(100)}) == 100


async def test_the_lease_is_the_queue_s_or_the_call_s(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", lease="30s")
    await queue.send_many(range(2))
    spans = [
        (await one(queue, **options)).lease_until.timestamp() * 1000 - clock.now
        for options in ({}, {"lease": "7s"})
    ]
    assert spans == [30_000, 7_000]


async def test_a_lapsed_lease_comes_back_to_a_bare_client(broker: Any, clock: Clock) -> None:
    """I15: no maintenance process is alive."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x")
    await one(queue, lease="10s")
    clock.advance("9.999s")
    assert await queue.claim() == []
    clock.advance("1ms")
    delivery = await one(queue)
    assert (delivery.body, delivery.delivery_count, delivery.lapsed) == ("x", 2, 1)


async def test_each_claim_has_a_lease_of_its_own(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send_many(["long", "short"])
    await one(queue, lease="1h")
    await one(queue, lease="1s")
    clock.advance("2s")
    assert await bodies(queue) == ["short"]


async def test_a_large_claim_lapses_as_a_whole(broker: Any, clock: Clock) -> None:
    """I9: the sweep is bounded, so it takes several steps."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    sent = await queue.send_many(range(1_000))
    await queue.claim(1_000, lease="1s")
    clock.advance("1s")
    assert (await queue.maintain())["swept"] == 1_000
    again = await claim_all(queue)
    assert [delivery.id for delivery in again] == sent
    assert {delivery.lapsed for delivery in again} == {1}


async def test_a_claim_sweeps_a_thousand_and_no_more(broker: Any, clock: Clock) -> None:
    """I9: each of its scripts sweeps a few; what else has lapsed is for the next claim."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send_many(range(2_000))
    for _ in range(2):
        await queue.claim(1_000, lease="1s")
    clock.advance("1s")
    await one(queue)
    assert 900 <= (await queue.stats()).totals["lapsed"] <= 1_100


async def test_the_last_of_a_large_claim_is_swept_in_one_go(broker: Any, clock: Clock) -> None:
    """I15: what was settled before does not end the maintenance."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send_many(range(1_000))
    claimed = await queue.claim(1_000, lease="1s")
    await queue.ack(claimed[:-1])
    clock.advance("1s")
    await queue.maintain()
    assert await counts(queue) == {"ready": 1}


async def test_bare_claims_get_through_any_backlog_of_the_due(broker: Any, clock: Clock) -> None:
    """I15: more is due than one claim moves."""
    queue = broker.queue("a")
    await queue.send_many(range(700), delay="1s")
    clock.advance("1s")
    assert [len(await queue.claim(5)) for _ in range(140)] == [5] * 140
    assert await queue.claim(5) == []


async def test_maintain_says_what_it_moved(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("lapses")
    await one(queue, lease="1s")
    await queue.send_many(range(300), delay="1s")
    await queue.send("expires", ttl="1s")
    clock.advance("1s")
    assert await queue.maintain() == {
        "swept": 1,
        "promoted": 300,
        "expired": 1,
        "retired": 0,
        "grouped": 0,
        "reindexed": 0,
        "gathered": 0,
        "written": 0,
        "fired": 0,
        "redriven": 0,
    }
    assert await counts(queue) == {"ready": 301, "expired": 1}


async def test_stats_tell_what_is_next(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send("x")
    await queue.send("y", delay="1m")
    clock.advance("10s")
    stats = await queue.stats()
    assert (stats.ready, stats.scheduled, stats.waiting) == (1, 1, 2)
    assert (stats.oldest, stats.next_due) == (10.0, 50.0)


async def test_purge_leaves_the_leased_alone(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(600))
    await queue.send("scheduled", delay="1h")
    leased = await one(queue)
    assert await queue.purge(all=True) == 600
    assert await counts(queue) == {"leased": 1}
    await leased.ack()
