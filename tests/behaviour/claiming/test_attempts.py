"""What counts as an attempt: each delivery, but for those given back by a holder that had not begun them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from rq_dlq import BrokerUnavailable, Redeliver, RedeliveryPolicy
from tests.behaviour.faults import lose_replies
from tests.behaviour.helpers import after, one
from tests.conftest import Clock
from tests.tables import each_row_afresh
from tests.variants import both_colours

pytestmark = both_colours("the loop is in the files `own.py`")


def counts_of(message: Any) -> tuple[int, int, int, bool]:
    return message.attempt, message.delivery_count, message.untried, message.redelivered


async def test_what_a_loop_had_not_handed_out_was_not_tried(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(3))
    loop = queue.consume(count=3)
    assert counts_of(await anext(loop)) == (1, 1, 0, False)
    await loop.aclose()  # the caller has had this one
    again = await queue.claim(3)
    assert [delivery.body for delivery in again] == [0, 1, 2]
    assert [counts_of(delivery) for delivery in again] == [(2, 2, 0, True), *[(1, 2, 1, False)] * 2]


@each_row_afresh("end", ["release", "nack", "lapse", "interrupt"])
async def test_what_a_caller_had_was_tried(end: str, broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("0s"))
    await queue.send(0)
    delivery = await one(queue)
    match end:
        case "lapse":
            clock.advance(31)
        case "interrupt":
            with suppress(KeyboardInterrupt):
                async with delivery:
                    raise KeyboardInterrupt
        case _:
            await getattr(delivery, end)()
    assert counts_of(await one(queue)) == (2, 2, 0, True)


async def test_what_nobody_received_was_not_tried(broker: Any) -> None:
    """The next claim takes up one whose reply was lost, and gives back what is too much for it."""
    queue = broker.queue("a")
    await queue.send_many(range(3))
    lost = await lose_replies(broker, "claim", 99)
    with pytest.raises(BrokerUnavailable):
        await queue.claim(3)
    lost.left = 0
    (first,) = await queue.claim(1)
    assert [counts_of(delivery) for delivery in (first, *await queue.claim(3))] == [
        (1, 1, 0, False), *[(1, 2, 1, False)] * 2,
    ]  # fmt: skip


async def test_people_are_shown_attempts(broker: Any, raw: Any) -> None:
    queue = broker.queue("a", redelivery=after("0s", most=1), outcomes=100)
    await queue.send_many(["x", "y"])
    for _ in range(2):
        loop = queue.consume(count=2)
        await (await anext(loop)).release(), await loop.aclose()  # the second is given back untried
    await (await one(queue)).ack()
    failing = await one(queue)
    assert failing.delivery_count == 3
    assert (await queue.explain(failing.id)).why.startswith("a consumer is processing attempt 1,")
    await failing.nack("x")
    await (await one(queue)).nack("x")
    (letter,) = await queue.dlq.browse()
    assert counts_of(letter) == (2, 4, 2, True)
    assert [event.delivery for event in letter.history] == [1, 2]
    assert {
        entry[b"attempt"] for _, entry in raw.xrange("rq:{a}:outcomes") if entry[b"event"] == b"dead"
    } == {b"2"}
    assert await queue.dlq.select("attempt = 2 and untried = 2 and JMSXDeliveryCount = 2").count() == 1


async def test_a_delay_longer_than_the_lease_is_one_delivery(broker: Any, clock: Clock) -> None:
    """Elsewhere a delayed message is held by a consumer, whose visibility timeout hands it out again."""
    queue = broker.queue("a", lease="1s")
    await queue.send(0, delay="3s")
    for _ in range(3):
        assert await queue.claim() == []
        clock.advance("1s")
    delivery = await one(queue)
    assert counts_of(delivery) == (1, 1, 0, False)
    await delivery.ack()
    clock.advance("1m")
    assert await queue.claim() == []


async def test_waiting_for_a_condition_is_an_attempt_and_no_failure(broker: Any, clock: Clock) -> None:
    """The first failure after five of them waits the first delay."""
    policy = RedeliveryPolicy(initial_delay="1s", multiplier=10, collision_avoidance=0, max_redeliveries=3)
    queue = broker.queue("a", redelivery=policy)
    await queue.send(0)
    for _ in range(5):
        with suppress(Redeliver):
            async with await one(queue):
                raise Redeliver(after="1s", charge=False)
        clock.advance("1s")
    delivery = await one(queue)
    assert (*counts_of(delivery), delivery.charged) == (6, 6, 0, True, 0)
    assert (await delivery.nack("broken")).delay == 1
