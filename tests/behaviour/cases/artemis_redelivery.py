"""ActiveMQ Artemis: what fails and comes back (ART-B31 to ART-B51)."""

from __future__ import annotations

from typing import Any

from rq_dlq import Message, PerKey, RedeliveryPolicy
from tests.behaviour.cases.restartable import Restartable
from tests.behaviour.helpers import AT_ONCE, after, bodies, counts, fail, one
from tests.conftest import Clock


async def art_b31(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=RedeliveryPolicy.artemis(**{"redelivery-delay": 3000}))
    await queue.send_many(range(5))
    await queue.nack(await queue.claim(5))
    clock.advance("2.999s")
    assert await queue.claim(5) == []
    clock.advance("1ms")
    assert await bodies(queue) == [0, 1, 2, 3, 4]


async def art_b32(server: Restartable) -> None:
    policy = RedeliveryPolicy.artemis(**{"redelivery-delay": 3000})
    queue = server.broker.queue("a", redelivery=policy)
    await queue.send("x")
    await (await one(queue)).nack()
    await server.restart(down="2.999s")
    queue = server.broker.queue("a")
    assert await queue.claim() == []
    server.clock.advance("1ms")
    assert await bodies(queue) == ["x"]


async def art_b33(broker: Any, clock: Clock) -> None:
    policy = RedeliveryPolicy.artemis(
        **{"redelivery-delay": 100, "redelivery-delay-multiplier": 2, "max-redelivery-delay": 1000}
    )
    queue = broker.queue("a", redelivery=policy)
    await queue.send("x")
    waits = []
    for _ in range(6):
        waits.append((await (await one(queue)).nack()).delay)
        clock.advance(waits[-1])
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


async def art_b35(broker: Any) -> None:
    queue = broker.queue("a", redelivery=after("5s"))
    await queue.send_many(range(10))
    await queue.release(await queue.claim(10))
    assert [(d.body, d.charged) for d in await queue.claim(10)] == [(n, 0) for n in range(10)]


async def art_b36(broker: Any, clock: Clock) -> None:
    """D: a lost worker counts *and* waits by policy."""
    queue = broker.queue("a", redelivery=after("5s", most=1), lease="1s")
    await queue.send("x")
    assert (await one(queue)).charged == 0
    clock.advance("1s")
    assert await queue.claim() == []
    clock.advance("4.999s")
    assert await queue.claim() == []
    clock.advance("1ms")
    again = await one(queue)
    assert (again.charged, again.lapsed) == (1, 1)
    clock.advance("1s")
    assert await queue.claim() == []
    assert await counts(queue) == {"dead": 1}


async def art_b39(server: Restartable) -> None:
    await server.broker.queue("a", redelivery=AT_ONCE, lease="1s").send("x")
    seen = []
    for _ in range(5):
        seen.append((await one(server.broker.queue("a", lease="1s"))).delivery_count)
        await server.restart(down="1s")
    assert seen == [1, 2, 3, 4, 5]


async def art_b40(server: Restartable) -> None:
    """The count is written before the delivery leaves the server."""
    await server.broker.queue("a", redelivery=AT_ONCE, lease="1s").send("x")
    assert (await one(server.broker.queue("a", lease="1s"))).delivery_count == 1
    await server.restart()
    (held,) = await server.broker.queue("a").select(places=["leased"]).browse()
    assert held.delivery_count == 1
    server.clock.advance("1s")
    assert (await one(server.broker.queue("a"))).delivery_count == 2


async def art_b41(server: Restartable) -> None:
    """D: never (see ART-B40)."""
    await server.broker.queue("a", redelivery=AT_ONCE, lease="1s").send("x")
    delivery = await one(server.broker.queue("a", lease="1s"))
    assert (delivery.delivery_count, delivery.redelivered) == (1, False)
    await server.restart(down="1s")
    again = await one(server.broker.queue("a"))
    assert (again.delivery_count, again.redelivered) == (2, True)


async def art_b43(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x")
    await fail(queue, 100, clock)
    delivery = await one(queue)
    assert (delivery.delivery_count, len(delivery.history)) == (101, 30)


async def art_b44(server: Restartable) -> None:
    """D: 25."""
    queue = server.broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x")
    assert len(await fail(queue, 25, server.clock)) == 25
    await server.restart()
    delivery = await one(server.broker.queue("a"))
    assert (delivery.charged, delivery.delivery_count) == (25, 26)


async def art_b45(broker: Any) -> None:
    queue = broker.queue("a", redelivery=after(0, most=0))
    await queue.send_many(range(20))
    seen = []
    for _ in range(20):
        first, *prefetched = await queue.claim(20)
        assert (first.charged, first.delivery_count) == (0, 1 + first.released)
        seen.append(first.body)
        await first.ack()
        await queue.release(prefetched)
    assert seen == list(range(20))


async def art_b47(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(9))
    for part in reversed([await queue.claim(3) for _ in range(3)]):
        await queue.release(list(reversed(part)))
    assert await bodies(queue) == list(range(9))


async def art_b48(broker: Any) -> None:
    queue = broker.queue("a")
    for priority in range(10):
        await queue.send(priority, priority=priority)
    assert await bodies(queue) == list(range(9, -1, -1))


async def art_b49(broker: Any) -> None:
    """D: a key belongs to no consumer, and no two have its messages at once."""
    consumers = [broker.queue("a", per_key=PerKey(order=True)) for _ in range(2)]
    await consumers[0].send_many(Message(n, key="group") for n in range(100))
    seen = []
    for n in range(100):
        first, second = consumers if n % 3 else consumers[::-1]
        delivery = await one(first)
        assert await second.claim(10) == []
        seen.append(delivery.body)
        await delivery.ack()
    assert seen == list(range(100))


async def art_b51(broker: Any) -> None:
    queue = broker.queue("a", per_key=PerKey(order=True), redelivery=AT_ONCE)
    await queue.send_many(Message(n, key="group") for n in range(3))
    async with queue.session() as session:
        assert [delivery.body for delivery in await session.claim(10)] == [0]
        await session.rollback()
    seen = []
    while deliveries := await queue.claim(10):
        assert len(deliveries) == 1
        seen.append((deliveries[0].body, deliveries[0].charged))
        await deliveries[0].ack()
    assert seen == [(0, 1), (1, 0), (2, 0)]
