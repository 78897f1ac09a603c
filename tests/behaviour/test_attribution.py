"""Crash attribution: of what a worker held when it died, only what it had begun is charged."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq import _calls, _work
from tests.behaviour.helpers import after, bodies, counts, one, snapshot
from tests.behaviour.stepping import alone
from tests.conftest import Clock

LEASE = 30  # seconds


async def claimed(queue: Any, count: int) -> list[Any]:
    """A worker's claim."""
    plain = getattr(queue, "inner", queue)
    steps = _work.claim(plain.work, plain.delivery, count=count, lease=LEASE * 1000, attributed=True)
    deliveries: list[Any] = await queue.run(steps)
    return deliveries


async def begin(queue: Any, *running: Any, token: str = "") -> bool:
    """A worker says whose handlers run."""
    ids = [delivery.id for delivery in running]
    call = _calls.begin(queue.work.keys, token or running[0].token, ids)
    noted: bool = await queue.run(alone(call))
    return noted


async def lapse(queue: Any, clock: Clock) -> None:
    clock.advance(LEASE)
    await queue.maintain()


@pytest.fixture
async def queue(broker: Any) -> Any:
    """Of five messages, which come back at once, and once."""
    queue = broker.queue("a", redelivery=after(0, most=1))
    await queue.send_many(range(5))
    return queue


async def test_a_lapse_charges_what_had_begun(queue: Any, clock: Clock) -> None:
    """The others return to their old places, counted as released, without a word in their story (I8)."""
    deliveries = await claimed(queue, 4)
    assert await begin(queue, deliveries[1])
    await lapse(queue, clock)
    totals = (await queue.stats()).totals
    assert (totals["lapsed"], totals["released"]) == (1, 3)
    again = await queue.claim(5)
    assert [delivery.body for delivery in again] == list(range(5))
    assert [delivery.charged for delivery in again] == [0, 1, 0, 0, 0]
    assert [delivery.released for delivery in again] == [1, 0, 1, 1, 0]
    assert [len(delivery.history) for delivery in again] == [0, 1, 0, 0, 0]
    assert [delivery.delivery_count for delivery in again] == [2, 2, 2, 2, 1]


async def test_a_claim_begins_with_its_first_message(queue: Any, clock: Clock) -> None:
    first, *_ = await claimed(queue, 3)
    assert first.begun
    await lapse(queue, clock)
    assert [delivery.charged for delivery in await queue.claim(3)] == [1, 0, 0]


async def test_a_claim_of_one_message_is_charged(queue: Any, clock: Clock) -> None:
    await claimed(queue, 1)
    await lapse(queue, clock)
    assert (await one(queue)).charged == 1


async def test_a_claim_by_hand_is_charged_for_all(queue: Any, clock: Clock) -> None:
    deliveries = await queue.claim(3, lease=LEASE)
    assert not await begin(queue, deliveries[1])
    await lapse(queue, clock)
    assert [delivery.charged for delivery in await queue.claim(3)] == [1, 1, 1]


async def test_what_has_ended_is_not_charged(queue: Any, clock: Clock) -> None:
    """It was done, and its ack was still to come."""
    deliveries = await claimed(queue, 3)
    for delivery in deliveries[1:]:
        await begin(queue, delivery)
    await lapse(queue, clock)
    assert [delivery.charged for delivery in await queue.claim(3)] == [0, 0, 1]


async def test_all_that_run_side_by_side_are_charged(queue: Any, clock: Clock) -> None:
    first, second, third, *_ = await claimed(queue, 5)
    await begin(queue, first, second)
    await begin(queue, second, third)
    await lapse(queue, clock)
    assert [delivery.charged for delivery in await queue.claim(5)] == [0, 1, 1, 0, 0]


async def test_only_the_killer_dies(queue: Any, clock: Clock) -> None:
    """A prefetch of five, a budget of one redelivery: the third kills whoever works on it."""
    for _ in range(2):
        deliveries = await claimed(queue, 5)
        await begin(queue, deliveries[2])
        await lapse(queue, clock)
    assert await counts(queue) == {"ready": 4, "dead": 1}
    (letter,) = await queue.dlq.browse()
    assert (letter.body, letter.reason, letter.lapsed) == (2, "exhausted", 2)
    assert [message.charged for message in await queue.peek()] == [0] * 4


async def test_no_redelivery_at_all_is_for_what_had_begun(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after(0, most=0))
    await queue.send_many(range(3))
    await claimed(queue, 3)
    await lapse(queue, clock)
    assert await counts(queue) == {"ready": 2, "dead": 1}


async def test_a_stale_token_begins_nothing(queue: Any, clock: Clock, raw: Any) -> None:
    """I2, I13."""
    deliveries = await claimed(queue, 3)
    await lapse(queue, clock)
    others = await claimed(queue, 3)
    before = snapshot(raw)
    assert not await begin(queue, deliveries[1])
    assert not await begin(queue, deliveries[1], token="nobody")  # noqa: S106
    assert snapshot(raw) == before
    await queue.ack(others)
    assert not await begin(queue, others[1])
    assert raw.hlen("rq:{a}:claims") == 0


async def test_to_begin_can_be_repeated(queue: Any, raw: Any) -> None:
    """I12."""
    deliveries = await claimed(queue, 3)
    assert await begin(queue, deliveries[1])
    before = snapshot(raw)
    assert await begin(queue, deliveries[1])
    assert snapshot(raw) == before


async def test_a_repeated_claim_begins_with_what_it_still_holds(queue: Any, clock: Clock) -> None:
    """I12: its first message was taken away, by a sweep in parts, before its lost reply came again."""
    deliveries = await claimed(queue, 4)
    clock.advance(LEASE)
    call = _calls.sweep(queue.work.keys, limit=1, seed=0.5, default_policy=queue.work.policy)
    assert await queue.run(alone(call)) == 1
    token = deliveries[0].token
    again = _calls.claim(
        queue.work.keys, part="live", token=token, count=4, lease=LEASE * 1000, patience=0, attributed=True,
        consumer='"c"', seed=0.5, default_policy=queue.work.policy,
    )  # fmt: skip
    for _ in range(2):  # said once more, it says the same
        found = await queue.run(alone(again))
        assert [row.id for row in found.rows] == [delivery.id for delivery in deliveries[1:]]
    await lapse(queue, clock)
    assert [delivery.charged for delivery in await queue.claim(4)] == [1, 1, 0, 0]


async def test_a_repeated_claim_takes_back_nothing(queue: Any, clock: Clock) -> None:
    """It was thought lost, and comes late: what has begun since has begun."""
    deliveries = await claimed(queue, 3)
    await begin(queue, deliveries[2])
    call = _calls.claim(
        queue.work.keys, part="live", token=deliveries[0].token, count=3, lease=LEASE * 1000, patience=0,
        attributed=True, consumer='"c"', seed=0.5, default_policy=queue.work.policy,
    )  # fmt: skip
    await queue.run(alone(call))
    await lapse(queue, clock)
    assert [delivery.charged for delivery in await queue.claim(3)] == [0, 0, 1]


async def test_a_claim_of_dead_letters_is_not_attributed(
    queue: Any, broker: Any, clock: Clock, raw: Any
) -> None:
    """Of those nothing is charged; they stay what they are, released or not."""
    await queue.poison(await queue.claim(5))
    dead = broker.queue("DLQ.a")
    deliveries = await claimed(dead, 3)
    assert not raw.hexists("rq:{a}:claims", f"{deliveries[0].token}:begun")
    await lapse(queue, clock)
    assert await counts(queue) == {"dead": 5}
    assert (await queue.stats()).totals.get("released", 0) == 0


async def test_what_goes_back_is_in_the_outcome_history(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after(0, most=1), outcomes=1_000)
    await queue.send_many(range(2))
    await claimed(queue, 2)
    await lapse(queue, clock)
    told = {outcome.event: outcome for outcome in await queue.outcomes()}
    assert told.keys() == {"redelivered", "released"}
    assert told["redelivered"].cause == "lapsed"
    assert told["released"].consumer == told["redelivered"].consumer != ""


async def test_what_goes_back_wakes_who_waits(queue: Any, clock: Clock, raw: Any) -> None:
    await claimed(queue, 5)
    raw.delete("rq:{a}:wake")
    await lapse(queue, clock)
    assert raw.llen("rq:{a}:wake") == 1
    assert await bodies(queue) == list(range(5))
