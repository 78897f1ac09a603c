"""Sessions in a world where leases are lost, replies get lost and processes stop."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

import rq_dlq
import rq_dlq.asyncio
from rq_dlq import BrokerUnavailable, InvalidInput, LeaseLost, Poison
from tests.audit import audit, audit_all
from tests.behaviour.faults import change_talk, lose, lose_calls, lose_replies
from tests.behaviour.helpers import AT_ONCE, after, counts, one
from tests.behaviour.shop import WrongOrderError, leave, shop, totals
from tests.conftest import Clock
from tests.tables import each_row_afresh


async def test_a_lost_lease_undoes_all(broker: Any, clock: Clock, raw: Any) -> None:
    """I2: it is told which, nothing is sent or acked; what was not lost goes back, and is not charged."""
    orders, invoices = await shop(broker, 3, AT_ONCE)
    session = orders.session()
    (lost,) = await session.claim(1, lease="1s")
    kept = await session.claim(2, lease="1h")
    await session.send(invoices, "bill")
    clock.advance("1s")
    (other,) = await orders.claim(9)
    with pytest.raises(LeaseLost, match="nothing was sent or acked") as raised:
        await leave(session)
    assert lost.id in str(raised.value)
    assert not any(delivery.id in str(raised.value) for delivery in kept)
    assert await counts(invoices) == {}
    assert await counts(orders) == {"ready": 2, "leased": 1}
    assert [(delivery.body, delivery.charged) for delivery in await orders.claim(9)] == [(1, 0), (2, 0)]
    assert await other.ack()
    audit(raw, "orders")


async def test_the_lost_one_is_named_where_nothing_was_sent(broker: Any, clock: Clock) -> None:
    orders, _ = await shop(broker, 3, AT_ONCE)
    session = orders.session()
    kept = await session.claim(1, lease="1h")
    (lost,) = await session.claim(1, lease="1s")
    kept += await session.claim(1, lease="1h")
    clock.advance("1s")
    await orders.maintain()
    with pytest.raises(LeaseLost) as raised:
        await session.commit()
    assert lost.id in str(raised.value)
    assert not any(delivery.id in str(raised.value) for delivery in kept)
    assert await counts(orders) == {"ready": 1, "leased": 2}
    assert await session.rollback() == 2


@dataclass
class CutOff:
    """Raises an error in the place of one exchange with the server, or after it; of which, `at` counts down.

    A cancellation of a task, or Ctrl-C, may come at any of them.
    """

    at: int
    arrives: bool

    def sent(self, commands: list[Any]) -> list[Any]:
        """Before an exchange."""
        self.at -= self.arrives is False
        self._cut(now=not self.arrives)
        return commands

    def heard(self, replies: list[Any]) -> list[Any]:
        """After one."""
        self.at -= self.arrives
        self._cut(now=self.arrives)
        return replies

    def _cut(self, *, now: bool) -> None:
        if now and self.at == 0:
            raise KeyboardInterrupt


@each_row_afresh("arrives", [True, False])
@each_row_afresh("ending", ["commit", "ack"])
async def test_an_end_that_is_cut_off_anywhere_is_found_out_by_another(
    arrives: bool, ending: str, broker: Any
) -> None:
    """How many it acked, too, though its messages were sent and acked before."""
    orders, invoices = await shop(broker, 0, AT_ONCE)
    cut, cuts = CutOff(0, arrives), 0
    await change_talk(broker, cut.sent, cut.heard)
    for number in range(1, 20):
        await orders.send(number, id=str(number))
        session = orders.session()
        (held,) = await session.claim(1, lease="1h")
        act = session.commit if ending == "commit" else partial(held.ack, send=[(invoices, number)])
        if ending == "commit":
            await session.send(invoices, number, id=f"bill-{number}")
        orders._core.client.senders._idle.clear()  # a sender's first call takes one exchange more
        cut.at = number
        try:
            await act()
            cut.at = 0
            break
        except KeyboardInterrupt:
            cuts += 1
            ended = await act()
        assert (ended if ending == "commit" else ended.outcome) == (1 if ending == "commit" else "acked")
        assert held.outcome == "acked"
        assert await totals(invoices, "sent") == [number]
    assert cuts >= 2
    assert (await counts(orders), await counts(invoices)) == ({}, {"ready": cuts + 1})


async def test_many_lost_leases_are_counted(broker: Any, clock: Clock) -> None:
    orders, _ = await shop(broker, 8, AT_ONCE)
    session = orders.session()
    await session.claim(8, lease="1s")
    clock.advance("1s")
    await orders.maintain()
    with pytest.raises(LeaseLost, match="and 3 more was lost"):
        await session.commit()
    assert await session.rollback() == 0
    assert await counts(orders) == {"ready": 8}


async def test_after_a_commit_that_failed_the_rest_can_be_saved(broker: Any, clock: Clock) -> None:
    """Nothing is forgotten by it: not what was sent, not what is held."""
    orders, invoices = await shop(broker, 2, AT_ONCE)
    session = orders.session()
    (lost,) = await session.claim(1, lease="1s")
    await session.claim(1)
    await session.send(invoices, "bill")
    clock.advance("1s")
    await orders.maintain()
    with pytest.raises(LeaseLost):
        await session.commit()
    with pytest.raises(LeaseLost):
        await lost.ack()
    assert [delivery.id for delivery in await session.claim(1)] == [lost.id]
    assert await session.commit() == 2
    assert await counts(orders) == {}
    assert await counts(invoices) == {"ready": 1}


async def test_one_message_claimed_twice_is_acked_once(broker: Any, clock: Clock) -> None:
    """Its lease lapsed, and the same session got it again."""
    orders, invoices = await shop(broker, 1, AT_ONCE)
    session = orders.session()
    for _ in range(2):
        assert len(await session.claim(1, lease="1s")) == 1
        clock.advance("1s")
    assert len(await session.claim()) == 1
    await session.send(invoices, "bill")
    assert await session.commit() == 1
    assert await totals(orders, "acked") == [1]


# Replies that are lost


async def test_a_commit_of_unknown_outcome_is_asked_for_again(broker: Any) -> None:
    """I12: it says just the same again, so it is done once; until then nothing else is added to it."""
    orders, invoices = await shop(broker, 2)
    session = orders.session()
    (delivery,) = await session.claim()
    await session.send(invoices, "bill")
    await lose_replies(broker, "commit", times=3)
    with pytest.raises(BrokerUnavailable):
        await session.commit()
    assert await counts(invoices) == {"ready": 1}
    for call in (lambda: session.send(invoices, "more"), session.claim):
        with pytest.raises(InvalidInput, match=r"commit\(\) again or rollback\(\)"):
            await call()
    await invoices.ack(await invoices.claim(9))
    assert await session.commit() == 1
    assert delivery.settled
    assert await totals(invoices, "sent") == [1]
    assert await totals(orders, "acked") == [1]
    assert len(await session.claim()) == 1
    assert await session.commit() == 1


async def test_a_commit_that_only_acks_is_asked_for_again(broker: Any) -> None:
    """I12: what it acked the first time does not count as lost."""
    orders, _ = await shop(broker, 2)
    session = orders.session()
    await session.claim(2)
    await lose_replies(broker, "ack_all", times=3)
    with pytest.raises(BrokerUnavailable):
        await session.commit()
    assert await session.commit() == 2
    assert await totals(orders, "acked") == [2]


async def test_a_commit_that_only_acks_is_asked_for_again_before_the_next_run(broker: Any) -> None:
    """The ack put the message back for one more run; the repeated call said that its lease was lost."""
    orders, _ = await shop(broker, 0)
    await orders.send("once", id="m")
    session = orders.session()
    await session.claim(1)
    assert (await orders.send("more", id="m", on_duplicate="again")).did == "again"
    await lose_replies(broker, "ack_all", times=3)
    with pytest.raises(BrokerUnavailable):
        await session.commit()
    assert await session.commit() == 1
    assert (await one(orders)).body == "more"


async def test_a_commit_that_only_acks_and_found_one_gone_did_nothing(broker: Any, clock: Clock) -> None:
    """I2: what is gone was acked by another consumer, since what is still held would have gone with it."""
    orders, _ = await shop(broker, 2, AT_ONCE)
    session = orders.session()
    (gone,) = await session.claim(1, lease="1s")
    (held,) = await session.claim(1, lease="1h")
    clock.advance("1s")
    assert await (await one(orders)).ack()
    await lose_calls(broker, "ack_all", times=3)
    with pytest.raises(BrokerUnavailable):
        await session.commit()
    with pytest.raises(LeaseLost) as raised:
        await session.commit()
    assert gone.id in str(raised.value)
    assert held.id not in str(raised.value)
    assert await counts(orders) == {"leased": 1}


@pytest.mark.parametrize("done", [True, False])
async def test_rolled_back_when_the_outcome_is_unknown(done: bool, broker: Any) -> None:
    """What was committed is no longer ours to give back; what was not goes back, and nothing is sent."""
    orders, invoices = await shop(broker, 2)
    session = orders.session()
    await session.claim(2)
    await session.send(invoices, "bill")
    await (lose_replies if done else lose_calls)(broker, "commit", 3)
    with pytest.raises(BrokerUnavailable):
        await leave(session)
    assert await session.rollback() == (0 if done else 2)
    assert await counts(orders) == ({} if done else {"scheduled": 2})
    assert await counts(invoices) == ({"ready": 1} if done else {})
    assert len(await session.claim()) == 0


async def test_a_rollback_that_fails_can_be_said_again(broker: Any) -> None:
    """The deliveries are not forgotten, the messages to be sent are."""
    orders, invoices = await shop(broker, 2)
    session = orders.session()
    await session.claim(2)
    await session.send(invoices, "bill")
    await lose_calls(broker, "nack", 3)
    with pytest.raises(BrokerUnavailable):
        await session.rollback()
    assert await counts(orders) == {"leased": 2}
    assert await session.rollback() == 2
    assert await session.commit() == 0
    assert await counts(orders) == {"scheduled": 2}
    assert await counts(invoices) == {}


async def test_who_dies_leaves_everything_to_the_next(broker: Any, clock: Clock) -> None:
    """A process that is gone neither commits nor rolls back: its leases lapse."""
    orders, invoices = await shop(broker, 2)
    session = orders.session()
    assert len(await session.claim(2)) == 2
    await session.send(invoices, "bill")
    del session
    clock.advance("30s")
    await orders.maintain()
    assert await counts(orders) == {"scheduled": 2}
    assert await counts(invoices) == {}


async def test_a_cancelled_task_releases(async_broker: rq_dlq.asyncio.Broker) -> None:
    """What it held was no failure of the messages."""
    orders, invoices = await shop(async_broker, 2)
    holds = asyncio.Event()

    async def work() -> None:
        async with orders.session() as session:
            await session.send(invoices, len(await session.claim(2)))
            holds.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await holds.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [(delivery.charged, delivery.released) for delivery in await orders.claim(9)] == [(0, 1)] * 2
    assert await counts(invoices) == {}


# Anything, in any order


EVENLY = st.integers(0, 9_999)
ACTIONS = ["order", *["claim"] * 4, *["commit"] * 3, "end", "leave", "stop", "wait", "wait", "pay"]


class Machine(RuleBasedStateMachine):
    """Sessions that take orders and send a bill for each, are stopped, and lose replies.

    A bill is sent where its order is acked, and only there: so the two totals agree after every step.
    """

    broker: Any
    raw: Any

    def __init__(self) -> None:
        super().__init__()
        self.raw.flushall()
        self.clock = Clock(self.raw)
        self.orders = self.broker.queue("orders", redelivery=after(0, "10s", most=2), lease="20s")
        self.bills = self.broker.queue("bills")
        self.orders.claim()
        self.bills.claim()
        self.orders.send_many(range(9))
        self.sessions = [self.orders.session() for _ in range(2)]

    @rule(verb=EVENLY, which=EVENLY, how=EVENLY, count=EVENLY)
    def step(self, verb: int, which: int, how: int, count: int) -> None:
        """Any action; one rule, as hypothesis draws few of many rules."""
        name = ACTIONS[verb % len(ACTIONS)]
        note(f"# {name} {which % 2} {how} {count % 4 + 1}")
        with suppress(LeaseLost, BrokerUnavailable, InvalidInput):  # it is told; the sums hold all the same
            getattr(self, name)(which % 2, how, count % 4 + 1)

    def order(self, _: int, how: int, count: int) -> None:
        self.orders.send_many(range(count), ttl=(None, None, "15s")[how % 3], priority=how % 5)

    def claim(self, which: int, how: int, count: int) -> None:
        session = self.sessions[which]
        for delivery in session.claim(count):
            self.billed(session, delivery, ("", "", "", "nack", "poison", "release")[how % 6])

    def billed(self, session: Any, delivery: Any, apart: str) -> None:
        if apart:
            getattr(delivery, apart)()
        else:
            session.send(self.bills, delivery.body, id=delivery.id, delay=delivery.body)

    def end(self, which: int, how: int, _: int) -> None:
        getattr(self.sessions[which], ("rollback", "recover", "close")[how % 3])()

    def leave(self, which: int, how: int, _: int) -> None:
        error = (None, None, None, WrongOrderError, KeyboardInterrupt, Poison)[how % 6]
        with suppress(WrongOrderError, KeyboardInterrupt), self.sessions[which]:
            if error is not None:
                raise error

    def commit(self, which: int, how: int, lost: int) -> None:
        """One to four times the call or its reply is lost; or the network is well."""
        connections = self.broker._connected()
        talk = connections._talk
        lose(connections, "commit", lost if how % 2 else 0, arrives=how % 4 == 1)
        try:
            self.sessions[which].commit()
        finally:
            connections._talk = talk

    def stop(self, which: int, _how: int, _count: int) -> None:
        self.sessions[which] = self.orders.session()

    def wait(self, _which: int, how: int, _count: int) -> None:
        self.clock.advance(("1s", "10s", "20s")[how % 3])
        self.orders.maintain()

    def pay(self, _which: int, _how: int, count: int) -> None:
        self.bills.ack(self.bills.claim(count))
        self.orders.dlq.redrive(all=True)

    @invariant()
    def the_sums_hold(self) -> None:
        audit_all(self.raw)
        acked = self.orders.stats().totals.get("acked", 0)
        billed = self.bills.stats().totals.get("sent", 0)
        assert acked == billed, f"{acked} orders were acked, {billed} billed"


@pytest.mark.parametrize("backend", ["real"], indirect=True)
def test_whatever_happens_the_sums_hold(sync_broker: rq_dlq.Broker, raw: Any) -> None:
    """I1, I2, I12: a session is all or nothing, whatever it and the others do and whenever it stops."""
    machine = type("Bound", (Machine,), {"broker": sync_broker, "raw": raw})
    run_state_machine_as_test(
        machine,
        settings=settings(stateful_step_count=30, suppress_health_check=list(HealthCheck)),
    )
