"""ActiveMQ Artemis: what fails and dies (ART-B01 to ART-B27)."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from rq_dlq import PolicyError
from tests.behaviour.helpers import AT_ONCE, after, bodies, bury, counts, fail, one
from tests.conftest import Clock


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


async def art_b05(broker: Any, clock: Clock) -> None:
    """D: only if `dead_letter=None` (discard) is said outright; counted."""
    unsaid = broker.queue("a", redelivery=after(0, most=0))
    said = broker.queue("b", redelivery=after(0, most=0), dead_letter=None)
    for queue in (unsaid, said):
        await queue.send("x")
        assert await fail(queue, 2, clock) == [1]
    assert await counts(unsaid) == {"dead": 1}
    assert await counts(said) == {}
    assert (await said.stats()).totals["discarded"] == 1


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


async def art_b09(broker: Any, clock: Clock) -> None:
    await broker.policies.set("*", redelivery=after(0, most=2))
    queue = broker.queue("a")
    await queue.send("x")
    assert await fail(queue, 5, clock) == [1, 2, 3]
    assert await counts(queue) == {"dead": 1}


async def art_b10(broker: Any, clock: Clock) -> None:
    await broker.policies.set("prefix.*", redelivery=after(0, most=2), dead_letter={"name": "a"})
    await broker.policies.set("prefix.address", redelivery=after(0, most=3), dead_letter={"name": "b"})
    queue = broker.queue("prefix.address")
    await queue.send("x")
    assert await fail(queue, 3, clock) == [1, 2, 3]
    assert [await counts(broker.queue(name)) for name in "ab"] == [{}, {}]
    assert await fail(queue, 2, clock) == [4]
    assert [await counts(broker.queue(name)) for name in "ab"] == [{}, {"dead": 1}]


async def art_b11(broker: Any) -> None:
    await broker.policies.set("add.exact", dead_letter={"name": "dlqA"})
    await broker.policies.set("add.*", dead_letter={"name": "dlqB"})
    await broker.policies.set("#", dead_letter={"name": "dlqC"}, redelivery=after(0, most=0))
    for name in ("add.exact", "add.other", "other"):
        queue = broker.queue(name)
        await queue.send(name)
        async with queue.session() as session:
            await session.claim()
            await session.rollback()
    found = [await bodies(broker.queue(name)) for name in ("dlqA", "dlqB", "dlqC")]
    assert found == [["add.exact"], ["add.other"], ["other"]]


async def art_b13(broker: Any, clock: Clock) -> None:
    """D: default DLQ name used."""
    for nothing in ("", None):
        with pytest.raises(PolicyError):
            await broker.policies.set("#", dead_letter={"name": nothing})
    await broker.policies.set("#", dead_letter={}, redelivery=after(0, most=0))
    queue = broker.queue("a")
    await queue.send("x")
    assert await fail(queue, 2, clock) == [1]
    assert await bodies(broker.queue("DLQ.a")) == ["x"]


async def art_b14(broker: Any) -> None:
    names = [f"ad{n}" for n in range(10)]
    for name in names:
        queue = broker.queue(name, redelivery=after(0, most=0))
        await queue.send_many([name] * 10)
        await queue.nack(await queue.claim(10))
    for name in names:
        assert await bodies(broker.queue(f"DLQ.{name}")) == [name] * 10


async def art_b15(broker: Any) -> None:
    queue = broker.queue("a")
    for _ in range(2):
        await bury(queue, ["x"])
        dead = await one(broker.queue("DLQ.a"))
        await dead.ack()
        assert await counts(queue) == {}
        assert await broker.queues() == ["a"]


async def art_b17(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(30))
    for _ in range(10):
        await queue.poison(await queue.claim(30))
        clock.advance("1s")
        assert (await queue.dlq.redrive(all=True)).counts.moved == 30
    assert await counts(queue) == {"ready": 30}


async def art_b19(broker: Any, clock: Clock) -> None:
    """D: origin history is a list, both steps visible.

    Failing in an expiry queue leaves the message there, as in a dead-letter queue: the second step is an
    operator's.
    """
    queue = broker.queue("a", redelivery=after(0, most=0))
    sent = await queue.send("x", ttl="1ms", headers={"property": "kept"})
    clock.advance("1ms")
    await queue.maintain()
    delivery = await one(broker.queue("EXP.a"))
    assert (await delivery.nack("rejected")).outcome == "kept"
    assert await queue.expired.select(all=True).dead_letter("rejected") == 1
    clock.advance("1h")
    (letter,) = await queue.dlq.browse()
    assert (letter.id, letter.original_queue, letter.headers["property"]) == (sent, "a", "kept")
    assert [event.event for event in letter.history] == ["expired", "kept", "dead_lettered"]


async def art_b21(broker: Any) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x")
    await (await one(queue)).nack("rejected")
    delivery = await one(queue)
    assert (delivery.nacked, delivery.charged, delivery.redelivered) == (1, 1, True)


async def art_b22(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send("x")
    await (await one(queue)).release()
    assert (await one(queue)).charged == 0
    await queue.send("y")
    for _ in range(3):
        delivery = await one(queue)
        assert (delivery.attempt, delivery.redelivered) == (1, False)
        await delivery.release(delay="300ms", begun=False)
        assert await queue.claim() == []
        clock.advance("300ms")


async def art_b23(broker: Any) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x")
    await (await one(queue)).nack()
    assert (await one(queue)).charged == 1


async def art_b26(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x")
    await (await one(queue)).poison("the cause")
    (letter,) = await queue.dlq.browse()
    assert letter.cause.message == "the cause"


async def art_b27(broker: Any, clock: Clock) -> None:
    """D: id unchanged."""
    queue = broker.queue("a", redelivery=after(0, most=1))
    sent = await queue.send("x", ttl="5h", headers={"property": "kept"}, priority=7)
    await fail(queue, 2, clock)
    clock.advance("10h")
    letter = await one(broker.queue("DLQ.a"))
    assert (letter.id, letter.body, letter.priority) == (sent, "x", 7)
    assert letter.headers["property"] == "kept"
    await letter.release()
    assert (await queue.dlq.redrive(all=True)).counts.moved == 1
    again = await one(queue)
    assert (again.id, again.charged, again.expires_at) == (sent, 0, None)
