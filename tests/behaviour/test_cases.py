"""What other systems do, end to end on the broker: the cases of `tests/cases` whose verdict is "same wanted".

One function a case, found by the name `art_b01` for ART-B01; whoever adds a case adds a function.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import yaml

from rq_dlq import InvalidDuration, PolicyError, RedeliveryPolicy
from tests.behaviour.helpers import AT_ONCE, after, bodies, bury, counts, fail, ids, one
from tests.cases import FOLDER, load
from tests.conftest import DIAGONAL, Clock

pytestmark = pytest.mark.parametrize("broker", DIAGONAL, indirect=True)
Case = Callable[[Any, Clock], Awaitable[None]]


def policy_of(system: str, value: int | None) -> RedeliveryPolicy:
    """A system's own setting as a policy."""
    if system == "artemis":
        return RedeliveryPolicy.artemis(**{"max-delivery-attempts": value})
    if system == "classic":
        return RedeliveryPolicy.activemq(maximumRedeliveries=value)
    assert value is not None
    return RedeliveryPolicy(max_redeliveries=value - 1)  # JetStream counts deliveries


ATTEMPTS = load("attempts")


@pytest.mark.parametrize("row", ATTEMPTS, ids=lambda row: row["id"])
async def test_attempts(row: dict[str, Any], broker: Any, clock: Clock) -> None:
    if row["rq"].startswith("D: ValueError"):
        with pytest.raises(PolicyError):
            policy_of(row["system"], row["value"])
        return
    queue = broker.queue("a", redelivery=policy_of(row["system"], row["value"]))
    await queue.send("x")
    assert len(await fail(queue, 30, clock)) == row["deliveries"]
    assert await counts(queue) == {"dead": 1}


# Artemis


async def art_b01(broker: Any, clock: Clock) -> None:
    queue = broker.queue("q1", redelivery=after(0, most=0))
    await queue.send("body")
    assert await fail(queue, 3, clock) == [1]
    (letter,) = await queue.dlq.browse()
    assert (letter.body, letter.original_queue) == ("body", "q1")


async def art_b02(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after(0, most=1))
    await queue.send("x")
    assert await fail(queue, 3, clock) == [1, 2]
    assert await counts(queue) == {"dead": 1}


async def art_b03(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after(0, most=1))
    await queue.send("x")
    called = 0
    for _ in range(5):
        clock.advance("1s")
        for delivery in await queue.claim():
            with contextlib.suppress(ZeroDivisionError):
                async with delivery:
                    called += 1
                    _ = 1 / 0
    assert (called, await counts(queue)) == (2, {"dead": 1})


async def art_b07(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after(0, most=15))
    sent = await queue.send_many(f"Message:{n}" for n in range(5))
    for _ in range(16):
        claimed = await queue.claim(5)
        assert [delivery.id for delivery in claimed] == sent
        await queue.nack(claimed)
        clock.advance("1s")
    assert [letter.id for letter in await queue.dlq.browse()] == sent
    assert await counts(queue) == {"dead": 5}


async def art_b14(broker: Any, clock: Clock) -> None:
    names = [f"ad{n}" for n in range(10)]
    for name in names:
        queue = broker.queue(name, redelivery=after(0, most=0))
        await queue.send_many([name] * 10)
        await queue.nack(await queue.claim(10))
    for name in names:
        assert await bodies(broker.queue(f"DLQ.{name}")) == [name] * 10
    del clock


async def art_b15(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    for _ in range(2):
        await bury(queue, ["x"])
        dead = await one(broker.queue("DLQ.a"))
        await dead.ack()
        assert await counts(queue) == {}
        assert await broker.queues() == ["a"]
    del clock


async def art_b17(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(30))
    for _ in range(10):
        await queue.poison(await queue.claim(30))
        clock.advance("1s")
        assert await queue.dlq.redrive() == 30
    assert await counts(queue) == {"ready": 30}


async def art_b22(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send("x")
    await (await one(queue)).release()
    assert (await one(queue)).charged == 0
    del clock


async def art_b23(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x")
    await (await one(queue)).nack()
    assert (await one(queue)).charged == 1
    del clock


async def art_b26(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send("x")
    await (await one(queue)).poison("the cause")
    (letter,) = await queue.dlq.browse()
    assert letter.cause.message == "the cause"
    del clock


async def art_b31(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=RedeliveryPolicy.artemis(**{"redelivery-delay": 3000}))
    await queue.send_many(range(5))
    await queue.nack(await queue.claim(5))
    clock.advance("2.999s")
    assert await queue.claim(5) == []
    clock.advance("1ms")
    assert await bodies(queue) == [0, 1, 2, 3, 4]


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


async def art_b35(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("5s"))
    await queue.send_many(range(10))
    await queue.release(await queue.claim(10))
    assert [(d.body, d.charged) for d in await queue.claim(10)] == [(n, 0) for n in range(10)]
    del clock


async def art_b39(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE, lease="1s")
    await queue.send("x")
    seen = []
    for _ in range(5):
        seen.append((await one(queue)).delivery_count)
        clock.advance("1s")
    assert seen == [1, 2, 3, 4, 5]


async def art_b40(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE, lease="1s")
    await queue.send("x")
    await queue.claim()
    clock.advance("1s")
    again = await one(broker.queue("a"))
    assert (again.delivery_count, again.redelivered) == (2, True)


async def art_b43(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x")
    await fail(queue, 100, clock)
    delivery = await one(queue)
    assert (delivery.delivery_count, len(delivery.history)) == (101, 30)


async def art_b45(broker: Any, clock: Clock) -> None:
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
    del clock


async def art_b47(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(9))
    for part in reversed([await queue.claim(3) for _ in range(3)]):
        await queue.release(list(reversed(part)))
    assert await bodies(queue) == list(range(9))
    del clock


async def art_b48(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    for priority in range(10):
        await queue.send(priority, priority=priority)
    assert await bodies(queue) == list(range(9, -1, -1))
    del clock


async def art_b60(broker: Any, clock: Clock) -> None:
    queue = broker.queue("q1")
    await queue.send("x", ttl="1ms")
    clock.advance("1ms")
    assert await queue.claim() == []
    (letter,) = await queue.expired.browse()
    assert (letter.body, letter.original_queue) == ("x", "q1")


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


async def art_b91(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bury(queue, range(10))
    assert await queue.dlq.redrive() == 10
    assert await counts(queue) == {"ready": 10}
    del clock


async def art_b92(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    for colour in ("red", "green", "blue"):
        await bury(queue, [colour], f"cannot paint {colour}")
    green = next(group for group in await queue.dlq.groups() if "green" in group.error)
    assert await queue.dlq.redrive(group=green.fingerprint) == 1
    assert (await queue.stats()).dead == 2
    assert await queue.dlq.redrive() == 2
    assert (await queue.stats()).dead == 0
    del clock


async def art_b96(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after(0, most=1))
    await queue.send("x")
    await fail(queue, 2, clock)
    await queue.dlq.redrive()
    delivery = await one(queue)
    assert (delivery.charged, delivery.redriven) == (0, 1)


# ActiveMQ Classic


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


async def cls_b13(broker: Any, clock: Clock) -> None:
    queue, elsewhere = broker.queue("a", redelivery=after(0, most=2)), broker.queue("b")
    await queue.send("x")
    for _ in range(5):
        for delivery in await queue.claim():
            await elsewhere.send({"seen": delivery.charged})
            await delivery.nack()
    assert [body["seen"] for body in await bodies(elsewhere)] == [0, 1, 2]
    assert await counts(queue) == {"dead": 1}
    del clock


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


async def cls_b17(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE, lease="1s")
    await queue.send_many(range(10))
    await queue.claim(5)
    clock.advance("1s")
    seen = [(d.redelivered, d.delivery_count) for d in await queue.claim(10)]
    assert seen == [(True, 2)] * 5 + [(False, 1)] * 5


async def cls_b20(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(400))
    seen: list[int] = []
    for _ in range(5):
        claimed = await queue.claim(1000)
        seen += [delivery.body for delivery in claimed[:80]]
        await queue.ack(claimed[:80])
        await queue.release(claimed[80:])
    assert seen == list(range(400))
    del clock


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


async def cls_b29(broker: Any, clock: Clock) -> None:
    for name in ("B", "C"):
        queue = broker.queue(name)
        await queue.send("copy", id="the same")
        await (await one(queue)).poison()
    assert [(await broker.queue(name).stats()).dead for name in ("B", "C")] == [1, 1]
    del clock


async def cls_b31(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bury(queue, ["x"])
    await queue.dlq.browse()
    await (await one(broker.queue("DLQ.a"))).nack()
    assert await broker.queues() == ["a"]
    assert await counts(queue) == {"dead": 1}
    del clock


async def cls_b35(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after(0, most=1))
    sent = await queue.send("x")
    await fail(queue, 2, clock)
    assert await queue.dlq.redrive(ids=[sent]) == 1
    assert (await queue.stats()).dead == 0
    await fail(queue, 2, clock)
    assert [letter.id for letter in await queue.dlq.browse()] == [sent]


async def cls_b36(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after(0, most=0))
    sent = await queue.send_many(range(20))
    await fail(queue, 1, clock)
    assert await queue.dlq.redrive() == 20
    await fail(queue, 3, clock)
    assert sorted(letter.id for letter in await queue.dlq.browse()) == sorted(sent)


async def cls_b37(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    dead = await bury(queue, range(5))
    for number, message_id in enumerate(dead, 1):
        assert await queue.dlq.redrive(ids=[message_id]) == 1
        assert (await queue.stats()).dead == 5 - number
    assert sorted(await ids(queue)) == sorted(dead)
    del clock


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


async def cls_b51(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after(0, most=0))
    sent = await queue.send("x", ttl="1h")
    await fail(queue, 1, clock, step="1s")
    clock.advance("2h")
    (letter,) = await queue.dlq.browse()
    assert (letter.id, letter.original_queue, letter.cause.message) == (sent, "a", "always fails")
    await queue.dlq.redrive()
    assert (await one(queue)).charged == 0


async def cls_b52(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(3), ttl="1s")
    clock.advance("2s")
    await queue.maintain()
    assert (await queue.stats()).totals["expired"] == 3
    assert await counts(queue) == {"expired": 3}


async def cls_b53(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(500), ttl="2s")
    clock.advance("5s")
    await queue.maintain()
    assert await counts(queue) == {"expired": 500}


async def cls_b55(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    first = await queue.send("x", ttl="1s")
    clock.advance("1s")
    await queue.maintain()
    async with await one(broker.queue("EXP.a")) as delivery:
        second = await queue.send(delivery.body, ttl="1s")
    clock.advance("1s")
    await queue.maintain()
    assert [letter.id for letter in await queue.expired.browse()] == [second] != [first]


async def cls_b59(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    for number in range(10):
        await queue.send(number, headers={"producer": str(number % 2)})
    await queue.nack(await queue.claim(10))
    assert [(d.body, d.delivery_count) for d in await queue.claim(10)] == [(n, 2) for n in range(10)]
    del clock


async def cls_b60(broker: Any, clock: Clock) -> None:
    queue, dead = broker.queue("a", redelivery=after(0, most=1)), broker.queue("DLQ.a")
    await queue.send_many(range(150))
    drained: list[int] = []
    while len(drained) < 150:
        await queue.nack(await queue.claim(70))
        claimed = await dead.claim(50)
        drained += [delivery.body for delivery in claimed]
        await dead.ack(claimed)
        clock.advance("1s")
    assert sorted(drained) == list(range(150))
    assert await counts(queue) == {}


# NATS Streaming


async def stn_b01(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE, lease="0.2s")
    await queue.send("m1")
    await one(queue)
    clock.advance("0.1s")
    await queue.send("m2")
    await one(queue)
    for name in ("m1", "m2"):
        clock.advance("0.1s")
        async with await one(queue) as delivery:
            assert (delivery.body, delivery.delivery_count) == (name, 2)
    assert await counts(queue) == {}


async def stn_b05(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE, lease="15ms")
    await queue.send_many(range(2))
    for _ in range(3):
        assert (await one(queue)).body == 0
        clock.advance("15ms")


async def stn_b07(broker: Any, clock: Clock) -> None:
    queue, other = broker.queue("a", redelivery=AT_ONCE, lease="1s"), broker.queue("b")
    for each in (queue, other):
        await each.send("x", id="the same")
    await queue.claim()
    clock.advance("1s")
    assert [(await one(each)).redelivered for each in (queue, other)] == [True, False]


async def stn_b12(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE, lease="0.1s")
    await queue.send("x")
    await queue.claim()
    clock.advance("0.5s")
    await (await one(queue)).ack()
    clock.advance("0.4s")
    assert await queue.claim() == []


async def stn_b13(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE, lease="0.5s")
    await queue.send("x")
    late = await one(queue)
    clock.advance("0.5s")
    current = await one(queue)
    clock.advance("0.25s")
    assert [settlement.outcome for settlement in await queue.ack([late])] == ["lost"]
    assert (await current.ack()).outcome == "acked"
    assert await counts(queue) == {}


async def stn_b15(broker: Any, clock: Clock) -> None:
    for leaves, message in ((0, 1), (1, 2)):
        queue = broker.queue(f"q{leaves}")
        await queue.send_many([1, 2])
        held = [await one(queue), await one(queue)]
        await held[leaves].release()
        assert await bodies(queue) == [message]
    del clock


async def stn_b16(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(6))
    await queue.release(await queue.claim(6))
    shares = [await bodies(queue, 2) for _ in range(3)]
    assert shares == [[0, 1], [2, 3], [4, 5]]
    del clock


async def stn_b17(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x")
    slow = await one(queue, lease="1s")
    await slow.release()
    await one(queue, lease="15ms")
    clock.advance("15ms")
    assert await bodies(queue) == ["x"]


async def stn_b19(broker: Any, clock: Clock) -> None:
    members = [broker.queue("a", redelivery=AT_ONCE, lease="50ms") for _ in range(2)]
    await members[0].send("x")
    seen = []
    for turn in range(5):
        delivery = await one(members[turn % 2])
        seen.append(delivery.delivery_count)
        if turn < 4:
            clock.advance("50ms")
    await delivery.ack()
    assert seen == [1, 2, 3, 4, 5]
    assert await counts(members[0]) == {}


async def stn_b21(broker: Any, clock: Clock) -> None:
    members = [broker.queue("a") for _ in range(4)]
    await members[0].send_many(range(2_000))
    seen: list[int] = []
    while len(seen) < 2_000:
        for member in members:
            claimed = await member.claim(100)
            seen += [delivery.body for delivery in claimed]
            await member.ack(claimed)
    assert sorted(seen) == list(range(2_000))
    del clock


async def stn_b23(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE, lease="1s")
    await queue.send_many(["old 1", "old 2"])
    await queue.claim(2)
    clock.advance("1s")
    await queue.send("new")
    assert await bodies(queue) == ["old 1", "old 2", "new"]


async def stn_b25(broker: Any, clock: Clock) -> None:
    for lease in (0, -1, "0.1ms"):
        with pytest.raises(InvalidDuration):
            broker.queue("a", lease=lease)
    await broker.queue("a", lease="1ms").send("x")
    del clock


# JetStream


async def jsb_01(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send_many(range(1, 11))
    await queue.ack(await queue.claim(5))
    await (await one(queue)).nack()
    assert await bodies(queue, 3) == [6, 7, 8]
    del clock


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


async def jsb_04(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send_many(range(1, 23))
    await (await one(queue)).nack()
    await (await one(queue)).poison("the reason")
    assert await bodies(queue, 1) == [2]
    (letter,) = await queue.dlq.browse()
    assert (letter.body, letter.delivery_count, letter.cause.message) == (1, 2, "the reason")
    del clock


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


async def jsb_13(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("2s", "4s"))
    await queue.send("m1")
    await (await one(queue)).nack()
    clock.advance("2s")
    assert (await (await one(queue)).nack()).delay == 4.0
    await queue.send("m2")
    assert (await (await one(queue)).nack()).delay == 2.0


_TEXT = (FOLDER / "behaviour.yaml").read_text(encoding="utf-8")  # its rows stand under no name
BEHAVIOUR = {row["id"]: row for row in yaml.safe_load(_TEXT)}
CASES: dict[str, Case] = {
    name.upper().replace("_", "-"): function
    for name, function in list(globals().items())
    if name.startswith(("art_", "cls_", "stn_", "jsb_"))
}


@pytest.mark.parametrize("case", CASES)
async def test_case(case: str, broker: Any, clock: Clock) -> None:
    assert BEHAVIOUR[case]["rq"].startswith("S"), "it is not one that is wanted"
    await CASES[case](broker, clock)
