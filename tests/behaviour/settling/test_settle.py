"""Settling: ack, nack, poison, release, extend, and the fence before them (I2)."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq import (
    InvalidInput,
    LeaseLost,
    Poison,
    Redeliver,
    RedeliveryPolicy,
    SharedDeadLetterStrategy,
    UnprocessableMessage,
)
from tests.behaviour.helpers import AT_ONCE, after, bodies, bury, counts, one
from tests.conftest import Clock
from tests.contents import contents
from tests.tables import each_row_afresh

VERBS = ["ack", "nack", "poison", "release", "extend"]


async def test_acked_is_gone(broker: Any) -> None:
    """I13: the audit sees that nothing is left."""
    queue = broker.queue("a")
    await queue.send("x")
    settlement = await (await one(queue)).ack()
    assert (settlement.outcome, settlement.delay) == ("acked", None)
    assert await counts(queue) == {}


async def test_nacked_waits(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("5s"))
    await queue.send("x")
    settlement = await (await one(queue)).nack("boom")
    assert (settlement.outcome, settlement.delay) == ("redelivered", 5.0)
    assert await counts(queue) == {"scheduled": 1}
    clock.advance("5s")
    delivery = await one(queue)
    assert (delivery.delivery_count, delivery.charged, delivery.nacked) == (2, 1, 1)


async def test_poisoned_is_dead_whatever_the_budget(broker: Any) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x")
    assert (await (await one(queue)).poison("bad")).outcome == "dead"
    (letter,) = await queue.dlq.browse()
    assert (letter.reason, letter.cause.message) == ("poison", "bad")


async def test_released_is_due_at_once_and_not_charged(broker: Any) -> None:
    queue = broker.queue("a", redelivery=after("5s", most=0))
    await queue.send("x")
    for _ in range(3):
        assert (await (await one(queue)).release()).outcome == "released"
    delivery = await one(queue)
    assert (delivery.charged, delivery.released, delivery.delivery_count) == (0, 3, 4)
    assert delivery.history == ()


@each_row_afresh("batch", [False, True])
@each_row_afresh("begun", [False, True])
async def test_released_with_a_delay_waits_and_is_not_charged(
    batch: bool, begun: bool, broker: Any, clock: Clock
) -> None:
    queue = broker.queue("a", redelivery=after("5s", most=0))
    await queue.send("x")
    for number in range(3):
        delivery = await one(queue)
        assert delivery.attempt == (number + 1 if begun else 1)
        assert delivery.redelivered is (begun and number > 0)
        if batch:
            (settlement,) = await queue.release([delivery], delay="300ms", begun=begun)
        else:
            settlement = await delivery.release(delay="300ms", begun=begun)
        assert settlement.outcome == "released"
        clock.advance("299ms")
        assert await queue.claim() == []
        clock.advance("1ms")
    delivery = await one(queue)
    assert (delivery.charged, delivery.released, delivery.delivery_count) == (0, 3, 4)
    assert delivery.untried == (0 if begun else 3)
    assert delivery.history == ()


async def test_released_beyond_its_time_to_live_expires(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send("x", ttl="1s")
    assert (await (await one(queue)).release(delay="1s")).outcome == "expired"
    await queue.send("y", ttl="1s")
    await (await one(queue)).release(delay="999ms")
    clock.advance("999ms")
    assert await bodies(queue) == ["y"]
    assert (await queue.stats()).expired == 1


async def test_a_dead_letter_that_is_released_with_a_delay_rests(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send("x")
    await (await one(queue)).poison("bad")
    letters = broker.queue("DLQ.a")
    await (await one(letters)).release(delay="10s")
    assert await letters.claim() == []
    clock.advance("10s")
    assert [letter.body for letter in await letters.claim()] == ["x"]


async def test_a_release_with_nonsense_changes_nothing(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x")
    delivery = await one(queue)
    for wrong in ({"delay": -1}, {"delay": "soon"}, {"begun": 1}):
        with pytest.raises(InvalidInput):
            await delivery.release(**wrong)
    assert (await delivery.ack()).outcome == "acked"


async def test_a_block_is_not_entered_when_the_lease_is_over(broker: Any) -> None:
    """By a clock of the client's own, which knows how long ago it claimed: the work would be done twice."""
    queue = broker.queue("a", lease="10s")
    await queue.send_many(["x", "y"])
    first, second = await queue.claim(2)
    async with first:
        pass
    first._lease.read_at -= 10.1
    with pytest.raises(LeaseLost, match="the lease expired before the work began"):
        async with second:
            pytest.fail("the work began")
    assert not second.settled
    await second.extend("30s")
    async with second:
        pass
    assert second.outcome == "acked"


async def test_extended_lease_starts_anew(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE, lease="10s")
    await queue.send("x")
    delivery = await one(queue)
    clock.advance("9s")
    deadline = await delivery.extend()
    assert deadline.timestamp() * 1000 == delivery.lease_until.timestamp() * 1000 == clock.now + 10_000
    clock.advance("9.999s")
    assert await queue.claim() == []
    clock.advance("1ms")
    assert await bodies(queue) == ["x"]


@pytest.mark.parametrize("batch", [False, True])
async def test_messages_of_one_claim_show_the_lease_that_they_share(
    broker: Any, clock: Clock, batch: bool
) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE, lease="10s")
    await queue.send_many(["x", "y", "z"])
    first, second = await queue.claim(2)
    (other,) = await queue.claim()
    ends = other.lease_until
    clock.advance("9s")
    await (queue.extend([first]) if batch else first.extend())
    assert first.lease_until == second.lease_until
    assert second.lease_until.timestamp() * 1000 == clock.now + 10_000
    assert other.lease_until == ends


async def test_a_lease_can_be_shortened(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE, lease="1h")
    await queue.send("x")
    await (await one(queue)).extend("1s")
    clock.advance("1s")
    assert await bodies(queue) == ["x"]


async def test_extend_is_for_all_that_was_claimed_together(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE, lease="10s")
    await queue.send_many(range(3))
    claimed = await queue.claim(3)
    clock.advance("9s")
    await claimed[0].extend()
    clock.advance("9s")
    assert all(await queue.ack(claimed))


@each_row_afresh("verb", VERBS)
async def test_a_zombie_is_refused_and_changes_nothing(
    verb: str, broker: Any, clock: Clock, raw: Any
) -> None:
    """I2: its lease lapsed, and someone else holds the message."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x", id="m")
    zombie = await one(queue, lease="1s")
    clock.advance("1s")
    current = await one(queue)
    before = contents(raw)
    with pytest.raises(LeaseLost, match="message m: the lease was lost"):
        await getattr(zombie, verb)()
    assert contents(raw) == before
    assert await current.ack()


@each_row_afresh("verb", VERBS)
async def test_a_settled_message_is_refused(verb: str, broker: Any, raw: Any) -> None:
    """I2: settled by its own token, and not a repetition of the call."""
    queue = broker.queue("a")
    await queue.send("x")
    delivery = await one(queue)
    await delivery.nack()
    before = contents(raw)
    with pytest.raises(LeaseLost, match="this delivery was settled before, its outcome is 'redelivered'"):
        await getattr(delivery, verb)()
    assert contents(raw) == before


@each_row_afresh("verb", VERBS)
async def test_a_message_that_is_gone_is_refused(verb: str, broker: Any, raw: Any) -> None:
    """I2."""
    queue = broker.queue("a")
    await queue.send("x")
    delivery = await one(queue)
    await delivery.ack()
    before = contents(raw)
    with pytest.raises(LeaseLost):
        await getattr(delivery, verb)()
    assert contents(raw) == before


@each_row_afresh("verb", VERBS)
async def test_a_late_word_counts_while_nobody_else_has_it(verb: str, broker: Any, clock: Clock) -> None:
    """The lease is over, but no one swept it."""
    queue = broker.queue("a")
    await queue.send("x")
    delivery = await one(queue, lease="1s")
    clock.advance("1h")
    await getattr(delivery, verb)()
    assert (await queue.stats()).totals.get("lapsed", 0) == 0


@each_row_afresh("verb", VERBS)
async def test_a_lapse_that_was_judged_is_final(verb: str, broker: Any, clock: Clock) -> None:
    """I2: it waits for its redelivery; the old token is stale."""
    queue = broker.queue("a", redelivery=after("5s"))
    await queue.send("x")
    delivery = await one(queue, lease="1s")
    clock.advance("1s")
    await queue.maintain()
    with pytest.raises(LeaseLost):
        await getattr(delivery, verb)()
    assert await counts(queue) == {"scheduled": 1}


@each_row_afresh("verb", ["ack", "nack", "poison", "release"])
async def test_a_batch_is_settled_one_by_one(verb: str, broker: Any, clock: Clock) -> None:
    """Lost, gone and held beside each other; each is told."""
    queue = broker.queue("a", redelivery=after("0s", most=9))
    await queue.send_many(range(2))
    lost = await one(queue, lease="1s")
    gone = await one(queue)
    await gone.ack()
    clock.advance("1s")
    current = await one(queue)
    await queue.send("y")
    fresh = await one(queue)
    settlements = await getattr(queue, verb)([lost, gone, fresh, current])
    done = {"ack": "acked", "nack": "redelivered", "poison": "dead", "release": "released"}[verb]
    assert [settlement.outcome for settlement in settlements] == ["lost", "gone", done, done]
    assert [bool(settlement) for settlement in settlements] == [False, False, True, True]
    assert [s.id for s in settlements] == [lost.id, gone.id, fresh.id, current.id]


async def test_a_batch_is_judged_one_by_one(broker: Any) -> None:
    """One message at the end of its budget takes no other with it."""
    queue = broker.queue("a", redelivery=after("0s", most=1))
    await queue.send("old")
    await (await one(queue)).nack()
    await queue.send("new")
    settlements = await queue.nack(await queue.claim(2))
    assert [settlement.outcome for settlement in settlements] == ["dead", "redelivered"]


@each_row_afresh("verb", ["ack", "nack", "poison", "release"])
async def test_one_message_twice_in_a_batch_is_settled_once(verb: str, broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(2))
    first, second = await queue.claim(2)
    settlements = await getattr(queue, verb)([first, first, second])
    assert [bool(settlement) for settlement in settlements] == [True, False, True]


@each_row_afresh("verb", ["ack", "nack", "poison", "release"])
async def test_a_batch_larger_than_a_script(verb: str, broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(251))
    claimed = await queue.claim(251)
    settlements = await getattr(queue, verb)(claimed)
    assert [settlement.id for settlement in settlements] == [delivery.id for delivery in claimed]
    assert all(settlements)
    assert (await queue.stats()).leased == 0


async def test_extend_of_a_batch_says_what_is_held(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(251))
    claimed = await queue.claim(251)
    await claimed[0].ack()
    assert await queue.extend(claimed, "1m") == [False] + [True] * 250


@each_row_afresh("verb", VERBS)
async def test_an_empty_batch_is_nothing(verb: str, broker: Any) -> None:
    assert await getattr(broker.queue("a"), verb)([]) == []


async def test_deliveries_of_many_claims_in_one_batch(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(9))
    claimed = [*await queue.claim(2), *await queue.claim(3), *await queue.claim(4)]
    assert all(await queue.ack(claimed[:-1]))
    assert raw.zcard("rq:{a}:leases") == 1
    await claimed[-1].ack()


# `with delivery:`


async def leave(delivery: Any, error: BaseException | None) -> None:
    async with delivery:
        if error is not None:
            raise error


async def test_block_that_succeeds_acks(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x")
    await leave(await one(queue), None)
    assert (await queue.stats()).totals["acked"] == 1


async def test_block_that_fails_nacks_and_raises_on(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("5s"))
    await queue.send("x")
    with pytest.raises(KeyError, match="boom"):
        await leave(await one(queue), KeyError("boom"))
    clock.advance("5s")
    (event,) = (await one(queue)).history
    assert (event.event, event.cause.type, event.cause.message) == ("nacked", "KeyError", "'boom'")


async def test_block_that_fails_for_the_last_time_is_dead(broker: Any) -> None:
    queue = broker.queue("a", redelivery=after("5s", most=0))
    await queue.send("x")
    with pytest.raises(KeyError):
        await leave(await one(queue), KeyError("boom"))
    assert await counts(queue) == {"dead": 1}


async def test_redeliver_has_its_own_delay(broker: Any, clock: Clock) -> None:
    """It stops at the end of the block."""
    queue = broker.queue("a", redelivery=after("5s"))
    await queue.send("x")
    await leave(await one(queue), Redeliver(after="2m"))
    clock.advance("119.999s")
    assert await queue.claim() == []
    clock.advance("1ms")
    assert (await one(queue)).charged == 1


async def test_redeliver_without_a_delay_waits_as_the_policy_says(broker: Any) -> None:
    queue = broker.queue("a", redelivery=after("5s"))
    await queue.send("x")
    await leave(await one(queue), Redeliver())
    assert (await queue.stats()).next_due == 5.0


async def test_redeliver_uncharged_spares_the_budget(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("5s", most=0))
    await queue.send("x")
    for _ in range(3):
        await leave(await one(queue), Redeliver(after="1s", charge=False))
        clock.advance("1s")
    delivery = await one(queue)
    assert (delivery.charged, delivery.nacked) == (0, 3)


async def test_poison_is_dead_at_once(broker: Any) -> None:
    """It stops at the end of the block."""
    queue = broker.queue("a")
    await queue.send("x")
    await leave(await one(queue), Poison("negative total"))
    (letter,) = await queue.dlq.browse()
    assert (letter.reason, letter.cause.message) == ("poison", "negative total")


async def test_fatal_error_is_dead_at_once(broker: Any) -> None:
    queue = broker.queue("a", redelivery=RedeliveryPolicy(fatal=(LookupError,)))
    await queue.send("x")
    with pytest.raises(KeyError):
        await leave(await one(queue), KeyError("a subclass"))
    (letter,) = await queue.dlq.browse()
    assert (letter.reason, letter.cause.type) == ("poison", "KeyError")


async def test_unprocessable_is_dead_at_once(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x")
    with pytest.raises(UnprocessableMessage):
        await leave(await one(queue), UnprocessableMessage("no such product"))
    (letter,) = await queue.dlq.browse()
    assert letter.reason == "unprocessable"


class Halt(BaseException):
    """Like KeyboardInterrupt, but an event loop lets it pass."""


@pytest.mark.parametrize("kind", [Halt, GeneratorExit])
async def test_what_is_no_failure_releases(kind: type[BaseException], broker: Any) -> None:
    """KeyboardInterrupt and its like say nothing about the message."""
    queue = broker.queue("a", redelivery=after("5s", most=0))
    await queue.send("x")
    with pytest.raises(kind):
        await leave(await one(queue), kind())
    delivery = await one(queue)
    assert (delivery.charged, delivery.released) == (0, 1)


def test_keyboard_interrupt_releases(sync_broker: Any, raw: Any) -> None:
    queue = sync_broker.queue("a")
    queue.send("x")
    (delivery,) = queue.claim()
    with pytest.raises(KeyboardInterrupt), delivery:
        raise KeyboardInterrupt
    assert raw.hget("rq:{a}:counters", "released") == b"1"


@each_row_afresh("verb", ["ack", "nack", "poison", "release"])
@each_row_afresh("error", [None, KeyError("boom")])
async def test_settled_inside_the_block_is_settled(verb: str, error: Exception | None, broker: Any) -> None:
    """The end of the block changes nothing more."""
    queue = broker.queue("a")
    await queue.send("x")
    delivery = await one(queue)
    try:
        async with delivery:
            await getattr(delivery, verb)()
            if error is not None:
                raise error
    except KeyError:
        assert error is not None
    totals = (await queue.stats()).totals
    done = {"ack": "acked", "nack": "nacked", "poison": "poison", "release": "released"}
    assert {name: totals.get(name, 0) for name in done.values()} == {
        name: int(name == done[verb]) for name in done.values()
    }


async def test_lease_lost_inside_the_block_is_told_at_its_end(broker: Any, clock: Clock) -> None:
    """I2: the work may have been done twice, and no one is to overlook it."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x")
    delivery = await one(queue, lease="1s")
    await delivery.__aenter__()
    clock.advance("1s")
    assert await bodies(queue) == ["x"]
    with pytest.raises(LeaseLost):
        await delivery.__aexit__(None, None, None)


async def test_a_batch_must_be_a_batch(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x")
    delivery = await one(queue)
    with pytest.raises(InvalidInput, match="a batch is a list of deliveries"):
        await queue.ack(delivery)


@each_row_afresh("verb", ["ack", "nack", "poison", "release"])
async def test_what_a_batch_settled_is_settled(broker: Any, clock: Clock, verb: str) -> None:
    del clock
    queue = broker.queue("a", lease="1h")
    await queue.send_many(["x", "y"])
    first, second = await queue.claim(2)
    await first.ack()
    await getattr(queue, verb)([second])
    assert [first.settled, second.settled] == [True, True]
    async with second:  # nothing is left to do, and no LeaseLost
        pass
    (stale,) = await queue.ack([second])
    assert not stale


@each_row_afresh("verb", VERBS)
async def test_a_delivery_of_another_queue_is_refused(verb: str, broker: Any, raw: Any) -> None:
    """By the names of both, before anything is sent."""
    orders, mails = broker.queue("orders"), broker.queue("mails")
    await orders.send("x", id="m")
    await mails.send_many([1, 2])
    (order,) = await orders.claim()
    claimed = await mails.claim(2)
    before = contents(raw)
    for deliveries in ([order], [*claimed, order]):
        with pytest.raises(InvalidInput, match=r"message m is a delivery of .*'orders'.*, not of .*'mails'"):
            await getattr(mails, verb)(deliveries)
    assert contents(raw) == before
    assert not any(delivery.settled for delivery in (order, *claimed))
    assert all(await getattr(mails, verb)(claimed))
    assert all(await getattr(broker.queue("orders"), verb)([order]))


@each_row_afresh("verb", VERBS)
async def test_a_shared_name_takes_the_deliveries_of_its_members(verb: str, broker: Any) -> None:
    """And each member those that came through the name; a stranger's are refused."""
    await broker.policies.set("#", dead_letter=SharedDeadLetterStrategy("lost"))
    lost, (a, b) = broker.queue("lost"), (broker.queue(name) for name in "ab")
    for queue in (a, b):
        await bury(queue, [1, 2])
    claimed = await lost.claim(4)
    assert all(await getattr(lost, verb)(claimed[:2]))
    assert all(await getattr(broker.queue("lost"), verb)(claimed[2:3]))
    assert all(await getattr(a, verb)(claimed[3:]))
    await a.send("x")
    with pytest.raises(InvalidInput, match=r"'a'.*, not of .*'lost'"):
        await getattr(lost, verb)(await a.claim())
