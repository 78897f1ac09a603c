"""A call whose reply was lost is repeated, and changes nothing more (I12)."""

from __future__ import annotations

from typing import Any

import pytest
from redis.exceptions import OutOfMemoryError

import rq_dlq.asyncio
from rq_dlq import BrokerRefused, BrokerUnavailable, LeaseLost, SharedDeadLetterStrategy
from rq_dlq._redis import Retries
from tests.behaviour.faults import (
    acked,
    change_talk,
    connections_of,
    lose_calls,
    lose_replies,
    meanwhile,
    unheard,
)
from tests.behaviour.helpers import AT_ONCE, after, bring_to, bury, counts, ids, one
from tests.conftest import Clock
from tests.tables import each_row_afresh


async def test_send_once(broker: Any) -> None:
    """I12."""
    queue = broker.queue("a")
    lost = await lose_replies(broker, "send")
    sent = await queue.send_many(range(600))
    assert lost.runs == 2
    assert (await queue.stats()).totals["sent"] == 600
    assert await ids(queue) == sent


@pytest.mark.parametrize("backend", ["real"])
@pytest.mark.parametrize("attempts", [1, 2, 4])
async def test_attempts_are_tries_in_all(attempts: int, server: str) -> None:
    retries = Retries(attempts=attempts, seconds=None)
    async with rq_dlq.asyncio.Broker(f"unix://{server}", retries=retries) as broker:
        lost = await lose_replies(broker, "send", times=9)
        with pytest.raises(BrokerUnavailable):
            await broker.queue("a").send(1)
        assert lost.runs == attempts


async def test_claim_gives_the_same_deliveries(broker: Any) -> None:
    """I12: neither more are leased than the client knows, nor are they counted twice."""
    queue = broker.queue("a")
    await queue.send_many(range(10))
    lost = await lose_replies(broker, "claim")
    claimed = await queue.claim(2)
    assert lost.runs == 2
    assert [(delivery.body, delivery.delivery_count) for delivery in claimed] == [(0, 1), (1, 1)]
    assert await counts(queue) == {"ready": 8, "leased": 2}


async def claim_in_vain(broker: Any, queue: Any, count: int = 1) -> None:
    """Claim, and hear nothing of it: the outcome is not known."""
    await lose_replies(broker, "claim", times=3)
    with pytest.raises(BrokerUnavailable):
        await queue.claim(count)


async def test_claim_of_unknown_outcome_is_taken_up_by_the_next(broker: Any) -> None:
    """I12: its messages are not stranded until they lapse."""
    queue = broker.queue("a")
    await queue.send_many(range(10))
    await claim_in_vain(broker, queue, 2)
    assert await counts(queue) == {"ready": 8, "leased": 2}
    claimed = await queue.claim(2)
    assert [(delivery.body, delivery.delivery_count) for delivery in claimed] == [(0, 1), (1, 1)]
    assert [delivery.body for delivery in await queue.claim(2)] == [2, 3]


async def test_a_claim_takes_up_no_more_than_it_asks_for(broker: Any) -> None:
    """The rest is given back, uncharged and at its old place."""
    queue = broker.queue("a")
    await queue.send_many(range(10))
    await claim_in_vain(broker, queue, 5)
    (delivery,) = await queue.claim()
    assert delivery.body == 0
    assert await counts(queue) == {"ready": 9, "leased": 1}
    claimed = await queue.claim(9)
    assert [(delivery.body, delivery.charged) for delivery in claimed] == [(n, 0) for n in range(1, 10)]


async def test_a_claim_of_a_view_takes_up_no_more_than_it_asks_for(broker: Any) -> None:
    await broker.policies.set("#", dead_letter=SharedDeadLetterStrategy("LOST"))
    for name in ("a", "b"):
        queue = broker.queue(name)
        await queue.send_many(range(5))
        await queue.poison(await queue.claim(5), "bad")
    lost = broker.queue("LOST")
    assert len(await lost.peek()) == 10
    await claim_in_vain(broker, lost, 10)
    assert len(await lost.claim(2)) == 2
    assert (await lost.stats()).dead == 8
    assert len(await lost.claim(10)) == 8


async def test_a_claim_taken_up_late_has_a_whole_lease(broker: Any, clock: Clock) -> None:
    """The client believes in a lease from now on, so the server must, too."""
    queue = broker.queue("a", redelivery=AT_ONCE, lease="10s")
    await queue.send("x")
    await claim_in_vain(broker, queue)
    clock.advance("9s")
    delivery = await one(queue)
    clock.advance("9s")
    assert await queue.claim() == []
    await delivery.ack()


async def test_ack_once(broker: Any) -> None:
    """I12."""
    queue = broker.queue("a")
    await queue.send("x")
    delivery = await one(queue)
    lost = await lose_replies(broker, "ack")
    settlement = await delivery.ack()
    assert (lost.runs, bool(settlement), settlement.outcome) == (2, True, "settled")
    assert (await queue.stats()).totals["acked"] == 1


@each_row_afresh("verb", ["ack", "nack", "poison", "release"])
async def test_a_settlement_of_unknown_outcome_said_again(verb: str, broker: Any) -> None:
    """I12: it was done, and so it is told; another verb is told that it is too late."""
    queue = broker.queue("a")
    await queue.send_many(range(2))
    settled, late = await queue.claim(2)
    for delivery in (settled, late):
        await lose_replies(broker, verb, times=3)
        with pytest.raises(BrokerUnavailable):
            await getattr(delivery, verb)()
    assert (await getattr(settled, verb)()).outcome == "settled"
    with pytest.raises(LeaseLost):
        await getattr(late, "ack" if verb != "ack" else "nack")()
    with pytest.raises(LeaseLost):  # what is known is no longer in doubt
        await getattr(settled, verb)()


async def test_an_ack_that_nobody_heard_is_not_taken_for_done(broker: Any, clock: Clock) -> None:
    """I2: it is repeated after its lease lapsed and another consumer was done."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x")
    late = await one(queue, lease="1s")
    with unheard(await connections_of(broker)), pytest.raises(BrokerUnavailable) as failed:
        await late.ack()
    assert not failed.value.indeterminate
    clock.advance("1s")
    await (await one(queue)).ack()
    with pytest.raises(LeaseLost):
        await late.ack()


async def test_a_session_whose_commit_nobody_heard_goes_on(broker: Any) -> None:
    queue = broker.queue("a")
    session = queue.session()
    sent = [await session.send(queue, "x")]
    with unheard(await connections_of(broker)), pytest.raises(BrokerUnavailable):
        await session.commit()
    sent.append(await session.send(queue, "y"))
    await session.commit()
    assert await ids(queue) == sent


async def test_a_batch_of_unknown_outcome_said_again(broker: Any) -> None:
    """I12: whole or one by one; what was not in it is judged as ever."""
    queue = broker.queue("a")
    await queue.send_many(range(600))
    first, *others = await queue.claim(600)
    assert await first.ack()
    await lose_replies(broker, "ack", times=3)
    with pytest.raises(BrokerUnavailable):
        await queue.ack(others)
    assert {settlement.outcome for settlement in await queue.ack(others[1:])} == {"settled"}
    assert (await others[0].ack()).outcome == "settled"
    assert [settlement.outcome for settlement in await queue.ack([first])] == ["gone"]
    assert (await queue.stats()).totals["acked"] == 600


@each_row_afresh(
    "verb, fate", [("ack", "acked"), ("nack", "redelivered"), ("poison", "dead"), ("release", "released")]
)
async def test_a_batch_of_which_a_part_was_settled_before(verb: str, fate: str, broker: Any) -> None:
    """I12: that part alone is a repetition; a stale token beside it stays stale."""
    queue = broker.queue("a", redelivery=after("1h"))
    await queue.send_many(range(5))
    *before, new, stale = await queue.claim(5)
    assert await stale.release()
    await lose_replies(broker, verb, times=3)
    with pytest.raises(BrokerUnavailable):
        await getattr(queue, verb)(before)
    settled = await getattr(queue, verb)([*before, new, stale])
    assert [one.outcome for one in settled] == ["settled", "settled", "settled", fate, "lost"]
    assert [one.id for one in settled] == [one.id for one in (*before, new, stale)]
    (again,) = await getattr(queue, verb)([before[0]])  # what is known is no longer in doubt
    assert not again


async def test_nack_once(broker: Any) -> None:
    """I12: charged once."""
    queue = broker.queue("a", redelivery=after("5s", most=1))
    await queue.send("x")
    delivery = await one(queue)
    lost = await lose_replies(broker, "nack")
    assert await delivery.nack("boom")
    assert lost.runs == 2
    (waiting,) = await queue.claim() or [None]
    assert waiting is None
    assert await counts(queue) == {"scheduled": 1}
    assert (await queue.stats()).totals["nacked"] == 1


async def test_nack_once_with_death(broker: Any) -> None:
    """I12, I6: one dead letter with one failure."""
    queue = broker.queue("a", redelivery=after("5s", most=0))
    await queue.send("x")
    delivery = await one(queue)
    await lose_replies(broker, "nack")
    assert await delivery.nack("boom")
    (letter,) = await queue.dlq.browse()
    assert (letter.nacked, len(letter.history)) == (1, 1)


async def test_poison_once(broker: Any) -> None:
    """I12."""
    queue = broker.queue("a")
    await queue.send("x")
    delivery = await one(queue)
    lost = await lose_replies(broker, "poison")
    assert await delivery.poison("bad")
    (letter,) = await queue.dlq.browse()
    assert (lost.runs, len(letter.history)) == (2, 1)


async def test_release_once(broker: Any) -> None:
    """I12."""
    queue = broker.queue("a")
    await queue.send("x")
    delivery = await one(queue)
    lost = await lose_replies(broker, "release")
    assert await delivery.release()
    again = await one(queue)
    assert (lost.runs, again.released, again.delivery_count) == (2, 1, 2)


@each_row_afresh("verb", ["release", "nack"])
async def test_what_another_consumer_has_by_the_repetition_counts_as_lost(
    verb: str, broker: Any, sync_broker: rq_dlq.Broker
) -> None:
    """The state has only the newest holder. It was done once."""
    queue, taken = broker.queue("a", redelivery=AT_ONCE), list[Any]()
    await queue.send("x")
    delivery = await one(queue)
    lost = await lose_replies(broker, verb)
    meanwhile(lost, lambda: taken.extend(sync_broker.queue("a").claim()))
    with pytest.raises(LeaseLost):
        await getattr(delivery, verb)(**({"error": "boom"} if verb == "nack" else {}))
    (other,) = taken
    assert (lost.runs, other.delivery_count, other.released + other.nacked) == (2, 2, 1)
    assert other.ack()


async def test_extend_once(broker: Any, clock: Clock) -> None:
    """I12."""
    queue = broker.queue("a")
    await queue.send("x")
    delivery = await one(queue, lease="1s")
    lost = await lose_replies(broker, "extend")
    deadline = await delivery.extend("1m")
    assert (lost.runs, deadline.timestamp() * 1000) == (2, clock.now + 60_000)
    clock.advance("59s")
    assert await delivery.ack()


async def test_redrive_once(broker: Any) -> None:
    """I12."""
    queue = broker.queue("a")
    await bury(queue, range(10))
    lost = await lose_replies(broker, "step_redrive")
    await queue.dlq.redrive(all=True)
    assert lost.runs >= 2
    claimed = await queue.claim(100)
    assert [(delivery.body, delivery.redriven) for delivery in claimed] == [(n, 1) for n in range(10)]


async def test_redrive_of_ids_once(broker: Any) -> None:
    """I12."""
    queue = broker.queue("a")
    dead = await bury(queue, range(10))
    await lose_replies(broker, "step_redrive")
    await queue.dlq.redrive(ids=dead[:3])
    assert await counts(queue) == {"ready": 3, "dead": 7}


async def test_purge_once(broker: Any) -> None:
    """I12."""
    queue = broker.queue("a")
    dead = await bury(queue, range(10))
    await lose_replies(broker, "purge")
    await queue.dlq.purge(ids=dead[:3])
    assert await counts(queue) == {"dead": 7}
    assert (await queue.stats()).totals["purged"] == 3


async def test_batch_once(broker: Any) -> None:
    """I12: more than a script and more than a round trip."""
    queue = broker.queue("a")
    await queue.send_many(range(1_000))
    claimed = await queue.claim(1_000)
    await lose_replies(broker, "ack")
    assert all(await queue.ack(claimed))
    assert (await queue.stats()).totals["acked"] == 1_000


async def test_a_stale_token_stays_stale_when_repeated(broker: Any, clock: Clock) -> None:
    """I2 goes before I12: a repeated call of a lost lease is no success."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x")
    stale = await one(queue, lease="1s")
    clock.advance("1s")
    current = await one(queue)
    await lose_replies(broker, "ack")
    with pytest.raises(LeaseLost):
        await stale.ack()
    assert await current.ack()


async def test_unreachable_after_three_tries(broker: Any, clock: Clock) -> None:
    """A producer fails fast; what it does not know it can do again."""
    queue = broker.queue("a")
    await bring_to("ready", queue, clock)
    lost = await lose_replies(broker, "send", times=3)
    with pytest.raises(BrokerUnavailable):
        await queue.send("y", id="n")
    assert lost.runs == 3
    await queue.send("y", id="n")
    assert await ids(queue) == ["m", "n"]


async def refuse(broker: Any, *, connecting: bool = False) -> None:
    """The next round trip that is heard is refused, or a new connection for it."""
    left = [1]

    def refused(replies: list[Any]) -> list[Any]:
        if not left:
            return replies
        left.clear()
        error = OutOfMemoryError("command not allowed when used memory > 'maxmemory'.")
        if connecting:
            raise error
        return [error for _ in replies]

    await change_talk(broker, lambda commands: commands, refused)


@each_row_afresh("connecting", [False, True])
@each_row_afresh("times", [0, 1])
async def test_who_is_refused_is_told_that_a_try_before_may_have_been_done(
    times: int, connecting: bool, broker: Any
) -> None:
    queue = broker.queue("a")
    await queue.send("x")
    await lose_replies(broker, "send", times)
    await refuse(broker, connecting=connecting)
    with pytest.raises(BrokerRefused, match="out of memory") as refused:
        await queue.send("x")
    assert refused.value.indeterminate == bool(times)
    assert len(refused.value.__notes__[:-1]) == times


async def test_a_session_whose_repeated_commit_was_refused_is_not_rolled_back(broker: Any) -> None:
    """It may have been committed, as it has been here."""
    queue, other = broker.queue("a"), broker.queue("b")
    await queue.send("x")
    session = queue.session()
    sent = [await session.send(other, "y")]
    await session.commit()  # the server knows the script now

    async def fail() -> None:
        async with session:
            await session.claim()
            sent.append(await session.send(other, "z"))
            await lose_replies(broker, "commit")
            await refuse(broker)

    with pytest.raises(BrokerRefused):
        await fail()
    assert await session.commit() == 1
    assert await ids(other) == sent
    assert sum((await counts(queue)).values()) == 0


# What operators say


async def test_dead_lettered_once(broker: Any) -> None:
    """I12, I6: with one event in its history."""
    queue = broker.queue("a")
    await queue.send_many(range(5))
    lost = await lose_replies(broker, "dead_letter")
    await queue.select("body > 2").dead_letter()
    assert lost.runs == 2
    assert await counts(queue) == {"ready": 3, "dead": 2}
    assert [len(letter.history) for letter in await queue.dlq.browse()] == [1, 1]
    assert (await queue.stats()).totals["poison"] == 2


async def test_expired_once(broker: Any) -> None:
    """I12, I7."""
    queue = broker.queue("a")
    await queue.send_many(range(5))
    lost = await lose_replies(broker, "expire_now")
    await queue.select("body > 2").expire()
    assert lost.runs == 2
    assert await counts(queue) == {"ready": 3, "expired": 2}
    assert (await queue.stats()).totals["expired"] == 2


async def test_delivered_now_once(broker: Any) -> None:
    """I12, I8."""
    queue = broker.queue("a")
    sent = await queue.send_many(range(5), delay="1h")
    lost = await lose_replies(broker, "deliver_now")
    await queue.select("body > 2").deliver_now()
    assert lost.runs == 2
    assert await counts(queue) == {"ready": 2, "scheduled": 3}
    assert await ids(queue) == sent[3:]


async def test_prioritized_once(broker: Any) -> None:
    """I12; and each is counted."""
    queue = broker.queue("a")
    sent = await queue.send_many(range(5))
    lost = await lose_replies(broker, "prioritize")
    assert await queue.select("body > 2").prioritize(9) == 2
    assert lost.runs == 2
    assert await ids(queue) == sent[3:] + sent[:3]


@each_row_afresh("place", ["ready", "dead"])
@each_row_afresh("consumed", [False, True])
async def test_moved_once(consumed: bool, place: str, broker: Any) -> None:
    """I12: told once in its history; and not again when it was consumed between the two tries."""
    queue, other = broker.queue("a"), broker.queue("b")
    await other.open()
    await (bury(queue, range(5)) if place == "dead" else queue.send_many(range(5)))
    lost = await lose_replies(broker, "transfer", times=3 if consumed else 1)
    if consumed:
        with pytest.raises(BrokerUnavailable):
            await queue.select(places=[place]).move(other)
        await other.ack(await other.claim(2))
    await queue.select(places=[place]).move(other)
    assert lost.runs == (3 if consumed else 2)
    claimed = await other.claim(9)
    assert [delivery.body for delivery in claimed] == ([2, 3, 4] if consumed else [0, 1, 2, 3, 4])
    assert {[event.event for event in delivery.history].count("moved") for delivery in claimed} == {1}
    assert await counts(queue) == {}
    assert (await queue.stats()).totals["moved"] == (await other.stats()).totals["sent"] == 5


async def test_copied_once(broker: Any) -> None:
    """I12."""
    queue, other = broker.queue("a"), broker.queue("b")
    await other.open()
    sent = await queue.send_many(range(5))
    lost = await lose_replies(broker, "transfer")
    await queue.select(all=True).copy(other)
    assert lost.runs == 2
    assert await ids(queue) == await ids(other) == sent
    assert (await other.stats()).totals["sent"] == 5


async def test_redrive_by_a_condition_once(broker: Any) -> None:
    """I12."""
    queue = broker.queue("a")
    await bury(queue, range(10))
    lost = await lose_replies(broker, "step_redrive")
    await queue.dlq.redrive(where="body >= 7")
    assert lost.runs == 2
    assert [(delivery.body, delivery.redriven) for delivery in await queue.claim(9)] == [
        (7, 1),
        (8, 1),
        (9, 1),
    ]
    assert await counts(queue) == {"leased": 3, "dead": 7}


@pytest.mark.parametrize("consumed", [False, True])
async def test_commit_once(consumed: bool, broker: Any, sync_broker: rq_dlq.Broker) -> None:
    """I12: acked and sent once, also when what was sent was consumed between the two tries."""
    queue, other = broker.queue("a"), broker.queue("b")
    await queue.send_many(range(3))
    lost = await lose_replies(broker, "commit")
    if consumed:
        meanwhile(lost, lambda: acked(sync_broker.queue("b")))
    async with queue.session() as session:
        for delivery in await session.claim(3):
            await session.send(other, delivery.body)
    assert lost.runs == 2
    assert await counts(queue) == {}
    assert await counts(other) == ({} if consumed else {"ready": 3})
    assert (await queue.stats()).totals["acked"] == (await other.stats()).totals["sent"] == 3


async def test_commit_of_sends_only_once(broker: Any, sync_broker: rq_dlq.Broker) -> None:
    """I12: with nothing that is held there is no fence, and still it is sent once."""
    queue = broker.queue("a")
    lost = await lose_replies(broker, "commit", times=2)
    meanwhile(lost, lambda: acked(sync_broker.queue("a")))
    async with queue.session() as session:
        await session.send(queue, "x")
    assert lost.runs == 3
    assert await counts(queue) == {}
    assert (await queue.stats()).totals["sent"] == 1


async def test_a_lost_lease_stays_lost_when_the_commit_is_repeated(broker: Any, clock: Clock) -> None:
    """I2 goes before I12."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x")
    session = queue.session()
    await session.claim(lease="1s")
    await session.send(queue, "y")
    clock.advance("1s")
    current = await one(queue)
    await lose_replies(broker, "commit")
    with pytest.raises(LeaseLost):
        await session.commit()
    assert await current.ack()
    assert await counts(queue) == {}


async def test_a_wait_that_is_cut_off_goes_on_a_random_while_later(
    broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand clients may have lost their connections together: they are not to come back together."""
    drawn: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        drawn.append((low, high))
        return high

    monkeypatch.setattr("random.uniform", uniform)
    lost = await lose_calls(broker, "wait")
    assert await broker.queue("a").claim(wait="20ms") == []
    assert (lost.runs, drawn) == (1, [(0, 20)])


async def test_pause_once(broker: Any) -> None:
    """I12."""
    queue = broker.queue("a")
    await queue.send("x")
    lost = await lose_replies(broker, "pause")
    await queue.pause()
    assert lost.runs == 2
    assert await queue.claim() == []
    assert await queue.resume()
    assert await ids(queue)
