"""Faults that were found by reading, each with the steps that showed it."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from rq_dlq import InvalidInput, SharedDeadLetterStrategy
from tests.behaviour.helpers import after, one
from tests.conftest import Clock


async def test_a_view_moves_nothing_to_where_it_came_from(broker: Any, clock: Clock) -> None:
    del clock
    first, orders = broker.queue("first"), broker.queue("orders")
    await orders.send("other")
    await first.send("x", id="m")
    await broker.policies.set("orders", dead_letter=SharedDeadLetterStrategy("all.dead"))
    assert await first.select(all=True).move("orders") == 1
    for delivery in await orders.claim(2):
        await delivery.poison("no")
    with pytest.raises(InvalidInput, match="pass another queue"):
        await broker.queue("all.dead").select(all=True).move("orders")
    assert (await orders.stats()).dead == 2


async def test_a_copy_that_stays_is_not_taken_for_a_move_that_was_cut_off(broker: Any, clock: Clock) -> None:
    del clock
    a, b = broker.queue("a"), broker.queue("b")
    await b.send("other")
    await a.send("x", id="m")
    assert await a.select(all=True).move("b") == 1
    assert await b.select(ids=["m"]).dead_letter() == 1
    assert await b.dlq.select(ids=["m"]).copy("a") == 1
    assert await a.select(all=True).move("b") == 0  # b knows it, and it stays where it is
    assert (await a.stats()).ready == 1
    assert (await b.stats()).totals["sent"] == 2


async def test_a_batch_may_come_from_any_iterable(broker: Any, clock: Clock) -> None:
    del clock
    queue = broker.queue("a")
    await queue.send_many(["x", "y"])
    deliveries = await queue.claim(2)
    assert len(await queue.ack(deque(deliveries))) == 2
    assert all(delivery.settled for delivery in deliveries)


async def test_the_cause_of_a_death_is_a_failure_and_no_move(broker: Any, clock: Clock) -> None:
    a, b = (
        broker.queue("a", redelivery=after("1s", most=5)),
        broker.queue("b", redelivery=after("1s", most=0)),
    )
    await b.send("other")
    await a.send("x", id="m")
    await (await one(a)).nack(ValueError("bad total"))
    clock.advance("1s")
    await a.maintain()
    assert await a.select(ids=["m"]).move("b") == 1
    await b.select("id <> 'm'").purge()
    assert await b.claim() == []  # spent by the policy of b
    (letter,) = await b.dlq.browse()
    assert (letter.reason, letter.cause.type) == ("exhausted", "ValueError")


async def test_nobody_is_woken_by_a_send_to_a_paused_queue(broker: Any, clock: Clock, raw: Any) -> None:
    del clock
    queue = broker.queue("a")
    await queue.send("x")
    raw.delete("rq:{a}:wake")
    await queue.pause()
    await queue.send_many(["y"] * 3)
    assert not raw.exists("rq:{a}:wake")
    await queue.resume()
    assert raw.llen("rq:{a}:wake") == 1
