"""Handlers of what died in several queues, under the name that a policy gave it."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

import rq_dlq
from rq_dlq import RedeliveryPolicy, SharedDeadLetterStrategy
from tests.servers import wait_until
from tests.worker.conftest import Working

NAMES = ("a", "b", "c")
ALL = [f"{name}{n}" for name in NAMES for n in (1, 2, 3)]
COLOURS = pytest.mark.parametrize("colour", ["def", "async def"])


@pytest.fixture
def lost(broker: rq_dlq.Broker) -> Any:
    """Three dead letters each of three queues, under one name."""
    broker.policies.set("#", dead_letter=SharedDeadLetterStrategy("LOST"))
    for name in NAMES:
        queue = broker.queue(name)
        queue.send_many([body for body in ALL if body.startswith(name)])
        queue.poison(queue.claim(3), f"no {name}")
    return broker.queue("LOST", lease="2s")


def acked(broker: rq_dlq.Broker) -> int:
    """How many were acked in all queues."""
    return sum(broker.queue(name).stats().totals.get("acked", 0) for name in NAMES)


def maintained(broker: rq_dlq.Broker) -> bool:
    """What lapsed is taken away at once, as another worker would do."""
    for name in NAMES:
        broker.queue(name).maintain()
    return True


@COLOURS
def test_handled_and_settled(colour: str, lost: Any, broker: rq_dlq.Broker, working: Working) -> None:
    """What succeeds is acked in its own queue; what fails is given back there, and rests."""
    seen: list[str] = []

    def plain(body: str) -> None:
        seen.append(body)
        if body == "a1":
            raise ValueError(body)

    async def awaiting(body: str) -> None:
        await asyncio.sleep(0)
        plain(body)

    lost.handler(concurrency=2)(plain if colour == "def" else awaiting)
    with working(broker):
        wait_until(lambda: acked(broker) == 8)
        wait_until(lambda: seen.count("a1") == 2)
    assert {*seen} == {*ALL}
    assert len(seen) == 10  # no hot loop
    (letter,) = broker.queue("a").select(places=["dead", "leased"]).browse()
    assert letter.body == "a1"


@COLOURS
def test_its_leases_are_kept(
    colour: str, lost: Any, broker: rq_dlq.Broker, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every queue that was claimed from at once, while one call takes longer than the lease."""
    for module in ("thread_consumer", "async_consumer"):  # else a busy machine releases what waits
        monkeypatch.setattr(f"rq_dlq.worker.{module}.STUCK_AFTER", 60)
    deliveries: list[tuple[str, int]] = []

    def plain(body: str, delivery: Any) -> None:
        deliveries.append((body, delivery.delivery_count))
        if len(deliveries) == 2:
            time.sleep(3)

    async def awaiting(body: str, delivery: Any) -> None:
        deliveries.append((body, delivery.delivery_count))
        if len(deliveries) <= 6:
            await asyncio.sleep(3)

    lost.handler(concurrency=1 if colour == "def" else 8)(plain if colour == "def" else awaiting)
    with working(broker):
        wait_until(lambda: maintained(broker) and acked(broker) == 9)
    assert sorted(deliveries) == [(body, 2) for body in ALL]  # once before they died, once here


@COLOURS
@pytest.mark.parametrize("name", ["LOST", "DLQ.a"])
def test_a_handler_sees_where_and_why_it_failed(
    name: str, colour: str, lost: Any, broker: rq_dlq.Broker, working: Working
) -> None:
    seen: dict[str, Any] = {}

    def plain(body: str, delivery: Any) -> None:
        seen[body] = (delivery.original_queue, delivery.reason, delivery.cause, delivery.died_at)

    async def awaiting(body: str, delivery: Any) -> None:
        await asyncio.sleep(0)
        plain(body, delivery)

    letters = [letter for queue in NAMES for letter in broker.queue(queue).dlq.browse()]
    shown = letters if name == "LOST" else letters[:3]
    wanted = {
        letter.body: (letter.original_queue, "poison", letter.cause, letter.died_at) for letter in shown
    }
    (lost if name == "LOST" else broker.queue(name)).handler()(plain if colour == "def" else awaiting)
    with working(broker):
        wait_until(lambda: len(seen) == len(shown))
    assert seen == wanted


def test_it_stays_idle_until_something_dies(broker: rq_dlq.Broker, working: Working) -> None:
    once = RedeliveryPolicy(delays=[0], max_redeliveries=0)
    queue = broker.queue("a", redelivery=once, dead_letter=SharedDeadLetterStrategy("LOST"))
    queue.send("x")
    lost, handled = broker.queue("LOST"), threading.Event()
    lost.handler()(lambda _: handled.set())
    with working(broker):
        queue.claim()[0].nack()
        assert handled.wait(60)
        wait_until(lambda: lost.stats().dead == 0)
    assert queue.stats().totals["acked"] == 1
