"""Handlers whose calls end with the time to live of their messages."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from typing import Any

import pytest

import rq_dlq
from rq_dlq import ConfigurationError, Redeliver
from rq_dlq.worker import Worker
from rq_dlq.worker.stopping import DeadlinePassed
from tests.servers import wait_until
from tests.tables import each_row
from tests.worker.conftest import Working

COLOURS = each_row("colour", ["def", "async def"])
LONG = 30.0  # seconds that no call takes which is cut short


class Waits:
    """A handler, in both colours, that waits until it is cut short."""

    def __init__(self) -> None:
        self.ends = list[BaseException]()

    def plain(self, _: Any) -> None:
        began = time.monotonic()
        try:
            while time.monotonic() - began < LONG:
                pass
        except BaseException as error:
            self.ends.append(error)
            raise

    async def awaiting(self, _: Any) -> None:
        try:
            await asyncio.sleep(LONG)
        except BaseException as error:
            self.ends.append(error)
            raise

    def of(self, colour: str) -> Any:
        return self.plain if colour == "def" else self.awaiting


@COLOURS
def test_a_call_ends_with_its_message(colour: str, broker: rq_dlq.Broker) -> None:
    """It is not charged: it was not too often, but too late. One charged failure would have made it dead."""
    waits, queue = Waits(), broker.queue(colour.replace(" ", "-"), redelivery={"max_redeliveries": 0})
    queue.handler(deadline=True)(waits.of(colour))
    message, began = queue.send("late", ttl="1s"), time.monotonic()
    Worker(broker, queues={queue.name: None}, until="empty").run()
    (expired,) = queue.expired.browse()
    assert len(waits.ends) == 1
    assert time.monotonic() - began < LONG
    assert (expired.id, expired.charged, queue.dlq.browse()) == (message, 0, [])
    assert expired.cause is not None
    assert expired.cause.type.endswith(DeadlinePassed.__name__)
    assert "time to live of the message ended" in expired.cause.message


@COLOURS
def test_the_shorter_limit_ends_it(colour: str, broker: rq_dlq.Broker) -> None:
    waits, queue = Waits(), broker.queue(colour.replace(" ", "-"), redelivery={"max_redeliveries": 0})
    queue.handler(deadline=True, timeout="50ms")(waits.of(colour))
    queue.send("slow", ttl="1h")
    Worker(broker, queues={queue.name: None}, until="empty").run()
    (dead,) = queue.dlq.browse()
    assert dead.cause is not None
    assert dead.cause.type.endswith("HandlerTimeout")


@COLOURS
def test_without_it_a_call_goes_on(colour: str, broker: rq_dlq.Broker) -> None:
    queue, left = broker.queue(colour.replace(" ", "-")), list[float | None]()

    def wait(delivery: Any) -> bool:
        left.append(delivery.remaining)
        return left[-1] != 0

    def plain(_: Any, delivery: rq_dlq.Delivery[Any]) -> None:
        wait_until(lambda: not wait(delivery))

    async def awaiting(_: Any, delivery: rq_dlq.asyncio.Delivery[Any]) -> None:
        while wait(delivery):  # noqa: ASYNC110 - a condition elsewhere
            await asyncio.sleep(0.01)

    queue.handler(plain if colour == "def" else awaiting)
    queue.send("late", ttl="1s")
    Worker(broker, queues={queue.name: None}, until="empty").run()
    assert queue.stats().totals["acked"] == 1
    assert left[0] is not None
    assert 0 < left[0] <= 1
    assert left[-1] == 0


@COLOURS
def test_all_that_does_not_end_is_said(
    colour: str, broker: rq_dlq.Broker, working: Working, caplog: pytest.LogCaptureFixture
) -> None:
    queue, go_on = broker.queue(colour.replace(" ", "-")), threading.Event()

    def plain(_: Any) -> None:
        while not go_on.is_set():
            with suppress(DeadlinePassed):
                go_on.wait(LONG)

    async def awaiting(_: Any) -> None:
        while not go_on.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    queue.handler(deadline=True)(plain if colour == "def" else awaiting)
    queue.send("stuck", ttl="1s")
    with working(broker):
        wait_until(lambda: "runs longer than its message's time to live, and does not end" in caplog.text)
        go_on.set()


def test_what_a_redrive_or_a_death_takes_away(broker: rq_dlq.Broker) -> None:
    """`remaining` is None where nothing ends, and goes on after a redelivery."""
    queue = broker.queue("a", redelivery={"initial_delay": 0})
    queue.send("for ever")
    queue.send("an hour", ttl="1h")
    for delivery in queue.claim(2):
        assert (delivery.remaining is None) == (delivery.body == "for ever")
        delivery.nack()
    for delivery in queue.claim(2):
        if delivery.body == "an hour":
            assert delivery.remaining is not None
            assert 3_500 < delivery.remaining <= 3_600
        delivery.poison()
    assert [letter.remaining for letter in broker.queue("DLQ.a").claim(2)] == [None, None]


def test_a_task_has_it(broker: rq_dlq.Broker) -> None:
    ended = list[str]()

    @broker.task(deadline=True)
    def wait() -> None:
        try:
            Waits().plain(None)
        except DeadlinePassed as error:
            ended.append(str(error))
            raise Redeliver(after=0) from error

    @broker.task(queue="wait", name="other")
    def other() -> None:
        pass

    wait.options(ttl="1s").send()
    Worker(broker, until="empty").run()
    assert len(ended) == 1
    with pytest.raises(ConfigurationError, match="share one deadline, which another task has already set"):
        broker.task(queue="wait", name="third", deadline=False)(lambda: None)
    with pytest.raises(ConfigurationError, match="deadline='no': use True or False"):
        broker.queue("b").handler(deadline="no")(print)  # type: ignore[call-overload]
