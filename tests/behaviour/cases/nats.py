"""NATS Streaming (STN-B01 to STN-B28)."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq import InvalidDuration, LeaseLost
from tests.behaviour.cases.restartable import Restartable
from tests.behaviour.helpers import AT_ONCE, bodies, counts, one
from tests.conftest import Clock


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


async def stn_b03(broker: Any, clock: Clock) -> None:
    members = [broker.queue("a", redelivery=AT_ONCE, lease="50ms") for _ in range(2)]
    await members[0].send_many(["m1", "m2"])
    for member in members:
        await one(member)
    clock.advance("50ms")
    for member in members:
        async with await one(member) as delivery:
            assert delivery.delivery_count == 2
    assert await counts(members[0]) == {}
    clock.advance("50ms")
    assert (await members[0].maintain())["swept"] == 0


async def stn_b04(broker: Any) -> None:
    """A client that leaves gives back what it holds, as a worker does when it stops."""
    client = broker.queue("a", lease="30s")
    await client.send("x")
    await client.release(await client.claim())
    again = await one(broker.queue("a"))
    assert (again.redelivered, again.charged) == (True, 0)
    assert await broker.queue("a").claim() == []


async def stn_b05(server: Restartable) -> None:
    queue = server.broker.queue("a", redelivery=AT_ONCE, lease="15ms", max_in_flight=1)
    await queue.send_many(range(2))
    for _ in range(3):
        assert [(await one(queue)).body, await queue.claim()] == [0, []]
        server.clock.advance("15ms")
    assert (await one(queue)).delivery_count == 4
    await server.restart(down="15ms")
    again = await one(server.broker.queue("a"))
    assert (again.body, again.delivery_count) == (0, 5)


async def stn_b07(server: Restartable) -> None:
    """A subscription is a queue here."""
    for name in ("sub1", "sub2"):
        await server.broker.queue(name, redelivery=AT_ONCE, lease="1s").send("x", id="the same")
    await server.restart()
    await one(server.broker.queue("sub1", lease="1s"))
    await server.restart(down="1s")
    seen = [(await one(server.broker.queue(name))).redelivered for name in ("sub1", "sub2")]
    assert seen == [True, False]
    assert await server.broker.queue("sub1").claim() == []


async def stn_b08(server: Restartable) -> None:
    """A subscription is a queue here."""
    for name in ("sub1", "sub2"):
        queue = server.broker.queue(name, redelivery=AT_ONCE, lease="1s")
        await queue.send("x")
        await one(queue)
    await server.restart(down="1s")
    for name in ("sub1", "sub2"):
        delivery = await one(server.broker.queue(name))
        assert delivery.delivery_count == 2
        assert await server.broker.queue(name).claim() == []


async def stn_b09(server: Restartable) -> None:
    member1 = server.broker.queue("a", redelivery=AT_ONCE, lease="15ms")
    member2 = server.broker.queue("a", lease="150ms")
    await member1.send("x")
    first = await one(member1)
    server.clock.advance("15ms")
    second = await one(member2)
    await server.restart(down="100ms")
    queue = server.broker.queue("a")
    assert await counts(queue) == {"leased": 1}
    assert [settlement.outcome for settlement in await queue.ack([first])] == ["lost"]
    assert [settlement.outcome for settlement in await queue.ack([second])] == ["acked"]


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


async def stn_b15(broker: Any) -> None:
    for leaves, message in ((0, 1), (1, 2)):
        queue = broker.queue(f"q{leaves}")
        await queue.send_many([1, 2])
        held = [await one(queue), await one(queue)]
        await held[leaves].release()
        assert await bodies(queue) == [message]


async def stn_b16(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(6))
    await queue.release(await queue.claim(6))
    shares = [await bodies(queue, 2) for _ in range(3)]
    assert shares == [[0, 1], [2, 3], [4, 5]]


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


async def stn_b20(broker: Any) -> None:
    """The limit is the group's; how much of it a member takes is what it asks for."""
    await broker.policies.set("a", max_in_flight=4)
    members = [broker.queue("a") for _ in range(2)]
    await members[0].send_many(range(10))
    held = [await members[0].claim(1), await members[1].claim(3)]
    assert [len(claimed) for claimed in held] == [1, 3]
    assert [await member.claim(3) for member in members] == [[], []]
    await members[0].ack(held[0])
    assert await bodies(members[1], 3) == [4]


async def stn_b21(broker: Any) -> None:
    members = [broker.queue("a") for _ in range(4)]
    await members[0].send_many(range(2_000))
    seen: list[int] = []
    while len(seen) < 2_000:
        for member in members:
            claimed = await member.claim(100)
            seen += [delivery.body for delivery in claimed]
            await member.ack(claimed)
    assert sorted(seen) == list(range(2_000))


async def stn_b23(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE, lease="1s")
    await queue.send_many(["old 1", "old 2"])
    await queue.claim(2)
    clock.advance("1s")
    await queue.send("new")
    assert await bodies(queue) == ["old 1", "old 2", "new"]


async def stn_b25(broker: Any) -> None:
    for lease in (0, -1, "0.1ms"):
        with pytest.raises(InvalidDuration):
            broker.queue("a", lease=lease)
    await broker.queue("a", lease="1ms").send("x")


async def stn_b27(broker: Any, clock: Clock) -> None:
    """Whoever claims is healthy: nothing is sent to a member that only does not say so."""
    silent, healthy = [broker.queue("a", redelivery=AT_ONCE, lease="1s") for _ in range(2)]
    await silent.send_many(range(3))
    assert len(await silent.claim(3)) == 3
    clock.advance("1s")
    async with await one(healthy):
        pass
    assert await bodies(healthy, 3) == [1, 2]


async def stn_b28(broker: Any, clock: Clock) -> None:
    """D: never shown (lease check before the handler).

    That a worker looks, too, is shown in tests/worker/test_lost_leases.py.
    """
    queue, other = broker.queue("a", redelivery=AT_ONCE, lease="1s"), broker.queue("a", lease="1s")
    await queue.send_many(range(3))
    queued = await queue.claim(3)
    clock.advance("1s")
    await other.ack(await other.claim(2))
    assert await queue.extend(queued) == [False, False, False]
    with pytest.raises(LeaseLost):
        await queued[0].extend()
    assert await bodies(queue) == [2]
