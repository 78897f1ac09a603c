"""A name that is a queue's and that of other queues' letters: it shows both, and a letter is in it once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rq_dlq
from rq_dlq import BrokerUnavailable, InvalidInput
from rq_dlq._keys import QueueKeys
from rq_dlq.core.batches import batches
from rq_dlq.core.claiming import claim
from rq_dlq.core.steps.call import Call
from rq_dlq.core.steps.step import Step, Steps, Wait
from rq_dlq.worker import Worker
from tests.behaviour.helpers import after, bodies, bury, claim_all, counts, one
from tests.conftest import Clock
from tests.tables import each_row_afresh

FAMILIES = ["bills", "orders"]


async def policy_first(broker: Any) -> Any:
    """The names are given, then a program sends."""
    await broker.policies.set("#", dead_letter_aliases="DLQ")
    await broker.queue("DLQ").send("sent")
    return broker.queue("DLQ")


async def queue_first(broker: Any) -> Any:
    """An object that had the queue open before its name was given."""
    queue = broker.queue("DLQ")
    await queue.send("sent")
    await broker.policies.set("#", dead_letter_aliases="DLQ")
    return queue


async def view_first(broker: Any) -> Any:
    """An object that had claimed letters before anything was sent to the name."""
    await broker.policies.set("#", dead_letter={"name": "DLQ"})
    await broker.queue("orders").open()
    queue = broker.queue("DLQ")
    assert await queue.claim() == []
    await broker.queue("DLQ").send("sent")
    return queue


async def both(broker: Any, before: Any = policy_first) -> Any:
    """A queue with a message that was sent, and two letters under its name."""
    queue = await before(broker)
    for family in FAMILIES:
        await bury(broker.queue(family), [family])
    return queue


@each_row_afresh("before", [policy_first, queue_first, view_first])
async def test_a_reader_gets_both(before: Any, broker: Any) -> None:
    dlq = await both(broker, before)
    found = await claim_all(dlq)
    assert sorted(delivery.body for delivery in found) == [*FAMILIES, "sent"]
    assert {delivery.original_queue for delivery in found} == {*FAMILIES, "DLQ"}
    assert await broker.queue("DLQ.orders").claim() == []
    assert all(await dlq.ack(found))
    for name in (*FAMILIES, "DLQ"):
        assert await counts(broker.queue(name)) == {}


async def test_what_shows_the_name_shows_both(broker: Any) -> None:
    dlq = await both(broker)
    assert await counts(dlq) == {"ready": 1, "dead": 2}
    for found in (await dlq.peek(), await dlq.select().browse(), await dlq.select(limit=3).browse()):
        assert sorted(message.body for message in found) == [*FAMILIES, "sent"]
    assert [message.body for message in await dlq.select(limit=1).browse()] == ["sent"]
    assert sorted(letter.body for letter in await dlq.dlq.browse()) == FAMILIES
    for message in await dlq.peek():
        place = "ready" if message.body == "sent" else "dead"
        assert (await dlq.explain(message.id)).place == place
    assert await dlq.select("body = 'orders'").count() == 1


@each_row_afresh("letters", [0, 5])
async def test_neither_starves(letters: int, broker: Any) -> None:
    """Whichever has more: they take turns."""
    dlq = await policy_first(broker)
    await dlq.send_many(["sent"] * (6 - letters))
    await bury(broker.queue("orders"), ["letter"] * (letters + 1))
    first = [await one(dlq) for _ in range(4)]
    assert sorted({delivery.body for delivery in first[:2]}) == ["letter", "sent"]
    rest = "letter" if letters else "sent"
    assert [delivery.body for delivery in first].count(rest) >= 2
    assert len(await dlq.claim(99)) == 4


async def test_each_is_settled_as_what_it_is(broker: Any, clock: Clock) -> None:
    dlq = broker.queue("DLQ", redelivery=after(1, most=1))
    await both(broker)
    found = await dlq.claim(9)
    outcomes = {d.body: s.outcome for d, s in zip(found, await dlq.nack(found, "no"), strict=True)}
    assert outcomes == {"bills": "kept", "orders": "kept", "sent": "redelivered"}
    clock.advance("2s")
    found = await dlq.claim(9)
    outcomes = {d.body: s.outcome for d, s in zip(found, await dlq.nack(found, "no"), strict=True)}
    assert outcomes["sent"] == "dead"
    clock.advance("1h")
    assert await bodies(broker.queue("DLQ.DLQ")) == ["sent"]
    assert sorted(letter.body for letter in await dlq.dlq.browse(limit=9)) == FAMILIES  # that one is leased


async def test_a_loop_and_a_session_have_both(broker: Any) -> None:
    dlq = await both(broker)
    async with dlq.session() as session:
        assert len(await session.claim(2)) == 2
    async for delivery in dlq.consume(3):
        await delivery.ack()
    for name in (*FAMILIES, "DLQ"):
        assert await counts(broker.queue(name)) == {}


async def test_purge_takes_both_delete_and_pause_only_the_queue(broker: Any) -> None:
    dlq = await both(broker)
    await dlq.pause()
    held = await dlq.claim(9)
    assert sorted(delivery.body for delivery in held) == FAMILIES
    await dlq.release(held)
    await dlq.resume()
    assert await broker.queue("DLQ").delete(force=True) == 1
    assert await counts(dlq) == {"dead": 2}
    assert sorted(await bodies(dlq)) == FAMILIES
    await broker.queue("DLQ").send("sent")
    for family in FAMILIES:
        await bury(broker.queue(family), ["more"])
    assert await broker.queue("DLQ").purge(all=True) == 3
    assert await counts(dlq) == {}


async def test_a_batch_of_spark_has_what_was_sent(broker: Any) -> None:
    dlq = await both(broker)
    claimed = await broker._run(batches.claim_batch(dlq._core, "b", limit=9, lease=1_000))
    assert claimed.messages == 1


def up_to(steps: Steps[Any], broker: rq_dlq.Broker, stops: Callable[[Step], bool], reply: Any = None) -> Step:
    """Go on with the steps of a claim; the first step at which it stops, which is not made yet."""
    step = steps.send(reply)
    while not stops(step):
        step = steps.send(broker._connected()._perform(step))
    return step


def claimed(steps: Steps[Any], broker: rq_dlq.Broker, reply: Any) -> list[Any]:
    """The bodies that the claim returns."""
    try:
        up_to(steps, broker, lambda _: False, reply)
    except StopIteration as end:
        return [delivery.body for delivery in end.value]
    raise AssertionError


def waits(step: Step) -> bool:
    return isinstance(step, Wait)


@each_row_afresh("was_sent_to", [False, True])
def test_who_waits_is_woken_by_what_is_sent(was_sent_to: bool, sync_broker: rq_dlq.Broker) -> None:
    sync_broker.policies.set("#", dead_letter_aliases="DLQ")
    sync_broker.queue("orders").open()
    dlq = sync_broker.queue("DLQ")
    if was_sent_to:
        dlq.open()
    steps = claim.claim(dlq._core, dlq._deliveries, wait=60_000)
    wait = up_to(steps, sync_broker, waits)
    assert getattr(wait, "key", "") == QueueKeys("rq", "DLQ")["wake"]
    sync_broker.queue("DLQ").send("sent")
    assert claimed(steps, sync_broker, sync_broker._connected()._perform(wait)) == ["sent"]


def test_who_leaves_with_a_letter_passes_the_alarm_on(sync_broker: rq_dlq.Broker, raw: Any) -> None:
    """It was to wake when a message that was sent falls due; another client does so now."""
    sync_broker.policies.set("#", dead_letter_aliases="DLQ")
    orders, dlq = sync_broker.queue("orders"), sync_broker.queue("DLQ")
    orders.send("x")
    dlq.send("later", delay="0.9s")
    steps = claim.claim(dlq._core, dlq._deliveries, wait=60_000)
    wait: Any = up_to(steps, sync_broker, waits)
    assert raw.exists("rq:{DLQ}:alarm")
    orders.poison(orders.claim())
    dlq._core.seen.looked = None  # a second is over
    reply = sync_broker._connected()._perform(wait.then)
    assert claimed(steps, sync_broker, (1.0, reply)) == ["x"]
    assert not raw.exists("rq:{DLQ}:alarm")


@each_row_afresh("turn", [False, True])
def test_a_claim_that_fails_part_way_is_resumed(turn: bool, sync_broker: rq_dlq.Broker) -> None:
    """Whichever was first, its messages come with the next claims, under the lease that they have."""
    sync_broker.policies.set("#", dead_letter_aliases="DLQ")
    orders, dlq = sync_broker.queue("orders"), sync_broker.queue("DLQ")
    dlq.send_many(["sent", "sent"])
    orders.send_many(["letter", "letter"])
    orders.poison(orders.claim(9))
    assert len(dlq.release(dlq.claim(9))) == 4
    dlq._core.seen.turn = turn
    steps = claim.claim(dlq._core, dlq._deliveries, count=9)
    first = up_to(steps, sync_broker, lambda step: isinstance(step, Call) and step.verb == "claim")
    up_to(steps, sync_broker, lambda _: True, sync_broker._connected()._perform(first))
    with pytest.raises(BrokerUnavailable):
        steps.throw(BrokerUnavailable("gone"))
    counts = sync_broker.queue("DLQ").stats()
    assert counts.ready + counts.dead == 2
    found = [delivery for _ in range(4) for delivery in dlq.claim(9)]
    assert sorted(delivery.body for delivery in found) == ["letter", "letter", "sent", "sent"]


async def test_what_is_told_of_where_it_cannot_go(broker: Any) -> None:
    await broker.policies.set("#", dead_letter_aliases="DLQ")
    await bury(broker.queue("orders"), ["x"])
    with pytest.raises(InvalidInput, match="there is no queue 'DLQ' to put messages into"):
        await broker.queue("orders").dlq.select(all=True).move("DLQ")


def test_a_worker_runs_its_handler_on_both(sync_broker: rq_dlq.Broker) -> None:
    sync_broker.policies.set("#", dead_letter_aliases="DLQ")
    orders, dlq, seen = sync_broker.queue("orders"), sync_broker.queue("DLQ"), list[str]()
    orders.send("letter")
    orders.poison(orders.claim())
    dlq.send("sent")
    dlq.handler(seen.append)
    Worker(sync_broker, until="empty").run()
    assert sorted(seen) == ["letter", "sent"]
    assert (orders.stats().dead, dlq.stats().totals["acked"]) == (0, 1)
