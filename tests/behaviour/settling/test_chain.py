"""The chain: an ack and what it sends are one step, from whatever holds the message."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rq_dlq import (
    Breaker,
    Broker,
    BrokerUnavailable,
    InvalidDuration,
    InvalidInput,
    InvalidMessage,
    KnownId,
    LeaseLost,
    Message,
    PerKey,
)
from tests.audit import audit_all
from tests.behaviour.faults import lose_calls, lose_replies
from tests.behaviour.helpers import AT_ONCE, bring_to, counts, one
from tests.behaviour.shop import shop, totals
from tests.conftest import Clock
from tests.contents import contents
from tests.tables import each_row, each_row_afresh
from tests.variants import on_fakeredis

ORDER = PerKey(order=True)
PLACES = ["ready", "scheduled", "leased", "dead", "expired", "acked"]


@each_row_afresh("result", [None, {"total": 9.5}])
async def test_an_ack_sends_and_leaves_a_result(result: Any, broker: Any) -> None:
    orders, invoices = broker.queue("orders"), broker.queue("invoices")
    sent = await orders.send("x", result=True)
    delivery = await one(orders)
    with pytest.raises(InvalidMessage, match="the result: "):
        await delivery.ack(send=[(invoices, {"bill": 0})], result=object())
    settlement = await delivery.ack(send=[(invoices, {"bill": 1}), (invoices, {"bill": 2})], result=result)
    assert (settlement.outcome, delivery.outcome) == ("acked", "acked")
    assert [bill.body for bill in await invoices.claim(9)] == [{"bill": 1}, {"bill": 2}]
    assert await orders.result(sent) == result
    assert await counts(orders) == {}
    assert await totals(orders, "sent", "acked") == [1, 1]


async def test_each_message_says_all_that_a_send_can(broker: Any, clock: Clock) -> None:
    """And any queue may be a target, that of the message itself, too."""
    orders = (await shop(broker, 1))[0]
    mails = broker.queue("mails", dead_letter={"process_non_persistent": False})
    links = [
        (orders, "its own queue"),
        (mails, Message("late", delay="1m", result=True, id="l")),
        (mails, Message("mortal", ttl="1m")),
        (mails, Message("urgent", priority=9, headers={"tenant": "a"}, id="u", key="k", dependency="d")),
        (mails, Message("dropped", persistent=False)),
    ]
    await (await one(orders)).ack(send=iter(links))
    urgent, mortal, dropped = await mails.claim(9)
    assert (urgent.id, urgent.headers, urgent.priority, urgent.key, urgent.dependency) == (
        *("u", {"tenant": "a"}, 9, "k", "d"),
    )
    assert (mortal.body, mortal.expires_at is not None) == ("mortal", True)
    assert (await dropped.poison()).outcome == "discarded"
    assert (await one(orders)).body == "its own queue"
    clock.advance("1m")
    await (await one(mails)).ack(result="done")
    assert await mails.result("l") == "done"


async def test_a_task_is_called(broker: Any) -> None:
    def key_of(user_id: int, lang: str = "") -> str:
        return f"user-{user_id}{lang}"

    @broker.task(queue="welcome", key=key_of)
    async def welcome(user_id: int, lang: str = "en") -> None:
        pass

    orders, _ = await shop(broker, 2)
    first, second = await orders.claim(2)
    await first.ack(
        send=[(welcome.options(id="w", headers={"a": "b"}), (7,)), (welcome, {"user_id": 8, "lang": "de"})]
    )
    calls = await broker.queue("welcome").claim(9)
    assert [(call.body, call.key) for call in calls] == [
        ({"user_id": 7}, "user-7"),
        ({"user_id": 8, "lang": "de"}, "user-8de"),
    ]
    assert (calls[0].id, calls[0].headers) == ("w", {"task": "welcome", "a": "b"})
    for nonsense, says in {("x",): "do not fit", 7: "is not a call"}.items():
        with pytest.raises(InvalidInput, match=says):
            await second.ack(send=[(welcome, nonsense)])
    await second.ack()


@on_fakeredis("a known id is refused in every place")
@each_row_afresh("place", PLACES)
async def test_a_known_id_refuses_all(place: str, broker: Any, raw: Any, clock: Clock) -> None:
    """Nothing is changed, so the caller may ack without it, or send something else."""
    orders, mails = await shop(broker, 1)
    bills = broker.queue("bills", dedup_window="1h")
    await mails.open()
    if place == "acked":
        await bills.send("x", id="b7")
        await (await one(bills)).ack()
    else:
        await bring_to(place, bills, clock, "b7")
    delivery = await one(orders)
    before = contents(raw)
    for links in ([], [(mails, "y"), (bills, "z"), (orders, "x")]):
        with pytest.raises(KnownId, match="b7 in 'bills': the queue has it already") as raised:
            await delivery.ack(send=[*links, (bills, Message("again", id="b7"))])
        assert raised.value.ids == ("b7",)
        assert contents(raw) == before
    assert (await delivery.ack(send=[(bills, Message("again", id="b8"))])).outcome == "acked"


@each_row_afresh("held_by", ["block", "session", "session of two"])
async def test_who_lets_a_known_id_out_is_not_charged(held_by: str, broker: Any, clock: Clock) -> None:
    """Unless the policy calls it fatal; and a send that must be new is not an ack."""
    orders, mails = await shop(broker, 2, AT_ONCE)
    await mails.send("x", id="m")
    again = [(mails, Message("again", id="m"))]
    known = ""
    try:
        if held_by == "block":
            async with await one(orders) as delivery:
                known = delivery.id
                await delivery.ack(send=again)
        else:
            async with orders.session() as session:
                delivery, *_ = await session.claim(2 if held_by == "session of two" else 1)
                known = delivery.id
                await delivery.ack(send=again)
    except KnownId:
        pass
    clock.advance("1s")
    deliveries = await orders.claim(2)
    assert [one.charged for one in deliveries] == [0, 0]
    assert (
        next(one for one in deliveries if one.id == known).history[-1].cause.type == "rq_dlq.errors.KnownId"
    )
    with pytest.raises(KnownId):
        async with deliveries[0]:
            await mails.send("again", id="m", on_duplicate="raise")
    assert (await one(orders)).charged == 1
    strict = broker.queue("orders", redelivery=replace(AT_ONCE, fatal=(KnownId,)))
    await strict.send("fatal", id="f")
    with pytest.raises(KnownId):
        async with await one(strict) as delivery:
            await delivery.ack(send=again)
    assert delivery.outcome == "dead"


async def test_nonsense_is_refused_before_anything_happens(broker: Any, raw: Any) -> None:
    orders, mails = await shop(broker, 1)
    await mails.open()
    elsewhere = Broker("redis://localhost:1").queue("mails")
    delivery = await one(orders)
    before = contents(raw)
    for send, says in (
        ((mails, "x"), "pass a queue and a body"),
        ({mails: "x"}, "pass a queue"),
        (mails, "pass a queue"),
        ([(mails, "x", "y")], "pass a queue"),
        ([("mails", "x")], "is not a queue of"),
        ([(elsewhere, "x")], "is not a queue of"),
        ([(mails, object())], "cannot be encoded|of type object"),
        ([(broker.queue("DLQ.mails"), "x")], "cannot send to"),
        ([(mails, Message(n, id="m")) for n in range(2)], "'m' is sent to 'invoices' twice"),
        ([(orders, Message("x", id=delivery.id))], "cannot be sent to 'orders' together with its ack"),
        ([(mails, "x" * 300_000), (orders, "x" * 300_000)], "at most half a megabyte"),
        ([(mails, n) for n in range(1_001)], "1,000 messages at most"),
    ):
        with pytest.raises(InvalidInput, match=says):
            await delivery.ack(send=send)
    assert contents(raw) == before
    await delivery.ack(send=[(mails, "x" * 600_000)])
    assert await counts(mails) == {"ready": 1}


@each_row(
    ("how", "error"),
    [({"delay": "soon"}, InvalidDuration), ({"ttl": 0}, InvalidDuration), ({"result": 1}, InvalidInput)],
)
def test_a_message_says_what_makes_sense(how: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        Message("x", **how)


@each_row_afresh("end", ["lapsed", "cancelled", "acked before", "released", "deleted"])
async def test_what_is_not_held_sends_nothing(end: str, broker: Any, clock: Clock) -> None:
    """I2; and of a message that was cancelled the call has ended, so the next of its key comes."""
    orders, mails = broker.queue("orders", per_key=ORDER, redelivery=AT_ONCE), broker.queue("mails")
    await orders.send_many([Message(n, id=f"o{n}", key="k") for n in range(2)])
    await mails.open()
    delivery = await one(orders)
    if end == "lapsed":
        clock.advance("31s")
        assert (await one(orders)).id == delivery.id
    elif end == "cancelled":
        await orders.cancel("o0")
        assert await orders.claim() == []
    elif end == "acked before":
        await delivery.ack()
    elif end == "released":
        await orders.release([delivery])
    else:
        await orders.delete(force=True)
    with pytest.raises(LeaseLost, match="message o0"):
        await delivery.ack(send=[(mails, "x")])
    assert await counts(mails) == {}
    if end in {"cancelled", "acked before"}:
        assert (await one(orders)).id == "o1"


async def test_a_target_that_was_deleted_is_opened_again(broker: Any) -> None:
    orders, mails = await shop(broker, 1)
    await mails.send("x")
    await mails.delete(force=True)
    await (await one(orders)).ack(send=[(mails, "y")])
    assert await counts(mails) == {"ready": 1}


async def test_in_a_loop_it_is_made_at_once(broker: Any) -> None:
    orders, mails = await shop(broker, 3)
    seen: list[dict[str, int]] = []
    async for delivery in orders.consume(wait=0):
        await delivery.ack(send=[(mails, delivery.body)])
        seen.append(await counts(mails))
        with pytest.raises(LeaseLost, match="settled before"):
            await delivery.ack(send=[(mails, "again")])
    assert seen == [{"ready": n} for n in (1, 2, 3)]
    assert await totals(orders, "acked", "released") == [3, 0]


async def test_what_a_loop_has_acked_sends_nothing_more(broker: Any) -> None:
    orders, mails = await shop(broker, 1)
    async for delivery in orders.consume(wait=0):
        await delivery.ack()
        with pytest.raises(LeaseLost, match="was acked before"):
            await delivery.ack(send=[(mails, "x")])
    assert await counts(mails) == {}


async def test_a_block_and_a_session_leave_it_alone(broker: Any) -> None:
    orders, mails = await shop(broker, 2)
    async with await one(orders) as delivery:
        await delivery.ack(send=[(mails, "x")])
    async with orders.session() as session:
        (delivery,) = await session.claim()
        await delivery.ack(send=[(mails, "y")])
        await session.send(mails, "z")
    assert await totals(orders, "acked") == [2]
    assert await counts(mails) == {"ready": 3}


async def test_a_dead_letter_leads_to_something(broker: Any) -> None:
    orders, mails = await shop(broker, 1)
    await (await one(orders)).poison("bad")
    await (await one(broker.queue("DLQ.orders"))).ack(send=[(mails, "sorry")])
    assert await counts(orders) == {}
    assert await counts(mails) == {"ready": 1}


async def test_it_counts_as_every_ack_does(broker: Any, clock: Clock) -> None:
    """The seat of its key is given back, and a probe closes its breaker."""
    orders = broker.queue(
        "orders", per_key=ORDER, redelivery=AT_ONCE, breaker=Breaker(distinct=2, within="10s", probe="10s")
    )
    mails = broker.queue("mails", per_key=ORDER)
    await orders.send_many([Message(n, key=f"k{n % 2}", dependency="payments") for n in range(4)])
    for delivery in await orders.claim(2):
        await delivery.nack("payments are down")
    assert (await orders.dependency("payments").stats()).open
    assert await orders.claim(9) == []
    clock.advance("11s")
    await (await one(orders)).ack(send=[(mails, Message(n, key="m")) for n in range(2)])
    assert not (await orders.dependency("payments").stats()).open
    assert await orders.claim(9)
    assert (await one(mails)).body == 0
    assert (await mails.stats()).blocked == 1


# Replies that are lost


@each_row_afresh("lost", [lose_calls, lose_replies])
async def test_a_lost_reply_is_asked_for_again(lost: Any, broker: Any) -> None:
    orders, mails = await shop(broker, 1)
    delivery = await one(orders)
    await lost(broker, "commit")
    assert (await delivery.ack(send=[(mails, Message("x", id="m"))])).outcome == "acked"
    assert [await totals(orders, "acked"), await totals(mails, "sent")] == [[1], [1]]


@each_row_afresh("lost", [lose_calls, lose_replies])
@each_row_afresh("links", [True, False])
async def test_an_ack_of_unknown_outcome_is_repeated_as_it_was(links: bool, lost: Any, broker: Any) -> None:
    """I12: also by an ack that sends nothing, and at the end of a block; what was sent may be consumed."""
    orders, mails = await shop(broker, 1)
    async with await one(orders) as delivery:
        await lost(broker, "commit", times=3)
        with pytest.raises(BrokerUnavailable):
            await delivery.ack(send=[(mails, "x")])
        assert delivery.outcome is None
        await mails.ack(await mails.claim())
        if links:
            assert (await delivery.ack(send=[(mails, "other")])).outcome == "acked"
    assert [await totals(orders, "acked"), await totals(mails, "sent")] == [[1], [1]]
    assert [mail.body for mail in await mails.claim(9)] == (["x"] if lost is lose_calls else [])


async def test_one_of_unknown_outcome_may_have_come_too_late(broker: Any, clock: Clock, raw: Any) -> None:
    orders, mails = await shop(broker, 1, AT_ONCE)
    delivery = await one(orders)
    await lose_calls(broker, "commit", times=3)
    with pytest.raises(BrokerUnavailable):
        await delivery.ack(send=[(mails, "x")])
    clock.advance("31s")
    again = await one(orders)
    for _ in range(2):
        with pytest.raises(LeaseLost, match="the lease was lost"):
            await delivery.ack(send=[(mails, "x")])
    assert await counts(mails) == {}
    await again.ack(send=[(mails, "y")])
    audit_all(raw)
