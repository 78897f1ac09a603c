"""What each verb of a selection does to a message, and the dead letters by a condition."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq import FilterError, InvalidInput, Message
from tests.behaviour.helpers import after, bury, counts, ids, one
from tests.conftest import Clock
from tests.contents import contents
from tests.tables import each_row_afresh


async def test_dead_lettered_by_hand(broker: Any, clock: Clock) -> None:
    """From wherever it waits, with the reason that was given; it can come back."""
    queue = broker.queue("a", redelivery=after("1h"))
    await queue.send("ready", headers={"tenant": "a"})
    await queue.send("scheduled", delay="1h", ttl="2h")
    await queue.send("expired", ttl="1s")
    clock.advance("1s")
    await queue.maintain()
    chosen = queue.select(places=["ready", "scheduled", "expired", "dead"])
    assert await chosen.dead_letter("the customer has gone") == 3
    assert await counts(queue) == {"dead": 3}
    for letter in await queue.dlq.browse():
        assert letter.reason == "poison"
        assert letter.cause.message == "the customer has gone"
        assert letter.history[-1].event == "dead_lettered"
        assert letter.history[-1].consumer
    assert (await queue.dlq.groups())[0].count == 3
    assert (await queue.stats()).totals["poison"] == 3
    clock.advance("3h")
    assert (await queue.dlq.redrive(all=True)).counts.moved == 3
    assert sorted([delivery.body for delivery in await queue.claim(9)]) == ["expired", "ready", "scheduled"]


async def test_dead_letters_by_hand_follow_the_strategy(broker: Any) -> None:
    """I14: dropped, and counted."""
    queue = broker.queue("a", dead_letter=None)
    await queue.send_many(range(5))
    assert await queue.select(all=True).dead_letter() == 5
    assert await counts(queue) == {}
    assert (await queue.stats()).totals["discarded"] == 5


async def test_expired_by_hand(broker: Any) -> None:
    """I7: whatever its time to live."""
    queue = broker.queue("a")
    await queue.send("ready")
    await queue.send("mortal", ttl="1h")
    await queue.send("scheduled", delay="1h", ttl="2h")
    await queue.send("stays", id="stays")
    assert await queue.select("id <> 'stays'").expire() == 3
    assert await ids(queue) == ["stays"]
    assert {letter.reason for letter in await queue.expired.browse()} == {"expired"}
    assert await ids(queue) == []
    assert (await queue.expired.redrive(all=True)).counts.moved == 3
    assert len(await queue.claim(9)) == 3


async def test_delivered_now(broker: Any, clock: Clock) -> None:
    """I8: at the place where it was sent, so ahead of what was sent later; a redelivery likewise."""
    queue = broker.queue("a", redelivery=after("1h"))
    await queue.send("first")
    await (await one(queue)).nack("boom")
    clock.advance("1ms")
    await queue.send("second", delay="2h", ttl="5h")
    clock.advance("1ms")
    await queue.send("third", delay="3h")
    await queue.send("urgent", priority=9)
    await queue.send("usual")
    assert await queue.select("body <> 'third'", places=["scheduled"]).deliver_now() == 2
    claimed = await queue.claim(9)
    assert [delivery.body for delivery in claimed] == ["urgent", "first", "second", "usual"]
    assert claimed[1].delivery_count == 2
    await queue.release(claimed)
    clock.advance("5h")
    assert [delivery.body for delivery in await queue.claim(9)] == ["urgent", "first", "usual", "third"]
    assert [letter.body for letter in await queue.expired.browse()] == ["second"]


@pytest.mark.parametrize("nacked", [False, True])
async def test_another_priority(nacked: bool, broker: Any, clock: Clock) -> None:
    """The next claim sees it; the due time stays."""
    queue = broker.queue("a", redelivery=after(0))
    sent = await queue.send_many(range(4), ttl="1d", headers={"a": "b"})
    later = await queue.send("later", delay="1h")
    if nacked:
        await queue.nack(await queue.claim(4), "boom")
    assert await queue.select(ids=[sent[2], later]).prioritize(9) == 2
    assert await queue.select(ids=[sent[1]]).prioritize(0) == 1
    assert (await queue.stats()).next_due == 3600
    clock.advance("1h")
    claimed = await queue.claim(9)
    assert [delivery.id for delivery in claimed] == [sent[2], later, sent[0], sent[3], sent[1]]
    assert [delivery.priority for delivery in claimed] == [9, 9, 4, 4, 0]
    assert claimed[0].headers == {"a": "b"}
    assert claimed[0].body == 2
    await queue.release(claimed)
    assert await ids(queue) == [sent[2], later, sent[0], sent[3], sent[1]]


@each_row_afresh("priority", [23, -1, True, None, 4.0, "4"])
async def test_a_priority_that_is_none(priority: Any, broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x")
    before = contents(raw)
    with pytest.raises(InvalidInput, match="use a whole number from 0"):
        await queue.select(all=True).prioritize(priority)
    assert contents(raw) == before


# Dead letters


async def test_dead_letters_by_a_condition(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(
        queue, [Message(body=n, headers={"tenant": "ab"[n % 2]}) for n in range(6)], ValueError("boom")
    )
    await bury(queue, ["other"], KeyError("x"))
    assert await queue.dlq.select().count() == 7
    assert await queue.dlq.select("tenant = 'a'").count() == 3
    assert await queue.dlq.select().count_by("tenant") == {"a": 3, "b": 3, None: 1}
    assert [letter.body for letter in await queue.dlq.browse(where="error = 'ValueError'", limit=2)] == [0, 1]
    assert (await queue.dlq.redrive(where="tenant = 'a' and body > 0")).counts.moved == 2
    assert await queue.dlq.select("tenant = 'b'", limit=1).redrive() == 1
    assert await queue.dlq.select("error = 'KeyError'").purge() == 1
    assert await counts(queue) == {"ready": 3, "dead": 3}
    assert [delivery.body for delivery in await queue.claim(9)] == [1, 2, 4]
    assert [group.count for group in await queue.dlq.groups()] == [3]


async def test_an_empty_condition_is_none(broker: Any, raw: Any) -> None:
    """And not "all": who builds a condition from an empty variable must not redrive everything."""
    queue = broker.queue("a")
    await bury(queue, range(3))
    before = contents(raw)
    for call in (
        lambda: queue.dlq.redrive(where=""),
        lambda: queue.dlq.browse(where=" "),
        lambda: queue.select("").purge(),
        lambda: queue.dlq.select("").purge(),
    ):
        with pytest.raises(FilterError):
            await call()
    assert contents(raw) == before
