"""The acks of finished calls ride in the round trip of the next claim."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from types import SimpleNamespace
from typing import Any

import pytest
import redis

import rq_dlq
from rq_dlq import BrokerUnavailable
from rq_dlq._redis.awaiting.link import AsyncLink
from rq_dlq._redis.blocking.link import Link
from rq_dlq.core.settling import settle
from rq_dlq.worker import Worker
from rq_dlq.worker.async_consumer import AsyncConsumer
from rq_dlq.worker.async_settling import AsyncSettling
from rq_dlq.worker.finished import SETTLE_WITHIN
from rq_dlq.worker.stopping import Stop
from rq_dlq.worker.thread_consumer import ThreadConsumer
from tests.servers.counts import verbs_of

COLOURS = pytest.mark.parametrize("colour", ["def", "async def"])
Trips = list[Any]


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> Trips:
    """The verbs of each round trip; a test may put "lose" at the end to lose the next reply to an ack."""
    seen: Trips = []

    def note(commands: list[Any]) -> None:
        names = [verb for command in commands for verb in verbs_of(command)]
        if "lose" in seen and "ack" in names:
            seen.remove("lose")
            message = "the reply was lost"
            raise redis.ConnectionError(message)
        if names:
            seen.append(names)

    blocking, awaiting = Link.talk, AsyncLink.talk

    def talk(self: Link, commands: list[Any]) -> list[Any]:
        replies = blocking(self, commands)
        note(commands)
        return replies

    async def talk_awaiting(self: AsyncLink, commands: list[Any]) -> list[Any]:
        replies = await awaiting(self, commands)
        note(commands)
        return replies

    monkeypatch.setattr(Link, "talk", talk)
    monkeypatch.setattr(AsyncLink, "talk", talk_awaiting)
    return seen


def handle(queue: Any, colour: str, act: Callable[[Any], None], **options: Any) -> None:
    async def awaiting(body: Any) -> None:
        act(body)

    queue.handler(**options)(act if colour == "def" else awaiting)


@COLOURS
def test_no_round_trip_is_for_acks_alone(
    colour: str, broker: rq_dlq.Broker, trips: Trips, monkeypatch: pytest.MonkeyPatch
) -> None:
    for consumer in ("thread_consumer", "async_settling"):
        monkeypatch.setattr(f"rq_dlq.worker.{consumer}.SETTLE_WITHIN", 60)  # no call is slow
    queue = broker.queue("a")
    queue.send("first")
    queue.ack(queue.claim())  # the server knows the scripts
    trips.clear()
    handle(queue, colour, lambda _: None)
    queue.send_many(range(50))
    worker = Worker(broker, until="empty")
    worker.run()
    assert worker.tally.counts == {"acked": 50}
    assert ["ack", "claim"] in trips
    assert ["ack"] not in trips


def test_acks_wait_no_longer_for_many_short_calls_than_for_a_long_one(
    broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, waiting, consumers = [0.0], list[int](), list[ThreadConsumer]()
    start = ThreadConsumer.start

    def begin(consumer: ThreadConsumer) -> None:
        consumers.append(consumer)
        start(consumer)

    monkeypatch.setattr(ThreadConsumer, "start", begin)
    for module in ("thread_consumer", "running"):
        monkeypatch.setattr(f"rq_dlq.worker.{module}.time", SimpleNamespace(monotonic=lambda: now[0]))
    queue = broker.queue("a")

    @queue.handler()
    def handle(_: Any) -> None:
        waiting.append(len(consumers[0]._done))
        now[0] += SETTLE_WITHIN * 0.4

    queue.send_many(range(50))
    Worker(broker, until="empty").run()
    assert len(waiting) == 50
    assert max(waiting) == 2


def test_async_calls_that_keep_the_loop_busy_are_acked_meanwhile_and_not_claimed_far_ahead(
    broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They run one after another, however many may run at once."""
    now, waiting, ahead, consumers = [time.monotonic()], list[int](), list[int](), list[AsyncConsumer]()
    start = AsyncConsumer.start

    def begin(consumer: AsyncConsumer) -> None:
        consumers.append(consumer)
        start(consumer)

    monkeypatch.setattr(AsyncConsumer, "start", begin)
    for module in ("async_consumer", "async_settling", "async_tasks"):
        monkeypatch.setattr(f"rq_dlq.worker.{module}.time", SimpleNamespace(monotonic=lambda: now[0]))
    queue = broker.queue("a")

    @queue.handler(concurrency=100)
    async def handle(_: Any) -> None:
        waiting.append(len(consumers[0]._done))
        ahead.append(len(consumers[0]._unstarted))
        now[0] += SETTLE_WITHIN * 0.4

    queue.send_many(range(1_000))
    Worker(broker, until="empty").run()
    assert len(waiting) == 1_000
    assert max(waiting) <= 3
    assert max(ahead[500:]) <= 100 + 0.1 / (SETTLE_WITHIN * 0.4)  # what may run at once, and 0.1 s of them


@COLOURS
def test_a_lost_reply_loses_neither_the_ack_nor_the_claim(
    colour: str, broker: rq_dlq.Broker, trips: Trips
) -> None:
    queue, handled = broker.queue("a"), list[int]()
    handle(queue, colour, handled.append)
    queue.send_many(range(50))
    trips.append("lose")
    worker = Worker(broker, until="empty")
    worker.run()
    assert "lose" not in trips
    assert sorted(handled) == [*range(50)]
    assert worker.tally.counts == {"acked": 50}


@COLOURS
def test_a_stop_loses_no_ack(colour: str, broker: rq_dlq.Broker) -> None:
    queue, handled = broker.queue("a"), list[int]()
    queue.send_many(range(50))

    def act(body: int) -> None:
        handled.append(body)
        if body == 30:
            worker.stop.signal()

    handle(queue, colour, act)
    worker = Worker(broker)
    thread = threading.Thread(target=worker.run)
    thread.start()
    thread.join(15)
    assert not thread.is_alive()
    assert worker.tally.counts["acked"] == len(handled)
    stats = queue.stats()
    assert (stats.ready, stats.leased) == (50 - len(handled), 0)


@pytest.mark.parametrize("often", [1, 3])
def test_a_stop_loses_no_ack_that_another_thread_tries_to_make(
    often: int, broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that tends a consumer has its acks in hand when that ends, and cannot make them."""
    monkeypatch.setattr("rq_dlq.worker.holding.RETRY_AFTER", 0.01)
    queue, ack, holds, failed = broker.queue("a"), settle.ack, threading.Event(), list[int]()

    def fail_late(*held: Any) -> Any:
        if len(failed) < often and threading.current_thread().name != "rq-dlq a":
            holds.set()
            failed.append(often)
            for consumer in [thread for thread in threading.enumerate() if thread.name == "rq-dlq a"]:
                consumer.join(20)
            message = "no server"
            raise BrokerUnavailable(message)
        return ack(*held)

    @queue.handler()
    def handle(body: Any) -> None:
        if body == "slow":
            holds.wait(60)
            worker.stop.signal()

    monkeypatch.setattr(settle, "ack", fail_late)
    queue.send_many([*range(30), "slow"])
    worker = Worker(broker)
    worker.run()
    assert holds.is_set()
    assert worker.tally.counts == {"acked": 31}
    assert queue.stats().leased == 0


async def test_what_finishes_while_acks_are_made_is_acked_next() -> None:
    """No further call may end, and no claim may follow, that its ack could ride with."""
    done, made = deque[Any](["first"]), list[list[Any]]()

    def ack() -> Generator[None, None, bool]:
        made.append([*done])
        done.clear()
        yield
        return True

    async def ready() -> None:
        """At once."""

    async def run(steps: Any) -> bool:
        next(steps)
        if len(made) == 1:
            done.append("second")
            acks.later()
        await asyncio.sleep(0)
        with pytest.raises(StopIteration) as ended:
            next(steps)
        return bool(ended.value.value)

    acks = AsyncSettling(done, ack, ready, run, Stop(), enough=lambda: False, then=lambda: None)  # type: ignore[arg-type]
    acks.later()
    async with asyncio.timeout(20):
        while len(made) < 2:  # noqa: ASYNC110 - nobody else makes the second
            await asyncio.sleep(0)
    assert made == [["first"], ["second"]]
    assert not done


@pytest.mark.parametrize("when", ["the worker's thread has acked it", "it ends during the last ack"])
async def test_nothing_connects_when_all_is_settled(when: str) -> None:
    """The broker is closed then, and what connects later is never closed."""
    loop = asyncio.get_running_loop()
    done, over, connected = deque[Any](["first"]), asyncio.Event(), list[bool]()
    ends_late = when.startswith("it ends")

    def ack() -> Generator[None, None, bool]:
        done.clear()
        yield
        return True

    async def ready() -> None:
        await asyncio.sleep(0)
        connected.append(ended)

    async def run(steps: Any) -> bool:
        nonlocal ends_late
        next(steps)
        if ends_late:
            ends_late = False
            done.append("second")
            acks.now()
        with pytest.raises(StopIteration) as told:
            next(steps)
        return bool(told.value.value)

    acks, ended = AsyncSettling(done, ack, ready, run, Stop(), enough=lambda: False, then=lambda: None), False  # type: ignore[arg-type]
    if not ends_late:
        acks.later()
        done.clear()
    await acks.all()
    ended = True
    loop.call_later(2 * SETTLE_WITHIN, over.set)
    await over.wait()
    assert True not in connected
    assert not done
