"""What is said of messages with keys: counts, lanes and their holders, why one waits."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq import InvalidInput, KeyStats, Message, PerKey, RedeliveryPolicy


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


async def test_without_a_rule_nobody_waits(broker: Any) -> None:
    queue = await shop(broker, None, "a0", "a1")
    assert await queue.keys() == await queue.keys(exact=True) == []
    said = str(await queue.explain("a1"))
    assert (
        "a1 is ready: it has not been delivered yet; its key customer-a is ignored, since the queue has no"
        in said
    )
