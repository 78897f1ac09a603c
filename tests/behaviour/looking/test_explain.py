"""`queue.explain(id)`: where a message is, why, and what happens next."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rq_dlq import IndividualDeadLetterStrategy, InvalidMessage, RedeliveryPolicy
from rq_dlq._keys import QueueKeys
from rq_dlq.values.failure import moment
from rq_dlq.values.readable import paused_until
from tests.behaviour.helpers import counts, one
from tests.conftest import Clock
from tests.tables import each_row_afresh

POLICY = RedeliveryPolicy(initial_delay="4s", collision_avoidance=0, max_redeliveries=1)


async def test_a_message_through_its_life(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=POLICY, lease="30s")
    await queue.send("x", id="m")
    said = await queue.explain("m")
    assert (said.place, said.at) == ("ready", None)
    assert said.why == "it has not been delivered yet"

    delivery = await one(queue)
    said = await queue.explain("m")
    assert said.place == "leased"
    assert said.at == delivery.lease_until
    assert "attempt 1, 1 redeliveries left" in said.why

    await delivery.nack("no")
    said = await queue.explain("m")
    assert said.place == "scheduled"
    assert said.next == "due in 4s, then ready"
    assert said.at is not None
    assert said.at.timestamp() * 1000 == clock.now + 4_000
    assert "attempt 1 was nacked" in said.why

    clock.advance("4s")
    assert (await queue.explain("m")).place in {"ready", "scheduled"}  # ready as soon as someone claims
    await (await one(queue)).nack(ValueError("bad total"))
    said = await queue.explain("m")
    assert (said.place, said.why) == ("dead", "exhausted (ValueError: bad total)")
    assert said.at is None
    assert str(said).startswith("m is dead: exhausted")

    await broker.policies.set("a", dead_letter=IndividualDeadLetterStrategy(expiration="1d"))
    said = await queue.explain("m")
    assert said.at == said.message.died_at + timedelta(days=1)

    await queue.dlq.purge(all=True)
    assert (await queue.explain("m")).place == "unknown"


async def test_why_nobody_gets_it(broker: Any, clock: Clock) -> None:
    del clock
    queue = broker.queue("a", max_in_flight=1)
    await queue.send_many(["x", "y"])
    held = await one(queue)
    (waiting,) = await queue.peek()
    assert "max_in_flight" in (await queue.explain(waiting.id)).next
    await held.ack()
    await queue.pause()
    assert "paused" in (await queue.explain(waiting.id)).next
    await queue.resume()
    assert "the next claim takes it" in (await queue.explain(waiting.id)).next


async def test_what_is_no_id(broker: Any, clock: Clock) -> None:
    del clock
    with pytest.raises(InvalidMessage):
        await broker.queue("a").explain("")


async def test_the_time_to_live_is_told(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send("late", id="late", delay="1h", ttl="1m")
    await queue.send("over", id="over", ttl="1s")
    assert "ends before it is due" in (await queue.explain("late")).next
    assert "the next claim takes it" in (await queue.explain("over")).next
    clock.advance("1s")
    said = await queue.explain("over")
    assert "its time to live is over" in said.next
    assert said.at == said.message.expires_at


async def test_a_limit_that_was_lowered_is_told(broker: Any, clock: Clock) -> None:
    """It said that the message would be ready, and that the next claim takes it."""
    queue = broker.queue("a", redelivery=RedeliveryPolicy(initial_delay="1m", collision_avoidance=0))
    await queue.send("x", id="m")
    await (await one(queue)).nack("bad")
    await broker.policies.set("a", redelivery={"max_redeliveries": 0}, pinned=True)
    for place, at in (("scheduled", clock.now + 60_000), ("ready", None)):
        said = await queue.explain("m")
        assert said.next == "a claim makes it a dead letter: it failed 1 time, and max_redeliveries is 0 now"
        assert (said.place, said.at) == (place, at and moment(at))
        clock.advance("1m")
    assert await queue.claim() == []
    assert await counts(queue) == {"dead": 1}


async def test_the_end_of_a_pause_is_told(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send("x", id="m")
    await queue.pause()
    said = await queue.explain("m")
    assert (said.next, said.at) == ("it waits: the queue is paused until it is resumed", None)
    await queue.pause(until="1m")
    said = await queue.explain("m")
    ends = moment(clock.now + 60_000)
    assert (said.next, said.at) == (f"it waits: the queue is {paused_until(ends, moment(clock.now))}", ends)


@each_row_afresh("ends", [b"", b"x", b"\xff", b"9" * 40])
async def test_a_damaged_end_of_a_pause_is_none(ends: bytes, broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x", id="m")
    await queue.pause()
    raw.hset(QueueKeys("rq", "a")["settings"], "paused_until", ends)
    said = await queue.explain("m")
    assert (said.next, said.at) == ("it waits: the queue is paused until it is resumed", None)
    stats = await queue.stats()
    assert (stats.paused, stats.until) == (True, None)


async def test_a_redriven_message_does_not_tell_its_old_failure(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x", id="m")
    await (await one(queue)).poison("bad")
    await queue.dlq.redrive(all=True)
    assert (await queue.explain("m")).why == "it was redriven, with a fresh budget"
    await (await one(queue)).nack("bad again")
    assert (await queue.explain("m")).why == "its attempt 2 was nacked (bad again)"
