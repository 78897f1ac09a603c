"""Calls that are repeated until a worker gives up."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import redis

from rq_dlq import BrokerUnavailable
from rq_dlq._redis import AsyncConnections, Connections, Retries
from rq_dlq._redis.awaiting.link import AsyncLink
from rq_dlq._redis.awaiting.own import sleep
from rq_dlq._redis.blocking.link import Link
from rq_dlq._redis.cluster import is_node
from rq_dlq._scripts import Joined

COLOURS = pytest.mark.parametrize("colour", ["blocking", "awaiting"])
LATE, BROKEN = redis.TimeoutError("no reply"), redis.ConnectionError("reset by peer")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """The tries of calls, each of which fails with the first error that is here."""
    tries: list[Exception] = []

    def talk(*_: object) -> Any:
        tries.append(tries[0])
        raise tries[0]

    async def talk_awaiting(*_: object) -> Any:
        talk()

    monkeypatch.setattr(Link, "talk", talk)
    monkeypatch.setattr(AsyncLink, "talk", talk_awaiting)
    return tries


async def call(colour: str, retries: Retries) -> None:
    if colour == "blocking":
        Connections("unix:///nowhere", Joined(), retries).run(is_node())
    else:
        await AsyncConnections("unix:///nowhere", Joined(), retries).run(is_node())


@COLOURS
@pytest.mark.parametrize(("error", "tries"), [(LATE, 1), (BROKEN, 2)])
async def test_who_gives_up_does_not_wait_in_vain_twice(
    error: Exception, tries: int, colour: str, made: list[Exception]
) -> None:
    """A connection that broke says nothing of Redis, so another one is tried."""
    over = threading.Event()
    over.set()
    made.append(error)
    with pytest.raises(BrokerUnavailable):
        await call(colour, Retries(attempts=None, seconds=None, until=over))
    assert len(made) == 1 + tries


@COLOURS
async def test_who_does_not_give_up_tries_again(colour: str, made: list[Exception]) -> None:
    made.append(LATE)
    with pytest.raises(BrokerUnavailable):
        await call(colour, Retries(attempts=3, until=threading.Event()))
    assert len(made) == 1 + 3


async def test_a_pause_ends_when_a_thread_gives_up() -> None:
    over, began = threading.Event(), time.monotonic()
    giving_up = threading.Timer(0.1, over.set)
    giving_up.start()
    await sleep(60_000, over)
    assert time.monotonic() - began < 30
    giving_up.join()
