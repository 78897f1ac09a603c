"""An id may name several messages, one after the other: each answer is about one of them, and says which."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq import KnownId, Message, ResultUnavailable
from rq_dlq._keys import QueueKeys
from rq_dlq._redis.waiting import Waiting
from rq_dlq.core.results.calls import Meant
from tests.behaviour.faults import lose_replies
from tests.behaviour.helpers import AT_ONCE, counts, one
from tests.behaviour.results.test_results import BORN, end_of, ids_kept, of
from tests.conftest import Clock
from tests.tables import each_row_afresh

KEY, TIMES, STATES = "rq:{a}:results", "rq:{a}:result_times", "rq:{a}:states"
NAME = "order-1"


async def sent_twice(queue: Any, clock: Clock, *, result: bool = True) -> tuple[Any, Any]:
    """Two messages with one id: the first was cancelled, and its end is kept."""
    first = await queue.send("first", id=NAME, result=True)
    clock.advance("1s")
    assert await queue.cancel(NAME) == "cancelled"
    clock.advance("1s")
    second = await queue.send("second", id=NAME, result=result)
    assert (second.new, second.known) == (True, None)
    return first, second


async def no_result(sent: Any) -> str:
    with pytest.raises(ResultUnavailable) as raised:
        await of(sent)
    return str(raised.value)


@each_row_afresh("window", [None, "10m"])
async def test_a_request_that_is_repeated_runs_once(window: str | None, broker: Any) -> None:
    """Each try sends under the same id and reads the result, as a web request does."""
    queue = broker.queue("a", results="10m", dedup_window=window)
    told = []
    for number in range(3):
        sent = await queue.send({"order": 1}, id=NAME, result=True)
        for delivery in await queue.claim(5):
            await delivery.ack(result={"paid": number})
        told.append((sent.new, sent.known, await of(sent, wait="1s"), (await queue.explain(NAME)).why))
    assert told == [
        (True, None, {"paid": 0}, "it was acked"),
        (False, "acked", {"paid": 0}, "it was acked"),
        (False, "acked", {"paid": 0}, "it was acked"),
    ]
    assert (await queue.stats()).totals["acked"] == 1


async def test_an_acked_id_is_known_as_long_as_its_value(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", results="10m")
    first = await queue.send("x", id=NAME)
    await (await one(queue)).ack(result=1)
    clock.advance("599s")
    with pytest.raises(KnownId):
        await queue.send("x", id=NAME, on_duplicate="raise")
    known, other = await queue.send_many([Message("x", id=NAME), Message("y", id="other")])
    assert (known.new, known.known, known.birth) == (False, "acked", first.birth)
    assert other.new
    clock.advance("1s")
    second = await queue.send("x", id=NAME)
    assert second.new
    assert second.birth > first.birth


async def test_what_made_room_is_not_known(broker: Any) -> None:
    queue = broker.queue("a", results="1h", results_bytes=2_000)
    await queue.send_many([Message(n, id=f"m{n}") for n in range(9)])
    for delivery in await queue.claim(9):
        await delivery.ack(result="x" * 100)
    assert (await queue.send("x", id="m0")).new
    assert (await queue.send("x", id="m8")).known == "acked"


async def test_an_ack_without_a_value_counts_as_well(broker: Any) -> None:
    """Of a session, for example: the ack is remembered, as its end is."""
    queue = broker.queue("a", results="1h")
    await queue.send("x", id=NAME)
    async with queue.session() as session:
        await session.claim()
    assert (await queue.send("x", id=NAME)).known == "acked"


async def _die(queue: Any) -> None:
    await (await one(queue)).poison("bad")


async def _purge_the_dead(queue: Any) -> None:
    await _die(queue)
    await queue.dlq.purge(all=True)


WAYS_OUT = {
    "purged": lambda queue: queue.purge(all=True),
    "cancelled": lambda queue: queue.cancel(NAME),
    "moved": lambda queue: queue.select(all=True).move("{a}.b", create=True),
    "purged when it is dead": _purge_the_dead,
}


@each_row_afresh("way", WAYS_OUT)
async def test_another_end_leaves_the_id_free(way: str, broker: Any) -> None:
    """And is not raised for the new message, but for its own."""
    queue = broker.queue("a")
    first = await queue.send("first", id=NAME, result=True)
    await WAYS_OUT[way](queue)
    second = await queue.send("second", id=NAME, result=True)
    assert second.new
    for asked in (queue.result(NAME), queue.result(second)):
        with pytest.raises(ResultUnavailable, match="not done yet"):
            await asked
    error = await end_of(queue, first)
    assert (error.end, error.birth) == (way.partition(" ")[0], first.birth)
    await (await one(queue)).ack(result="done")
    assert await of(second) == await queue.result(NAME) == "done"
    assert "no longer kept" in await no_result(first)


async def test_a_dead_one_is_its_own(broker: Any) -> None:
    queue = broker.queue("a")
    first = await queue.send("x", id=NAME, result=True)
    await _die(queue)
    again = await queue.send("x", id=NAME, result=True)
    assert (again.known, again.birth) == ("dead", first.birth)
    assert (await end_of(queue, again)).birth == (await end_of(queue, NAME)).birth == first.birth


async def test_a_new_one_that_nobody_asked_for_replaces_the_end(broker: Any, clock: Clock) -> None:
    """By its id alone the newest message is meant, so the earlier end must not answer for it."""
    queue = broker.queue("a")
    first, _ = await sent_twice(queue, clock, result=False)
    assert (await end_of(queue, first)).end == "cancelled"
    with pytest.raises(ResultUnavailable):
        await queue.result(NAME)
    await (await one(queue)).ack()
    assert await queue.result(NAME) is None
    assert (await queue.explain(NAME)).why == "it was acked"


def test_who_waits_hears_of_its_own() -> None:
    """A notice of another message, or one that does not say whose it is, leads to a poll."""
    waiting, keys, born = Waiting(), QueueKeys("rq", "a"), 7_331_840_000_000_000
    channel = keys.result(NAME)
    newest, own = (waiting.add(keys, Meant(NAME, birth)).future for birth in (0, born))
    late = waiting.add(keys, Meant(NAME, born + 1)).future
    for number in (born >> 12, born - 1):  # version 0.1.0 publishes the time
        waiting.heard(channel, f'acked {number} \4"another"'.encode())
        assert (newest.result(0).birth, own.done(), late.done()) == (0, False, False)
        assert channel in waiting._begun
    waiting.heard(channel, f'acked {born} \4"own"'.encode())
    assert (own.result(0).rest, late.done()) == (b'\4"own"', False)
    waiting.remove(keys, Meant(NAME, born + 1), late)
    assert waiting._messages == {}


async def test_a_cancel_is_of_its_own(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    first, second = await sent_twice(queue, clock)
    late = await queue.cancel(first)
    assert (late, late.birth) == ("unknown", first.birth)
    assert await counts(queue) == {"ready": 1}
    (delivery,) = await queue.claim()
    assert await queue.cancel(first) == "unknown"
    await delivery.ack(result=1)
    done = await queue.cancel(second)
    assert (done, done.birth) == ("acked", second.birth)
    assert await queue.cancel(NAME) == "acked"
    assert await queue.cancel(first) == "unknown"


async def test_a_cancel_says_which(broker: Any, clock: Clock) -> None:
    """Also one whose reply is lost; and of a dead one."""
    queue = broker.queue("a")
    first, second = await sent_twice(queue, clock)
    lost = await lose_replies(broker, "cancel")
    cancelled = await queue.cancel(NAME)
    assert (cancelled, cancelled.birth, lost.runs) == ("cancelled", second.birth, 2)
    third = await queue.send("x", id=NAME)
    await _die(queue)
    stays = await queue.cancel(NAME)
    assert (stays, stays.birth) == ("dead", third.birth)
    assert (await queue.cancel(first), (await queue.cancel("never")).birth) == ("unknown", None)


@each_row_afresh("wait", ["1h", "1s"])
async def test_a_cancel_knows_what_was_acked(wait: str, broker: Any, clock: Clock) -> None:
    """As long as its result is there."""
    queue = broker.queue("a", results="10m")
    await queue.send_many([Message(n, id=f"m{n}") for n in range(9)])
    await queue.ack(await queue.claim(9))
    clock.advance(wait)
    known = {await queue.cancel(f"m{n}") for n in range(9)}
    assert known == {"acked" if wait == "1s" else "unknown"}


async def test_an_explanation_is_of_its_own(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    first, second = await sent_twice(queue, clock)
    told = [await queue.explain(asked) for asked in (first, second, NAME)]
    assert [(one.place, one.birth) for one in told] == [
        ("gone", first.birth), ("ready", second.birth), ("ready", second.birth),
    ]  # fmt: skip
    assert told[0].why == "it was cancelled"
    await (await one(queue)).ack(result=1)
    told = [await queue.explain(asked) for asked in (first, second, NAME)]
    assert [(one.place, one.birth) for one in told] == [
        ("unknown", first.birth), ("gone", second.birth), ("gone", second.birth),
    ]  # fmt: skip


async def test_an_explanation_by_the_history(broker: Any) -> None:
    queue = broker.queue("a", outcomes=100)
    first = await queue.send("x", id=NAME)
    await queue.cancel(NAME)
    second = await queue.send("x", id=NAME)
    await (await one(queue)).ack()
    third = await queue.send("x", id=NAME)
    await queue.purge(all=True)
    for word, sent in {"cancelled": first, "acked": second, "purged": third}.items():
        told = await queue.explain(sent)
        assert (told.why, told.birth) == (f"it was {word}", sent.birth)
    assert (await queue.explain(NAME)).birth == third.birth
    assert [one.birth for one in await queue.outcomes()] == [first.birth, second.birth, third.birth]


async def test_an_explanation_by_a_remembered_ack(broker: Any, clock: Clock) -> None:
    """It has no birth, but it is later than its send."""
    queue = broker.queue("a", dedup_window="1m")
    first = await queue.send("x", id=NAME)
    await (await one(queue)).ack()
    assert (await queue.explain(first)).why == "it was acked"
    clock.advance("1m")
    second = await queue.send("x", id=NAME)
    await queue.purge(all=True)
    assert (await queue.explain(second)).place == "unknown"


async def test_births_of_many(broker: Any) -> None:
    """In the order of the items; the known ones have those of the messages that there are."""
    queue = broker.queue("a")
    before = await queue.send("x", id="m1")
    sent = await queue.send_many([Message(n, id=f"m{n}") for n in (0, 1, 2, 2, 3)])
    births = [one.birth for one in sent]
    assert births[1] == before.birth
    assert births == [births[0], before.birth, births[0] + 1, births[0] + 1, births[0] + 2]
    for one_sent in sent:
        assert (await queue.explain(str(one_sent))).birth == one_sent.birth


async def test_many_that_fill_chunks_have_births(broker: Any) -> None:
    queue = broker.queue("a")
    sent = await queue.send_many(Message(n, id=f"m{n}") for n in range(1_300))
    assert len({one.birth for one in sent}) == 1_300
    for n in (0, 249, 250, 999, 1_000, 1_299):
        assert (await queue.explain(f"m{n}")).birth == sent[n].birth


async def test_a_send_that_is_repeated_has_its_birth(broker: Any) -> None:
    queue = broker.queue("a")
    lost = await lose_replies(broker, "send")
    sent = await queue.send("x", id=NAME)
    assert (sent.new, sent.birth, lost.runs) == (True, (await queue.explain(NAME)).birth, 2)
    lost = await lose_replies(broker, "send")
    new, known = await queue.send_many([Message("y", id="n"), Message("x", id=NAME)])
    assert (new.new, known.known, known.birth, lost.runs) == (True, "ready", sent.birth, 2)
    assert new.birth == (await queue.explain("n")).birth


async def test_a_chain_is_refused_for_an_acked_id(broker: Any, clock: Clock) -> None:
    """Nothing is sent or acked, and nothing counts as known that was never sent."""
    queue, bills = broker.queue("a", redelivery=AT_ONCE), broker.queue("bills", results="10m")
    await bills.send("x", id="bill")
    await (await one(bills)).ack(result="paid")
    await queue.send("order")
    delivery = await one(queue)
    link = (bills, Message("y", id="bill"))
    for _ in range(2):
        with pytest.raises(KnownId) as raised:
            await delivery.ack(send=[link])
        assert (raised.value.ids, raised.value.charge) == (("bill",), False)
    totals = (await bills.stats()).totals
    assert (totals["sent"], totals["acked"], totals.get("known", 0)) == (1, 1, 0)
    clock.advance("10m")
    (delivery,) = await queue.claim()
    assert (await delivery.ack(send=[link])).outcome == "acked"
    assert await counts(bills) == {"ready": 1}


async def test_a_chain_that_is_repeated_does_not_refuse_itself(broker: Any) -> None:
    """What it had sent was done before the repetition came."""
    queue, bills = broker.queue("a"), broker.queue("bills", results="10m")
    await queue.send("order")
    delivery = await one(queue)
    lost = await lose_replies(broker, "commit")
    settled = await delivery.ack(send=[(bills, Message("y", id="bill"))])
    assert (settled.outcome, lost.runs) == ("acked", 2)
    await (await one(bills)).ack(result="paid")
    assert await bills.result("bill") == "paid"


async def test_a_session_leaves_out_an_acked_id(broker: Any) -> None:
    queue = broker.queue("a", results="10m")
    await queue.send("x", id=NAME)
    await (await one(queue)).ack(result=1)
    async with queue.session() as session:
        sent = await session.send(queue, "x", id=NAME, result=True)
        assert sent.birth is None
    assert await counts(queue) == {}
    assert await of(sent) == 1


# Version 0.1.0 beside this one: it keeps and drops ends without their births.


def drop_as_before(raw: Any, name: str = NAME) -> None:
    """An end is dropped, and its birth stays behind."""
    size = raw.hstrlen(KEY, name)
    raw.hincrby(KEY, "", -(2 * len(name) + size + 200) if size else 0)
    raw.hdel(KEY, name)
    raw.zrem(TIMES, name)


def keep_as_before(raw: Any, at: int, word: str, rest: bytes) -> None:
    """An end is kept, over whatever there is; `at` in milliseconds."""
    drop_as_before(raw)
    end = f"{word} {at} ".encode() + rest
    raw.hset(KEY, NAME, end)
    raw.zadd(TIMES, {NAME: at})
    raw.hincrby(KEY, "", 2 * len(NAME) + len(end) + 200)


def born_at(sent: Any) -> int:
    return int(sent.birth) >> 12


async def test_an_end_without_a_birth_is_of_no_later_message(broker: Any, clock: Clock, raw: Any) -> None:
    queue = broker.queue("a")
    first, second = await sent_twice(queue, clock)
    keep_as_before(raw, born_at(first) + 1_000, "cancelled", b"\t")
    for asked in (queue.result(NAME), of(second)):
        with pytest.raises(ResultUnavailable, match="not done yet"):
            await asked
    await queue.purge(all=True)
    keep_as_before(raw, born_at(second) - 1, "cancelled", b"\t")  # the end of the second got lost
    assert "no result" in await no_result(second)
    error = await end_of(queue, first)
    assert (error.end, error.birth) == ("cancelled", None)
    assert await queue.cancel(second) == "unknown"


async def test_an_end_of_a_worker_of_before_is_read(broker: Any, clock: Clock, raw: Any) -> None:
    """It acks what this version has sent; over the end of an earlier message, whose birth stays behind."""
    queue = broker.queue("a")
    _, second = await sent_twice(queue, clock)
    await queue.purge(all=True)
    keep_as_before(raw, born_at(second) + 1_000, "acked", b'\4"done"')
    assert await of(second) == await queue.result(NAME) == "done"
    assert (await queue.explain(second)).why == "it was acked"
    assert [await queue.cancel(one) for one in (second, NAME)] == ["acked", "acked"]
    clock.advance("2s")
    third = await queue.send("third", id=NAME, result=True)
    assert third.new  # what a worker of before has acked is not known
    assert "not done yet" in await no_result(third)
    assert "no result" in await no_result(second)


async def test_what_was_sent_before_has_its_birth(broker: Any, raw: Any) -> None:
    """Its state does not say it, its record does."""
    queue = broker.queue("a")
    sent = await queue.send("x", id=NAME, result=True)
    state = raw.hget(STATES, NAME)
    raw.hset(STATES, NAME, state.replace(f"result={sent.birth}".encode(), b"result=1"))
    for asked in (queue.result(NAME), queue.result(NAME, wait="1ms")):
        with pytest.raises(ResultUnavailable, match="not done yet"):
            await asked
    await (await one(queue)).ack(result=1)
    assert await of(sent) == 1
    assert raw.hget(KEY, NAME + BORN.decode()).endswith(f" {sent.birth}".encode())
    assert (await queue.send("x", id=NAME)).birth == sent.birth


async def test_an_end_that_was_dropped_before_is_not_known(broker: Any, raw: Any) -> None:
    queue = broker.queue("a", results="1h")
    await queue.send("x", id=NAME)
    await (await one(queue)).ack(result=1)
    drop_as_before(raw)
    again = await queue.send("x", id=NAME)
    assert again.new
    await (await one(queue)).ack(result=2)
    assert await of(again) == 2
    assert ids_kept(raw) == {NAME.encode()}


@each_row_afresh("by", ["time", "bytes"])
async def test_births_that_were_left_behind_go(by: str, broker: Any, raw: Any, clock: Clock) -> None:
    """By their time, and to make room, as ends do; and they count as none."""
    queue = broker.queue("a", results="1m", results_bytes=2_000)
    await queue.send_many([Message(n, id=f"m{n}") for n in range(3)])
    await queue.ack(await queue.claim(3))
    for n in range(3):
        drop_as_before(raw, f"m{n}")
    assert raw.hlen(KEY) == 4
    if by == "time":
        clock.advance("1m")
    for n in range(3, 9):
        await queue.send(n, id=f"m{n}")
        await queue.ack(await queue.claim())
    left = ids_kept(raw)
    assert b"m8" in left
    dropped = (await queue.stats()).totals.get("results_dropped", 0)
    assert dropped == 6 - len(left)
    size = sum(2 * len(row) + raw.hstrlen(KEY, row) + 200 for row in raw.hkeys(KEY) if row)
    assert int(raw.hget(KEY, "")) == size
