"""How many calls that had ended a worker repeats if it is killed now."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any

import pytest

import rq_dlq
from rq_dlq import ConfigurationError
from rq_dlq.worker import Worker
from rq_dlq.worker.finished import MOST, Finished
from tests.each import each
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


@each("way", WAYS)
def test_they_are_few(
    way: tuple[str, int, float], server: str, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rq_dlq.worker.async_settling.OPENS_WITHIN", 60)
    colour, concurrency, seconds = way
    raw.flushall()
    waiting = Waiting(monkeypatch)
    with rq_dlq.Broker(f"unix://{server}") as broker:
        queue = broker.queue("a")

        def plain(_: Any) -> None:
            time.sleep(seconds)
            waiting.one_more()

        async def awaiting(_: Any) -> None:
            if seconds:
                await asyncio.sleep(seconds)
            waiting.one_more()

        queue.handler(concurrency=concurrency)(plain if colour == "def" else awaiting)
        queue.send_many(range(2_000))
        worker = Worker(broker, until="empty")
        worker.run()
    assert worker.tally.counts == {"acked": 2_000}
    assert waiting.most <= MOST


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
