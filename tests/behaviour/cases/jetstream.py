"""NATS JetStream (JSB-01 to JSB-15)."""

from __future__ import annotations

from typing import Any

from rq_dlq import RedeliveryPolicy
from tests.behaviour.helpers import AT_ONCE, after, bodies, fail, one
from tests.conftest import Clock


async def jsb_01(broker: Any) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send_many(range(1, 11))
    await queue.ack(await queue.claim(5))
    await (await one(queue)).nack()
    assert await bodies(queue, 3) == [6, 7, 8]


async def jsb_03(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE, lease="0.1s")
    await queue.send_many([1, 2])
    working = await one(queue)
    for _ in range(15):
        clock.advance("20ms")
        await working.extend()
    await (await one(queue)).ack()
    clock.advance("0.1s")
    assert await bodies(queue) == [1]


async def jsb_04(broker: Any) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send_many(range(1, 23))
    await (await one(queue)).nack()
    await (await one(queue)).poison("the reason")
    assert await bodies(queue, 1) == [2]
    (letter,) = await queue.dlq.browse()
    assert (letter.body, letter.delivery_count, letter.cause.message) == (1, 2, "the reason")


async def jsb_05(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE, lease="0.1s")
    await queue.send("x")
    delivery = await one(queue)
    clock.advance("0.15s")
    await delivery.ack()
    assert await queue.claim() == []


async def jsb_07(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after(0, most=4), lease="10ms")
    await queue.send("x")
    seen = 0
    for _ in range(10):
        seen += len(await queue.claim())
        clock.advance("10ms")
    assert seen == 5


async def jsb_08(broker: Any, clock: Clock) -> None:
    """D: moved to the DLQ."""
    queue = broker.queue("a", redelivery=RedeliveryPolicy.jetstream(max_deliver=2), lease="1s")
    await queue.send_many(range(3))
    for _ in range(2):
        assert await bodies(queue) == [0, 1, 2]
        clock.advance("1s")
    await queue.send("new")
    assert await bodies(queue) == ["new"]
    assert await bodies(broker.queue("DLQ.a")) == [0, 1, 2]


async def jsb_09(broker: Any, clock: Clock) -> None:
    """The event is the settlement; who does not see it finds the letter, with what was said in it."""
    queue = broker.queue("a", redelivery=RedeliveryPolicy.jetstream(max_deliver=2))
    sent = await queue.send({"pay": "load"})
    outcomes = []
    for _ in range(3):
        outcomes += [(await delivery.nack("down")).outcome for delivery in await queue.claim()]
        clock.advance("1s")
    assert outcomes == ["redelivered", "dead"]
    (letter,) = await queue.dlq.browse()
    assert (letter.id, letter.queue, letter.delivery_count) == (sent, "a", 2)
    assert (letter.body, letter.reason) == ({"pay": "load"}, "exhausted")
    assert [event.event for event in letter.history] == ["nacked", "nacked"]
    assert (await queue.stats()).totals["exhausted"] == 1


async def jsb_12(broker: Any, clock: Clock) -> None:
    """D: judged at the next touch; `sweep` re-judges all.

    What waits is next touched by a claim, which never hands it out; what is held by its lapse or its nack.
    """
    await broker.policies.set("a", redelivery=after("1s", most=5))
    queue = broker.queue("a", lease="1s")
    await queue.send_many(["waits", "held"])
    assert await fail(queue, 3, clock, step="1s") == [1, 1, 2, 2, 3, 3]
    clock.advance("1s")
    waits, _ = await queue.claim(2)
    await waits.release()
    await broker.policies.set("a", redelivery=after("1s", most=1))
    await queue.send("new")
    assert await bodies(queue) == ["new"]
    assert [letter.body for letter in await queue.dlq.browse()] == ["waits"]
    clock.advance("1s")
    await queue.maintain()
    assert [letter.body for letter in await queue.dlq.browse()] == ["waits", "held"]


async def jsb_13(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("2s", "4s"))
    await queue.send("m1")
    await (await one(queue)).nack()
    clock.advance("2s")
    assert (await (await one(queue)).nack()).delay == 4.0
    await queue.send("m2")
    assert (await (await one(queue)).nack()).delay == 2.0


async def jsb_15(broker: Any) -> None:
    """D: delayed messages are not in flight."""
    queue = broker.queue("a", max_in_flight=5)
    await queue.send_many(range(10))
    await queue.nack(await queue.claim(5), delay="4h")
    assert await bodies(queue) == [5, 6, 7, 8, 9]
    assert await queue.claim() == []
