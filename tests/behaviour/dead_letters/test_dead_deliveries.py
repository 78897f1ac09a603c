"""Deliveries of dead letters: they tell what the letter tells."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq import SharedDeadLetterStrategy
from rq_dlq.values.failure import Cause
from tests.behaviour.helpers import after, bring_to, bury, one
from tests.conftest import Clock

TOLD = ("id", "original_queue", "reason", "cause", "fingerprint", "died_at", "history")


def told(message: Any) -> dict[str, Any]:
    return {name: getattr(message, name) for name in TOLD}


@pytest.mark.parametrize(("state", "name"), [("dead", "DLQ.a"), ("expired", "EXP.a")])
async def test_it_tells_what_the_letter_tells(state: str, name: str, broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("0s", most=1))
    await bring_to(state, queue, clock)
    (letter,) = await (queue.dlq if state == "dead" else queue.expired).browse()
    clock.advance("5s")
    delivery = await one(broker.queue(name))
    assert told(delivery) == told(letter)
    assert (delivery.queue, delivery.original_queue) == (name, "a")
    assert delivery.reason == ("poison" if state == "dead" else "expired")
    assert delivery.cause.message == (
        "told so" if state == "dead" else "the message's time to live had expired"
    )
    assert delivery.died_at.timestamp() * 1000 == clock.now - 5_000


async def test_in_a_shared_dead_letter_queue(broker: Any) -> None:
    await broker.policies.set("#", dead_letter=SharedDeadLetterStrategy("LOST"))
    for name in ("a", "b"):
        await bury(broker.queue(name), [name], f"no {name}")
    lost = broker.queue("LOST")
    letters = {letter.id: told(letter) for letter in await lost.dlq.browse()}
    deliveries = await lost.claim(2)
    assert {delivery.id: told(delivery) for delivery in deliveries} == letters
    assert {delivery.body: delivery.original_queue for delivery in deliveries} == {"a": "a", "b": "b"}


async def test_in_a_session(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, ["x"], "no")
    dead = broker.queue("DLQ.a")
    async with dead.session() as session:
        (delivery,) = await session.claim(1)
        assert (delivery.original_queue, delivery.reason, delivery.cause.message) == ("a", "poison", "no")


async def test_of_another_message(broker: Any, clock: Clock) -> None:
    """It is not dead; once it has failed, it tells its last failure."""
    queue = broker.queue("a", redelivery=after("1s", most=5))
    await queue.send("x")
    delivery = await one(queue)
    assert (delivery.original_queue, delivery.reason, delivery.died_at) == ("a", "", None)
    assert (delivery.cause, delivery.history) == (Cause(), ())
    await delivery.nack("busy")
    clock.advance("1s")
    again = await one(queue)
    assert (again.reason, again.died_at, again.cause.message) == ("", None, "busy")


async def test_of_a_redriven_message(broker: Any) -> None:
    """It is no dead letter any more; its history tells that it was one."""
    queue = broker.queue("a")
    await bury(queue, ["x"], "no")
    await queue.dlq.redrive(all=True)
    delivery = await one(queue)
    assert (delivery.original_queue, delivery.reason, delivery.died_at) == ("a", "", None)
    assert [event.event for event in delivery.history] == ["poisoned", "redriven"]
