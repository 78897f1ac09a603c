"""What is said of messages with keys: counts, lanes and their holders, why one waits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rq_dlq import InvalidInput, KeyStats, Message, PerKey, Redeliver, RedeliveryPolicy
from tests.conftest import Clock


async def shop(broker: Any, rule: Any, *names: str) -> Any:
    queue = broker.queue("a", per_key=rule, redelivery=RedeliveryPolicy(max_redeliveries=0))
    await queue.send_many([Message(name, id=name, key=f"customer-{name[0]}") for name in names])
    return queue


async def test_the_longest_keys_are_found(broker: Any) -> None:
    queue = await shop(broker, PerKey(order=True), *(f"a{n}" for n in range(4)), "b0", "b1", "c0")
    await queue.send("plain")
    await queue.send("later", key="customer-d", delay="1h")
    (held, *_) = await queue.claim(1)
    consumer = (await queue.key("customer-a").stats()).held_by[0][1]
    assert consumer
    expected = KeyStats("customer-a", 3, 1, "a1", (("a0", consumer),))
    found = await queue.keys()
    assert found[0] == expected == await queue.key("customer-a").stats()
    assert [(one.key, one.blocked, one.head, one.held_by) for one in found[1:]] == [
        ("customer-b", 1, "b1", (("b0", ""),))
    ]
    assert await queue.keys(exact=True) == found
    assert await queue.keys(1) == found[:1]
    assert await queue.key("customer-c").stats() == KeyStats("customer-c", 0, 1, "", (("c0", ""),))
    await held.ack()
    with pytest.raises(InvalidInput, match="look for keys"):
        await broker.queue("DLQ.a").keys()
    with pytest.raises(InvalidInput, match="1 to 200 bytes"):
        await queue.key("").stats()


async def test_a_lane_of_a_dependency_is_no_key(broker: Any) -> None:
    queue = await shop(broker, PerKey(order=True), "a0", "a1")
    await queue.send_many([Message(n, key=f"other-{n}", dependency="payments") for n in range(5)])
    await queue.dependency("payments").pause()
    await queue.claim(9)
    for exact in (False, True):
        assert [(one.key, one.blocked) for one in await queue.keys(exact=exact)] == [("customer-a", 1)]


async def test_the_pause_of_a_key_is_counted(broker: Any, clock: Any) -> None:
    queue = await shop(broker, PerKey(order=True), "a0", "a1")
    key = queue.key("customer-a")
    await key.pause()
    found = await key.stats()
    assert (found.paused, found.until) == (True, None)
    await key.pause(until="10m")
    found = await key.stats()
    assert found.paused
    assert found.until is not None
    assert [found] == await queue.keys()
    clock.advance("11m")
    found = await key.stats()
    assert (found.paused, found.until) == (False, None)


async def test_why_a_message_waits(broker: Any) -> None:
    queue = await shop(broker, PerKey(order=True, on_dead="hold"), "a0", "a1", "a2")
    (held,) = await queue.claim(9)
    said = str(await queue.explain("a2"))
    assert "a2 is scheduled: it waits for its key customer-a: 2 in front; a0 is being processed at " in said
    assert " until " in said
    await held.poison("no")
    said = str(await queue.explain("a1"))
    assert "1 in front; a0 is dead, and holds its lane until it is redriven, purged, moved or acked" in said
    await queue.dlq.redrive(all=True)
    assert "a0 is ready" in str(await queue.explain("a0"))
    assert "a0 holds its seat" in str(await queue.explain("a1"))


async def test_who_waits_for_nobody_is_let_in_by_a_claim(broker: Any) -> None:
    queue = await shop(broker, PerKey(order=True), "a0", "a1")
    assert (await queue.explain("a1")).next.endswith("when that one is done")
    await broker.policies.set("a", per_key=None, pinned=True)
    assert (await queue.explain("a1")).next == "a claim lets in the next message of its key"


async def test_a_pause_is_said(broker: Any, clock: Clock) -> None:
    """Who made it is known of an operator's; a pause that is over is none, also before a claim sees that."""
    queue = await shop(broker, PerKey(limit=1), "a0", "a1", "b0")
    key = queue.key("customer-a")
    (a0, _) = await queue.claim(9)
    await key.pause(until="10m", by="anna")
    await key.limit(2)
    assert (await key.stats()).paused_by == "anna"
    for handled in (a0,):
        async with handled:
            raise Redeliver("1h", pause_key=True)
    found = await key.stats()
    assert found.until is not None
    assert found.until >= a0.enqueued_at + timedelta(hours=1)
    assert (found.paused, found.paused_by) == (True, "")
    clock.advance("1h")
    assert "paused" not in str(await queue.explain("a1"))
    found = await key.stats()
    assert (found.paused, found.until) == (False, None)
    await key.pause(by="bob")
    assert await queue.claim(9) == []
    found = await key.stats()
    assert (found.paused, found.until, found.paused_by) == (True, None, "bob")
    assert [(one.key, one.paused_by) for one in await queue.keys()] == [("customer-a", "bob")]
    await key.resume()
    assert (await key.stats()).paused is False


async def test_a_paused_dependency_is_no_paused_key(broker: Any) -> None:
    queue = broker.queue("a", per_key=PerKey(limit=1))
    await queue.send("x", key="k", dependency="d")
    await queue.dependency("d").pause()
    assert await queue.claim(9) == []
    assert not [one for one in await queue.keys() if one.paused]


async def test_without_a_rule_nobody_waits(broker: Any) -> None:
    queue = await shop(broker, None, "a0", "a1")
    assert await queue.keys() == await queue.keys(exact=True) == []
    said = str(await queue.explain("a1"))
    assert (
        "a1 is ready: it has not been delivered yet; its key customer-a is ignored, since the queue has no"
        in said
    )
