"""ActiveMQ Classic: what comes back, and what expires (CLS-B01 to CLS-B59)."""

from __future__ import annotations

from typing import Any

from rq_dlq import Message, PerKey, RedeliveryPolicy
from tests.behaviour.cases.restartable import Restartable
from tests.behaviour.helpers import AT_ONCE, after, bodies, counts, fail, ids, one
from tests.conftest import Clock


async def cls_b01(broker: Any, clock: Clock) -> None:
    policy = RedeliveryPolicy.activemq(initialRedeliveryDelay=100, maximumRedeliveries=2)
    queue = broker.queue("a", redelivery=policy)
    await queue.send_many(["1st", "2nd"])
    for _ in range(3):
        first = await one(queue)
        assert first.body == "1st"
        second = await one(queue) if first.delivery_count == 1 else None
        await first.nack("why")
        if second:
            await second.release()
            assert await bodies(queue) == ["2nd"]
        clock.advance("1s")
    (letter,) = await queue.dlq.browse()
    assert (letter.body, letter.charged, letter.reason) == ("1st", 3, "exhausted")


async def cls_b03(broker: Any, clock: Clock) -> None:
    policy = RedeliveryPolicy.activemq(initialRedeliveryDelay=100, maximumRedeliveries=-1)
    queue = broker.queue("a", redelivery=policy)
    await queue.send("1st")
    assert await fail(queue, 5, clock) == [1, 2, 3, 4, 5]
    clock.advance("1s")
    async with await one(queue) as delivery:
        assert delivery.delivery_count == 6
    await queue.send("2nd")
    assert await bodies(queue) == ["2nd"]


async def cls_b04(broker: Any, clock: Clock) -> None:
    policy = RedeliveryPolicy.activemq(
        initialRedeliveryDelay=10, useExponentialBackOff=True, backOffMultiplier=2,
        maximumRedeliveryDelay=1000, maximumRedeliveries=-1,
    )  # fmt: skip
    queue = broker.queue("a", redelivery=policy)
    await queue.send("1st")
    for _ in range(10):
        settlement = await (await one(queue)).nack()
        assert settlement.delay < 2
        clock.advance(settlement.delay)
    assert await bodies(queue) == ["1st"]


async def cls_b05(broker: Any, clock: Clock) -> None:
    """P: a wait after no wait is the other setting, and only then does it grow."""
    policy = RedeliveryPolicy.activemq(
        initialRedeliveryDelay=0, redeliveryDelay=500, useExponentialBackOff=True, backOffMultiplier=2
    )
    queue = broker.queue("a", redelivery=policy)
    await queue.send("x")
    for early, late in ((None, "100ms"), ("100ms", "800ms"), ("600ms", "1.3s")):
        await (await one(queue)).nack()
        before = clock.now
        if early is not None:
            clock.advance(early)
            assert await queue.claim() == []
        clock.set(before)
        clock.advance(late)
        await queue.maintain()
        assert await counts(queue) == {"ready": 1}


async def cls_b07(broker: Any, clock: Clock) -> None:
    policy = RedeliveryPolicy.activemq(initialRedeliveryDelay=2000)
    queue = broker.queue("a", per_key=PerKey(order=True), redelivery=policy)
    await queue.send_many(Message(body, key="consumer") for body in ("1st", "2nd"))
    first = await one(queue)
    await first.nack()
    clock.advance("1.999s")
    assert await queue.claim(10) == []
    clock.advance("1ms")
    seen = [first.body]
    while deliveries := await queue.claim(10):
        seen += [delivery.body for delivery in deliveries]
        await queue.ack(deliveries)
    assert seen == ["1st", "1st", "2nd"]


async def cls_b08(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("2s"))
    await queue.send_many(["1st", "2nd"])
    seen = []
    for _ in range(3):
        delivery = await one(queue)
        seen.append(delivery.body)
        if len(seen) == 1:
            await delivery.nack()
        else:
            await delivery.ack()
            clock.advance("2s")
    assert seen == ["1st", "2nd", "1st"]


async def cls_b09(broker: Any, clock: Clock) -> None:
    for name, initial, early in (("a", 0, 1), ("b", 1000, 0)):
        policy = RedeliveryPolicy.activemq(initialRedeliveryDelay=initial, maximumRedeliveries=1)
        queue = broker.queue(name, redelivery=policy)
        await queue.send("x")
        await (await one(queue)).nack()
        clock.advance("0.1s")
        assert len(await queue.claim()) == early
        clock.advance("2s")
        assert len(await queue.claim()) == 1 - early


async def cls_b11(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after(0, most=4), lease="1s")
    await queue.send("x")
    seen = []
    for _ in range(6):
        seen += [delivery.charged for delivery in await queue.claim()]
        clock.advance("1s")
    assert seen == [0, 1, 2, 3, 4]
    (letter,) = await queue.dlq.browse()
    assert (letter.charged, letter.cause.type) == (5, "Lapsed")


async def cls_b12(broker: Any, clock: Clock) -> None:
    """One redelivery more: the check before the dispatch is all that there is."""
    queue = broker.queue("a", redelivery=after(0, most=4 + 1), lease="1s")
    await queue.send("x")
    seen = []
    for _ in range(7):
        seen += [delivery.charged for delivery in await queue.claim()]
        clock.advance("1s")
    assert seen == [0, 1, 2, 3, 4, 5]
    assert await counts(queue) == {"dead": 1}


async def cls_b13(broker: Any) -> None:
    queue, elsewhere = broker.queue("a", redelivery=after(0, most=2)), broker.queue("b")
    await queue.send("x")
    for _ in range(5):
        for delivery in await queue.claim():
            await elsewhere.send({"seen": delivery.charged})
            await delivery.nack()
    assert [body["seen"] for body in await bodies(elsewhere)] == [0, 1, 2]
    assert await counts(queue) == {"dead": 1}


async def cls_b15(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE, lease="1s")
    await queue.send("x")
    seen = []
    for _ in range(7):
        seen.append((await one(queue)).delivery_count)
        clock.advance("1s")
    assert seen == [1, 2, 3, 4, 5, 6, 7]


async def cls_b16(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE, lease="1s")
    await queue.send_many(["1st", "2nd"])
    await (await one(queue)).ack()
    await queue.claim()
    clock.advance("1s")
    delivery = await one(queue)
    assert (delivery.body, delivery.redelivered) == ("2nd", True)


async def cls_b17(server: Restartable) -> None:
    queue = server.broker.queue("a", redelivery=AT_ONCE, lease="1s")
    await queue.send_many(range(10))
    await queue.claim(5)
    await server.restart(down="1s")
    seen = [(d.redelivered, d.delivery_count) for d in await server.broker.queue("a").claim(10)]
    assert seen == [(True, 2)] * 5 + [(False, 1)] * 5


async def cls_b19(server: Restartable) -> None:
    """D: true."""
    subscription = server.broker.queue("topic.client", redelivery=AT_ONCE, lease="1s")
    await subscription.send_many(range(10))
    assert len(await subscription.claim(10)) == 10
    await server.restart(down="1s")
    again = await server.broker.queue("topic.client").claim(10)
    assert [(delivery.body, delivery.redelivered) for delivery in again] == [(n, True) for n in range(10)]


async def cls_b20(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(400))
    seen: list[int] = []
    for _ in range(5):
        claimed = await queue.claim(1000)
        seen += [delivery.body for delivery in claimed[:80]]
        await queue.ack(claimed[:80])
        await queue.release(claimed[80:])
    assert seen == list(range(400))


async def cls_b21(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("1s"))
    sent = await queue.send_many(range(100))
    await queue.nack(await queue.claim(100))
    clock.advance("1s")
    assert await ids(queue) == sent


async def cls_b23(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("6s"))
    await queue.send("x")
    await (await one(queue)).nack()
    clock.advance("4s")
    assert await queue.claim() == []


async def cls_b24(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("1s", most=5))
    await queue.send_many(range(30))
    assert len(await fail(queue, 7, clock)) == 180
    assert await counts(queue) == {"dead": 30}


async def cls_b25(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("10ms", most=3))
    await queue.send_many(range(10))
    await fail(queue, 4, clock)
    assert [letter.body for letter in await queue.dlq.browse()] == list(range(10))
    assert await counts(queue) == {"dead": 10}


async def cls_b43(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after(0, most=-1))
    await queue.send("x")
    await fail(queue, 8, clock)
    assert (await one(queue)).delivery_count == 9


async def cls_b44(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("1s"), lease="2s")
    await queue.send("x", ttl="1.5s")
    await queue.claim()
    clock.advance("2s")
    await queue.maintain()
    assert await counts(queue) == {"expired": 1}


async def cls_b47(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("1h"))
    await queue.send("x")
    await (await one(queue)).nack()
    clock.advance("1h")
    async with await one(queue) as delivery:
        await broker.queue("b").send(delivery.body)
    forwarded = await one(broker.queue("b"))
    assert (forwarded.redelivered, forwarded.charged) == (False, 0)


async def cls_b48(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("1s", most=3))
    await queue.send_many(range(8))
    await fail(queue, 5, clock)
    assert await queue.dlq.purge(all=True) == 8
    assert await counts(queue) == {}


async def cls_b52(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(3), ttl="1s")
    clock.advance("2s")
    await queue.maintain()
    assert (await queue.stats()).totals["expired"] == 3
    assert await counts(queue) == {"expired": 3}


async def cls_b53(server: Restartable) -> None:
    await server.broker.queue("a").send_many(range(1_000), ttl="2s")
    await server.restart(down="5s")
    queue = server.broker.queue("a")
    await queue.maintain()
    assert await counts(queue) == {"expired": 1_000}
    assert (await queue.stats()).totals["expired"] == 1_000


async def cls_b56(broker: Any, clock: Clock) -> None:
    """D: index; all found."""
    queue = broker.queue("a")
    await queue.send_many(range(2_000))
    await queue.send_many(range(500), ttl="1s")
    clock.advance("1s")
    assert (await queue.maintain())["expired"] == 500
    assert await counts(queue) == {"ready": 2_000, "expired": 500}


async def cls_b57(broker: Any) -> None:
    """D: judged one by one."""
    queue = broker.queue("a", redelivery=after(0, most=1))
    await queue.send("old", priority=0)
    await (await one(queue)).nack()
    await queue.send_many(["new 1", "new 2"])
    async with queue.session() as session:
        claimed = await session.claim(3)
        assert [(delivery.body, delivery.charged) for delivery in claimed][-1] == ("old", 1)
        assert await session.rollback("the last one") == 3
    assert await counts(queue) == {"ready": 2, "dead": 1}
    assert [letter.body for letter in await queue.dlq.browse()] == ["old"]
    assert [delivery.charged for delivery in await queue.claim(3)] == [1, 1]


async def cls_b59(broker: Any) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    for number in range(10):
        await queue.send(number, headers={"producer": str(number % 2)})
    await queue.nack(await queue.claim(10))
    assert [(d.body, d.delivery_count) for d in await queue.claim(10)] == [(n, 2) for n in range(10)]
