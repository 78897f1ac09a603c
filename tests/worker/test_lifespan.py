"""What a worker process opens once for its handlers."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import wraps
from typing import Any

import pytest

import rq_dlq
from rq_dlq import ConfigurationError, RqDlqError
from rq_dlq.worker import Worker
from rq_dlq.worker import worker as worker_module
from tests.tables import each_row
from tests.worker.conftest import Working
from tests.worker.test_handlers import COLOURS, register

NOTES = list[str]


def plain(notes: NOTES) -> Any:
    def resources() -> Iterator[NOTES]:
        notes.append("entered")
        yield notes
        notes.append("left")

    return resources


def awaiting(notes: NOTES) -> Any:
    async def resources() -> AsyncIterator[NOTES]:
        await asyncio.sleep(0)
        notes.append("entered")
        async with asyncio.timeout(60):  # as the task groups of many clients, it must end in its own task
            yield notes
        notes.append("left")

    return resources


class Opens:
    """An object that is a lifespan."""

    def __init__(self, notes: NOTES) -> None:
        self.function = awaiting(notes)
        self.__qualname__ = self.__name__ = "resources"

    async def __call__(self) -> AsyncIterator[NOTES]:
        async for one in self.function():
            yield one


def wrapped(function: Any) -> Any:
    """As a decorator leaves it: a `def` that returns what was called."""

    @wraps(function)
    def inner() -> Any:
        return function()

    return inner


LIFESPANS: dict[str, Any] = {
    "def": plain,
    "async def": awaiting,
    "context manager": lambda notes: contextmanager(plain(notes)),
    "async context manager": lambda notes: asynccontextmanager(awaiting(notes)),
    "object": Opens,
    "def, wrapped": lambda notes: wrapped(plain(notes)),
    "async def, wrapped": lambda notes: wrapped(awaiting(notes)),
}


@COLOURS
@pytest.mark.parametrize("kind", LIFESPANS)
def test_it_is_entered_once_and_each_delivery_has_its_state(
    kind: str, colour: str, broker: rq_dlq.Broker
) -> None:
    notes: NOTES = []
    function = broker.lifespan(LIFESPANS[kind](notes))
    for name in ("a", "b"):
        register(broker.queue(name), colour, lambda body, delivery: delivery.state.append(body))
        broker.queue(name).send_many(["x", "x"])
    broker.run(burst=True)
    assert notes == ["entered", "x", "x", "x", "x", "left"]
    assert function.__name__ == "resources"


def test_async_handlers_run_in_the_event_loop_of_the_lifespan(broker: rq_dlq.Broker) -> None:
    """A pool of connections belongs to the loop in which it was opened."""
    seen: list[bool] = []

    @broker.lifespan
    async def loop() -> AsyncIterator[Any]:
        yield asyncio.get_running_loop()

    for name in ("a", "b"):
        queue = broker.queue(name)

        @queue.handler
        async def handle(body: Any, delivery: rq_dlq.asyncio.Delivery[Any]) -> None:
            del body
            seen.append(delivery.state is asyncio.get_running_loop())

        queue.send("x")
    broker.run(burst=True)
    assert seen == [True, True]


def test_without_a_lifespan_or_a_worker_there_is_no_state(broker: rq_dlq.Broker) -> None:
    queue, seen = broker.queue("a"), list[Any]()
    queue.handler(lambda _, delivery: seen.append(delivery.state))
    queue.send_many(["x", "y"])
    assert queue.claim()[0].state is None
    broker.run(burst=True)
    assert seen == [None]


def failing(colour: str, when: str) -> Any:
    def plain() -> Iterator[None]:
        if when == "before":
            raise KeyError("no such host")
        yield
        raise KeyError("no such host")

    async def awaiting() -> AsyncIterator[None]:
        if when == "before":
            raise KeyError("no such host")
        yield
        raise KeyError("no such host")

    return plain if colour == "def" else awaiting


@COLOURS
@pytest.mark.parametrize(("when", "handled"), [("before", 0), ("after", 1)])
def test_its_error_ends_the_worker_with_its_text(
    when: str, handled: int, colour: str, broker: rq_dlq.Broker
) -> None:
    broker.lifespan(failing(colour, when))
    queue, seen = broker.queue("a"), list[Any]()
    queue.handler(seen.append)
    queue.send("x")
    said = rf"the lifespan failing\.<locals>\.\w+ failed {when} the .* message, .*KeyError: 'no such host'"
    with pytest.raises(RqDlqError, match=said) as raised:
        broker.run(burst=True)
    assert isinstance(raised.value.__cause__, KeyError)
    assert len(seen) == handled
    assert queue.stats().ready == 1 - handled


async def nothing() -> None:
    """A coroutine does not yield."""


class Nothing:
    async def __call__(self) -> None:
        """As little."""


@each_row("function", [nothing, Nothing(), lambda _: None, 5])
def test_what_cannot_be_one_is_refused(function: Any, broker: rq_dlq.Broker) -> None:
    with pytest.raises(ConfigurationError, match="a lifespan takes no arguments and yields"):
        broker.lifespan(function)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("function", "kind"), [(lambda: {"pool": 1}, "dict"), (wrapped(nothing), "coroutine")]
)
def test_one_that_returns_something_else_is_refused(function: Any, kind: str, broker: rq_dlq.Broker) -> None:
    broker.lifespan(function)
    broker.queue("a").handler(print)
    with pytest.raises(ConfigurationError, match=f"returned a {kind}, not a context manager: let it yield"):
        broker.run(burst=True)


def test_there_is_one(broker: rq_dlq.Broker) -> None:
    broker.lifespan(plain([]))
    with pytest.raises(ConfigurationError, match="already has a lifespan"):
        broker.lifespan(plain([]))


def test_a_blocked_event_loop_does_not_keep_the_worker(
    broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "GRACE", 0.2)
    broker.lifespan(awaiting([]))
    go_on = threading.Event()
    worker: Worker

    @broker.queue("a").handler
    async def block(_: Any) -> None:
        worker.stop.signal()
        worker.stop.signal()
        go_on.wait(60)

    broker.queue("a").send("x")
    worker = Worker(broker)
    with pytest.raises(RqDlqError, match="a call blocks its event loop"):
        worker.run()
    go_on.set()


def test_a_thread_of_an_executor_does_not_keep_the_worker(
    broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing can cancel it, and the event loop waits for it when it is closed."""
    monkeypatch.setattr(worker_module, "GRACE", 0.2)
    go_on, went_on = threading.Event(), list[bool]()
    worker: Worker

    @broker.queue("a").handler
    async def wait(_: Any) -> None:
        worker.stop.signal()
        worker.stop.signal()
        await asyncio.to_thread(lambda: went_on.append(go_on.wait(60)))

    broker.queue("a").send("x")
    worker = Worker(broker)
    worker.run()
    assert went_on == []
    assert broker.queue("a").stats().ready == 1
    go_on.set()


def test_a_worker_ends_if_its_event_loop_breaks(sync_broker: rq_dlq.Broker) -> None:
    """As where a handler closes what the loop waits by: nothing would run on, and nobody would know."""
    queue = sync_broker.queue("a", lease="1m")

    @queue.handler
    async def stop(_: int) -> None:
        asyncio.get_running_loop().stop()

    queue.send(1)
    with pytest.raises(RqDlqError, match="a consumer failed"):
        sync_broker.run(burst=True)


@pytest.mark.timeout(60)
def test_a_worker_whose_event_loop_cannot_be_made_says_why(
    broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_descriptors(_: asyncio.Runner) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(asyncio.Runner, "__enter__", without_descriptors)
    broker.queue("a").handler(print)
    with pytest.raises(OSError, match="Too many open files"):
        broker.run(burst=True)


class Entering:
    """A lifespan that is not entered before a stop cancels it."""

    def __init__(self) -> None:
        self.began, self.notes = threading.Event(), list[str]()

    async def __call__(self) -> AsyncIterator[None]:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.notes.append("left")
        yield


def test_a_stop_ends_a_lifespan_that_is_being_entered(broker: rq_dlq.Broker, working: Working) -> None:
    entering, seen = Entering(), list[Any]()
    broker.lifespan(entering)
    broker.queue("a").handler(seen.append)
    broker.queue("a").send("x")
    with working(broker):
        assert entering.began.wait(60)
    assert (entering.notes, seen) == (["left"], [])


async def test_a_cancellation_ends_a_lifespan_that_is_being_entered(server: str, raw: Any) -> None:
    del raw
    entering = Entering()
    broker = rq_dlq.asyncio.Broker(f"unix://{server}")
    broker.lifespan(entering)
    broker.queue("a").handler(print)
    running = asyncio.create_task(broker.run())
    assert await asyncio.to_thread(entering.began.wait, 60)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 60)
    assert entering.notes == ["left"]


def test_a_blocked_event_loop_does_not_keep_a_worker_that_is_entering(
    broker: rq_dlq.Broker, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "GRACE", 0.2)
    began, go_on = threading.Event(), threading.Event()

    @broker.lifespan
    async def blocks() -> AsyncIterator[None]:
        began.set()
        go_on.wait(60)
        yield

    broker.queue("a").handler(print)
    with working(broker) as worker:
        assert began.wait(60)
        worker.stop.signal()
    go_on.set()


@COLOURS
def test_a_worker_knows_when_its_lifespan_blocks_it(colour: str, broker: rq_dlq.Broker) -> None:
    """A third signal ends it then."""
    blocked: list[bool] = []
    worker: Worker

    @broker.lifespan
    def resources() -> Iterator[None]:
        blocked.append(worker.stop.blocked)
        yield
        blocked.append(worker.stop.blocked)

    register(broker.queue("a"), colour, lambda _, __: blocked.append(worker.stop.blocked))
    broker.queue("a").send("x")
    worker = Worker(broker, until="empty")
    worker.run()
    assert blocked == [True, False, True]
    assert not worker.stop.blocked
