"""Messages moved or copied from one queue to another: in one step each chunk, with their story."""

from __future__ import annotations

from typing import Any

import pytest

import rq_dlq
from rq_dlq import BrokerUnavailable, ExpiryPolicy, InvalidInput, Message
from rq_dlq.core.changing import changing
from rq_dlq.core.choosing.choice import Choice
from rq_dlq.core.steps.step import CHANGED
from tests.audit import audit
from tests.behaviour.faults import lose_replies
from tests.behaviour.helpers import after, bring_to, bury, counts, fail, ids, one
from tests.behaviour.stepping import drive, stop_after
from tests.conftest import MOVED_CLOCK, Clock
from tests.contents import contents
from tests.tables import each_row_afresh

PLACES = ["ready", "scheduled", "dead", "expired"]


async def two(broker: Any, **target: Any) -> tuple[Any, Any]:
    """A source, and a target that exists."""
    queue, other = broker.queue("a", redelivery=after("1m", most=5)), broker.queue("b", **target)
    await queue.open()
    await other.open()
    return queue, other


async def totals(queue: Any) -> dict[str, int]:
    """What was counted, without what is nothing."""
    return {name: n for name, n in (await queue.stats()).totals.items() if n}


@pytest.mark.parametrize("verb", ["move", "copy"])
async def test_a_queue_that_does_not_exist_is_made_if_that_was_said(verb: str, broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many([Message("x", id="m"), "y"])
    with pytest.raises(InvalidInput, match=r"there is no queue 'new' .* or pass create=True"):
        await getattr(queue.select("id = 'm'"), verb)("new")
    assert await getattr(queue.select("id = 'm'"), verb)("new", create=True) == 1
    assert (await one(broker.queue("new"))).body == "x"
    assert await getattr(queue.select(all=True), verb)("new", create=True) == 1  # there is one, which knows m


def test_a_selection_says_what_it_takes(sync_broker: rq_dlq.Broker) -> None:
    queue = sync_broker.queue("a")
    assert repr(queue.select(all=True)) == "<Selection of 'a': all>"
    chosen = queue.select("tenant = 'a'", places=["ready", "dead"], limit=5)
    assert repr(chosen) == "<Selection of 'a' (ready, dead): where tenant = 'a', limit 5>"


async def test_moved_with_its_story(broker: Any, clock: Clock) -> None:
    """Id, body, headers, priority, counts, due time and history; one more event says where from and who."""
    queue, other = await two(broker)
    await queue.send({"n": 1}, id="m", headers={"tenant": "a"}, priority=7)
    assert await fail(queue, 2, clock) == [1, 2]
    (before,) = await queue.select().browse()
    assert await queue.select("tenant = 'a'").move(other) == 1
    assert await counts(queue) == {}
    assert await counts(other) == {"scheduled": 1}
    assert await totals(queue) == {"sent": 1, "nacked": 2, "moved": 1}
    assert await totals(other) == {"sent": 1}
    clock.advance("1m")
    moved = await one(other)
    assert (moved.id, moved.body, moved.headers, moved.priority) == ("m", {"n": 1}, {"tenant": "a"}, 7)
    assert (moved.enqueued_at, moved.delivery_count, moved.nacked) == (before.enqueued_at, 3, 2)
    assert moved.charged == 2
    *story, event = moved.history
    assert tuple(story) == before.history
    assert (event.event, event.delivery, event.cause.message) == ("moved", 2, "moved from a (scheduled)")
    assert event.consumer
    assert event.at.timestamp() * 1000 == clock.now - 60_000


@each_row_afresh("place", PLACES)
@each_row_afresh("verb", ["move", "copy"])
async def test_from_wherever_it_waits(verb: str, place: str, broker: Any, clock: Clock) -> None:
    """The dead are alive again, as after a redrive."""
    queue, other = await two(broker)
    await bring_to(place, queue, clock)
    chosen = queue.select(places=[place])
    assert await getattr(chosen, verb)("b") == 1
    assert await counts(queue) == ({} if verb == "move" else {place: 1})
    assert await counts(other) == ({"scheduled": 1} if place == "scheduled" else {"ready": 1})
    assert await getattr(chosen, verb)("b") == 0
    clock.advance("1h")
    delivery = await one(other)
    assert delivery.history[-1].event == {"move": "moved", "copy": "copied"}[verb]
    assert delivery.expires_at is None
    assert delivery.redriven == (verb == "move" and place in {"dead", "expired"})
    await delivery.ack()
    assert (await totals(queue)).get("moved", 0) == (verb == "move")


async def test_a_dead_letter_begins_its_budget_anew(broker: Any, clock: Clock) -> None:
    """I4: charged is 0 again, the delivery count is not."""
    queue, other = await two(broker, redelivery=after("1s", most=1))
    await queue.send("x")
    await fail(queue, 6, clock)
    assert await queue.dlq.select(all=True).move(other) == 1
    moved = await one(other)
    assert (moved.charged, moved.delivery_count, moved.nacked, moved.redriven) == (0, 7, 6, 1)
    await moved.nack("boom")
    assert await fail(other, 3, clock) == [8]
    (letter,) = await other.dlq.browse()
    assert letter.original_queue == "b"
    assert [event.event for event in letter.history].count("moved") == 1
    assert await queue.dlq.browse() == []


async def test_a_copy_starts_clean(broker: Any, clock: Clock) -> None:
    queue, other = await two(broker)
    await queue.send("x", id="m", headers={"tenant": "a"}, priority=7)
    await fail(queue, 6, clock)
    assert await queue.dlq.select(all=True).copy(other) == 1
    copied = await one(other)
    assert (copied.id, copied.body, copied.headers, copied.priority) == ("m", "x", {"tenant": "a"}, 7)
    assert (copied.delivery_count, copied.charged, copied.nacked, copied.redriven) == (1, 0, 0, 0)
    assert [(event.event, event.cause.message) for event in copied.history] == [
        ("copied", "copied from a (dead)")
    ]
    assert (await queue.dlq.browse())[0].nacked == 6
    assert await totals(other) == {"sent": 1}
    assert "moved" not in await totals(queue)


@each_row_afresh("verb", ["move", "copy"])
@each_row_afresh("delay", [None, "1m"])
async def test_a_time_to_live_goes_with_it(delay: Any, verb: str, broker: Any, clock: Clock) -> None:
    """I7; and the default of its new queue is for what is sent there."""
    queue, other = await two(broker, expiry=ExpiryPolicy(expiry_delay="1s"))
    await queue.send("mortal", id="m", ttl="1h", delay=delay)
    await queue.send("immortal", id="i", delay=delay)
    assert await getattr(queue.select(all=True), verb)(other) == 2
    clock.advance("59m")
    claimed = await other.claim(9)
    assert [delivery.id for delivery in claimed] == ["m", "i"]
    await other.release(claimed)
    clock.advance("1m")
    assert await ids(other) == ["i"]
    assert [letter.id for letter in await other.expired.browse()] == ["m"]


@pytest.mark.parametrize("verb", ["move", "copy"])
async def test_a_death_has_ended_the_time_to_live(verb: str, broker: Any, clock: Clock) -> None:
    """Else what expired would expire again at once in its new queue."""
    queue, other = await two(broker)
    await queue.send("x", ttl="1s", headers={"a": "b"})
    clock.advance("1s")
    await queue.maintain()
    assert await getattr(queue.expired.select(all=True), verb)(other) == 1
    clock.advance("1d")
    delivery = await one(other)
    assert (delivery.body, delivery.headers, delivery.expires_at) == ("x", {"a": "b"}, None)
    await delivery.nack("boom")
    assert await counts(other) == {"scheduled": 1}


@each_row_afresh("verb", ["move", "copy"])
@each_row_afresh("state", ["ready", "scheduled", "leased", "dead", "expired"])
async def test_what_the_target_knows_is_left(
    state: str, verb: str, broker: Any, clock: Clock, raw: Any
) -> None:
    """In whatever state: two messages with one id stay two, and none is lost."""
    queue, other = await two(broker)
    await bring_to(state, other, clock)
    await queue.send("mine", id="m")
    sent = await queue.send_many(["x", "y"])
    assert await getattr(queue.select(all=True), verb)(other) == 2
    assert await ids(queue) == (["m"] if verb == "move" else ["m", *sent])
    known = await other.select(places=["ready", "scheduled", "leased", "dead", "expired"]).browse()
    assert sorted(message.body for message in known) == ["body", "x", "y"]
    audit(raw, "a")


async def test_copied_then_moved(broker: Any) -> None:
    queue, other = await two(broker)
    sent = await queue.send_many(range(3))
    assert await queue.select(limit=2).copy(other) == 2
    assert await queue.select(all=True).move(other) == 1
    assert await ids(queue) == sent[:2]
    assert await ids(other) == sent


@each_row_afresh("verb", ["move", "copy"])
@each_row_afresh("target", ["a", "nowhere", "DLQ.b", "EXP.b", "DLQ.a", "", "no good"])
async def test_where_nothing_can_be_put(target: str, verb: str, broker: Any, raw: Any) -> None:
    queue, _ = await two(broker)
    await queue.send_many(range(3))
    await bury(queue, ["dead"])
    before = contents(raw)
    for chosen in (queue.select(), queue.dlq.select(), queue.select("body = 'nothing'")):
        with pytest.raises(InvalidInput):
            await getattr(chosen, verb)(target)
    assert contents(raw) == before


@each_row_afresh("target", [None, 5, object(), b"b"])
async def test_what_is_no_queue(target: Any, broker: Any) -> None:
    queue, _ = await two(broker)
    with pytest.raises(InvalidInput, match="is not a queue of"):
        await queue.select(all=True).move(target)


async def test_a_queue_of_another_broker(sync_broker: rq_dlq.Broker, raw: Any) -> None:
    """It may be on another server, or have other keys: what is moved there would be lost."""
    queue = sync_broker.queue("a")
    queue.send("x")
    with rq_dlq.Broker("redis://elsewhere", verbs=MOVED_CLOCK) as other:
        with pytest.raises(InvalidInput, match="is not a queue of"):
            queue.select(all=True).move(other.queue("b"))
        with pytest.raises(InvalidInput, match="is not a queue of"):
            queue.session().send(other.queue("b"), "x")
    assert raw.keys("rq:{b}*") == []


@pytest.mark.parametrize("place", ["ready", "dead"])
async def test_more_than_a_chunk_in_order(place: str, broker: Any) -> None:
    queue, other = await two(broker)
    number = 1_100
    sent = await queue.send_many([Message(body=n, priority=n % 3) for n in range(number)])
    while place == "dead" and (claimed := await queue.claim(1_000)):
        await queue.poison(claimed)
    assert await queue.select(places=[place]).move(other) == number
    assert await counts(queue) == {}
    assert await totals(other) == {"sent": number}
    in_order = sorted(range(number), key=lambda n: (-(n % 3), n))
    assert await ids(other) + await ids(other) == [sent[n] for n in in_order]


@each_row_afresh("place", ["ready", "dead"])
@each_row_afresh("how", ["stopped", "reply lost"])
async def test_stopped_half_way_and_said_again(how: str, place: str, broker: Any, raw: Any) -> None:
    """Each message is in exactly one of the two queues, at any time."""
    queue, other = await two(broker)
    sent = await queue.send_many(range(2 * CHANGED + 10))
    if place == "dead":
        await queue.poison(await queue.claim(1_000))
    if how == "stopped":
        steps = changing.transfer(queue._core, Choice(places=(place,)), other._core, keep=False)  # type: ignore[arg-type]
        await stop_after(broker, steps, "transfer")
    else:
        await lose_replies(broker, "transfer", times=3)
        with pytest.raises(BrokerUnavailable):
            await queue.select(places=[place]).move(other)
    assert await counts(queue) == {place: len(sent) - CHANGED}
    assert await counts(other) == {"ready": CHANGED}
    assert sum(audit(raw, family).total() for family in "ab") == len(sent)
    assert await queue.select(places=[place]).move(other) == len(sent) - CHANGED
    assert await ids(other) == sent
    assert await totals(other) == {"sent": len(sent)}


async def test_while_others_claim_on_both_sides(broker: Any, raw: Any) -> None:
    queue, other = await two(broker)
    sent = await queue.send_many(range(2 * CHANGED))
    here: list[Any] = []
    there: list[Any] = []

    async def interfere(script: str) -> None:
        if script == "transfer":
            here.extend(await queue.claim(5))
            there.extend(await other.claim(7))
            await queue.send("new")
            assert sum(audit(raw, family).total() for family in "ab") == (await totals(queue))["sent"]

    steps = changing.transfer(queue._core, Choice(places=("ready",)), other._core, keep=False)
    assert await drive(broker, steps, interfere) == len(sent) - 5
    assert [delivery.id for delivery in here[:5]] == sent[CHANGED : CHANGED + 5]
    assert [delivery.id for delivery in there] == sent[:14]
    assert all(await queue.ack(here))
    assert all(await other.ack(there))
    assert await ids(other) == sent[14:CHANGED] + sent[CHANGED + 5 :]
