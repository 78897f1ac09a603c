"""Calls that fail are settled together, so that calls that fail at once are not claimed far ahead."""

from __future__ import annotations

import time
from typing import Any

import pytest
import redis

import rq_dlq
from rq_dlq import BrokerRefused, Poison
from rq_dlq._redis.awaiting.link import AsyncLink
from rq_dlq._redis.blocking.link import Link
from rq_dlq.core.settling import settle
from rq_dlq.worker import Worker
from tests.behaviour.helpers import after
from tests.worker.test_acks import COLOURS, handle


def refuse(_: Any) -> None:
    message = "refused"
    raise ConnectionError(message)


@COLOURS
@pytest.mark.parametrize("far", [0, 0.006], ids=["near", "far"])
def test_nothing_that_was_claimed_ahead_is_given_back(
    far: float, colour: str, broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reply is late by so many seconds. T37 has many threads; a busy machine gives nothing back here."""
    for module in ("thread_consumer", "async_consumer"):
        monkeypatch.setattr(f"rq_dlq.worker.{module}.STUCK_AFTER", 10.0)
    blocking, awaiting, trips = Link.talk, AsyncLink.talk, list[int]()

    def talk(self: Link, commands: list[Any]) -> list[Any]:
        trips.append(len(commands))
        time.sleep(far)
        return blocking(self, commands)

    async def talk_awaiting(self: AsyncLink, commands: list[Any]) -> list[Any]:
        trips.append(len(commands))
        time.sleep(far)  # noqa: ASYNC251 - the worst case: nothing else goes on
        return await awaiting(self, commands)

    monkeypatch.setattr(Link, "talk", talk)
    monkeypatch.setattr(AsyncLink, "talk", talk_awaiting)
    queue = broker.queue("a", redelivery=after("0s", most=3))
    handle(queue, colour, refuse)
    queue.send_many(range(100))
    trips.clear()
    Worker(broker, until="drained").run()
    letters = queue.dlq.browse(limit=200)
    assert [letter.delivery_count for letter in letters] == [4] * 100
    assert queue.stats().totals.get("released", 0) == 0
    assert len(trips) < 400 / 3  # else each failure has one of its own


@COLOURS
def test_a_failure_that_is_refused_holds_up_no_other(
    colour: str, broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, real, tried = broker.queue("a", lease=1, redelivery=after("1h", most=3)), settle.nack, list[Any]()

    def nack(queue: Any, held: Any, error: Any, **options: Any) -> Any:
        if str(error) == "7":
            tried.append(error)
            raise BrokerRefused("a damaged key")
        return real(queue, held, error, **options)

    def act(body: Any) -> None:
        raise ValueError(body)

    monkeypatch.setattr(settle, "nack", nack)
    for module in ("claimer", "holding", "thread_consumer", "async_settling"):
        monkeypatch.setattr(f"rq_dlq.worker.{module}.RETRY_AFTER", 0.01)
    handle(queue, colour, act)
    queue.send_many(range(20))
    worker = Worker(broker, until="empty")
    worker.run()
    assert worker.tally.counts == {"redelivered": 19}
    assert len(tried) > 2


@COLOURS
def test_a_lost_reply_charges_nobody_twice(
    colour: str, broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failures of one round trip, of different kinds; what the first try did counts."""
    queue, lost = broker.queue("a", redelivery=after("1h", most=3)), list[str]()
    blocking, awaiting = Link.talk, AsyncLink.talk

    def lose(commands: list[Any], replies: list[Any]) -> list[Any]:
        if len(commands) > 2 and "odd" in str(commands) and len(lost) < 5:
            lost.append("a reply")
            message = "the reply was lost"
            raise redis.ConnectionError(message)
        return replies

    async def talk_awaiting(self: AsyncLink, commands: list[Any]) -> list[Any]:
        return lose(commands, await awaiting(self, commands))

    def act(body: int) -> None:
        raise Poison("odd") if body % 2 else ValueError("odd? no")

    monkeypatch.setattr(Link, "talk", lambda self, commands: lose(commands, blocking(self, commands)))
    monkeypatch.setattr(AsyncLink, "talk", talk_awaiting)
    for module in ("claimer", "holding", "thread_consumer", "async_settling"):
        monkeypatch.setattr(f"rq_dlq.worker.{module}.RETRY_AFTER", 0.01)
    handle(queue, colour, act)
    queue.send_many(range(20))
    worker = Worker(broker, until="empty")
    worker.run()
    assert lost
    assert queue.stats().dead == 10
    assert queue.stats().scheduled == 10
    assert queue.stats().totals.get("nacked") == 10
    assert sum(worker.tally.counts.values()) == 20
    assert worker.tally.counts["lost"] == 0
