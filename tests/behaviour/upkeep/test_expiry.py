"""Expiry: the time to live (I7)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.audit import audit
from tests.behaviour.helpers import AT_ONCE, after, bodies, bring_to, counts, ids, one
from tests.conftest import Clock

HOUR = 3_600_000


async def test_never_handed_out(broker: Any, clock: Clock) -> None:
    """I7: from the very millisecond on."""
    queue = broker.queue("a")
    await queue.send_many(range(2), ttl="5s")
    clock.advance("4.999s")
    assert await bodies(queue, 1) == [0]
    clock.advance("1ms")
    assert await queue.claim() == []


async def test_reaches_the_expiry_queue_once(broker: Any, clock: Clock) -> None:
    """I7."""
    queue = broker.queue("a")
    await bring_to("expired", queue, clock)
    for _ in range(3):
        clock.advance("1h")
        await queue.maintain()
        assert await queue.claim() == []
    assert await counts(queue) == {"expired": 1}
    assert (await queue.stats()).totals["expired"] == 1


async def test_the_expiry_queue_tells_why(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bring_to("expired", queue, clock)
    (letter,) = await queue.expired.browse()
    assert (letter.id, letter.body, letter.reason) == ("m", "body", "expired")
    assert (letter.original_queue, letter.cause.type) == ("a", "Expired")
    assert letter.died_at.timestamp() * 1000 == clock.now


async def test_the_scheduled_expire_too(broker: Any, clock: Clock) -> None:
    """I7."""
    queue = broker.queue("a")
    await queue.send("x", delay="1h", ttl="1m")
    clock.advance("1m")
    await queue.maintain()
    assert await counts(queue) == {"expired": 1}


@pytest.mark.parametrize("verb", ["deliver_now", "prioritize"])
async def test_it_expires_where_it_was_put_by_hand(verb: str, broker: Any, clock: Clock) -> None:
    """I7."""
    queue = broker.queue("a")
    await queue.send("x", delay="1h", ttl="1m")
    chosen = queue.select(all=True)
    assert await (chosen.deliver_now() if verb == "deliver_now" else chosen.prioritize(7)) == 1
    clock.advance("1m")
    await queue.maintain()
    assert await counts(queue) == {"expired": 1}


async def test_due_and_over_at_once_is_over(broker: Any, clock: Clock) -> None:
    """I7."""
    queue = broker.queue("a")
    await queue.send("x", delay="5s", ttl="5s")
    clock.advance("5s")
    assert await queue.claim() == []
    assert await counts(queue) == {"expired": 1}


async def test_many_expired_do_not_block_the_living(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(500), ttl="1s")
    await queue.send("alive")
    clock.advance("1s")
    assert await bodies(queue, 1) == ["alive"]


async def test_exhausted_beats_expired(broker: Any, clock: Clock) -> None:
    """I7."""
    queue = broker.queue("a", redelivery=after("1s", most=0))
    await queue.send("x", ttl="10s")
    delivery = await one(queue)
    clock.advance("1h")
    assert (await delivery.nack()).outcome == "dead"
    (letter,) = await queue.dlq.browse()
    assert letter.reason == "exhausted"


async def test_exhausted_by_a_lapse_beats_expired(broker: Any, clock: Clock) -> None:
    """I7."""
    queue = broker.queue("a", redelivery=after("1s", most=0))
    await queue.send("x", ttl="10s")
    await one(queue, lease="1m")
    clock.advance("1h")
    await queue.maintain()
    assert await counts(queue) == {"dead": 1}


@pytest.mark.parametrize(("delay", "outcome"), [("4.999s", "redelivered"), ("5s", "expired")])
async def test_redelivery_beyond_the_ttl_expires_at_once(
    delay: str, outcome: str, broker: Any, clock: Clock
) -> None:
    """I7."""
    queue = broker.queue("a")
    await queue.send("x", ttl="10s")
    delivery = await one(queue)
    clock.advance("5s")
    assert (await delivery.nack("boom", delay=delay)).outcome == outcome
    state = {"redelivered": "scheduled", "expired": "expired"}[outcome]
    assert await counts(queue) == {state: 1}


async def test_the_failure_that_left_too_little_time_is_the_cause(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(3), ttl="30m")
    await (await one(queue)).nack(ValueError("boom"), delay="1h")
    await (await one(queue)).nack(delay="1h")
    late = await one(queue, lease="1h")
    clock.advance("30m")
    await late.nack("late", delay=0)
    first, second, third = await queue.expired.browse()
    assert first.died_at < first.expires_at
    assert [event.cause.message for event in first.history] == ["boom"]
    assert (first.cause.type, first.fingerprint) == ("ValueError", first.history[0].cause.fingerprint)
    why = "its time to live ends before the next delivery"
    assert first.cause.message == f"boom (expired: {why}, 1h later)"
    assert (second.cause.type, second.cause.message) == ("Expired", f"{why}, 1h later")
    assert third.cause.message == f"late (expired: {why})"
    found = await queue.expired.select(where="error = 'ValueError' AND message LIKE 'boom%'").browse()
    assert [letter.id for letter in found] == [first.id]


async def test_an_earlier_failure_is_not_the_cause(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send("x", ttl="30m")
    await (await one(queue)).nack("boom", delay="29m")
    clock.advance("30m")
    await queue.maintain()
    (letter,) = await queue.expired.browse()
    assert (letter.cause.type, letter.cause.message) == ("Expired", "the message's time to live had expired")


async def test_the_leased_are_judged_when_they_come_back(broker: Any, clock: Clock) -> None:
    """I7: not taken out of anyone's hands."""
    queue = broker.queue("a")
    await queue.send_many(range(2), ttl="10s")
    acked, released = await queue.claim(2, lease="1h")
    clock.advance("30s")
    await queue.maintain()
    assert await counts(queue) == {"leased": 2}
    assert (await acked.ack()).outcome == "acked"
    await released.release()
    assert await queue.claim() == []
    assert await counts(queue) == {"expired": 1}


async def test_a_lapse_after_the_ttl_expires(broker: Any, clock: Clock) -> None:
    """I7."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x", ttl="10s")
    await one(queue, lease="30s")
    clock.advance("30s")
    assert await queue.claim() == []
    assert await counts(queue) == {"expired": 1}


async def test_poisoned_after_the_ttl_is_dead(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send("x", ttl="10s")
    delivery = await one(queue, lease="1h")
    clock.advance("30s")
    assert (await delivery.poison()).outcome == "dead"


async def test_a_redriven_dead_letter_does_not_expire_again(broker: Any, clock: Clock) -> None:
    """The ttl was applied once, at send."""
    queue = broker.queue("a", redelivery=after("1h"))
    await queue.send("x", ttl="10s")
    await (await one(queue)).poison()
    clock.advance("1h")
    await queue.dlq.redrive(all=True)
    delivery = await one(queue)
    assert delivery.expires_at is None
    assert (await delivery.nack()).outcome == "redelivered"
    clock.advance("1h")
    assert await bodies(queue) == ["x"]


@pytest.mark.parametrize("ttl", [None, "2h"])
async def test_a_row_that_a_stopped_script_left_behind_expires_nothing(
    ttl: str | None, broker: Any, clock: Clock, raw: Any
) -> None:
    """I7: the state says when a message expires."""
    queue = broker.queue("a")
    await queue.send("x", id="m", ttl="1h")
    await (await one(queue)).poison()
    await queue.dlq.redrive(all=True, ttl=ttl)
    raw.zadd("rq:{a}:expiring", {"m": clock.now + HOUR})
    clock.advance("1h")
    await queue.maintain()
    audit(raw, "a")
    assert await counts(queue) == {"ready": 1}
    clock.advance("1h")
    assert await bodies(queue) == ([] if ttl else ["x"])


@pytest.mark.parametrize("state", ["leased", "dead"])
async def test_a_row_that_was_left_behind_expires_nothing_that_does_not_wait(
    state: str, broker: Any, clock: Clock, raw: Any
) -> None:
    """I7."""
    queue = broker.queue("a")
    await queue.send("x", id="m", ttl="1h")
    delivery = await one(queue, lease="3h")
    if state == "dead":
        await delivery.poison()
    raw.zadd("rq:{a}:expiring", {"m": clock.now})
    clock.advance("2h")
    await queue.maintain()
    assert await counts(queue) == {state: 1}


async def test_an_expired_message_can_be_redriven(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bring_to("expired", queue, clock)
    assert (await queue.expired.redrive(all=True)).counts.moved == 1
    clock.advance("1h")
    assert await ids(queue) == ["m"]


async def test_dead_letters_do_not_expire(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send("x", ttl="10s")
    await (await one(queue)).poison()
    clock.advance("1h")
    await queue.maintain()
    assert await bodies(broker.queue("DLQ.a")) == ["x"]


async def test_the_expiry_queue_is_a_queue(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(3), ttl="1s")
    clock.advance("1s")
    await queue.maintain()
    expired = broker.queue("EXP.a")
    first, second, third = await expired.claim(10, lease="10s")
    await first.ack()
    assert (await second.nack()).outcome == "kept"
    clock.advance("1h")
    assert third.id in await ids(expired)
    assert await counts(queue) == {"leased": 2}


async def test_purge_of_the_expired(broker: Any, clock: Clock) -> None:
    """I13."""
    queue = broker.queue("a")
    await queue.send_many(range(3), ttl="1s")
    clock.advance("1s")
    await queue.maintain()
    assert await queue.expired.purge(all=True) == 3


async def test_redelivered_within_its_ttl_it_expires_later(broker: Any, clock: Clock) -> None:
    """I7: the ttl counts from the send."""
    queue = broker.queue("a", redelivery=after("3s"))
    await queue.send("x", ttl="10s")
    for _ in range(3):
        await (await one(queue)).nack()
        clock.advance("3s")
    clock.advance("1s")
    assert await queue.claim() == []
    assert await counts(queue) == {"expired": 1}
