"""What a message takes in Redis, and what is left when it is gone (I13)."""

from __future__ import annotations

from typing import Any

from tests.behaviour.helpers import AT_ONCE, after, bury, fail, one
from tests.conftest import Clock
from tests.tables import each_row_afresh

SIZED = (20, 59)  # the rounds after which a growth would show


def size(raw: Any) -> tuple[int, int]:
    """Bytes and fields of everything but counters, settings, and the bounded memory of groups and acts."""
    total = fields = 0
    for key in raw.keys("rq:{a}:*"):
        kind = raw.type(key)
        if key.endswith((b":counters", b":settings", b":cleared", b":audit")):
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
    for n in range(60):
        await fail(queue, 1, clock)
        if n in SIZED:
            sizes.append(size(raw))
        await queue.dlq.select(all=True).redrive()
    assert sizes[-1][1] == sizes[0][1]
    assert abs(sizes[-1][0] - sizes[0][0]) < 60


@each_row_afresh("end", ["ack", "purge", "dead and purged", "dead and acked"])
async def test_nothing_is_left_behind(end: str, broker: Any, clock: Clock, raw: Any) -> None:
    """I13: no key, no field; but counters, and the settings that were declared."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send_many(range(30), ttl="1d", headers={"a": "b"})
    await queue.send_many(range(30), delay="1s", priority=9)
    await fail(queue, 3, clock)
    if end == "ack":
        await queue.ack(await queue.claim(100))
    elif end == "purge":
        assert await queue.purge(all=True) == 60
    else:
        await queue.poison(await queue.claim(100))
        if end == "dead and purged":
            await queue.dlq.purge(all=True)
        else:
            dead = broker.queue("DLQ.a")
            await dead.ack(await dead.claim(100))
    assert stays(raw) == {b"rq:queues", b"rq:{a}:counters", b"rq:{a}:settings"}
    assert size(raw) == (0, 0)


def stays(raw: Any) -> set[bytes]:
    """The keys that do not go by themselves, but for the audit, a note for each act."""
    assert raw.xlen("rq:{a}:audit") <= 6
    return {key for key in raw.keys("rq:*") if raw.ttl(key) < 0 and not key.endswith(b":audit")}


async def _dropped(queue: Any, other: Any, clock: Clock) -> None:
    del other
    await queue.poison(await queue.claim(100))
    clock.advance("2d")
    await queue.maintain()


async def _retired(queue: Any, other: Any, clock: Clock) -> None:
    del other
    await queue.select(places=["ready"]).dead_letter()
    await queue.select(places=["scheduled"]).expire()
    clock.advance("2d")
    assert (await queue.maintain())["retired"] == 60


async def _moved(queue: Any, other: Any, clock: Clock) -> None:
    del clock
    await queue.select(all=True).prioritize(7)
    assert await queue.select(all=True).move(other) == 60


async def _removed(queue: Any, other: Any, clock: Clock) -> None:
    del other, clock
    assert await queue.select(limit=10).dead_letter() == 10
    assert await queue.select(limit=10).expire() == 10
    assert await queue.dlq.select(all=True).redrive() == 10
    assert await queue.select(places=["scheduled"]).deliver_now() == 30
    assert await queue.select(all=True).purge() == 50
    assert await queue.expired.select(all=True).purge() == 10


async def _committed(queue: Any, other: Any, clock: Clock) -> None:
    clock.advance("1h")
    async with queue.session() as session:
        assert len(await session.claim(100)) == 60
        await session.send(other, "result")


ENDS: dict[str, tuple[dict[str, Any], Any, int]] = {  # policies, what is done, messages of b then
    "dropped": ({"dead_letter": None, "expiry": {"discard": True}}, _dropped, 1),
    "retired": ({"dead_letter": {"expiration": "1d"}, "expiry": {"retention": "1d"}}, _retired, 1),
    "moved": ({"max_in_flight": 5}, _moved, 61),
    "removed": ({"expiry": {"expiry_delay": "1h"}}, _removed, 1),
    "committed": ({}, _committed, 2),
}


@each_row_afresh("end", ENDS)
async def test_no_verb_leaves_anything_behind(end: str, broker: Any, clock: Clock, raw: Any) -> None:
    """I13: neither here nor, but for what it was sent, in another queue."""
    said, act, there = ENDS[end]
    other = broker.queue("b")
    await other.send("there")
    queue = broker.queue("a", redelivery=AT_ONCE, **said)
    await queue.send_many(range(30), ttl="1d", headers={"a": "b"})
    await queue.send_many(range(30), delay="1s", priority=9, ttl="1d")
    await act(queue, other, clock)
    known = {b"rq:queues", b"rq:{a}:counters", b"rq:{a}:settings"}
    assert {key for key in stays(raw) if b"{b}" not in key} == known
    assert size(raw) == (0, 0)
    clock.advance("1h")
    await other.ack(await other.claim(100))
    assert (await other.stats()).totals["acked"] == there
    assert stays(raw) == known | {b"rq:{b}:counters", b"rq:{b}:settings"}


@each_row_afresh("circle", ["buried", "moved", "reordered", "paused", "configured"])
async def test_no_verb_makes_it_grow(circle: str, broker: Any, clock: Clock, raw: Any) -> None:
    """I13: but for the bounded history, and digits."""
    queue, other = broker.queue("a", redelivery=AT_ONCE), broker.queue("b")
    await other.send("there")
    await queue.send("x", id="m")
    sizes = []
    for n in range(60):
        clock.advance("1s")
        if circle == "buried":
            assert (
                await queue.select(all=True).dead_letter() == await queue.dlq.select(all=True).redrive() == 1
            )
            assert (
                await queue.select(all=True).expire() == await queue.expired.select(all=True).redrive() == 1
            )
        elif circle == "moved":
            assert await queue.select(all=True).move("b") == 1
            assert await other.select(ids=["m"]).move("a") == 1
        elif circle == "reordered":
            assert await queue.select(all=True).prioritize(n % 10) == 1
        elif circle == "paused":
            assert await queue.pause()
            assert await queue.resume()
        else:
            assert await broker.policies.set("#", max_in_flight=10 + n) == 2
            assert await broker.policies.remove("#") == 2
        if n in SIZED:
            sizes.append(size(raw))
    assert sizes[-1][1] == sizes[0][1]
    assert abs(sizes[-1][0] - sizes[0][0]) < 60
    assert raw.hlen("rq:{a}:settings") <= 4  # opening, version, declared, redelivery
    assert raw.hlen("rq:policies") <= 1  # its version


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
