"""A queue that remembers acked ids for a time: a send under one of them adds nothing."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

import rq_dlq
from rq_dlq import Message
from rq_dlq.core.batches import calls as batch_calls
from tests.audit import audit
from tests.behaviour.batches.test_jobs import commit, move, stage
from tests.behaviour.faults import acked, lose_replies, meanwhile
from tests.behaviour.helpers import AT_ONCE, counts, ids, one
from tests.conftest import Clock
from tests.tables import each_row_afresh

IDS = ["a0", "a1", "a2"]
BATCHES = count(1)
KEY = "rq:{a}:acked_ids"


async def by_one(_: Any, queue: Any) -> None:
    for delivery in await queue.claim(9):
        await delivery.ack()


async def together(_: Any, queue: Any) -> None:
    await queue.ack(await queue.claim(9))


async def by_session(_: Any, queue: Any) -> None:
    async with queue.session() as session:
        await session.claim(9)


async def by_session_that_sends(_: Any, queue: Any) -> None:
    async with queue.session() as session:
        await session.claim(9)
        await session.send(queue, "x", id="other")


async def by_claim(broker: Any, queue: Any) -> None:
    token = (await queue.claim(9))[0].token
    await broker._run(_one(batch_calls.ack_claim(queue._core.keys, token)))


async def as_dead_letters(broker: Any, queue: Any) -> None:
    await queue.poison(await queue.claim(9))
    dead = broker.queue("DLQ.a")
    await dead.ack(await dead.claim(9))


def _one(call: Any) -> Any:
    return (yield call)


async def send(_: Any, queue: Any) -> None:
    for message_id in IDS:
        assert await queue.send("again", id=message_id) == message_id


async def send_many(_: Any, queue: Any) -> None:
    assert await queue.send_many([Message(body="again", id=name) for name in IDS], ttl="1d") == IDS


async def send_later(_: Any, queue: Any) -> None:
    await queue.send_many([Message(body="again", id=name) for name in IDS], delay="1h")


async def send_in_session(_: Any, queue: Any) -> None:
    async with queue.session() as session:
        for message_id in IDS:
            await session.send(queue, "again", id=message_id)


async def send_by_job(broker: Any, queue: Any) -> None:
    lists = await stage(broker, queue, "a", range(3))
    await commit(broker, queue, lists, batch=next(BATCHES))
    assert await move(broker, queue, *lists) == 3


@each_row_afresh("again", [send, send_many, send_later, send_in_session, send_by_job])
@each_row_afresh("ack", [by_one, together, by_session, by_session_that_sends, by_claim, as_dead_letters])
async def test_an_acked_id_is_known(ack: Any, again: Any, broker: Any, clock: Clock, raw: Any) -> None:
    """However it was acked, however it is sent again; and it is free when its time is over."""
    queue = broker.queue("a", dedup_window="2m")
    await queue.send_many([Message(body="x", id=name) for name in IDS])
    await ack(broker, queue)
    await queue.purge(all=True)  # of a session
    clock.advance("119s")
    await again(broker, queue)
    assert await counts(queue) == {}
    clock.advance("1s")
    await again(broker, queue)
    assert (await counts(queue)).popitem()[1] == 3
    audit(raw, "a")


async def test_without_it_an_id_is_free(broker: Any, raw: Any) -> None:
    """The default, and nothing is kept for it."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x", id="a0")
    for _ in range(2):
        await (await one(queue)).nack("no")
    await by_one(broker, queue)
    assert not raw.exists(KEY)
    await queue.send("y", id="a0")
    new = await one(queue)
    assert (new.id, new.body, new.attempt, new.delivery_count, new.history) == ("a0", "y", 1, 1, ())


@each_row_afresh("end", ["purged", "discarded", "expired", "moved"])
async def test_what_was_not_acked_is_not_remembered(end: str, broker: Any, clock: Clock) -> None:
    """It was not done, so a program that sends it again wants it done."""
    queue = broker.queue("a", dedup_window="2m", dead_letter=None, expiry={"discard": True})
    await queue.send("x", id="a0", ttl="1s")
    if end == "purged":
        assert await queue.purge(all=True) == 1
    elif end == "discarded":
        assert (await (await one(queue)).poison("bad")).outcome == "discarded"
    elif end == "expired":
        clock.advance("1s")
        assert await queue.claim() == []
    else:
        await broker.queue("b").send("y")
        assert await queue.select(all=True).move("b") == 1
    await queue.send("y", id="a0")
    assert await ids(queue) == ["a0"]


@pytest.mark.parametrize("verb", ["move", "copy"])
async def test_what_operators_bring_is_not_refused(verb: str, broker: Any) -> None:
    """A move, a copy and a redrive are no sends: who makes them chose the message."""
    queue, other = broker.queue("a", dedup_window="2m", redelivery=AT_ONCE), broker.queue("b")
    await queue.send("x", id="a0")
    await by_one(broker, queue)
    await other.send("y", id="a0")
    assert await getattr(other.select(all=True), verb)("a") == 1
    assert (await (await one(queue)).poison("bad")).outcome == "dead"
    assert (await queue.dlq.redrive(all=True)).counts.moved == 1
    assert await ids(queue) == ["a0"]


async def test_it_is_remembered_to_the_end(broker: Any, clock: Clock) -> None:
    """Though a later ack removes what is over."""
    queue = broker.queue("a", dedup_window="2m")
    await queue.send("x", id="a0")
    await by_one(broker, queue)
    clock.advance("119.999s")
    await queue.send("x", id="a1")
    await by_one(broker, queue)
    await queue.send("again", id="a0")
    assert await counts(queue) == {}


async def test_a_repetition_says_what_the_first_try_did(broker: Any, sync_broker: rq_dlq.Broker) -> None:
    """I12: what was sent and acked before the reply was lost is one send."""
    queue = broker.queue("a", dedup_window="2m")
    lost, taken = await lose_replies(broker, "send"), list[str]()
    meanwhile(lost, lambda: taken.extend(acked(sync_broker.queue("a"))))
    assert await queue.send("x", id="a0") == "a0"
    assert (lost.runs, taken, await counts(queue)) == (2, ["a0"], {})
    assert (await queue.stats()).totals["sent"] == 1


async def test_a_repeated_ack_is_remembered_once(broker: Any, raw: Any) -> None:
    queue = broker.queue("a", dedup_window="2m")
    await queue.send("x", id="a0")
    await lose_replies(broker, "ack")
    assert await (await one(queue)).ack()
    assert raw.zcard(KEY) == 1


async def test_a_setting_takes_effect_at_once(broker: Any, clock: Clock) -> None:
    """Also for what was acked before, as far as it is remembered."""
    queue = broker.queue("a")
    await broker.policies.set("a", dedup_window="1h")
    await queue.send("x", id="a0")
    await by_one(broker, queue)
    clock.advance("10m")
    assert await broker.policies.set("a", dedup_window="11m") == 1
    await queue.send("y", id="a0")
    assert await counts(queue) == {}
    assert await broker.policies.set("a", dedup_window="10m") == 1
    await queue.send("y", id="a0")
    assert await ids(queue) == ["a0"]
    assert (await queue.settings()).dedup_window == 600


async def test_the_memory_shrinks_and_goes(broker: Any, clock: Clock, raw: Any) -> None:
    """I9, I13: an ack removes twice what it adds, and the key has a time to live of its own."""
    queue = broker.queue("a", dedup_window="2m")
    await queue.send_many(range(101))
    await queue.ack(await queue.claim(101))
    assert raw.zcard(KEY) == 101
    assert 119_000 < raw.pttl(KEY) <= 120_000
    clock.advance("2m")
    sizes = []
    for number in range(99):
        await queue.send(number)
        await by_one(broker, queue)
        sizes.append(raw.zcard(KEY))
    assert sizes == [max(100 - n, n + 1) for n in range(99)]
    assert min(raw.zrange(KEY, 0, -1, withscores=True), key=lambda row: row[1])[1] == clock.now


@pytest.mark.parametrize("keeps", [{"dedup_window": "1h"}, {"results": "1h"}], ids=["ids", "results"])
@pytest.mark.parametrize("on_duplicate", ["drop", "replace", "debounce", "redrive", "again"])
async def test_each_item_of_a_call_is_told_that_its_id_was_acked(
    on_duplicate: str, keeps: dict[str, Any], broker: Any
) -> None:
    """Also if a call names the id twice, and says what happens to known ids."""
    queue = broker.queue("a", **keeps)
    await queue.send(1, id="a")
    await queue.ack(await queue.claim())
    delay = "1s" if on_duplicate == "debounce" else None
    messages = [rq_dlq.Message(n, id=name) for n, name in enumerate(["a", "b", "a", "a"])]
    sent = await queue.send_many(messages, on_duplicate=on_duplicate, delay=delay)
    assert [(one.new, one.known) for one in sent] == [
        (False, "acked"), (True, None), (False, "acked"), (False, "acked")
    ]  # fmt: skip
    assert len({one._birth for one in sent if one.known}) == 1
