"""What a message takes in Redis, and what is left when it is gone (I13)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.behaviour.helpers import AT_ONCE, after, bury, fail, one
from tests.conftest import DIAGONAL, Clock

pytestmark = pytest.mark.parametrize("broker", DIAGONAL, indirect=True)


def size(raw: Any) -> tuple[int, int]:
    """Bytes and fields of everything but the counters."""
    total = fields = 0
    for key in raw.keys("rq:{a}:*"):
        kind = raw.type(key)
        if key.endswith((b":counters", b":policy")):
            continue
        if kind == b"hash":
            cells = [cell for pair in raw.hgetall(key).items() for cell in pair]
        elif kind == b"zset":
            cells = raw.zrange(key, 0, -1)
        else:
            cells = []
        fields += len(cells)
        total += sum(map(len, cells))
    return total, fields


async def test_it_does_not_grow_with_attempts(broker: Any, clock: Clock, raw: Any) -> None:
    """I13: but for the bounded history, and digits."""
    queue = broker.queue("a", redelivery=after("1s"))
    await queue.send("x")
    await fail(queue, 40, clock)
    before = size(raw)
    await fail(queue, 80, clock)
    after_all = size(raw)
    assert after_all[1] == before[1]
    assert after_all[0] - before[0] < 60


async def test_releases_leave_no_trace(broker: Any, raw: Any) -> None:
    """I13."""
    queue = broker.queue("a")
    await queue.send("x")
    await (await one(queue)).release()
    before = size(raw)
    for _ in range(50):
        await (await one(queue)).release()
    assert size(raw)[1] == before[1]
    assert size(raw)[0] - before[0] < 6


async def test_deaths_and_redrives_are_bounded(broker: Any, clock: Clock, raw: Any) -> None:
    """I13."""
    queue = broker.queue("a", redelivery=after("0s", most=0))
    await queue.send("x")
    sizes = []
    for _ in range(60):
        await fail(queue, 1, clock)
        sizes.append(size(raw))
        await queue.dlq.redrive()
    assert sizes[-1][1] == sizes[20][1]
    assert abs(sizes[-1][0] - sizes[20][0]) < 60


@pytest.mark.parametrize("end", ["ack", "purge", "dead and purged", "dead and acked"])
async def test_nothing_is_left_behind(end: str, broker: Any, clock: Clock, raw: Any) -> None:
    """I13: no key, no field; but counters, and the policy that was declared."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send_many(range(30), ttl="1d", headers={"a": "b"})
    await queue.send_many(range(30), delay="1s", priority=9)
    await fail(queue, 3, clock)
    if end == "ack":
        await queue.ack(await queue.claim(100))
    elif end == "purge":
        assert await queue.purge() == 60
    else:
        await queue.poison(await queue.claim(100))
        if end == "dead and purged":
            await queue.dlq.purge(all=True)
        else:
            dead = broker.queue("DLQ.a")
            await dead.ack(await dead.claim(100))
    left = {key for key in raw.keys("rq:*") if raw.ttl(key) < 0}
    assert left == {b"rq:queues", b"rq:{a}:counters", b"rq:{a}:policy"}
    assert size(raw) == (0, 0) or raw.exists("rq:{a}:wake")


async def test_a_claim_leaves_with_its_last_message(broker: Any, raw: Any) -> None:
    """I13: settled in whatever way."""
    queue = broker.queue("a", redelivery=after("1h"))
    await queue.send_many(range(4))
    claimed = await queue.claim(4)
    for delivery, verb in zip(claimed, ("ack", "nack", "poison", "release"), strict=True):
        assert raw.hlen("rq:{a}:claims") == 2
        await getattr(delivery, verb)()
    assert raw.exists("rq:{a}:claims", "rq:{a}:leases") == 0


async def test_one_queue_does_not_touch_another(broker: Any, raw: Any) -> None:
    await bury(broker.queue("b"), range(3))
    before = {key: raw.type(key) for key in raw.keys("rq:{b}:*")}
    queue = broker.queue("a")
    await queue.send_many(range(3))
    await queue.ack(await queue.claim(3))
    assert {key: raw.type(key) for key in raw.keys("rq:{b}:*")} == before
    assert (await broker.queue("b").stats()).dead == 3
