"""How many calls that had ended a worker repeats if it is killed now."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

import rq_dlq
from rq_dlq import ConfigurationError
from rq_dlq._redis import in_flight
from rq_dlq._redis.awaiting import link as awaiting
from rq_dlq._redis.awaiting import own as own_awaiting
from rq_dlq._redis.blocking import link as blocking
from rq_dlq._redis.blocking import own as own_blocking
from rq_dlq.worker import Worker
from rq_dlq.worker.async_consumer import AsyncConsumer
from rq_dlq.worker.consumer import Consumer
from rq_dlq.worker.finished import MOST, Finished
from tests.tables import each_row
from tests.worker.test_acks import COLOURS, handle

WAYS = [("def", 1, 0.0), ("def", 8, 0.0), ("def", 8, 0.001), ("async def", 10, 0.0), ("async def", 200, 0.0),
        ("async def", 200, 0.001)]  # fmt: skip


class Waiting:
    """How many finished calls wait, at most, whenever one more is about to end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._all, self.most = list[deque[Any]](), 0
        of_consumer = Finished.of_consumer

        def noted(finished: Finished) -> deque[Any]:
            own = of_consumer(finished)
            self._all.append(own)
            return own

        monkeypatch.setattr(Finished, "of_consumer", noted)

    def one_more(self) -> None:
        self.most = max(self.most, 1 + sum(map(len, self._all)))


def be_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever waits for a connection on a busy machine waits, and is not released."""
    monkeypatch.setattr("rq_dlq.worker.async_settling.OPENS_WITHIN", 60)
    for consumer in ("async_consumer", "thread_consumer"):
        monkeypatch.setattr(f"rq_dlq.worker.{consumer}.STUCK_AFTER", 60)


@each_row("way", WAYS)
def test_they_are_few(
    way: tuple[str, int, float], server: str, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    be_patient(monkeypatch)
    raw.flushall()
    waiting = Waiting(monkeypatch)
    assert drained(server, way, lambda _: waiting.one_more()) == {"acked": 2_000}
    assert waiting.most <= MOST


def drained(server: str, way: tuple[str, int, float], end: Callable[[str], None]) -> dict[str, int]:
    """How 2,000 messages were settled; each handler ends with a call of `end`, with its message's id."""
    colour, concurrency, seconds = way
    with rq_dlq.Broker(f"unix://{server}") as broker:
        queue = broker.queue("a")

        def plain(_: Any, delivery: rq_dlq.Delivery[Any]) -> None:
            time.sleep(seconds)
            end(delivery.id)

        async def awaiting(_: Any, delivery: rq_dlq.asyncio.Delivery[Any]) -> None:
            if seconds:
                await asyncio.sleep(seconds)
            end(delivery.id)

        queue.handler(concurrency=concurrency)(plain if colour == "def" else awaiting)
        queue.send_many(range(2_000))
        worker = Worker(broker, until="empty")
        worker.run()
    return dict(worker.tally.counts)


async def some_wait(number: int) -> None:
    """The first call waits: so each of the others has a task of its own."""
    if number % 10 == 0:
        await asyncio.sleep(0.01)


class Together:
    """Calls that fail at the same time, as when a connection breaks."""

    def __init__(self) -> None:
        self._waiting = list[asyncio.Future[None]]()

    async def __call__(self, _: int) -> None:
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_later(0.05, self._fail)
        self._waiting.append(loop.create_future())
        await self._waiting[-1]

    def _fail(self) -> None:
        while self._waiting:
            self._waiting.pop().set_exception(ConnectionError("broken"))


async def sleeps(_: int) -> None:
    await asyncio.sleep(60)


@each_row("way", [some_wait, Together(), sleeps])
def test_async_calls_that_end_in_one_iteration_are_few(
    way: Callable[[int], Any], server: str, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without waiting, or by the error or the timeout of all."""
    be_patient(monkeypatch)
    raw.flushall()
    waiting, calls = Waiting(monkeypatch), itertools.count()
    with rq_dlq.Broker(f"unix://{server}") as broker:
        queue = broker.queue("a", redelivery={"max_redeliveries": 0})

        @queue.handler(concurrency=200, timeout=0.1 if way is sleeps else None)
        async def handle(_: Any) -> None:
            try:
                await way(next(calls))
            finally:
                waiting.one_more()

        queue.send_many(range(600))
        worker = Worker(broker, until="empty")
        worker.run()
    assert worker.tally.counts == {"acked" if way is some_wait else "dead": 600}
    assert waiting.most <= MOST


def test_the_workers_thread_settles_only_what_ended_long_ago(
    broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not before it has a connection: until then it counts."""
    consumers, left, at_connecting = list[AsyncConsumer](), list[int](), list[int]()

    def start(consumer: AsyncConsumer) -> None:
        consumers.append(consumer)
        Consumer.start(consumer)

    def connected(link: Any) -> Any:
        if consumers:
            at_connecting.append(consumers[0].left["ack"])
        return connect(link)

    connect = blocking.Link._connected
    monkeypatch.setattr(AsyncConsumer, "start", start)
    monkeypatch.setattr(blocking.Link, "_connected", connected)

    async def handle(number: int) -> None:
        if number == 4:
            for after in (60, -1):
                monkeypatch.setattr("rq_dlq.worker.async_consumer.STUCK_AFTER", after)
                consumers[0]._shared.tending.close()
                consumers[0].tend()
                left.append(consumers[0].left["ack"])

    broker.queue("a").handler(concurrency=10)(handle)
    broker.queue("a").send_many(range(5))
    Worker(broker, until="empty").run()
    assert left == [4, 0]
    assert at_connecting == [4]


class Unsent:
    """The finished calls whose settlement has not been written to a connection; these take long to open."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ended, self._ends, self.most = set[str](), itertools.count(), 0
        self._idle, self._busy = list[Any](), list[tuple[Any, Any]]()
        for link, own in ((awaiting, own_awaiting), (blocking, own_blocking)):
            monkeypatch.setattr(link, "Idle", self._known(own.Idle))
        monkeypatch.setattr(awaiting.AsyncLink, "_connected", slowly_awaiting(awaiting.AsyncLink._connected))
        monkeypatch.setattr(blocking.Link, "_connected", slowly(blocking.Link._connected))
        monkeypatch.setattr(awaiting, "write", self._noted_awaiting(own_awaiting.write))
        for sender in (blocking, in_flight):
            monkeypatch.setattr(sender, "write", self._noted(own_blocking.write))

    def end(self, message_id: str) -> None:
        """A call ends; for the next ten, others have all connections that were idle."""
        number = next(self._ends)
        self._ended.add(message_id)
        self.most = max(self.most, len(self._ended))
        if number % 20 == 0:
            self._busy += [(idle, connection) for idle in self._idle for connection in idle.take_all()]
        elif number % 20 == 10:
            while self._busy:
                idle, connection = self._busy.pop()
                idle.add(connection)

    def _known(self, kind: Any) -> Any:
        def known(*arguments: Any) -> Any:
            self._idle.append(kind(*arguments))
            return self._idle[-1]

        return known

    def _note(self, data: bytes) -> None:
        self._ended -= {one for one in [*self._ended] if one.encode() in data}

    def _noted(self, write: Any) -> Any:
        def noted(connection: Any, data: bytes, **options: Any) -> None:
            self._note(data)
            write(connection, data, **options)

        return noted

    def _noted_awaiting(self, write: Any) -> Any:
        async def noted(connection: Any, data: bytes, **options: Any) -> None:
            self._note(data)
            await write(connection, data, **options)

        return noted


def slowly(connected: Any) -> Any:
    """Connect after many turns of the other threads."""

    def late(link: Any) -> Any:
        for _ in range(100):
            time.sleep(0)
        return connected(link)

    return late


def slowly_awaiting(connected: Any) -> Any:
    """Connect after many turns of the event loop."""

    async def late(link: Any) -> Any:
        for _ in range(100):
            await asyncio.sleep(0)
        return await connected(link)

    return late


@each_row("way", WAYS)
def test_they_count_until_they_are_sent(
    way: tuple[str, int, float], server: str, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another call has the last idle connection, a new one is opened first."""
    be_patient(monkeypatch)
    raw.flushall()
    unsent = Unsent(monkeypatch)
    assert drained(server, way, unsent.end) == {"acked": 2_000}
    own = way[0] == "async def"  # another thread may take a new connection first
    assert unsent.most <= (MOST if own else 2 * MOST)


@COLOURS
def test_none_with_ack_each(colour: str, broker: rq_dlq.Broker) -> None:
    """The next call of a thread begins when the ack before it is answered."""
    queue, acked = broker.queue("a"), list[int]()

    def act(body: int) -> None:
        acked.append(body - broker.queue("a").stats().totals.get("acked", 0))

    handle(queue, colour, act, ack_each=True)
    queue.send_many(range(30))
    Worker(broker, until="empty").run()
    assert acked == [0] * 30


def test_tasks_have_ack_each_together(broker: rq_dlq.Broker) -> None:
    acked = list[int]()

    @broker.task(queue="a", ack_each=True)
    def first(n: int) -> None:
        acked.append(n - broker.queue("a").stats().totals.get("acked", 0))

    @broker.task(queue="a")
    def second(n: int) -> None:
        first(n)

    for n in range(0, 30, 2):
        first.send(n)
        second.send(n + 1)
    Worker(broker, until="empty").run()
    assert acked == [0] * 30
    with pytest.raises(ConfigurationError, match="share one ack_each, which another task has already set"):
        broker.task(queue="a", ack_each=False)(take)


def take(n: int) -> None:
    del n


def test_ack_each_is_yes_or_no(broker: rq_dlq.Broker) -> None:
    with pytest.raises(ConfigurationError, match="ack_each='always': use True or False"):
        broker.queue("a").handler(ack_each="always")(print)  # type: ignore[call-overload]


def test_threads_leave_room_for_each_other() -> None:
    """Each of the others may end a call while one looks how many there are."""
    finished = Finished(most=5)
    own, other = finished.of_consumer(), finished.of_consumer()
    finished.leave_room()
    finished.leave_room()
    own.extend(range(3))
    assert not finished.are_enough()
    other.append(0)
    assert finished.are_enough()
