"""ActiveMQ Artemis: what outlives its time (ART-B60 to ART-B84)."""

from __future__ import annotations

from typing import Any

from rq_dlq import Message
from tests.behaviour.cases.restartable import Restartable
from tests.behaviour.helpers import AT_ONCE, bodies, counts, one
from tests.conftest import Clock


async def art_b60(broker: Any, clock: Clock) -> None:
    queue = broker.queue("q1")
    await queue.send("x", ttl="1ms")
    clock.advance("1ms")
    assert await queue.claim() == []
    (letter,) = await queue.expired.browse()
    assert (letter.body, letter.original_queue) == ("x", "q1")


async def art_b62(broker: Any, clock: Clock) -> None:
    await broker.policies.set("#", expiry={"name": "first"})
    queue = broker.queue("a")
    await queue.send("x", ttl="1ms")
    await broker.policies.set("#", expiry={"name": "second"})
    clock.advance("1ms")
    await queue.maintain()
    assert await counts(broker.queue("first")) == {}
    assert await bodies(broker.queue("second")) == ["x"]


async def art_b63(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", expiry={"discard": True})
    await queue.send("x", ttl="1ms")
    clock.advance("1ms")
    assert await queue.claim() == []
    assert await counts(queue) == {}
    assert (await queue.stats()).totals["expired"] == 1


async def art_b64(broker: Any, clock: Clock) -> None:
    """D: lands in the named expiry queue."""
    queue = broker.queue("a", expiry={"name": "nobody.listens"})
    await queue.send("x", ttl="1ms")
    clock.advance("1ms")
    await queue.maintain()
    assert (await queue.stats()).totals["expired"] == 1
    assert await bodies(broker.queue("nobody.listens")) == ["x"]


async def art_b66(broker: Any, clock: Clock) -> None:
    await broker.policies.set("prefix.*", expiry={"name": "a"})
    await broker.policies.set("prefix.address", expiry={"name": "b"})
    queue = broker.queue("prefix.address")
    await queue.send("x", ttl="1ms")
    clock.advance("1ms")
    await queue.maintain()
    assert await counts(broker.queue("a")) == {}
    assert await bodies(broker.queue("b")) == ["x"]


async def art_b67(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(100), ttl="1ms")
    clock.advance("1s")
    await queue.maintain()
    assert await counts(queue) == {"expired": 100}


async def art_b68(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    for number in range(100):
        await queue.send(number, **({"ttl": "1ms"} if number % 2 else {}))
    clock.advance("1s")
    await queue.maintain()
    assert await counts(queue) == {"ready": 50, "expired": 50}
    assert await bodies(queue) == list(range(0, 100, 2))


async def art_b71(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    consumed = []
    for number in range(60):
        await queue.send(number, ttl="10s")
        clock.advance("1s")
        if number % 3 == 0:
            async with await one(queue) as delivery:
                consumed.append(delivery.body)
    clock.advance("10s")
    await queue.maintain()
    expired = [letter.body for letter in await queue.expired.browse(limit=None)]
    assert consumed == sorted(consumed)
    assert sorted(consumed + expired) == list(range(60))


async def art_b72(broker: Any, clock: Clock) -> None:
    await broker.policies.set("#", expiry={"name": "expired"})
    queues = [broker.queue(f"q{n}") for n in range(100)]
    for queue in queues:
        await queue.send("old", ttl="1ms")
        await queue.send_many(["young"] * 10, ttl="1h")
    clock.advance("1ms")
    looked = [(await queue.maintain())["expired"] for queue in queues + queues]
    assert looked == [1] * 100 + [0] * 100  # what has time left costs nothing
    assert await counts(broker.queue("expired")) == {"expired": 100}


async def art_b74(server: Restartable) -> None:
    await server.broker.queue("a").send_many(range(20), ttl="1s")
    await server.restart(down="0.999s")
    queue = server.broker.queue("a")
    await queue.maintain()
    assert await counts(queue) == {"ready": 20}
    server.clock.advance("1ms")
    assert await queue.claim() == []
    assert await counts(queue) == {"expired": 20}


async def art_b75(broker: Any, clock: Clock) -> None:
    queue = broker.queue("addressA")
    await queue.send("x", ttl="1ms")
    clock.advance("1s")
    await queue.maintain()
    assert await bodies(broker.queue("EXP.addressA")) == ["x"]


async def art_b76(broker: Any, clock: Clock) -> None:
    for name in "abcde":
        await broker.queue(name).send_many([name] * 5, ttl="1ms")
    clock.advance("1s")
    for name in "abcde":
        await broker.queue(name).maintain()
    clock.advance("1h")
    for name in "abcde":
        assert await bodies(broker.queue(f"EXP.{name}")) == [name] * 5


async def art_b78(broker: Any, clock: Clock) -> None:
    await broker.policies.set("#", expiry={"suffix": ".expSuffix"})
    for name, count in (("queueA", 7), ("queueB", 11)):
        await broker.queue(name).send_many(range(count), ttl="100ms")
    clock.advance("100ms")
    for name, count in (("queueA", 7), ("queueB", 11)):
        await broker.queue(name).maintain()
        assert await bodies(broker.queue(f"EXP.{name}.expSuffix")) == list(range(count))


async def art_b79(broker: Any, clock: Clock) -> None:
    """D: default ttls never apply to DLQ/expiry queues."""
    await broker.policies.set("#", expiry={"expiry_delay": "10ms", "name": "expired"})
    queue = broker.queue("a")
    await queue.send("x")
    clock.advance("10ms")
    await queue.maintain()
    for _ in range(3):
        clock.advance("10ms")
        await queue.maintain()
        assert await counts(broker.queue("expired")) == {"expired": 1}


async def art_b80(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", expiry={"name": "expiryQueue", "retention": "600s"})
    await queue.send("x", ttl="1ms")
    clock.advance("1ms")
    await queue.maintain()
    clock.advance("599.999s")
    await queue.maintain()
    assert await counts(broker.queue("expiryQueue")) == {"expired": 1}
    clock.advance("1ms")
    await queue.maintain()
    assert await counts(broker.queue("expiryQueue")) == {}
    assert (await queue.stats()).totals["discarded"] == 1


async def art_b82(server: Restartable) -> None:
    """However it is sent: alone, with others, in a session; its id said or drawn."""
    queue = server.broker.queue("a", expiry={"max_expiry_delay": "10s"})
    await queue.send("core", ttl="20s")
    await queue.send_many(["AMQP", Message(body="OpenWire", id="said")], ttl="20s")
    async with queue.session() as session:
        await session.send(queue, "session", ttl="20s")
    await server.restart(down="9.999s")
    queue = server.broker.queue("a")
    await queue.maintain()
    assert await counts(queue) == {"ready": 4}
    server.clock.advance("1ms")
    await queue.maintain()
    assert await counts(queue) == {"expired": 4}


async def art_b83(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x", ttl="1s")
    delivery = await one(queue)
    clock.advance("10s")
    await queue.maintain()
    assert await counts(queue) == {"leased": 1}
    assert (await delivery.nack()).outcome == "expired"


async def art_b84(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(400), ttl="1ms")
    await queue.send("alive")
    clock.advance("1s")
    assert await bodies(queue) == ["alive"]
