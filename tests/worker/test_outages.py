"""Redis cannot be reached for a while: what waits behind a call is neither stranded nor done twice."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import rq_dlq
from rq_dlq import BrokerUnavailable
from rq_dlq.core.settling import settle
from rq_dlq.core.steps.step import Steps
from tests.servers import wait_until
from tests.worker.conftest import Ahead, Working

COLOURS = pytest.mark.parametrize("colour", ["def", "async def"])
AFTER = set(range(150, 200))


class Outage:
    """A verb that fails while this lasts.

    Args:
        arrives: whether the server does what was asked, and only its reply is lost.

    Attributes:
        failed: how often it did.
        over: it ends when this is set.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, verb: str, *, arrives: bool = False) -> None:
        self.failed, self.over = 0, threading.Event()
        self._real, self._arrives = getattr(settle, verb), arrives
        monkeypatch.setattr(settle, verb, self._steps)

    def _steps(self, *arguments: Any, **options: Any) -> Steps[Any]:
        if self.over.is_set() or self._arrives:
            result = yield from self._real(*arguments, **options)
        if self.over.is_set():
            return result
        self.failed += 1
        message = "no server"
        raise BrokerUnavailable(message)


class Stuck:
    """A handler that stops at one message, behind which others wait that were claimed with it."""

    def __init__(self, queue: rq_dlq.Queue[Any], colour: str) -> None:
        self.seen: list[Any] = []
        self.reached, self.go_on = threading.Event(), threading.Event()
        queue.handler(concurrency=1)(self.plain if colour == "def" else self.awaiting)
        queue.send_many([*range(150), "stuck", *sorted(AFTER)])

    def plain(self, body: Any) -> None:
        self.seen.append(body)
        if body == "stuck":
            self.reached.set()
            self.go_on.wait(60)

    async def awaiting(self, body: Any) -> None:
        self.seen.append(body)
        if body == "stuck":
            self.reached.set()
            while not self.go_on.is_set():  # noqa: ASYNC110 - a condition elsewhere
                await asyncio.sleep(0.01)


@contextmanager
def stuck_at(stuck: Stuck, queue: rq_dlq.Queue[Any]) -> Iterator[None]:
    """A worker is stuck meanwhile."""
    try:
        assert stuck.reached.wait(60)
        assert queue.stats().leased > 1
        yield
    finally:
        stuck.go_on.set()


def taker(queue: rq_dlq.Queue[Any]) -> Callable[[], bool]:
    """Takes and acks what it can get; returns whether that is all that waits behind the call."""
    taken: set[Any] = set()

    def take() -> bool:
        deliveries = queue.claim(1_000)
        queue.ack(deliveries)
        taken.update(delivery.body for delivery in deliveries)
        return taken >= AFTER

    return take


@pytest.fixture
def elsewhere(server: str) -> Iterator[rq_dlq.Queue[Any]]:
    """The queue of another program."""
    with rq_dlq.Broker(f"unix://{server}") as other:
        yield other.queue("a")


@pytest.fixture
def prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are soon stuck, and failed calls tried again."""
    for module in ("claimer", "holding", "thread_consumer", "async_consumer"):
        monkeypatch.setattr(f"rq_dlq.worker.{module}.RETRY_AFTER", 0.01)
    for module in ("thread_consumer", "async_consumer"):
        monkeypatch.setattr(f"rq_dlq.worker.{module}.STUCK_AFTER", 0.05)


@COLOURS
@pytest.mark.usefixtures("prompt")
def test_what_waits_is_given_back_when_redis_is_there_again(
    colour: str, broker: rq_dlq.Broker, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = broker.queue("a")
    stuck, outage = Stuck(queue, colour), Outage(monkeypatch, "release")
    with working(broker):
        with stuck_at(stuck, queue):
            wait_until(lambda: outage.failed > 2, 20)
            outage.over.set()
            wait_until(lambda: queue.stats().leased == 1, 20)
        wait_until(lambda: queue.stats().totals["acked"] == 201)
    assert len(stuck.seen) == 201


@COLOURS
@pytest.mark.usefixtures("prompt")
def test_what_was_given_back_after_all_is_not_begun(
    colour: str,
    broker: rq_dlq.Broker,
    elsewhere: rq_dlq.Queue[Any],
    working: Working,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only the reply was lost."""
    queue = broker.queue("a")
    stuck, outage = Stuck(queue, colour), Outage(monkeypatch, "release", arrives=True)
    with working(broker):
        with stuck_at(stuck, queue):
            wait_until(lambda: outage.failed)
            wait_until(taker(elsewhere))
        wait_until(lambda: queue.stats().totals["acked"] == 201)
        outage.over.set()
    assert not AFTER & set(stuck.seen)


@COLOURS
def test_what_was_lost_while_no_lease_could_be_extended_is_not_begun(
    colour: str,
    broker: rq_dlq.Broker,
    elsewhere: rq_dlq.Queue[Any],
    working: Working,
    monkeypatch: pytest.MonkeyPatch,
    *,
    raw: Any,
    ahead: Ahead,
) -> None:
    queue = broker.queue("a", lease="1h")
    stuck, outage = Stuck(queue, colour), Outage(monkeypatch, "extend")
    with working(broker):
        with stuck_at(stuck, queue):
            ahead.seconds = 7_200
            raw.zadd("rq:{a}:leases", dict.fromkeys(raw.zrange("rq:{a}:leases", 0, -1), 1))
            wait_until(taker(elsewhere))
            wait_until(lambda: outage.failed)
            outage.over.set()
        queue.send("later")  # the worker comes to it after those that it still has
        wait_until(lambda: "later" in stuck.seen)
    assert not AFTER & set(stuck.seen)
