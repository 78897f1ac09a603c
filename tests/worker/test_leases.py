"""A worker keeps the leases of all its threads, however many they are, and what a handler asks for itself."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest

import rq_dlq
from rq_dlq import BrokerUnavailable
from rq_dlq.core.settling import settle
from rq_dlq.core.steps.step import Pipeline, Steps
from tests.servers import wait_until
from tests.worker.conftest import Working
from tests.worker.test_holding import lease_end

THREADS = 20
LEASE = 60


class Clock:
    """That of the thread that extends leases, which a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ahead = 0.0
        for module in ("consumer", "leases"):
            monkeypatch.setattr(f"rq_dlq.worker.{module}.time", self)

    def monotonic(self) -> float:
        return time.monotonic() + self._ahead

    def make_due(self) -> None:
        """All leases are to be extended."""
        self._ahead += LEASE / 2


class Busy:
    """Threads of a worker, whose calls all run until they may end."""

    def __init__(self, *queues: rq_dlq.Queue[Any]) -> None:
        self._may_end = threading.Event()
        self._began: list[Any] = []
        self._most = THREADS * len(queues)
        for queue in queues:
            queue.handler(concurrency=THREADS)(self._handle)
            queue.send_many(range(THREADS))

    def _handle(self, body: Any) -> None:
        self._began.append(body)
        self._may_end.wait(60)

    @property
    def all_run(self) -> bool:
        """Whether all calls run."""
        return len(self._began) == self._most

    @contextmanager
    def ending(self) -> Iterator[None]:
        """The calls end when this does."""
        try:
            yield
        finally:
            self._may_end.set()


def test_leases_of_many_threads_are_extended_in_one_call_for_each_queue(
    broker: rq_dlq.Broker, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One round trip for each thread would take longer than a lease, far away from Redis."""
    queues = [broker.queue(name, lease=LEASE) for name in "ab"]
    clock, busy, asked, extend = Clock(monkeypatch), Busy(*queues), list[str](), settle.extend

    def extends(queue: Any, deliveries: Any, lease: int) -> Steps[list[bool]]:
        if busy.all_run:
            asked.append(queue.name)
            extended.extend(deliveries)
        assert {delivery.queue for delivery in deliveries} == {queue.name}
        return (yield from extend(queue, deliveries, lease))

    extended: list[Any] = []
    monkeypatch.setattr(settle, "extend", extends)
    with working(broker), busy.ending():
        wait_until(lambda: busy.all_run)
        clock.make_due()
        wait_until(lambda: len({*extended}) == 2 * THREADS)
    assert len(asked) <= 2 * 2  # the clock may be moved while the worker looks
    assert [queue.stats().totals for queue in queues] == [{"sent": THREADS, "acked": THREADS}] * 2


def test_leases_are_extended_between_the_turns_of_threads(
    broker: rq_dlq.Broker, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn may ack or release, in a round trip of its own."""
    clock, busy = Clock(monkeypatch), Busy(broker.queue("a", lease=LEASE))
    said, extend = list[str](), settle.extend

    def extends(*arguments: Any) -> Steps[list[bool]]:
        said.append("extends")
        return (yield from extend(*arguments))

    def takes_long(_: object) -> None:
        if busy.all_run:
            said.append("turn")
            clock.make_due()

    monkeypatch.setattr(settle, "extend", extends)
    monkeypatch.setattr("rq_dlq.worker.thread_consumer.ThreadConsumer.tend", takes_long)
    with working(broker), busy.ending():
        wait_until(lambda: said.count("turn") > 4)
    assert said[said.index("turn") :][:8] == ["turn", "extends"] * 4


def test_a_thousand_messages_are_extended_in_one_round_trip(broker: rq_dlq.Broker) -> None:
    """By scripts of which none holds up Redis for long."""
    queue = broker.queue("a")
    queue.send_many(range(1_000))
    step = next(settle.extend(queue._core, queue.claim(1_000), 30_000))
    assert isinstance(step, Pipeline)
    assert len(step.calls) == 4


@pytest.mark.parametrize("colour", ["def", "async def"])
def test_no_extension_makes_a_lease_end_sooner(
    colour: str, broker: rq_dlq.Broker, raw: Any, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither that of a handler, which the worker does not see, nor the worker's, which a handler forgets."""
    queue, extend = broker.queue("a", lease=3), settle.extend
    asked, told, ends = list[int](), list[int](), list[float]()

    def extends(queue: Any, deliveries: Any, lease: int) -> Steps[list[bool]]:
        if len(ends) < 4:
            raise BrokerUnavailable("the handler comes first")
        still = yield from extend(queue, deliveries, lease)
        asked.append(lease)
        return still

    def note(until: datetime, delivery: Any) -> None:
        told.extend(round(1000 * end.timestamp()) for end in (until, delivery.lease_until))
        ends.append(lease_end(raw))

    def plain(_: Any, delivery: Any) -> None:
        note(delivery.lease_until, delivery)
        for lease in ("1ms", "10m", "1ms"):
            note(delivery.extend(lease), delivery)
        wait_until(lambda: len(asked) > 1)
        note(delivery.lease_until, delivery)

    async def awaiting(_: Any, delivery: Any) -> None:
        note(delivery.lease_until, delivery)
        for lease in ("1ms", "10m", "1ms"):
            note(await delivery.extend(lease), delivery)
        while len(asked) < 2:  # noqa: ASYNC110 - a condition elsewhere
            await asyncio.sleep(0.01)
        note(delivery.lease_until, delivery)

    # The worker's extensions alone: those of a delivery are made by the module itself.
    monkeypatch.setattr(
        "rq_dlq.worker.holding.settle", SimpleNamespace(**{**vars(settle), "extend": extends})
    )
    queue.handler(concurrency=1)(plain if colour == "def" else awaiting)
    queue.send("x")
    with working(broker):
        wait_until(lambda: queue.stats().totals.get("acked"))
    assert told == [end for end in ends for _ in range(2)]
    claimed, sooner, later, *rest = ends
    assert (sooner, rest) == (claimed, [later, later])
    assert later > claimed + 500_000
    assert queue.stats().totals == {"sent": 1, "acked": 1}
