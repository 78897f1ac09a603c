"""What scripts that were cut off leave in lanes is repaired by claims, some of it per second."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from rq_dlq import Message, PerKey
from rq_dlq._keys import QueueKeys
from rq_dlq.values.key import lane_of
from tests.behaviour.helpers import after, ids, keyed, one
from tests.conftest import Clock
from tests.model.message_model import BLOCKED
from tests.tables import each_row_afresh

KEYS = QueueKeys("rq", "a")
SEATS, READY, SCHEDULED = KEYS["seats"], KEYS["ready"], KEYS["scheduled"]
ORDER = PerKey(order=True)
shop = partial(keyed, redelivery=after("1h"))


def row_of(raw: Any, index: str | bytes, message_id: str) -> bytes:
    """Its row in an index."""
    (row,) = [row for row in raw.zrange(index, 0, -1) if row.endswith(message_id.encode())]
    assert isinstance(row, bytes)
    return row


def block(raw: Any, message_id: str, key: str) -> None:
    """As if the script that let it in had been cut off before its row was written."""
    row = row_of(raw, READY, message_id)
    raw.zadd(SCHEDULED, {row: BLOCKED + lane_of(key)})
    raw.zrem(READY, row)


async def tended(queue: Any, clock: Clock) -> None:
    """A claim after a second, which takes a message without a key."""
    await queue.send("-", id="-", priority=9)
    clock.advance("1s")
    assert await ids(queue, 1) == ["-"]


@each_row_afresh("rule, keeps", [(PerKey(limit=2), False), (ORDER, True), (PerKey(fair=2), False)])
async def test_one_that_waits_for_its_redelivery_has_a_seat_only_in_order(
    rule: PerKey, keeps: bool, broker: Any, raw: Any, clock: Clock
) -> None:
    queue = await shop(broker, rule, "a1")
    await (await one(queue)).nack("no")
    raw.zadd(SEATS, {"a1": lane_of("a")})
    await tended(queue, clock)
    assert (raw.zscore(SEATS, "a1") is not None) is keeps


@each_row_afresh("rule", [ORDER, PerKey(limit=1), PerKey(fair=1)])
async def test_one_that_is_ready_keeps_its_seat(rule: PerKey, broker: Any, raw: Any, clock: Clock) -> None:
    queue = await shop(broker, rule, "a1", "a2")
    await tended(queue, clock)
    assert raw.zrange(SEATS, 0, -1) == [b"a1"]
    assert (await queue.stats()).blocked == 1


@each_row_afresh("rule", [ORDER, PerKey(limit=1), PerKey(fair=1)])
async def test_one_that_is_blocked_with_a_seat_is_ready_now(
    rule: PerKey, broker: Any, raw: Any, clock: Clock
) -> None:
    queue = await shop(broker, rule, "a1")
    block(raw, "a1", "a")
    clock.advance("1s")
    await queue.send("b1", id="b1", key="b")
    assert await ids(queue) == ["a1", "b1"]


@each_row_afresh("why", ["a rate", "a pause"])
async def test_one_that_may_not_be_let_in_gives_its_seat_back(
    why: str, broker: Any, raw: Any, clock: Clock
) -> None:
    queue = await shop(broker, PerKey(limit=2, rate="1/h" if why == "a rate" else None), "b1", "a1")
    block(raw, "a1", "a")
    if why == "a rate":
        raw.zadd(KEYS["slots"], {str(lane_of("a")): clock.now + 60_000})
        raw.expire(KEYS["slots"], 60)
    else:
        raw.zrem(SEATS, "b1")
        await queue.key("a").pause()
        raw.zadd(SEATS, {"a1": lane_of("a"), "b1": lane_of("b")})
    await tended(queue, clock)
    assert raw.zrange(SEATS, 0, -1) == [b"b1"]
    assert (await queue.stats()).blocked == 1


@each_row_afresh("rule, keeps", [(ORDER, True), (PerKey(limit=1), True), (PerKey(fair=1), False)])
async def test_one_that_is_handed_out_keeps_its_seat_unless_keys_take_turns(
    rule: PerKey, keeps: bool, broker: Any, raw: Any, clock: Clock
) -> None:
    queue = await shop(broker, rule, "a1")
    assert await ids(queue, 1) == ["a1"]
    raw.zadd(SEATS, {"a1": lane_of("a")})
    await tended(queue, clock)
    assert (raw.zscore(SEATS, "a1") is not None) is keeps


async def test_one_that_is_gone_has_no_seat_and_one_of_a_later_version_keeps_it(
    broker: Any, raw: Any, clock: Clock
) -> None:
    queue = await shop(broker, PerKey(limit=9), "a1")
    record = raw.hget(KEYS["messages"], "a1")
    raw.hset(KEYS["states"], "a1", b">=9.9 live - 0 0 0 0 0 0 0 0")
    raw.zadd(SEATS, {"gone": lane_of("a")})
    await tended(queue, clock)
    assert raw.zrange(SEATS, 0, -1) == [b"a1"]
    assert raw.hget(KEYS["messages"], "a1") == record
    raw.hdel(KEYS["states"], "a1")


async def test_the_slot_of_one_that_is_handed_out_is_taken_late(broker: Any, raw: Any, clock: Clock) -> None:
    """The claim was cut off before it took the slot: the next of its key follows an interval later."""
    queue = await shop(broker, PerKey(limit=3, rate="1/5s"), "a1", "a2", "a3")
    assert await ids(queue) == ["a1"]
    raw.delete(KEYS["slots"])
    raw.zadd(SEATS, {"a1": lane_of("a") + 0.5})
    clock.advance("1s")
    assert await queue.claim(9) == []
    assert raw.zscore(SEATS, "a1") == lane_of("a")
    assert raw.zscore(KEYS["slots"], str(lane_of("a"))) == clock.now + 5_000
    clock.advance("4999ms")
    assert await queue.claim(9) == []
    clock.advance("1ms")
    assert await ids(queue) == ["a2"]


async def test_the_seat_of_a_cancelled_call_stays_with_its_lease(broker: Any, raw: Any, clock: Clock) -> None:
    queue = await shop(broker, ORDER, "a1", "a2", lease="10s")
    call = await one(queue)
    seat = f"\2{call.token} a1"
    raw.zadd(
        SEATS, {seat: lane_of("a")}
    )  # the cancel was cut off: the message is still held, and has its own
    clock.advance("1s")
    assert await queue.claim(9) == []
    assert raw.zrange(SEATS, 0, -1) == [b"a1"]
    assert await queue.cancel("a1") == "cancelled"
    for _ in range(8):
        clock.advance("1s")
        assert await queue.claim(9) == []
    assert raw.zrange(SEATS, 0, -1) == [seat.encode()]
    raw.zrem(KEYS["leases"], call.token)  # what ended the lease was cut off
    raw.hdel(KEYS["claims"], call.token, f"{call.token}:held")
    clock.advance("1s")
    assert await ids(queue) == ["a2"]


async def test_a_hundred_seats_are_read_in_a_second(broker: Any, raw: Any, clock: Clock) -> None:
    """Also if all are of one key; the next claim continues there, and after the last begins again."""
    queue = await shop(broker, PerKey(limit=1_000), *(f"a{n:03}" for n in range(120)))
    raw.zadd(SEATS, {f"gone{n:03}": lane_of("a") for n in range(100)})
    raw.zadd(SEATS, {"first": 1})
    left = []
    for second in range(4):
        clock.advance("1s")
        await queue.claim(1)
        left.append(raw.zcard(SEATS))
        if second == 0:
            raw.zadd(SEATS, {"in front": 1})
    assert left == [220, 142, 121, 120]


async def test_without_a_rule_all_that_are_blocked_become_due(broker: Any, raw: Any, clock: Clock) -> None:
    """A hundred lanes in a second; what made them wait is gone, and forgotten with the last of them."""
    queue = broker.queue("a")
    await queue.send_many([Message(n, id=f"{n}", key=f"{n}") for n in range(101)])
    for row in raw.zrange(READY, 0, -1):
        raw.zadd(SCHEDULED, {row: BLOCKED + lane_of(row[8:].decode())})
    raw.delete(READY)
    raw.hset(KEYS["settings"], "gated", "special")
    for left in (1, 0):
        clock.advance("1s")
        await queue.claim(1)
        assert (await queue.stats()).blocked == left
        assert raw.hget(KEYS["settings"], "gated") == (b"special" if left else b"plain")
    clock.advance("1s")
    assert len(await queue.claim(200)) == 100


async def test_a_rule_of_a_later_version_is_not_forgotten(broker: Any, raw: Any, clock: Clock) -> None:
    queue = await shop(broker, ORDER, "a1", "a2")
    raw.hset(KEYS["settings"], "per_key", "turns 3")
    for _ in range(3):
        clock.advance("1s")
        await queue.claim(1)
    assert raw.hget(KEYS["settings"], "per_key") == b"turns 3"
    assert raw.exists(SEATS)


async def test_a_hundred_lanes_are_read_in_a_second(broker: Any, raw: Any, clock: Clock) -> None:
    """However many lanes are held, each has its turn, and the seats that are free are used."""
    keys = sorted((f"k{n}" for n in range(102)), key=lane_of)
    queue = broker.queue("a", per_key=PerKey(limit=1))
    await queue.send_many([Message(n, id=f"{key}:{n}", key=key) for n in (1, 2) for key in keys])
    assert len(await queue.claim(200)) == 102
    raw.zrem(SEATS, f"{keys[99]}:1", f"{keys[100]}:1")
    found = []
    for _ in range(3):
        clock.advance("1s")
        found += await ids(queue)
    assert found == [f"{keys[100]}:2", f"{keys[99]}:2"]
    assert 599_000 < raw.pttl(KEYS["tended"]) <= 600_000


@each_row_afresh("left", [1, 2])
async def test_rows_without_a_message_are_dropped_and_the_next_let_in(
    left: int, broker: Any, raw: Any
) -> None:
    """In the same step, as many as seats are free."""
    queue = await shop(broker, PerKey(limit=2), "a1", "a2", "a3", "a4", "a5")
    held = await queue.claim(9)
    raw.zadd(SCHEDULED, {bytes(8) + b"gone%d" % n: BLOCKED + lane_of("a") for n in range(left)})
    await queue.ack(held)
    assert await ids(queue) == ["a3", "a4"]
    assert raw.zcard(SCHEDULED) == 1


async def test_a_row_of_one_that_is_handed_out_is_dropped(broker: Any, raw: Any, clock: Clock) -> None:
    """Also if it was handed out before, and has a state; it is not handed out twice."""
    queue = await shop(broker, PerKey(limit=3), "a1", "a2")
    rows = {message_id: row_of(raw, READY, message_id) for message_id in ("a1", "a2")}
    await queue.release(await queue.claim(9))
    assert await ids(queue) == ["a1", "a2"]
    raw.zadd(SCHEDULED, dict.fromkeys(rows.values(), BLOCKED + lane_of("a")))
    clock.advance("1s")
    assert await queue.claim(9) == []
    assert not raw.exists(SCHEDULED)
    assert (await queue.stats()).leased == 2


async def test_two_rows_of_one_that_is_parked_let_in_one(broker: Any, raw: Any) -> None:
    queue = await shop(broker, PerKey(limit=1))
    await queue.send("", id="a1", key="a", dependency="mail")
    await queue.send_many([Message("", id=name, key="a") for name in ("a2", "a3")])
    second = b"\0" + row_of(raw, READY, "a1")[1:]
    raw.zadd(READY, {second: 0})
    await queue.dependency("mail").pause()
    assert await ids(queue) == ["a2"]
    assert raw.zrem(SCHEDULED, second)


async def test_a_batch_is_filled_past_a_row_without_a_message(broker: Any, raw: Any) -> None:
    queue = await shop(broker, PerKey(fair=1), *(f"a{n}" for n in range(9)))
    raw.zadd(SCHEDULED, {bytes(8) + b"gone": BLOCKED + lane_of("a")})
    assert len(await queue.claim(4)) == 4
    assert raw.zcard(SCHEDULED) == 4


@pytest.mark.parametrize("backend", ["real"])
async def test_a_thousand_messages_are_let_in_at_once(broker: Any, raw: Any, clock: Clock) -> None:
    """Of all lanes together, by a higher limit; and as many a second if there is no rule any more."""
    del raw
    queue = broker.queue("a", per_key=PerKey(limit=1))
    await queue.send_many([Message(n, key="ab"[n % 2]) for n in range(2_202)])
    await broker.policies.set("a", per_key=PerKey(limit=1_000), pinned=True)
    clock.advance("1s")
    await queue.claim(1)
    assert (await queue.stats()).blocked == 1_200
    await broker.policies.set("a", per_key=None, pinned=True)
    for left in (200, 0):
        clock.advance("1s")
        await queue.claim(1)
        assert (await queue.stats()).blocked == left


@each_row_afresh("end", ["dead_letter", "expire"])
async def test_the_next_is_let_in_past_the_rows_of_dead_letters(end: str, broker: Any, raw: Any) -> None:
    queue = await shop(broker, ORDER, *(f"a{n}" for n in range(1, 5)))
    first = await queue.claim()
    rows = {row_of(raw, SCHEDULED, name): BLOCKED + lane_of("a") for name in ("a2", "a3")}
    await getattr(queue.select(ids=["a2", "a3"]), end)()
    raw.zadd(SCHEDULED, rows)  # as if the script had been cut off before its last step
    await queue.ack(first)
    assert await ids(queue) == ["a4"]
    assert raw.zcard(SCHEDULED) == 0
