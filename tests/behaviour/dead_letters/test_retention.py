"""How long dead letters and expired messages are kept, and that what is dropped is counted (I14)."""

from __future__ import annotations

from typing import Any

import rq_dlq
from rq_dlq import ExpiryPolicy, IndividualDeadLetterStrategy
from rq_dlq._keys import QueueKeys
from rq_dlq.core.upkeep import calls as upkeep_calls
from tests.behaviour.helpers import after, bodies, bury, counts, one
from tests.conftest import Clock


async def discarded(queue: Any) -> int:
    """How many messages were dropped so far."""
    return int((await queue.stats()).totals.get("discarded", 0))


async def expire(queue: Any, clock: Clock, count: int = 1) -> None:
    """Have messages expire."""
    await queue.send_many(range(count), ttl="1s")
    clock.advance("1s")
    await queue.maintain()


async def test_dead_letters_are_kept_for_ever_by_default(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bury(queue, ["x"])
    await expire(queue, clock)
    clock.advance("3650d")
    assert (await queue.maintain())["retired"] == 0
    assert await counts(queue) == {"dead": 1, "expired": 1}


async def test_dead_letters_are_dropped_by_age(broker: Any, clock: Clock) -> None:
    """I1, I13: from their death on, not from their birth; the audit looks for what is left."""
    queue = broker.queue("a", dead_letter=IndividualDeadLetterStrategy(expiration="10d"))
    await queue.send("living")
    clock.advance("5d")
    await (await one(queue)).nack("a history", delay=0)
    await (await one(queue)).poison(ValueError("x"))
    clock.advance("5d")
    await bury(queue, ["younger"])
    clock.advance("4d")
    clock.advance(24 * 3600 - 0.001)
    assert (await queue.maintain())["retired"] == 0
    clock.advance("1ms")
    assert (await queue.maintain())["retired"] == 1
    assert [letter.body for letter in await queue.dlq.browse()] == ["younger"]
    assert await discarded(queue) == 1
    clock.advance("5d")
    assert (await queue.maintain())["retired"] == 1
    assert (await counts(queue), await discarded(queue)) == ({}, 2)


async def test_expired_messages_are_dropped_by_age(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", expiry=ExpiryPolicy(retention="1h"))
    await bury(queue, ["dead"])
    await expire(queue, clock, 3)
    clock.advance("59m59s999ms")
    assert (await queue.maintain())["retired"] == 0
    clock.advance("1ms")
    assert (await queue.maintain())["retired"] == 3
    assert (await counts(queue), await discarded(queue)) == ({"dead": 1}, 3)


async def test_what_expired_among_the_dead_is_kept_as_the_dead_are(broker: Any, clock: Clock) -> None:
    said = {"dead_letter": {"process_expired": True, "expiration": "2h"}, "expiry": {"retention": "1h"}}
    queue = broker.queue("a", **said)
    await expire(queue, clock)
    clock.advance("1h")
    assert (await queue.maintain())["retired"] == 0
    clock.advance("1h")
    assert (await queue.maintain())["retired"] == 1


async def test_a_change_applies_to_what_is_there(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bury(queue, range(3))
    await expire(queue, clock, 2)
    clock.advance("2d")
    await broker.policies.set("#", dead_letter={"expiration": "3d"}, expiry={"retention": "3d"})
    assert (await queue.maintain())["retired"] == 0
    await broker.policies.set("#", dead_letter={"expiration": "3d"}, expiry={"retention": "1d"})
    assert (await queue.maintain())["retired"] == 2
    await broker.policies.remove("#")
    clock.advance("10d")
    assert (await queue.maintain())["retired"] == 0
    await broker.policies.set("#", dead_letter={"expiration": "1d"})
    assert (await queue.maintain())["retired"] == 3
    assert (await counts(queue), await discarded(queue)) == ({}, 5)


async def test_what_a_consumer_holds_is_not_taken(broker: Any, clock: Clock) -> None:
    """It goes when it comes back; its age is counted from its death."""
    queue = broker.queue("a", dead_letter={"expiration": "1h"})
    await bury(queue, ["acked", "kept"])
    acked, kept = await broker.queue("DLQ.a").claim(2, lease="3h")
    clock.advance("2h")
    assert (await queue.maintain())["retired"] == 0
    assert (await acked.ack()).outcome == "acked"
    assert (await kept.nack()).outcome == "kept"
    assert (await queue.maintain())["retired"] == 1
    assert await counts(queue) == {}


async def test_what_was_redriven_is_alive(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("0s"), dead_letter={"expiration": "1h"})
    await bury(queue, ["x"])
    clock.advance("59m")
    assert (await queue.dlq.redrive(all=True)).counts.moved == 1
    clock.advance("30d")
    assert (await queue.maintain())["retired"] == 0
    await (await one(queue)).poison()
    clock.advance("59m")
    assert (await queue.maintain())["retired"] == 0
    assert await bodies(broker.queue("DLQ.a")) == ["x"]


async def test_an_id_that_was_dropped_is_free_again(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", dead_letter={"expiration": "1h"})
    for _ in range(2):
        await queue.send("x", id="m")
        await (await one(queue)).poison()
        clock.advance("1h")
        await queue.maintain()
    assert (await queue.stats()).totals["sent"] == 2


def test_a_step_is_bounded(sync_broker: rq_dlq.Broker, clock: Clock, raw: Any) -> None:
    """I9: dead and expired together are no more than the limit."""
    queue = sync_broker.queue("a", dead_letter={"expiration": "1h"}, expiry={"retention": "1h"})
    queue.send_many(range(30))
    queue.poison(queue.claim(30))
    queue.send_many(range(30), ttl="1s")
    clock.advance("1s")
    queue.maintain()
    clock.advance("1h")
    keys = QueueKeys("rq", "a")
    steps = []
    while step := sync_broker._connected()._perform(upkeep_calls.retire(keys, limit=25)):
        steps.append(step)
        assert raw.hlen(keys["messages"]) == 60 - sum(steps)
    assert steps == [25, 25, 10]
    assert queue.stats().totals["discarded"] == 60


async def test_many_of_them(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", dead_letter={"expiration": "1h"})
    await bury(queue, range(700))
    clock.advance("1h")
    assert (await queue.maintain())["retired"] == 700
    assert (await counts(queue), await discarded(queue)) == ({}, 700)
