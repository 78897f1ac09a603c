"""Dead letters: what they tell, and how they come back."""

from __future__ import annotations

import inspect
import re
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

import rq_dlq
from rq_dlq import InvalidInput, InvalidName, UnprocessableMessage
from rq_dlq.core.changing import changing
from rq_dlq.core.choosing.choice import Choice
from tests.behaviour.helpers import AT_ONCE, after, bodies, bury, counts, fail, ids, one
from tests.conftest import MOVED_CLOCK, Clock
from tests.tables import each_row_afresh


class Order(msgspec.Struct):
    number: int


def raised(error: Exception) -> Exception:
    """An error with a traceback."""
    try:
        raise error
    except type(error) as caught:
        return caught


def raised_elsewhere(error: Exception) -> Exception:
    """The same, of another function."""
    try:
        raise error
    except type(error) as caught:
        return caught


async def test_it_tells_where_why_and_when(broker: Any, clock: Clock) -> None:
    """I6."""
    queue = broker.queue("orders", redelivery=after("1s", most=1))
    await queue.send({"n": 1}, id="m", headers={"tenant": "a"}, priority=7)
    sent_at = clock.now
    for _ in range(2):
        clock.advance("10s")
        await (await one(queue)).nack(raised(ValueError("bad total 42")))
    (letter,) = await queue.dlq.browse()
    assert (letter.id, letter.body, letter.headers) == ("m", {"n": 1}, {"tenant": "a"})
    assert (letter.original_queue, letter.reason, letter.priority) == ("orders", "exhausted", 7)
    assert (letter.cause.type, letter.cause.message) == ("ValueError", "bad total 42")
    assert (letter.delivery_count, letter.nacked) == (2, 2)
    assert letter.enqueued_at.timestamp() * 1000 == sent_at
    assert letter.died_at.timestamp() * 1000 == clock.now
    assert [event.at.timestamp() * 1000 for event in letter.history] == [sent_at + 10_000, clock.now]


async def test_only_the_newest_failure_keeps_its_traceback(broker: Any, clock: Clock) -> None:
    """I13."""
    queue = broker.queue("a", redelivery=after("0s", most=2))
    await queue.send("x")
    for number in range(3):
        clock.advance("1s")
        await (await one(queue)).nack(raised(ValueError(f"failure {number}")))
    (letter,) = await queue.dlq.browse()
    assert [event.cause.message for event in letter.history] == [f"failure {n}" for n in range(3)]
    assert [bool(event.cause.traceback) for event in letter.history] == [False, False, True]
    assert letter.cause.traceback.endswith("ValueError: failure 2\n")


async def test_history_keeps_the_first_and_the_last_fifteen(broker: Any, clock: Clock) -> None:
    """I6, I13."""
    queue = broker.queue("a", redelivery=after("0s", most=39))
    await queue.send("x")
    await fail(queue, 40, clock)
    (letter,) = await queue.dlq.browse()
    assert [event.delivery for event in letter.history] == [*range(1, 16), *range(26, 41)]
    assert letter.nacked == 40


async def test_it_tells_who_failed(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, ["x"])
    (letter,) = await queue.dlq.browse()
    assert letter.history[0].consumer


@each_row_afresh(
    "one_error, other_error, alike",
    [
        (ValueError("order 41 of 'ada'"), ValueError("order 7 of 'bob'"), True),
        (ValueError("no stock"), ValueError("no price"), False),
        (ValueError("x"), KeyError("x"), False),
        (ValueError("at 0x7f3a"), ValueError("at 0x11bc"), True),
        ("gave up", "gave up", True),
        ("gave up", "lost", False),
    ],
)
async def test_fingerprints(one_error: Any, other_error: Any, alike: bool, broker: Any) -> None:
    """Alike for failures of one kind, whatever their numbers; else different."""
    queue = broker.queue("a")
    for error in (one_error, other_error):
        await bury(queue, ["x"], raised(error) if isinstance(error, Exception) else error)
    first, second = await queue.dlq.browse()
    assert (first.fingerprint == second.fingerprint) is alike


async def test_errors_raised_in_different_functions_differ(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, ["x"], raised(ValueError("boom")))
    await bury(queue, ["y"], raised_elsewhere(ValueError("boom")))
    assert len(await queue.dlq.groups()) == 2


async def test_groups(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bury(queue, range(2), "no stock")
    begin = clock.now
    sent = []
    for number in range(3):
        clock.advance("1s")
        sent += await bury(queue, ["x"], ValueError(f"bad total {number}"))
    largest, other = await queue.dlq.groups()
    assert (largest.count, largest.error, largest.reason) == (3, "ValueError: bad total 2", "poison")
    assert largest.first_seen.timestamp() * 1000 == begin + 1000
    assert largest.last_seen.timestamp() * 1000 == clock.now
    assert largest.sample_id == sent[-1]
    assert (other.count, other.error) == (2, "no stock")


async def test_browse_filters(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("0s", most=0))
    (poisoned,) = await bury(queue, ["x"])
    clock.advance("1s")
    since = datetime.fromtimestamp(clock.now / 1000, UTC)
    exhausted = await queue.send("y")
    await (await one(queue)).nack("boom")

    async def found(**conditions: Any) -> list[str]:
        return [letter.id for letter in await queue.dlq.browse(**conditions)]

    assert await found() == [poisoned, exhausted]
    assert await found(reason="poison") == [poisoned]
    assert await found(reason="exhausted") == [exhausted]
    assert await found(since=since) == [exhausted]
    assert await found(ids=[exhausted, "unknown"]) == [exhausted]
    assert await found(ids=[]) == []
    assert await found(limit=1) == [poisoned]
    (group,) = [group for group in await queue.dlq.groups() if group.error == "boom"]
    assert await found(group=group.fingerprint) == [exhausted]
    assert await found(group=group.fingerprint, reason="poison") == []


async def test_browse_consumes_nothing(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(3))
    before = raw.hgetall("rq:{a}:states")
    await queue.dlq.browse()
    await queue.dlq.groups()
    assert raw.hgetall("rq:{a}:states") == before


async def test_browse_of_more_than_a_page(broker: Any) -> None:
    queue = broker.queue("a")
    dead = await bury(queue, range(260))
    assert [letter.id for letter in await queue.dlq.browse(limit=None)] == dead
    assert len(await queue.dlq.browse(ids=dead, limit=None)) == 260
    assert len(await queue.dlq.browse()) == 20


async def test_browse_by_id_finds_dead_ones_only(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x", id="m")
    assert await queue.dlq.browse(ids=["m"]) == []


async def test_redrive_brings_all_back(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    dead = await bury(queue, range(600))
    clock.advance("1s")
    assert (await queue.dlq.redrive(all=True)).counts.moved == 600
    assert await ids(queue) == dead


async def test_redrive_by_id(broker: Any) -> None:
    queue = broker.queue("a")
    dead = await bury(queue, range(5))
    assert (await queue.dlq.redrive(ids=[dead[3], dead[1], "unknown"])).counts.moved == 2
    assert sorted(await bodies(queue)) == [1, 3]
    assert (await queue.stats()).dead == 3


async def test_redrive_by_group(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(2), "no stock")
    await bury(queue, range(2, 5), "no price")
    largest, _ = await queue.dlq.groups()
    assert (await queue.dlq.redrive(group=largest.fingerprint)).counts.moved == 3
    assert await bodies(queue) == [2, 3, 4]


async def test_redrive_by_no_id_is_none(broker: Any) -> None:
    """An empty list is not "all"."""
    queue = broker.queue("a")
    await bury(queue, range(2))
    assert (await queue.dlq.redrive(ids=[])).counts.moved == 0


async def test_redriven_has_a_fresh_budget_its_id_and_its_history(broker: Any, clock: Clock) -> None:
    """I4: of its counts only `charged` goes down."""
    queue = broker.queue("a", redelivery=after("1s", "9s", most=1))
    await queue.send("x", id="m")
    for _ in range(2):
        await fail(queue, 2, clock)
        await queue.dlq.redrive(all=True)
    delivery = await one(queue)
    assert (delivery.id, delivery.charged, delivery.redriven) == ("m", 0, 2)
    assert (delivery.delivery_count, delivery.nacked) == (5, 4)
    events = [event.event for event in delivery.history]
    assert events == ["nacked", "nacked", "redriven"] * 2
    assert (await delivery.nack()).delay == 1.0


async def test_redrive_again_finds_nothing(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(3))
    assert [(await queue.dlq.redrive(all=True)).counts.moved for _ in range(2)] == [3, 0]
    assert await counts(queue) == {"ready": 3}


async def test_what_dies_again_meanwhile_is_not_redriven_again(broker: Any, clock: Clock) -> None:
    """A redrive ends, even against a handler that always fails."""
    queue = broker.queue("a", redelivery=after("0s", most=0))
    await queue.send_many(range(60))
    await queue.nack(await queue.claim(60))
    bare = getattr(broker, "inner", broker)
    connections = getattr(bare, "_connections", None) or bare._connected()
    work = queue.dlq._core
    redrive = changing.redrive(work, Choice())
    redriven = reply = None
    for _ in range(10):
        clock.advance("1s")
        try:
            step = redrive.send(reply)
        except StopIteration as stop:
            redriven = stop.value
            break
        reply = connections.run(_run(step))
        reply = await reply if inspect.isawaitable(reply) else reply
        await queue.nack(await queue.claim(1000))  # meanwhile a consumer kills whatever came back
    assert redriven == 60
    assert await counts(queue) == {"dead": 60}


def _run(step: Any) -> Any:
    return (yield step)


BULK: dict[str, Any] = {
    "dlq.redrive": lambda queue, **which: queue.dlq.redrive(**which),
    "dlq.purge": lambda queue, **which: queue.dlq.purge(**which),
    "dlq.select": lambda queue, **which: queue.dlq.select(**which).redrive(),
    "purge": lambda queue, **which: queue.purge(**which),
    "move": lambda queue, **which: queue.select(**which).move("b"),
    "copy": lambda queue, **which: queue.select(**which).copy("b"),
    "dead_letter": lambda queue, **which: queue.select(**which).dead_letter(),
    "expire": lambda queue, **which: queue.select(**which).expire(),
    "deliver_now": lambda queue, **which: queue.select(**which).deliver_now(),
    "prioritize": lambda queue, **which: queue.select(**which).prioritize(9),
}


@each_row_afresh("verb", BULK)
async def test_a_bulk_verb_wants_a_condition_or_all(verb: str, broker: Any) -> None:
    queue = broker.queue("a")
    await broker.queue("b").open()
    await bury(queue, ["x"])
    await queue.send("y", delay="1h")
    for which in ({}, {"where": None}):
        with pytest.raises(InvalidInput, match="or all=True to mean that"):
            await BULK[verb](queue, **which)
    with pytest.raises(InvalidInput, match="leave it out, or leave out the condition"):
        await BULK[verb](queue, all=True, where="age > 0")
    assert await counts(queue) == {"dead": 1, "scheduled": 1}
    done = await BULK[verb](queue, all=True)
    assert (done if isinstance(done, int) else done.counts.moved) == 1


async def test_a_group_that_is_none_is_no_condition(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, ["x"])
    with pytest.raises(InvalidInput, match="redrive without a condition"):
        await queue.dlq.redrive(group=None)
    assert (await queue.dlq.redrive(limit=5)).counts.moved == 1


async def test_purge_all(broker: Any) -> None:
    """I13."""
    queue = broker.queue("a")
    await bury(queue, range(300))
    assert await queue.dlq.purge(all=True) == 300
    assert await counts(queue) == {}


async def test_purge_after_a_death_by_nack(broker: Any) -> None:
    """I13: nor does the call that woke the consumers stay behind."""
    queue = broker.queue("a", redelivery=after("0s", most=0))
    await queue.send("x")
    await (await one(queue)).nack()
    assert await queue.dlq.purge(all=True) == 1


async def test_purge_by_id(broker: Any) -> None:
    queue = broker.queue("a")
    dead = await bury(queue, range(3))
    assert await queue.dlq.purge(ids=[dead[1], "unknown"]) == 1
    assert [letter.body for letter in await queue.dlq.browse()] == [0, 2]


async def test_purge_by_no_id_is_none(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(3))
    assert await queue.dlq.purge(ids=[]) == 0


async def test_purge_of_ids_leaves_the_living(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x", id="m")
    assert await queue.dlq.purge(ids=["m"]) == 0
    assert await bodies(queue) == ["x"]


async def test_purge_older_than(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bury(queue, ["old"])
    clock.advance("1h")
    await bury(queue, ["new"])
    clock.advance("1h")
    assert await queue.dlq.purge(older_than="90m") == 1
    assert [letter.body for letter in await queue.dlq.browse()] == ["new"]


# A dead-letter queue is a queue, too


async def test_dead_letters_can_be_claimed_and_acked(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(3))
    dead = broker.queue("DLQ.a")
    claimed = await dead.claim(10)
    assert [delivery.body for delivery in claimed] == [0, 1, 2]
    assert all(await dead.ack(claimed))
    assert await counts(queue) == {}


async def test_its_own_queue_does_not_hand_it_out(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(3))
    assert await queue.claim(10) == []


@each_row_afresh("end", ["nack", "poison", "release", "lapse"])
async def test_what_fails_there_stays_there(end: str, broker: Any, clock: Clock) -> None:
    """No dead-letter queue of a dead-letter queue; `test_resting` says when it comes again."""
    queue = broker.queue("a", redelivery=after("5s", most=0))
    (dead,) = await bury(queue, ["x"], "the first reason")
    for _ in range(3):
        delivery = await one(broker.queue("DLQ.a", lease="10s"))
        if end == "lapse":
            clock.advance("10s")
            await queue.maintain()
        else:
            await getattr(delivery, end)()
        assert await counts(queue) == {"dead": 1}
        clock.advance("5s")
    (letter,) = await queue.dlq.browse()
    assert (letter.id, letter.reason) == (dead, "poison")


async def test_a_kept_dead_letter_is_told(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, ["x"])
    settlement = await (await one(broker.queue("DLQ.a"))).nack("boom")
    assert (bool(settlement), settlement.outcome) == (True, "kept")


async def test_a_leased_dead_letter_is_not_redriven(broker: Any) -> None:
    """I1: it is in one state."""
    queue = broker.queue("a")
    await bury(queue, ["x"])
    delivery = await one(broker.queue("DLQ.a"))
    assert (await queue.dlq.redrive(all=True)).counts.moved == 0
    await delivery.release()
    assert (await queue.dlq.redrive(all=True)).counts.moved == 1


async def test_dead_letters_come_in_the_order_of_their_deaths(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(4))
    claimed = await queue.claim(4)
    for place in (2, 0, 3, 1):
        clock.advance("1s")
        await claimed[place].poison()
    assert await bodies(broker.queue("DLQ.a")) == [2, 0, 3, 1]


@each_row_afresh("name", ["DLQ.DLQ.a", "DLQ.EXP.a", "EXP.DLQ.a", "EXP.EXP.a"])
async def test_no_queue_beyond_it(name: str, broker: Any) -> None:
    with pytest.raises(InvalidName, match="has no dead-letter queue"):
        broker.queue(name)


@pytest.mark.parametrize("name", ["DLQ.a", "EXP.a"])
async def test_nothing_is_sent_to_it(name: str, broker: Any) -> None:
    with pytest.raises(InvalidInput, match="cannot send to"):
        await broker.queue(name).send("x")


@pytest.mark.parametrize(("name", "part"), [("DLQ.a", "expired"), ("EXP.a", "dlq")])
async def test_it_has_no_dead_letters_of_its_own(name: str, part: str, broker: Any) -> None:
    with pytest.raises(InvalidInput):
        getattr(broker.queue(name), part)


async def test_by_its_name_it_is_looked_at_like_the_queue_itself(broker: Any) -> None:
    sent = await bury(broker.queue("a"), ["x", "y"])
    assert [letter.id for letter in await broker.queue("DLQ.a").dlq.browse()] == sent
    (group,) = await broker.queue("DLQ.a").dlq.groups()
    assert group.count == 2


async def test_same_id_dies_in_two_queues(broker: Any) -> None:
    """A copy in another queue is another message."""
    for name in ("a", "b"):
        queue = broker.queue(name)
        await queue.send(name, id="m")
        await (await one(queue)).poison()
    for name in ("a", "b"):
        assert [letter.body for letter in await broker.queue(name).dlq.browse()] == [name]


# Bodies that do not decode


async def test_undecodable_body_is_dead_at_once(broker: Any) -> None:
    """It reaches no handler, and its neighbours are handed out."""
    await broker.queue("a").send_many([{"number": 1}, b'{"number":', {"number": 3}])
    queue = broker.queue("a", type=Order)
    assert await bodies(queue) == [Order(1), Order(3)]
    (letter,) = await queue.dlq.browse()
    assert letter.reason == "unprocessable"
    assert "cannot be decoded as Order" in letter.cause.message
    assert letter.data == b'{"number":'
    with pytest.raises(UnprocessableMessage):
        _ = letter.body


async def test_nothing_but_undecodable_bodies_is_an_empty_claim(broker: Any) -> None:
    await broker.queue("a").send_many([b"x"] * 5)
    assert await broker.queue("a", type=Order).claim(2) == []
    assert await counts(broker.queue("a")) == {"dead": 5}


async def test_unprocessable_can_be_redriven_to_who_knows_better(broker: Any) -> None:
    await broker.queue("a").send(b"x")
    assert await broker.queue("a", type=Order).claim() == []
    queue = broker.queue("a", redelivery=AT_ONCE)
    assert (await queue.dlq.redrive(reason="unprocessable")).counts.moved == 1
    assert await bodies(queue) == [b"x"]


async def test_a_body_over_the_limit_of_who_reads_is_not_decoded(broker: Any, raw: Any, clock: Clock) -> None:
    """It uses up nobody's memory, and waits for who allows more."""
    await broker.queue("a").send_many(["x" * 100, "x" * 99, "y"])
    pool = raw.connection_pool
    with rq_dlq.Broker(pool=pool, verbs=MOVED_CLOCK, max_message_bytes=101) as careful:
        assert [delivery.body for delivery in careful.queue("a").claim(3, lease="1s")] == ["x" * 99, "y"]
        (message,) = careful.queue("a").select(places=["scheduled"]).browse()
    assert "raise max_message_bytes" in message.history[-1].cause.message
    clock.advance("1s")
    assert "x" * 100 in await bodies(broker.queue("a", redelivery=AT_ONCE))


async def test_undecodable_dead_letters_are_not_handed_out(broker: Any) -> None:
    """They stay, and do not block those behind."""
    await broker.queue("a").send_many(["x", {"number": 2}])
    await broker.queue("a").poison(await broker.queue("a").claim(2))
    assert await bodies(broker.queue("DLQ.a", type=Order)) == [Order(2)]


@each_row_afresh(
    "conditions, said",
    [
        ({"reason": "exausted"}, "reason 'exausted': pass one of exhausted, poison, unprocessable, expired"),
        ({"reason": 5}, "reason 5: pass one of exhausted"),
        ({"group": "1f0c6a9"}, "group '1f0c6a9': pass an ErrorGroup, or all twelve digits"),
        ({"group": 5}, "group 5: pass an ErrorGroup"),
        (
            {"everything": True},
            "there is no condition 'everything'. The conditions are where, ids, .*, limit, order, all$",
        ),
        ({"limt": 5}, "there is no condition 'limt'; the closest is 'limit'"),
        ({"reasons": "poison"}, "there is no condition 'reasons'; the closest is 'reason'"),
        ({"places": ["ready"]}, "there is no condition 'places'"),
    ],
)
@each_row_afresh("verb", ["select", "browse", "groups", "redrive", "purge"])
async def test_a_condition_with_a_typo_is_refused(
    verb: str, conditions: dict[str, Any], said: str, broker: Any
) -> None:
    queue = broker.queue("a")
    await bury(queue, ["x"])
    with pytest.raises(InvalidInput) as raised:
        await getattr(queue.dlq, verb)(**conditions)  # select is refused before there is anything to await
    assert re.search(said, str(raised.value))  # `match` would see the note, too
    assert await counts(queue) == {"dead": 1}


@pytest.mark.parametrize("verb", ["groups", "purge"])
async def test_what_takes_no_limit_refuses_one(verb: str, broker: Any) -> None:
    with pytest.raises(InvalidInput, match="there is no condition 'limit'"):
        await getattr(broker.queue("a").dlq, verb)(limit=1)


async def test_a_group_is_taken_as_it_comes(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(2), "no stock")
    await bury(queue, ["x"], "no price")
    largest, other = await queue.dlq.groups()
    assert len(await queue.dlq.browse(group=other)) == 1
    assert (await queue.dlq.redrive(group=largest)).counts.moved == 2
