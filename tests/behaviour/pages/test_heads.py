"""The heads of long records, which are in their states, and pages of what is read."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq import LeaseLost, Message
from rq_dlq.core.pages.calls import END, START, browse, scan
from rq_dlq.values.wanted import HEAD, RECORD, STORY, Wanted
from tests.behaviour.helpers import AT_ONCE
from tests.behaviour.sending.test_long_records import BODY, MESSAGES, STATES, dead, is_read_by_nobody
from tests.behaviour.stepping import alone
from tests.conftest import Clock
from tests.tables import each_row_afresh


@each_row_afresh("ttl", [None, "1h"])
@each_row_afresh("by", ["range", "id"])
async def test_a_filter_reads_heads_only(
    by: str, ttl: str | None, broker: Any, raw: Any, clock: Clock
) -> None:
    queue = broker.queue("a")
    await queue.send_many([Message(body=BODY, id="a"), Message(body=BODY, id="b", priority=9)], ttl=ttl)
    records = is_read_by_nobody(raw)
    ends = clock.now + 3_600_000 if ttl else 0
    where = f"priority = 9 AND JMSTimestamp = {clock.now} AND JMSExpiration = {ends}"
    assert await queue.select(where, ids=["a", "b"] if by == "id" else None).count() == 1
    raw.hset(MESSAGES, mapping=records)


async def test_what_a_purge_left_behind_is_no_message(broker: Any, raw: Any) -> None:
    """It was cut off after the record."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send_many([Message(body=BODY, id=name) for name in "ab"])
    await dead(queue)
    (row,) = [row for row in raw.zrange("rq:{a}:groups", 0, -1) if row.endswith(b"a")]
    raw.zrem("rq:{a}:groups", row)
    raw.hdel(MESSAGES, "a")
    assert await queue.dlq.select("priority = 4").count() == 1
    assert (await queue.dlq.redrive(all=True)).counts.moved == 1
    raw.hincrby("rq:{a}:counters", "purged", 1)


async def test_what_an_ack_left_behind_is_no_message(broker: Any, raw: Any, clock: Clock) -> None:
    """It was cut off after the record."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send_many([BODY] * 2)
    first, second = await queue.claim(2, lease="1s")
    raw.hdel(MESSAGES, first.id, second.id)
    with pytest.raises(LeaseLost, match="no longer in the queue"):
        await first.nack("bad")
    clock.advance("1s")
    await queue.maintain()
    raw.hincrby("rq:{a}:counters", "acked", 2)


async def test_the_state_of_an_earlier_version_says_nothing(broker: Any, raw: Any) -> None:
    """It sends a long record without; then the record is read."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send_many([Message(body=BODY, id="a", priority=2), Message(body=BODY, id="b", priority=7)])
    raw.delete(STATES)
    held = await queue.claim(10)
    assert [delivery.id for delivery in held] == ["b", "a"]
    await queue.nack(held, "bad")
    assert await queue.select(all=True).dead_letter() == 2
    assert (await queue.dlq.redrive(all=True)).counts.moved == 2
    assert [delivery.id for delivery in await queue.claim(10)] == ["b", "a"]


@each_row_afresh("word", ["1/2/3", "1/256/0/5000", f"{10**16}/4/0/5000", f"1/4/{10**14}/5000", "a/b/c/d"])
async def test_a_damaged_head_is_not_believed(word: str, broker: Any, raw: Any) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send(BODY, id="m", priority=7)
    raw.hset(STATES, "m", raw.hget(STATES, "m").split(b" head=")[0] + f" head={word}".encode())
    assert await queue.select(all=True).dead_letter() == 1
    assert [letter.priority for letter in await queue.dlq.browse()] == [7]
    assert (await queue.dlq.redrive(all=True)).counts.moved == 1
    await queue.send("x", priority=5)
    (delivery,) = await queue.claim()
    assert delivery.priority == 7
    assert await delivery.ack()


# As much as fits


@pytest.mark.parametrize("wanted", [RECORD, STORY])
async def test_a_page_has_what_fits(wanted: Wanted, broker: Any) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    sent = await queue.send_many(["x" * 1_500] * 800)
    while held := await queue.claim(1_000):
        await queue.nack(held, "é" * 500, delay="1h")
    await queue.select(all=True).deliver_now()
    for call in (
        scan(queue._core.keys, "ready", after=START, upto=END, limit=1_000, wanted=wanted),
        browse(queue._core.keys, ids=sent, wanted=wanted),
    ):
        assert 300 < len((await broker._run(alone(call))).ids) <= 500


@pytest.mark.parametrize("size", [1_000, 5_000])
async def test_of_heads_no_body_is_sent(size: int, broker: Any) -> None:
    queue = broker.queue("a")
    sent = await queue.send_many(["x" * size] * 2)
    for call in (
        scan(queue._core.keys, "ready", after=START, upto=END, limit=10, wanted=HEAD),
        browse(queue._core.keys, ids=sent, wanted=HEAD),
    ):
        assert [len(record) for record in (await broker._run(alone(call))).records] == [14, 14]


@pytest.mark.parametrize(("short", "rows"), [(0, 3), (250, 251)])
async def test_no_more_is_read_than_fits(short: int, rows: int, broker: Any) -> None:
    """Beside the short records of a page, which are there first."""
    queue = broker.queue("a")
    await queue.send_many(["x" * size for size in [1_500] * short + [200_000] * 4])
    call = scan(queue._core.keys, "ready", after=START, upto=END, limit=1_000, wanted=RECORD)
    assert len((await broker._run(alone(call))).ids) == rows
