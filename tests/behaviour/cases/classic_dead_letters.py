"""ActiveMQ Classic: dead letters, and what operators do to them (CLS-B27 to CLS-B60)."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq import DiscardingDeadLetterStrategy, InvalidInput, Message
from tests.behaviour.helpers import after, bodies, bury, counts, fail, ids, one
from tests.conftest import Clock


async def cls_b27(broker: Any, clock: Clock) -> None:
    await broker.policies.set("#", dead_letter={"expiration": "1s"}, redelivery=after(0, most=0))
    queue, dead = broker.queue("loop"), broker.queue("DLQ.loop")
    await queue.send_many(range(2))
    assert await fail(queue, 3, clock) == [1, 1]
    assert len(await fail(dead, 1, clock, step="0.5s")) == 2  # what fails there stays there
    assert await counts(queue) == {"dead": 2}
    clock.advance("0.5s")
    await queue.maintain()
    assert await counts(queue) == {}
    assert (await queue.stats()).totals["discarded"] == 2


async def cls_b28(broker: Any, clock: Clock) -> None:
    """D: exact, windowless."""
    queues = [broker.queue(name, redelivery=after(0, most=0)) for name in ("a", "b")]
    names = [f"m{n}" for n in range(100)]
    for _ in range(3):
        for queue in queues:
            await queue.send_many(Message(body=name, id=name) for name in names)
            await fail(queue, 1, clock)
    for queue in queues:
        assert [letter.id for letter in await queue.dlq.browse(limit=None)] == names
        assert (await queue.dlq.redrive(all=True)).counts.moved == 100
        await fail(queue, 1, clock)
        assert await counts(queue) == {"dead": 100}


async def cls_b29(broker: Any) -> None:
    for name in ("B", "C"):
        queue = broker.queue(name)
        await queue.send("copy", id="the same")
        await (await one(queue)).poison()
    assert [(await broker.queue(name).stats()).dead for name in ("B", "C")] == [1, 1]


async def cls_b31(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, ["x"])
    await queue.dlq.browse()
    await (await one(broker.queue("DLQ.a"))).nack()
    assert await broker.queues() == ["a"]
    assert await counts(queue) == {"dead": 1}


async def cls_b32(broker: Any, clock: Clock) -> None:
    """See NAM-13."""
    await broker.policies.set("topic.#", dead_letter={"prefix": "ActiveMQ.DLQ.Topic."})
    queue = broker.queue("topic.clientId:subName", redelivery=after(0, most=0))
    await queue.send("x")
    await fail(queue, 1, clock)
    assert await bodies(broker.queue("ActiveMQ.DLQ.Topic.topic.clientId:subName")) == ["x"]


async def cls_b33(broker: Any, clock: Clock) -> None:
    await broker.policies.set("#", dead_letter=DiscardingDeadLetterStrategy(), redelivery=after(0, most=0))
    queue = broker.queue("a")
    await queue.send_many(range(10))
    await fail(queue, 1, clock)
    assert await counts(queue) == {}
    assert (await queue.stats()).totals["discarded"] == 10


async def cls_b35(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after(0, most=1))
    sent = await queue.send("x")
    await fail(queue, 2, clock)
    assert (await queue.dlq.redrive(ids=[sent])).counts.moved == 1
    assert (await queue.stats()).dead == 0
    await fail(queue, 2, clock)
    assert [letter.id for letter in await queue.dlq.browse()] == [sent]


async def cls_b36(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after(0, most=0))
    sent = await queue.send_many(range(20))
    await fail(queue, 1, clock)
    assert (await queue.dlq.redrive(all=True)).counts.moved == 20
    await fail(queue, 3, clock)
    assert sorted(letter.id for letter in await queue.dlq.browse()) == sorted(sent)


async def cls_b37(broker: Any) -> None:
    queue = broker.queue("a")
    dead = await bury(queue, range(5))
    for number, message_id in enumerate(dead, 1):
        assert (await queue.dlq.redrive(ids=[message_id])).counts.moved == 1
        assert (await queue.stats()).dead == 5 - number
    assert sorted(await ids(queue)) == sorted(dead)


async def cls_b39(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(3))
    for verb in ("move", "copy"):
        with pytest.raises(InvalidInput):
            await getattr(queue.select(all=True), verb)("a")
    assert await bodies(queue) == [0, 1, 2]


async def cls_b40(broker: Any) -> None:
    """D: atomic, refuses."""
    source, target = broker.queue("A"), broker.queue("B")
    await target.send("before")
    sent = await source.send("x")
    assert await source.select(all=True).copy("B") == 1
    assert await source.select(all=True).move("B") == 0
    assert await ids(source) == [sent]
    assert await bodies(target) == ["before", "x"]


async def cls_b41(broker: Any) -> None:
    """By the origin: what is not dead is left alone."""
    queue = broker.queue("a")
    await queue.send_many(range(3), delay="1h")
    assert await queue.select(all=True).redrive() == 0
    assert await counts(queue) == {"scheduled": 3}


async def cls_b49(broker: Any) -> None:
    """D: only with an outright discard."""
    for name, declared, left in (("a", {}, {"dead": 1}), ("b", {"dead_letter": None}, {})):
        queue = broker.queue(name, **declared)
        await queue.send("x")
        outcome = (await (await one(queue)).poison()).outcome
        assert outcome == ("dead" if left else "discarded")
        assert await counts(queue) == left


async def cls_b51(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after(0, most=0))
    sent = await queue.send("x", ttl="1h", persistent=False)
    await fail(queue, 1, clock, step="1s")
    clock.advance("2h")
    (letter,) = await queue.dlq.browse()
    assert (letter.id, letter.original_queue, letter.cause.message) == (sent, "a", "always fails")
    await queue.dlq.redrive(all=True)
    assert (await one(queue)).charged == 0


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
