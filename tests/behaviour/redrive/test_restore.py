"""Exported dead letters come back as they were."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from rq_dlq.core.sending.restore import restore
from rq_dlq.values.message import MessageRow
from tests.audit import audit
from tests.behaviour.faults import lose_replies
from tests.behaviour.helpers import after, bring_to, counts
from tests.conftest import Clock
from tests.tables import each_row_afresh

LONG = "x" * 5_000  # its head stands in its state
HEAD = re.compile(rb"( head=\S*)(.*)")  # its place among the words of a state says nothing
RETURNED = re.compile(rb" returned=\d+")  # which import brought it
KINDS = ("messages", "states", "history", "dead", "expired", "groups")


async def put_back(queue: Any, rows: Sequence[MessageRow]) -> list[str]:
    """Restore letters; the ids that the queue knew."""
    known: list[str] = await queue._broker._run(restore(queue._core, rows))
    return known


def stored(raw: Any, queue: Any) -> dict[str, Any]:
    """What Redis holds of the letters of a queue."""
    found: dict[str, Any] = {}
    for kind in KINDS:
        key = queue._core.keys[kind]
        is_index = raw.type(key) == b"zset"
        found[kind] = raw.zrange(key, 0, -1, withscores=True) if is_index else raw.hgetall(key)
    states = {id: RETURNED.sub(b"", state) for id, state in found["states"].items()}
    found["states"] = {id: HEAD.sub(rb"\2\1", state) for id, state in states.items()}
    return found


async def exported(broker: Any, raw: Any, clock: Clock) -> tuple[Any, list[MessageRow]]:
    """A queue with five letters: they failed, are long, expired, have no history; and their rows."""
    queue = broker.queue("a", redelivery=after("5s", most=1))
    await queue.send_many([{"n": 1}, LONG])
    for _ in range(2):
        await queue.nack(await queue.claim(2), "boom")
        clock.advance("5s")
    await queue.send_many(["y", LONG], ttl="1s")
    clock.advance("1s")
    await queue.maintain()
    await queue.send("by hand")
    await queue.poison(await queue.claim(), "told so")
    held = stored(raw, queue)
    rows = [
        MessageRow(id.decode(), record, HEAD.sub(rb"\2", held["states"][id]), held["history"].get(id, b""))
        for id, record in sorted(held["messages"].items())
    ]
    assert len(rows) == 5
    return queue, rows


async def test_they_are_as_they_were(broker: Any, raw: Any, clock: Clock) -> None:
    queue, rows = await exported(broker, raw, clock)
    other = broker.queue("b")
    assert await put_back(other, rows) == []
    assert stored(raw, other) == stored(raw, queue)
    assert (await other.stats()).totals["sent"] == 5
    assert [one.number for one in await broker.audit() if one.did == "imported"] == [5]
    assert await counts(other) == await counts(queue) == {"dead": 3, "expired": 2}
    assert await put_back(other, rows) == [row.id for row in rows]
    assert stored(raw, other) == stored(raw, queue)
    assert (await other.stats()).totals["sent"] == 5
    third = broker.queue("c")
    assert (await put_back(third, rows[:3]), await put_back(third, rows)) == (
        [],
        [row.id for row in rows[:3]],
    )
    assert [one.number for one in await broker.audit() if one.queue == "c"] == [2, 3]


@each_row_afresh("state", ["ready", "scheduled", "leased", "dead", "expired"])
async def test_what_the_queue_knows_stays(broker: Any, raw: Any, clock: Clock, state: str) -> None:
    _, rows = await exported(broker, raw, clock)
    queue = broker.queue("b")
    await bring_to(state, queue, clock, rows[1].id)
    before = stored(raw, queue)["states"].get(rows[1].id.encode())
    assert await put_back(queue, rows[:3]) == [rows[1].id]
    assert stored(raw, queue)["states"].get(rows[1].id.encode()) == before
    assert sum((await counts(queue)).values()) == 3


@pytest.mark.parametrize("known", [0, 1, 2])
async def test_a_lost_reply_says_the_same_again(broker: Any, raw: Any, clock: Clock, known: int) -> None:
    _, rows = await exported(broker, raw, clock)
    queue = broker.queue("b")
    await put_back(queue, rows[3 : 3 + known])
    lost = await lose_replies(broker, "restore")
    assert await put_back(queue, rows) == [row.id for row in rows[3 : 3 + known]]
    assert lost.runs == 2
    assert (await queue.stats()).totals["sent"] == 5


async def test_a_queue_that_was_deleted_is_opened_again(broker: Any, raw: Any, clock: Clock) -> None:
    _, rows = await exported(broker, raw, clock)
    queue = broker.queue("b", outcomes=10)
    await put_back(queue, rows[:1])
    raw.delete(*raw.keys("rq:{b}:*"))  # as another client does
    raw.srem("rq:queues", "b")
    assert await put_back(queue, rows) == []
    assert (await queue.stats()).totals["sent"] == 5
    assert await broker.queues() == ["a", "b"]
    assert (await queue.settings()).outcomes == 10


async def test_nothing_is_left_of_a_call_that_was_cut_off(broker: Any, raw: Any, clock: Clock) -> None:
    _, rows = await exported(broker, raw, clock)
    queue = broker.queue("b")
    bare = next(row for row in rows if row.state.startswith(b"dead"))._replace(history=b"")
    raw.hset(queue._core.keys["history"], bare.id, "poisoned\t1\t1\t0\t")
    await put_back(queue, [bare])
    assert not raw.hexists(queue._core.keys["history"], bare.id)


@pytest.mark.parametrize("verb", ["move", "redrive"])
async def test_a_message_that_was_moved_before_is_there_once(
    verb: str, broker: Any, raw: Any, clock: Clock
) -> None:
    """Exported, moved, put back and moved again: the other queue has taken it in once (I1)."""
    queue, rows = await exported(broker, raw, clock)
    other = broker.queue("b")
    await other.open()
    ids = [row.id for row in rows if row.state.startswith(b"dead")]
    for _ in range(2):
        if verb == "move":
            assert await queue.select(places=["dead"], ids=ids).move(other) == len(ids)
        else:
            assert (await queue.dlq.redrive(ids=ids, to=other)).counts.moved == len(ids)
        assert (await other.stats()).totals["sent"] == audit(raw, "b").total() == len(ids)
        await put_back(queue, rows)
    audit(raw, "a")
