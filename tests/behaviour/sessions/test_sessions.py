"""Sessions: what is claimed and sent takes effect together, or not at all."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from rq_dlq import (
    InvalidInput,
    InvalidMessage,
    Poison,
    Redeliver,
    RedeliveryPolicy,
    SharedDeadLetterStrategy,
)
from rq_dlq.policy import ExpiryPolicy
from tests.audit import audit
from tests.behaviour.helpers import after, bury, counts, ids, one
from tests.behaviour.shop import WrongOrderError, leave, shop, totals
from tests.conftest import Clock
from tests.contents import contents
from tests.tables import each_row_afresh

# All


async def test_at_the_end_and_together(broker: Any, raw: Any) -> None:
    orders, invoices = await shop(broker)
    async with orders.session() as session:
        claimed = await session.claim(10)
        for delivery in claimed:
            await session.send(invoices, f"bill {delivery.body}")
        assert await counts(orders) == {"leased": 3}
        assert await counts(invoices) == {}
    assert all(delivery.settled for delivery in claimed)
    assert await counts(orders) == {}
    assert await totals(orders, "sent", "acked") == [3, 3]
    assert [delivery.body for delivery in await invoices.claim(9)] == ["bill 0", "bill 1", "bill 2"]
    audit(raw, "orders")
    audit(raw, "invoices")


async def test_committed_by_hand_and_used_on(broker: Any) -> None:
    orders, invoices = await shop(broker)
    session = orders.session()
    for n in range(3):
        (delivery,) = await session.claim()
        sent = await session.send(invoices, delivery.body, id=f"i{n}")
        assert sent == f"i{n}"
        assert await session.commit() == 1
    assert await session.commit() == 0
    assert await ids(invoices) == ["i0", "i1", "i2"]
    assert await counts(orders) == {}


async def test_sends_say_all_that_a_send_can(broker: Any, clock: Clock) -> None:
    orders, invoices = await shop(broker, 0)
    async with orders.session() as session:
        await session.send(invoices, "late", delay="1m")
        await session.send(invoices, "mortal", ttl="1m")
        await session.send(invoices, "urgent", priority=9, headers={"tenant": "a"}, id="u")
        await session.send(invoices, "usual")
        await session.send(orders, "own queue")
    claimed = await invoices.claim(9)
    assert [delivery.body for delivery in claimed] == ["urgent", "mortal", "usual"]
    assert (claimed[0].id, claimed[0].headers, claimed[0].priority) == ("u", {"tenant": "a"}, 9)
    assert [delivery.body for delivery in await orders.claim(9)] == ["own queue"]
    await invoices.release(claimed)
    clock.advance("1m")
    assert [delivery.body for delivery in await invoices.claim(9)] == ["urgent", "usual", "late"]
    assert [letter.body for letter in await invoices.expired.browse()] == ["mortal"]


async def test_the_times_to_live_of_the_queue_hold(broker: Any, clock: Clock) -> None:
    orders = broker.queue("orders", expiry=ExpiryPolicy(expiry_delay="1m"))
    async with orders.session() as session:
        await session.send(orders, "by default")
        await session.send(orders, "own", ttl="2m")
    clock.advance("1m")
    assert [delivery.body for delivery in await orders.claim(9)] == ["own"]


async def test_an_id_that_is_known_is_sent_once(broker: Any) -> None:
    """I12: known before, or twice in the session, in different groups too."""
    orders, invoices = await shop(broker, 0)
    await invoices.send("before", id="i1")
    async with orders.session() as session:
        await session.send(invoices, "again", id="i1")
        await session.send(invoices, "first", id="i2")
        await session.send(invoices, "second", id="i2")
        await session.send(invoices, "third", id="i2", delay="1h")
    assert [delivery.body for delivery in await invoices.claim(9)] == ["before", "first"]
    assert await totals(invoices, "sent") == [2]


async def test_a_session_of_sends_only_and_one_of_nothing(broker: Any, raw: Any) -> None:
    orders, invoices = await shop(broker, 0)
    before = contents(raw)
    async with orders.session() as session:
        assert await session.claim() == []
    assert contents(raw) == before
    async with orders.session() as session:
        await session.send(invoices, "x")
        await session.send(orders, "y")
    assert await counts(invoices) == await counts(orders) == {"ready": 1}


@each_row_afresh("source", ["orders", "DLQ.orders", "LOST"])
@each_row_afresh("delay", [None, "1m"])
async def test_no_message_is_lost_by_a_send_under_its_own_id(
    source: str, delay: str | None, broker: Any, raw: Any
) -> None:
    """The queue knows the id until the ack, so it would drop the one and remove the other."""
    if source == "LOST":
        await broker.policies.set("orders", dead_letter=SharedDeadLetterStrategy("LOST"))
    orders = broker.queue("orders", redelivery=after("1m", most=1))
    await orders.send("first", id="order-42")
    if source != "orders":
        await orders.poison(await orders.claim())
    session = broker.queue(source).session()
    (delivery,) = await session.claim(9)
    await session.send(orders, "second", id="another")
    await session.send(orders, "second", id=delivery.id, delay=delay)
    with pytest.raises(InvalidInput, match="'order-42' cannot be sent to 'orders' together with its ack"):
        await leave(session)
    assert await counts(orders) == ({"scheduled": 1} if source == "orders" else {"dead": 1})
    assert await totals(orders, "sent", "acked") == [1, 0]
    audit(raw, "orders")


async def test_the_id_of_a_message_that_the_session_does_not_ack_may_be_sent(broker: Any) -> None:
    """In another queue, or of a delivery that was settled by itself."""
    orders, invoices = await shop(broker, 2)
    async with orders.session() as session:
        first, second = await session.claim(9)
        await session.send(invoices, "bill", id=first.id)
        await session.send(orders, "again", id=second.id)
        await second.ack()
    assert await ids(invoices) == [first.id]
    assert [delivery.body for delivery in await orders.claim(9)] == ["again"]


async def test_a_commit_that_is_refused_changes_nothing(broker: Any) -> None:
    orders, _ = await shop(broker, 1)
    session = orders.session()
    (delivery,) = await session.claim()
    await session.send(orders, "again", id=delivery.id)
    with pytest.raises(InvalidInput, match="Nothing was sent or acked"):
        await session.commit()
    assert await counts(orders) == {"leased": 1}
    assert await session.rollback() == 1
    assert await counts(orders) == {"scheduled": 1}


# Nothing


@each_row_afresh("how", ["error", "rollback", "recover", "close"])
async def test_nothing_is_sent_and_all_goes_back(how: str, broker: Any, clock: Clock) -> None:
    """By the policy, charged, with the cause."""
    orders, invoices = await shop(broker)
    session = orders.session()
    claimed = await session.claim(2)
    await session.send(invoices, "bill")
    if how == "error":
        with pytest.raises(WrongOrderError, match="boom"):
            await leave(session, WrongOrderError("boom"))
    else:
        assert await getattr(session, how)() == 2
        assert await session.commit() == 0
    assert all(delivery.settled for delivery in claimed)
    assert await counts(invoices) == {}
    assert await counts(orders) == {"ready": 1, "scheduled": 2}
    clock.advance("1m")
    for delivery in (await orders.claim(9))[1:]:
        (event,) = delivery.history
        assert (delivery.charged, delivery.delivery_count, event.event) == (1, 2, "nacked")
        assert how in event.cause.message or (how, event.cause.message) in {
            ("error", "boom"),
            ("rollback", "the session was rolled back"),
        }


async def test_each_is_judged_by_its_own_budget(broker: Any, clock: Clock) -> None:
    """One was redelivered before: it dies; one has no time left for another try; one comes back."""
    orders, invoices = await shop(broker, 1)
    await (await one(orders)).nack("before")
    clock.advance("1m")
    await orders.send("fresh")
    await orders.send("mortal", ttl="1m")
    async with orders.session() as session:
        assert len(await session.claim(9)) == 3
        await session.send(invoices, "bill")
        assert await session.rollback(WrongOrderError("boom")) == 3
    assert await counts(orders) == {"scheduled": 1, "dead": 1, "expired": 1}
    assert [letter.body for letter in await orders.dlq.browse()] == [0]
    assert [letter.body for letter in await orders.expired.browse()] == ["mortal"]
    assert await counts(invoices) == {}


@pytest.mark.parametrize("error", [Poison("no"), WrongOrderError("no")])
async def test_a_fatal_error_is_about_the_one_delivery(error: Exception, broker: Any) -> None:
    orders, invoices = await shop(broker, 1, RedeliveryPolicy(fatal=(WrongOrderError,)))
    session = orders.session()
    await session.claim()
    await session.send(invoices, "bill")
    with pytest.raises(WrongOrderError) if isinstance(error, WrongOrderError) else nullcontext():
        await leave(session, error)
    (letter,) = await orders.dlq.browse()
    assert (letter.reason, letter.cause.message) == ("poison", "no")
    assert await counts(invoices) == {}


LENIENT = [
    RedeliveryPolicy(fatal=(WrongOrderError,), max_redeliveries=5),
    RedeliveryPolicy.activemq(fatal=(WrongOrderError,), maximumRedeliveries=5),
]


@each_row_afresh("policy", LENIENT)
@each_row_afresh("error", [Poison("no"), WrongOrderError("no")])
async def test_a_fatal_error_does_not_kill_the_innocent(
    error: Exception, policy: RedeliveryPolicy, broker: Any
) -> None:
    """Nobody knows which of several it is about (Classic takes all): they come back, charged."""
    orders, _ = await shop(broker, 3, policy)
    session = orders.session()
    await session.claim(3)
    with pytest.raises(WrongOrderError) if isinstance(error, WrongOrderError) else nullcontext():
        await leave(session, error)
    assert await counts(orders) == {"scheduled": 3}
    (message,) = await orders.select(limit=1).browse()
    assert (message.charged, message.history[0].cause.message) == (1, "no")


PRESETS = {
    "rq": RedeliveryPolicy(),
    "delays": RedeliveryPolicy(delays=["1s", "5s"]),
    "artemis": RedeliveryPolicy.artemis(redelivery_delay=1_000, redelivery_delay_multiplier=2.5),
    "activemq": RedeliveryPolicy.activemq(useExponentialBackOff=True, useCollisionAvoidance=True),
    "jetstream": RedeliveryPolicy.jetstream(backoff=["1s", "5s"]),
}
ENDINGS = ["rollback", "close", "recover", "error", "ack", "nack", "poison", "release"]


@each_row_afresh("ending", ENDINGS)
@each_row_afresh("policy", PRESETS.values())
async def test_several_deliveries_end_by_any_policy(
    policy: RedeliveryPolicy, ending: str, broker: Any
) -> None:
    orders, _ = await shop(broker, 3, replace(policy, fatal=(WrongOrderError,)))
    session = orders.session()
    claimed = await session.claim(3)
    if ending == "error":
        with pytest.raises(WrongOrderError, match="boom"):
            await leave(session, WrongOrderError("boom"))
    elif ending in {"ack", "nack", "poison", "release"}:
        assert all(await getattr(orders, ending)(claimed))
    else:
        assert await getattr(session, ending)() == 3
    assert all(delivery.settled for delivery in claimed)
    places = {"ack": {}, "release": {"ready": 3}, "poison": {"dead": 3}}
    assert await counts(orders) == places.get(ending, {"scheduled": 3})


async def test_redelivered_when_it_was_told(broker: Any, clock: Clock) -> None:
    orders, invoices = await shop(broker)
    session = orders.session()
    await session.claim(2)
    await session.send(invoices, "bill")
    await leave(session, Redeliver(after="7s", charge=False))
    assert await counts(orders) == {"ready": 1, "scheduled": 2}
    assert await counts(invoices) == {}
    clock.advance("7s")
    assert [delivery.charged for delivery in await orders.claim(9)] == [0, 0, 0]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
async def test_who_is_stopped_charges_nothing(stop: type[BaseException], broker: Any) -> None:
    orders, invoices = await shop(broker)
    session = orders.session()
    await session.claim(2)
    await session.send(invoices, "bill")
    with pytest.raises(stop):
        await leave(session, stop())
    claimed = await orders.claim(9)
    assert [(delivery.body, delivery.charged, delivery.released) for delivery in claimed] == [
        (0, 0, 1), (1, 0, 1), (2, 0, 0),
    ]  # fmt: skip
    assert await counts(invoices) == {}


async def test_what_is_settled_apart_is_out_of_it(broker: Any) -> None:
    orders, invoices = await shop(broker, 6)
    session = orders.session()
    async with session:
        first, second, third, fourth, *_ = await session.claim(6)
        await first.ack()
        await second.nack("boom")
        await third.poison("bad")
        await fourth.release()
        await session.send(invoices, "bill")
    assert await counts(orders) == {"ready": 1, "scheduled": 1, "dead": 1}
    assert await totals(orders, "acked") == [3]
    assert await counts(invoices) == {"ready": 1}


# Dead letters, and limits


@pytest.mark.parametrize("part", ["DLQ.orders", "EXP.orders"])
async def test_dead_letters_are_sent_on(part: str, broker: Any, clock: Clock) -> None:
    """To another queue, and to the one they died in."""
    orders, invoices = await shop(broker, 0)
    await bury(orders, ["dead"])
    await orders.send("expired", ttl="1s")
    clock.advance("1s")
    await orders.maintain()
    async with broker.queue(part).session() as session:
        (letter,) = await session.claim(9)
        await session.send(invoices, letter.body)
        await session.send(orders, f"again: {letter.body}")
    assert len(await orders.select(places=["dead", "expired"]).browse()) == 1
    assert await ids(invoices)
    assert (await one(orders)).body.startswith("again: ")
    with pytest.raises(InvalidInput):
        await orders.session().send(broker.queue(part), "x")


async def test_a_dead_letter_of_a_session_that_failed_stays_dead(broker: Any) -> None:
    orders, invoices = await shop(broker, 0)
    await bury(orders, ["dead"])
    session = broker.queue("DLQ.orders").session()
    (letter,) = await session.claim(9)
    await session.send(invoices, letter.body)
    with pytest.raises(WrongOrderError):
        await leave(session, WrongOrderError())
    assert await counts(orders) == {"dead": 1}
    assert await counts(invoices) == {}


@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_a_shared_name_for_dead_letters(end: str, broker: Any, raw: Any) -> None:
    """What came through it is acked in the queue where it died."""
    await broker.policies.set("#", dead_letter=SharedDeadLetterStrategy("graveyard"))
    queues = [broker.queue(name) for name in "abc"]
    retry = broker.queue("retry")
    assert await retry.claim() == []
    for queue in queues:
        for n in range(2):
            await queue.send(f"{queue.name}{n}", id=f"m{n}")
        await queue.poison(await queue.claim(2))
    session = broker.queue("graveyard").session()
    claimed = await session.claim(9)
    assert sorted(delivery.body for delivery in claimed) == ["a0", "a1", "b0", "b1", "c0", "c1"]
    for delivery in claimed:
        await session.send(retry, delivery.body)
    assert await getattr(session, end)() == 6
    for queue in queues:
        assert await counts(queue) == ({} if end == "commit" else {"dead": 2})
        assert await totals(queue, "acked") == [2 if end == "commit" else 0]
        audit(raw, queue.name)
    assert await counts(retry) == ({"ready": 6} if end == "commit" else {})


async def test_two_sessions_on_one_queue(broker: Any) -> None:
    """Each ends what is its own."""
    orders, invoices = await shop(broker, 6)
    mine, yours = orders.session(), orders.session()
    first, second = await mine.claim(3), await yours.claim(3)
    await mine.send(invoices, "mine")
    await yours.send(invoices, "yours")
    assert {delivery.id for delivery in first}.isdisjoint(delivery.id for delivery in second)
    assert await yours.rollback() == 3
    assert await mine.commit() == 3
    assert await counts(orders) == {"scheduled": 3}
    assert [delivery.body for delivery in await invoices.claim(9)] == ["mine"]


async def test_the_most_that_one_session_does(broker: Any) -> None:
    """I9: its end is one script."""
    orders, invoices = await shop(broker, 2_500)
    session = orders.session()
    claimed = await session.claim(700) + await session.claim(700)
    assert len(claimed) == 1_000
    with pytest.raises(InvalidInput, match="at most 1,000 deliveries"):
        await session.claim()
    for n in range(1_000):
        await session.send(invoices, n, delay=n % 10, ttl=3_600 if n % 3 else None)
    with pytest.raises(InvalidInput, match="at most 1,000 messages"):
        await session.send(invoices, "one more")
    assert await session.commit() == 1_000
    assert await counts(invoices) == {"ready": 100, "scheduled": 900}
    assert await counts(orders) == {"ready": 1_500}
    assert len(await session.claim()) == 1
    assert await session.rollback() == 1


async def test_what_makes_no_sense_is_said_at_once(broker: Any) -> None:
    orders, invoices = await shop(broker)
    session = orders.session()
    for error, options in (
        (InvalidMessage, {"priority": 23}),
        (InvalidMessage, {"id": "\n"}),
        (InvalidMessage, {"headers": {"a": 1}}),
        (InvalidInput, {"delay": -1}),
    ):
        with pytest.raises(error):
            await session.send(invoices, "x", **options)
    for count in (0, 1_001, None, "1"):
        with pytest.raises(InvalidInput):
            await session.claim(count)
    with pytest.raises(InvalidInput, match="is not a queue of"):
        await session.send("invoices", "x")
    assert await session.commit() == 0
