"""A worker learns that what it works on was cancelled."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

import rq_dlq
from rq_dlq import Message, PerKey
from rq_dlq.core.cancelling.calls import Notice
from rq_dlq.worker import cancels
from rq_dlq.worker.claiming import Pace
from tests.servers import wait_until
from tests.tables import each_row
from tests.worker.conftest import Working

COLOURS = each_row("colour", ["def", "async def"])


class Calls:
    """A handler in both colours that runs until it is cancelled, or may go on."""

    def __init__(self) -> None:
        self.running, self.go_on, self.ended = threading.Event(), threading.Event(), dict[str, str]()

    def plain(self, body: str, delivery: rq_dlq.Delivery[str]) -> None:
        self.running.set()
        while not (self.go_on.is_set() or delivery.cancelled):
            self.go_on.wait(0.01)
        self.ended[body] = "cancelled" if delivery.cancelled else "done"

    async def awaiting(self, body: str) -> None:
        self.running.set()
        try:
            while not self.go_on.is_set():  # noqa: ASYNC110 - a condition elsewhere
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.ended[body] = "cancelled"
            raise
        self.ended[body] = "done"

    def of(self, colour: str) -> Any:
        return self.plain if colour == "def" else self.awaiting


@COLOURS
def test_its_call_ends_and_the_next_of_its_key_begins(
    colour: str, broker: rq_dlq.Broker, working: Working, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "rq_dlq.worker")
    calls = Calls()
    queue = broker.queue(colour.replace(" ", "-"), per_key=PerKey(order=True), lease="1h")
    queue.handler(calls.of(colour))
    queue.send_many([Message(name, id=name, key="customer") for name in ("first", "second")])
    with working(broker):
        assert calls.running.wait(60)
        assert queue.cancel("first") == "cancelled"
        wait_until(lambda: calls.ended == {"first": "cancelled"})
        calls.go_on.set()
        wait_until(lambda: calls.ended == {"first": "cancelled", "second": "done"})
        wait_until(lambda: queue.stats().totals.get("acked") == 1)
    totals = queue.stats().totals
    assert (totals["cancelled"], totals.get("released", 0), totals.get("nacked", 0)) == (1, 0, 0)
    assert "first): cancelled while it runs" in caplog.text
    assert "the lease was lost" not in caplog.text


@COLOURS
def test_what_it_claimed_ahead_does_not_begin(
    colour: str, broker: rq_dlq.Broker, raw: Any, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives back its place at once, while the call before it goes on."""
    for consumer in ("thread_consumer", "async_consumer"):
        monkeypatch.setattr(f"rq_dlq.worker.{consumer}.STUCK_AFTER", 60.0)  # what it holds stays
        monkeypatch.setattr(f"rq_dlq.worker.{consumer}.Pace", partial(Pace, 60.0))  # it claims ahead
    name = colour.replace(" ", "-")
    begun, go_on, queue = list[int](), threading.Event(), broker.queue(name, lease="1h", max_in_flight=500)

    def plain(body: int) -> None:
        begun.append(body)
        if body == 20:
            go_on.wait(60)

    async def awaiting(body: int) -> None:
        begun.append(body)
        while body == 20 and not go_on.is_set():  # noqa: ASYNC110 - a condition elsewhere
            await asyncio.sleep(0.01)

    queue.handler(plain if colour == "def" else awaiting)
    queue.send_many([Message(n, id=str(n)) for n in range(100)])
    with working(broker):
        wait_until(lambda: 20 in begun and queue.explain("21").place == "leased")
        assert queue.cancel("21") == "cancelled"
        assert raw.zcard(f"rq:{{{name}}}:seated") == 1
        wait_until(lambda: raw.zcard(f"rq:{{{name}}}:seated") == 0, 20)
        assert not go_on.is_set()
        go_on.set()
        wait_until(lambda: queue.stats().totals["acked"] == 99)
    assert sorted(begun) == [n for n in range(100) if n != 21]


def test_an_early_notice_is_kept_for_its_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim of its message may still be in progress when it is read; later it is passed on once."""
    monkeypatch.setattr(cancels, "PERIOD", 0.0)
    notice = Notice("a", ("m", "t"))
    told, holds = list[Any](), list[bool]([False, False, True, True])

    def cancel(held: Any) -> bool:
        told.append(held)
        return holds[len(told) - 1]

    consumer = SimpleNamespace(queue=SimpleNamespace(name="a"), cancel=cancel)
    other = SimpleNamespace(queue=SimpleNamespace(name="b"), cancel=lambda _: pytest.fail("another queue"))
    watching = cancels.Cancels("rq")
    for _ in range(5):
        connections = SimpleNamespace(run=lambda _: [notice])
        watching.look([other, consumer], connections)  # type: ignore[arg-type, list-item]
    assert told == [("m", "t")] * 3
    watching.look([consumer], SimpleNamespace(run=lambda _: []))  # type: ignore[arg-type, list-item]
    watching.look([consumer], connections)  # type: ignore[arg-type, list-item]
    assert len(told) == 4  # another container of this name has left it


def test_it_is_known_within_a_second() -> None:
    """The worker looks twice a second, with one command, however many queues it has."""
    assert cancels.PERIOD <= 0.5


def test_without_a_notice_the_next_extension_tells(
    broker: rq_dlq.Broker, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancels.Cancels, "look", lambda *_: None)
    queue, running, lost = broker.queue("a", lease="3s"), threading.Event(), list[bool]()

    @queue.handler
    def wait(_: Any, delivery: rq_dlq.Delivery[Any]) -> None:
        running.set()
        wait_until(lambda: delivery.lost or delivery.cancelled)
        lost.append(delivery.lost)

    queue.send("x", id="m")
    with working(broker):
        assert running.wait(60)
        queue.cancel("m")
        wait_until(lambda: lost == [True])
