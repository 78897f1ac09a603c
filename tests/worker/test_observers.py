"""What an observer sees of the handlers that a worker runs."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pytest

import rq_dlq
from rq_dlq import Observer, Redeliver, Settled
from rq_dlq.worker import Worker
from tests.behaviour.helpers import after
from tests.servers import wait_until
from tests.worker.conftest import Working
from tests.worker.test_handlers import COLOURS, register

CURRENT = ContextVar("current", default="")


class Recorder(Observer):
    """Writes down what it sees by message, and names the message in a context variable."""

    def __init__(self) -> None:
        self.seen: dict[str, list[str]] = {}

    @contextmanager
    def handling(self, delivery: Any) -> Generator[None]:
        seen = self.seen.setdefault(delivery.id, [])
        seen.append("begin")
        token = CURRENT.set(delivery.id)
        try:
            yield
        except BaseException as error:
            seen.append(type(error).__name__)
            raise
        else:
            seen.append("end")
        finally:
            CURRENT.reset(token)

    def settled(self, settled: Settled) -> None:
        handled = "" if settled.delivery else ", not handled"
        self.seen.setdefault(settled.id, []).append(f"{settled.outcome}{handled}")


@COLOURS
def test_what_a_handler_does(colour: str, broker: rq_dlq.Broker) -> None:
    queue = broker.queue("a", type=str, redelivery=after("1h", most=0))
    recorder = broker.observe(Recorder())
    current: dict[str, str] = {}

    def work(body: str, delivery: Any) -> None:
        current[delivery.id] = CURRENT.get()
        if body == "dies":
            raise ValueError(body)
        if body == "waits":
            raise Redeliver(after="1h", charge=False)

    register(queue, colour, work, concurrency=3)
    for body in ("works", "dies", "waits"):
        queue.send(body, id=body)
    broker.queue("a").send(7, id="no text")
    Worker(broker, until="empty").run()
    assert recorder.seen == {
        "works": ["begin", "end", "acked"],
        "dies": ["begin", "ValueError", "dead"],
        "waits": ["begin", "Redeliver", "redelivered"],
        "no text": ["passed_on, not handled"],
    }
    assert current == {"works": "works", "dies": "dies", "waits": "waits"}


def test_a_handler_that_settles_by_itself(broker: rq_dlq.Broker) -> None:
    queue = broker.queue("a")
    recorder = broker.observe(Recorder())

    @queue.handler
    def work(body: str, delivery: rq_dlq.Delivery[Any]) -> None:
        if body == "block":
            with delivery:
                pass
        else:
            delivery.poison("no")

    for body in ("block", "poison"):
        queue.send(body, id=body)
    Worker(broker, until="empty").run()
    assert recorder.seen == {"block": ["begin", "acked", "end"], "poison": ["begin", "dead", "end"]}


@COLOURS
def test_a_timeout_and_a_second_signal(colour: str, broker: rq_dlq.Broker, working: Working) -> None:
    queue = broker.queue("a", redelivery=after("1h"))
    recorder = broker.observe(Recorder())
    never = threading.Event()

    def spin(_: Any) -> None:
        while not never.wait(0.01):
            pass

    async def wait(_: Any) -> None:
        await asyncio.sleep(3600)

    queue.handler(timeout="100ms")(spin if colour == "def" else wait)
    other = broker.queue("b")
    other.handler(spin if colour == "def" else wait)
    queue.send("late", id="late")
    other.send("stopped", id="stopped")
    with working(broker) as worker:
        wait_until(lambda: recorder.seen.get("late", [])[-1:] == ["redelivered"])
        wait_until(lambda: "stopped" in recorder.seen)
        worker.stop.signal()
    assert recorder.seen["late"] == ["begin", "HandlerTimeout", "redelivered"]
    assert recorder.seen["stopped"] == ["begin", "Stopped", "released"]


@COLOURS
def test_the_line_of_the_log_has_the_context_of_the_handler(
    colour: str, broker: rq_dlq.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    contexts: dict[str, str] = {}

    class Spy(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            contexts[record.getMessage()] = CURRENT.get()
            return True

    spy = Spy()
    caplog.handler.addFilter(spy)
    queue = broker.queue("a", redelivery=after("1h"))
    broker.observe(Recorder())

    def work(body: str, _: Any) -> None:
        raise ValueError(body)

    register(queue, colour, work)
    for name in "mn":
        queue.send("no", id=name)
    Worker(broker, until="empty").run()
    caplog.handler.removeFilter(spy)
    failed = {line.split(":")[0]: current for line, current in contexts.items() if "failed:" in line}
    assert failed == {"a m": "m", "a n": "n"}


def test_a_worker_of_the_other_colour_shows_it_to_the_same_observers(redis_socket: str, raw: Any) -> None:
    del raw
    broker = rq_dlq.asyncio.Broker(f"unix://{redis_socket}")
    recorder = broker.observe(Recorder())
    queue = broker.queue("a")

    @queue.handler
    def work(_: Any) -> None: ...

    with rq_dlq.Broker(f"unix://{redis_socket}") as sender:
        sender.queue("a").send("body", id="m")
    Worker(broker, until="empty").run()
    assert recorder.seen == {"m": ["begin", "end", "acked"]}
