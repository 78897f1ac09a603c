"""Names that policies give to the dead letters of queues: one name shows those of several."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import rq_dlq
from rq_dlq import (
    BrokerUnavailable,
    IndividualDeadLetterStrategy,
    InvalidInput,
    LeaseLost,
    SharedDeadLetterStrategy,
)
from rq_dlq.core.claiming import claim
from rq_dlq.core.steps.call import Call
from tests.behaviour.helpers import after, bodies, bury, claim_all, counts, one
from tests.conftest import Clock

NAMES = ("a", "b", "c.d")


@pytest.fixture
async def lost(broker: Any, clock: Clock) -> Any:
    """A shared dead-letter queue with two messages each of three queues, and two that died otherwise."""
    await broker.policies.set("#", dead_letter=SharedDeadLetterStrategy("LOST"))
    for name in NAMES:
        queue = broker.queue(name)
        await bury(queue, [f"{name}1", f"{name}2"], "no stock" if name == "b" else ValueError("no"))
        await queue.send("alive", headers={"h": name})
        clock.advance("1s")
    return broker.queue("LOST")


async def test_claim(lost: Any, broker: Any) -> None:
    first = await lost.claim(4)
    assert len(first) == 4
    second = await lost.claim(4)
    assert len(second) == 2
    everything = sorted(delivery.body for delivery in [*first, *second])
    assert everything == ["a1", "a2", "b1", "b2", "c.d1", "c.d2"]
    assert {delivery.queue for delivery in first} == {"LOST"}
    assert await lost.claim(1) == []
    for name in NAMES:
        assert await counts(broker.queue(name)) == {"ready": 1, "leased": 2}


async def test_claim_waits(lost: Any) -> None:
    assert len(await lost.claim(6, wait="5s")) == 6
    assert await lost.claim(1, wait="20ms") == []


async def test_every_verb_for_one(lost: Any, broker: Any, clock: Clock) -> None:
    acked, nacked, poisoned, released, extended, lapsed = await lost.claim(6, lease="10s")
    assert (await acked.ack()).outcome == "acked"
    assert (await nacked.nack("again")).outcome == "kept"
    assert (await poisoned.poison()).outcome == "kept"
    assert (await released.release()).outcome == "released"
    clock.advance("5s")
    assert (await extended.extend()).timestamp() * 1000 == clock.now + 30_000
    clock.advance("5s")
    for name in NAMES:
        await broker.queue(name).maintain()
    async with extended:
        pass
    # What was claimed of one queue at once is under one lease, which was extended for both.
    same = extended.token == lapsed.token
    assert (await lost.stats()).dead == (3 if same else 4)
    if not same:
        with pytest.raises(LeaseLost):
            await lapsed.ack()


@pytest.mark.parametrize("verb", ["ack", "nack", "poison", "release", "extend"])
async def test_batches_over_several_families(verb: str, lost: Any, broker: Any) -> None:
    """In one call, each told apart, in the order of the batch."""
    deliveries = await lost.claim(6)
    stale = deliveries[3]
    await stale.release()
    results = await getattr(lost, verb)(deliveries)
    expected = {"ack": "acked", "nack": "kept", "poison": "kept", "release": "released", "extend": True}
    if verb == "extend":
        assert results == [delivery is not stale for delivery in deliveries]
    else:
        assert [result.id for result in results] == [delivery.id for delivery in deliveries]
        assert [result.outcome for result in results if result] == [expected[verb]] * 5
        assert results[3].outcome == "lost"
    left = {"ack": 1, "extend": 1}.get(verb, 6)
    assert (await lost.stats()).dead == left
    assert sum([(await broker.queue(name).stats()).dead for name in NAMES]) == left


async def test_more_than_a_chunk(broker: Any) -> None:
    await broker.policies.set("#", dead_letter=SharedDeadLetterStrategy("LOST"))
    for name in ("a", "b"):
        await bury(broker.queue(name), range(400))
    lost = broker.queue("LOST")
    deliveries = await claim_all(lost, 700)
    assert {delivery.token.partition("@")[2] for delivery in deliveries} == {"a", "b"}
    assert {settlement.outcome for settlement in await lost.ack(deliveries)} == {"acked"}
    assert await counts(lost) == {"dead": 100}


async def test_another_object_settles_what_one_claimed(lost: Any, broker: Any) -> None:
    """The token says whose it is."""
    first, second, third, *_ = await lost.claim(6)
    assert [bool(one) for one in await broker.queue("LOST").ack([first, second])] == [True, True]
    assert (await broker.queue("LOST").extend([third])) == [True]
    assert (await lost.stats()).dead == 0


async def test_a_claim_whose_reply_was_lost(lost: Any, broker: Any) -> None:
    """I12: a lease is one family's, and so is its token."""
    tokens = {delivery.token for delivery in await lost.claim(6)}
    assert sorted(token.partition("@")[2] for token in tokens) == sorted(NAMES)
    assert (await broker.queue("a").stats()).leased == 2


def test_a_claim_that_fails_at_one_of_its_queues(sync_broker: rq_dlq.Broker) -> None:
    """I12: what it has of the others already is not stranded; the next claim has it."""
    sync_broker.policies.set("#", dead_letter=SharedDeadLetterStrategy("LOST"))
    for name in NAMES:
        queue = sync_broker.queue(name)
        queue.send(name)
        queue.claim()[0].poison()
    lost = sync_broker.queue("LOST")
    steps = claim.claim(lost._core, lost._deliveries, count=3)
    step, claims = next(steps), 0
    while claims < 3:
        reply = sync_broker._connected()._perform(step)
        claims += isinstance(step, Call) and step.verb == "claim"
        if claims < 3:
            step = steps.send(reply)
    with pytest.raises(BrokerUnavailable):
        steps.throw(BrokerUnavailable("no answer"))
    assert lost.stats().dead == 0
    assert sorted(delivery.body for delivery in lost.claim(3)) == ["a", "b", "c.d"]


async def test_what_does_not_decode_is_in_nobodys_way(lost: Any, broker: Any, clock: Clock) -> None:
    await broker.queue("b").select(all=True).purge()
    await bury(broker.queue("b"), [5])
    typed = broker.queue("LOST", type=int, lease="10s")
    assert await bodies(typed, 7) == [5]
    assert await typed.claim(7) == []
    clock.advance("10s")
    for name in NAMES:
        await broker.queue(name).maintain()
    assert await counts(lost) == {"dead": 7}


async def test_looking_at_it(lost: Any) -> None:
    peeked = sorted(message.body for message in await lost.peek())
    assert peeked == ["a1", "a2", "b1", "b2", "c.d1", "c.d2"]
    assert len(await lost.peek(3)) == 3
    stats = await lost.stats()
    assert (stats.name, stats.dead, stats.ready, stats.waiting) == ("LOST", 6, 0, 0)
    selected = lost.select()
    assert await selected.count() == 6
    assert {letter.original_queue for letter in await selected.browse()} == {"a", "b", "c.d"}
    assert await lost.select(places=["dead", "expired"]).count() == 6
    for place in ("ready", "scheduled", "leased"):
        with pytest.raises(InvalidInput, match=f"'LOST' has only .*: for {place} ones, select from"):
            await lost.select(places=[place]).count()
    assert len(await lost.select(limit=4).browse()) == 4


@pytest.mark.parametrize("used", [False, True], ids=["fresh object", "used object"])
async def test_dead_letters_of_all(used: bool, lost: Any) -> None:
    """`.dlq` of a shared name, for what `.dlq` has and a queue has not."""
    if used:
        await lost.stats()
    letters = await lost.dlq.browse()
    assert [letter.body for letter in letters] == ["a1", "a2", "b1", "b2", "c.d1", "c.d2"]  # the oldest first
    assert [letter.original_queue for letter in letters] == ["a", "a", "b", "b", "c.d", "c.d"]
    largest, other = await lost.dlq.groups()
    assert (largest.count, largest.error, other.count) == (4, "ValueError: no", 2)
    assert len(await lost.dlq.browse(group=other.fingerprint)) == 2
    assert len(await lost.dlq.browse(limit=5)) == 5
    assert await lost.expired.browse() == []
    assert (await lost.dlq.redrive(group=other.fingerprint)).counts.moved == 2
    assert (await lost.dlq.redrive(ids=[letters[0].id])).counts.moved == 1
    assert await lost.dlq.purge(ids=[letters[1].id]) == 1
    assert (await lost.dlq.redrive(all=True)).counts.moved == 2
    assert await counts(lost) == {}


async def test_redriven_to_their_own_queues(lost: Any, broker: Any) -> None:
    assert await lost.select(all=True).redrive() == 6
    for name in NAMES:
        assert sorted(await bodies(broker.queue(name))) == sorted([f"{name}1", f"{name}2", "alive"])


async def test_purge_leaves_the_living(lost: Any, broker: Any) -> None:
    assert await lost.purge(all=True) == 6
    assert await counts(lost) == {}
    assert [await counts(broker.queue(name)) for name in NAMES] == [{"ready": 1}] * 3


async def test_remove_and_move(lost: Any, broker: Any) -> None:
    assert await lost.select(limit=2).purge() == 2
    other = broker.queue("other")
    await other.send("there is such a queue")
    await other.purge(all=True)
    assert await lost.select(all=True).move("other") == 4
    assert (await counts(lost), await counts(other)) == ({}, {"ready": 4})
    with pytest.raises(InvalidInput, match="there is no queue 'LOST' to put messages into: send to it first"):
        await other.select(all=True).move("LOST")


async def test_a_session_on_it(lost: Any, broker: Any) -> None:
    async with lost.session() as session:
        claimed = await session.claim(2)
        assert len(claimed) == 2
    assert await counts(lost) == {"dead": 4}
    del broker


# Which name is one


async def test_individual_names(broker: Any) -> None:
    await broker.policies.set("#", dead_letter=IndividualDeadLetterStrategy(prefix="", suffix=".dead"))
    for name in ("a", "b"):
        await bury(broker.queue(name), [name])
    for name in ("a", "b"):
        assert await bodies(broker.queue(f"{name}.dead")) == [name]
    assert await counts(broker.queue("c.dead")) == {}


async def test_the_usual_names_work_too(lost: Any, broker: Any) -> None:
    assert sorted(await bodies(broker.queue("DLQ.a"))) == ["a1", "a2"]
    assert len(await lost.claim(6)) == 4
    assert [letter.original_queue for letter in await broker.queue("b").dlq.browse()] == []


async def test_a_usual_name_may_be_shared(broker: Any, clock: Clock) -> None:
    """What died in the queue whose name it is is there, too; that queue's own `.dlq` shows nothing else."""
    for name in ("all", "b"):
        await bury(broker.queue(name), [name])
        clock.advance("1s")
    await broker.policies.set("b", dead_letter=SharedDeadLetterStrategy("DLQ.all"))
    shared = broker.queue("DLQ.all")
    assert [letter.body for letter in await shared.dlq.browse()] == ["all", "b"]
    assert [letter.body for letter in await broker.queue("all").dlq.browse()] == ["all"]
    assert [letter.body for letter in await broker.queue("b").dlq.browse()] == ["b"]
    claimed = await shared.claim(5)
    assert [one.outcome for one in await shared.ack(claimed)] == ["acked", "acked"]
    await broker.queue("all").send("x")
    assert await bodies(broker.queue("all")) == ["x"]


async def test_nothing_is_shown_twice(broker: Any, clock: Clock) -> None:
    """Also where the queue whose usual name it is has a policy for its other name."""
    await broker.policies.set("orders", dead_letter=SharedDeadLetterStrategy("DLQ.all"))
    await broker.policies.set("all", expiry={"name": "gone"})
    for name in ("all", "orders"):
        await bury(broker.queue(name), [name])
        clock.advance("1s")
    shared = broker.queue("DLQ.all")
    assert await counts(shared) == {"dead": 2}
    assert sorted(message.body for message in await shared.peek()) == ["all", "orders"]
    assert await shared.select().count() == 2
    assert [letter.body for letter in await shared.dlq.browse()] == ["all", "orders"]
    (group,) = await shared.dlq.groups()
    assert group.count == 2


async def test_new_queues_appear_in_it(lost: Any, broker: Any) -> None:
    assert len(await lost.claim(10)) == 6
    await bury(broker.queue("new"), ["new"])
    assert (await one(lost)).body == "new"


async def test_dead_and_expired_under_one_name(broker: Any, clock: Clock) -> None:
    await broker.policies.set("a", dead_letter={"name": "BAD"})
    await broker.policies.set("b", expiry={"name": "BAD"})
    await bury(broker.queue("a"), ["dead"])
    await broker.queue("b").send("late", ttl="1s")
    clock.advance("1s")
    await broker.queue("b").maintain()
    bad = broker.queue("BAD")
    assert await counts(bad) == {"dead": 1, "expired": 1}
    assert [letter.body for letter in await bad.dlq.browse()] == ["dead"]
    assert [letter.body for letter in await bad.expired.browse()] == ["late"]
    claimed = await bad.claim(5)
    assert sorted(delivery.body for delivery in claimed) == ["dead", "late"]
    assert [settlement.outcome for settlement in await bad.nack(claimed)] == ["kept", "kept"]
    assert await bad.select(all=True).redrive() == 2


# What it is not


async def test_no_queue_of_its_own(lost: Any, broker: Any, raw: Any) -> None:
    await lost.claim(1)
    assert await broker.queues() == sorted(NAMES)
    assert raw.keys("*LOST*") == []


@pytest.mark.parametrize("used", [False, True], ids=["fresh object", "used object"])
async def test_it_is_a_queue_only_once_it_was_sent_to(used: bool, lost: Any, broker: Any) -> None:
    if used:
        await lost.peek()
    for call in (lost.pause(), lost.resume(), lost.reset(), lost.delete()):
        with pytest.raises(
            InvalidInput, match="it has only the dead letters of other queues, until a message is sent to it"
        ):
            await call
    assert await counts(lost) == {"dead": 6}
    async with broker.queue("a").session() as session:
        await session.send(lost, "x")
    await lost.send("x")
    await lost.send_many(["x"])
    assert await lost.pause()
    assert await lost.resume()
    assert await counts(lost) == {"ready": 3, "dead": 6}
    assert await lost.delete(force=True) == 3
    assert await counts(lost) == {"dead": 6}


def test_a_pickled_one(sync_broker: rq_dlq.Broker, server: Any) -> None:
    if not isinstance(server, str):
        pytest.skip("a pool of fakeredis does not travel")
    sync_broker.policies.set("#", dead_letter=SharedDeadLetterStrategy("LOST"))
    queue = sync_broker.queue("a")
    queue.send("x")
    queue.claim()[0].poison()
    lost = sync_broker.queue("LOST")
    assert lost.stats().dead == 1
    again: Any = pickle.loads(pickle.dumps(lost))  # noqa: S301
    assert again.name == "LOST"
    assert again.stats().dead == 1
    again._broker.close()


async def test_a_name_that_was_taken_back_shows_nothing(lost: Any, broker: Any) -> None:
    held = await lost.claim(2)
    await broker.policies.remove("#")
    assert await counts(lost) == {}
    assert [settlement.outcome for settlement in await lost.nack(held)] == ["kept", "kept"]  # still settled
    assert sum([(await broker.queue(f"DLQ.{name}").stats()).dead for name in NAMES]) == 6


async def test_declared_for_one_queue(broker: Any) -> None:
    queue = broker.queue("a", redelivery=after(0, most=0), dead_letter=SharedDeadLetterStrategy("LOST"))
    await queue.send("x")
    await (await one(queue)).nack()
    assert await bodies(broker.queue("LOST")) == ["x"]
