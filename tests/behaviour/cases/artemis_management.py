"""ActiveMQ Artemis: what operators do (ART-B91 to ART-B108)."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq import BrokerUnavailable, InvalidInput
from tests.behaviour.faults import lose_replies
from tests.behaviour.helpers import after, bodies, bury, counts, fail, ids, one
from tests.conftest import Clock


async def art_b91(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(10))
    assert (await queue.dlq.redrive(all=True)).counts.moved == 10
    assert await counts(queue) == {"ready": 10}


async def art_b92(broker: Any) -> None:
    queue = broker.queue("a")
    for colour in ("red", "green", "blue"):
        await queue.send(colour, headers={"color": colour})
        await (await one(queue)).poison()
    assert (await queue.dlq.redrive(where="color = 'green'")).counts.moved == 1
    assert await bodies(queue) == ["green"]
    assert (await queue.stats()).dead == 2
    assert (await queue.dlq.redrive(all=True)).counts.moved == 2
    assert (await queue.stats()).dead == 0


async def art_b93(broker: Any) -> None:
    """Whatever is not dead has no other place to go back to, also when it is chosen with the dead."""
    queue = broker.queue("q1")
    await bury(queue, ["dead"])
    await queue.send("plain")
    assert await queue.select(places=["ready", "scheduled", "dead"]).count() == 2
    assert await queue.select(places=["ready", "scheduled", "dead"]).redrive() == 1
    assert await counts(queue) == {"ready": 2}
    await broker.policies.set("#", dead_letter={"name": "all"})
    await bury(broker.queue("q2"), ["from q2"])
    assert await broker.queue("all").select(all=True).redrive() == 1
    assert await bodies(broker.queue("q2")) == ["from q2"]


async def art_b95(broker: Any) -> None:
    source, target = broker.queue("a"), broker.queue("b", redelivery=after(0, most=0))
    await target.send("there is such a queue")
    await target.ack(await target.claim())
    sent = await source.send("x")
    assert await source.select(all=True).move("b") == 1
    await (await one(target)).nack()
    assert (await target.dlq.redrive(all=True)).counts.moved == 1
    assert await ids(target) == [sent]
    assert await counts(source) == {}


async def art_b96(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after(0, most=1))
    await queue.send("x")
    await fail(queue, 2, clock)
    await queue.dlq.redrive(all=True)
    delivery = await one(queue)
    assert (delivery.charged, delivery.redriven) == (0, 1)


async def art_b97(broker: Any) -> None:
    queue = broker.queue("a")
    first, second = await queue.send_many(["1st", "2nd"])
    assert await queue.select(ids=[first]).dead_letter() == 1
    assert await counts(queue) == {"ready": 1, "dead": 1}
    assert [letter.id for letter in await queue.dlq.browse()] == [first]
    assert await ids(queue) == [second]


async def art_b99(broker: Any) -> None:
    source, target = broker.queue("a"), broker.queue("b")
    await source.send_many(range(10))
    await target.send("before")
    assert await source.select(limit=5).move(target) == 5
    assert await bodies(source) == [5, 6, 7, 8, 9]
    assert sorted(map(str, await bodies(target))) == ["0", "1", "2", "3", "4", "before"]


async def art_b100(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(3))
    with pytest.raises(InvalidInput, match="no queue 'unknown'"):
        await queue.select(all=True).move("unknown")
    assert await counts(queue) == {"ready": 3}
    assert await broker.queues() == ["a"]


async def art_b101(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(3))
    with pytest.raises(InvalidInput, match="is their own queue"):
        await queue.select(all=True).move("a")
    assert await bodies(queue) == [0, 1, 2]


async def art_b103(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x", priority=1)
    assert await queue.select(all=True).prioritize(8) == 1
    with pytest.raises(InvalidInput, match="priority 23"):
        await queue.select(all=True).prioritize(23)
    assert (await one(queue)).priority == 8


async def art_b105(broker: Any) -> None:
    for chosen in ({"all": True}, {"where": "color = 'red'"}, {"ids": ["m0", "m2"]}):
        queue = broker.queue(f"q{len(chosen)}{''.join(chosen)}", redelivery=after("1h"))
        for number, colour in enumerate(("red", "blue", "red")):
            await queue.send(number, id=f"m{number}", headers={"color": colour})
        await queue.nack(await queue.claim(3))
        await queue.send("other")
        first = [0, 1, 2] if "all" in chosen else [0, 2]
        assert await queue.select(**chosen).deliver_now() == len(first)
        assert await bodies(queue) == [*first, "other"]


async def art_b107(broker: Any) -> None:
    """What was sent by a call that broke off is not lost, and the call can be repeated."""
    source, target = broker.queue("a"), broker.queue("b")
    await target.send("there is such a queue", id="first")
    later = await source.send_many(range(300), delay="1h")
    ready = await source.send_many(range(300))
    assert await source.select(limit=400).move(target) == 400
    left = [message.id for message in await source.select().browse()]
    assert left == later[100:]
    assert [m.id for m in await target.select(places=["ready"]).browse()] == ["first", *ready]
    await lose_replies(broker, "purge", times=3)
    with pytest.raises(BrokerUnavailable):
        await target.select(limit=350).purge()
    done = 401 - await target.select().count()
    assert 0 < done < 350
    assert await target.select(limit=350 - done).purge() == 350 - done


async def art_b108(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send("1st", ttl="1s")
    assert await queue.pause()
    assert await broker.queue("a").claim() == []
    await queue.send("2nd")
    clock.advance("1s")
    await queue.maintain()
    assert await counts(queue) == {"ready": 1, "expired": 1}
    assert await queue.claim() == []
    assert await queue.resume()
    assert await bodies(queue) == ["2nd"]
