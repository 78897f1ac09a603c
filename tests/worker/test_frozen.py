"""Redis does not answer: calls end in time all the same, and so does a worker that is stopped."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import redis

import rq_dlq
from rq_dlq._redis.awaiting.link import AsyncLink
from rq_dlq._redis.blocking.link import Link
from rq_dlq._redis.pools import HASTY
from rq_dlq.core.settling import settle
from rq_dlq.core.steps.step import Steps
from rq_dlq.worker import Worker
from tests.servers import Server, wait_until
from tests.worker.conftest import Working
from tests.worker.test_holding import Held

COLOURS = pytest.mark.parametrize("colour", ["def", "async def"])
NEVER = "?socket_timeout=600"  # seconds; nobody gives up meanwhile
SOON = "?socket_timeout=2"


@COLOURS
@pytest.mark.parametrize("limit", [2.0, None], ids=["timeout", "second signal"])
def test_a_call_is_cut_short_while_its_lease_is_being_extended(
    limit: float | None, colour: str, working: Working, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, ended = threading.Event(), threading.Event()
    extend = settle.extend

    def extends(*arguments: Any) -> Steps[Any]:
        server.signal(signal.SIGSTOP)
        asked.set()
        return (yield from extend(*arguments))

    def plain(_: object) -> None:
        try:
            while True:
                time.sleep(0.01)
        finally:
            ended.set()

    async def awaiting(_: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with Server(tmp_path / "redis") as server, rq_dlq.Broker(server.url + NEVER) as broker:
        queue = broker.queue("q", lease=0.9)
        queue.handler(timeout=limit)(plain if colour == "def" else awaiting)
        queue.send("x")
        monkeypatch.setattr(settle, "extend", extends)
        with working(broker) as worker:
            try:
                assert asked.wait(60)
                if limit is None:
                    worker.stop.signal()
                    worker.stop.signal()
                assert ended.wait(60)
            finally:
                monkeypatch.setattr(settle, "extend", extend)
                server.signal(signal.SIGCONT)


def running(broker: rq_dlq.Broker) -> tuple[Worker, threading.Thread]:
    worker = Worker(broker)
    thread = threading.Thread(target=worker.run)
    thread.start()
    return worker, thread


@COLOURS
@pytest.mark.parametrize("fails", [False, True], ids=["acks", "fails"])
def test_one_signal_ends_a_worker_whose_calls_have_ended(
    fails: bool, colour: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """However many threads it has: each waits for one reply, all at the same time. The log says it once."""
    monkeypatch.setattr("rq_dlq.worker.worker.GRACE", 0.5)
    caplog.set_level("INFO", "rq_dlq.worker")
    began, may_end = threading.Semaphore(0), threading.Event()

    def plain(_: object) -> None:
        began.release()
        assert may_end.wait(60)
        assert not fails

    async def awaiting(_: object) -> None:
        began.release()
        while not may_end.is_set():  # noqa: ASYNC110 - a condition elsewhere
            await asyncio.sleep(0.01)
        assert not fails

    with Server(tmp_path / "redis") as server, rq_dlq.Broker(server.url + SOON) as broker:
        queue = broker.queue("q", lease="1h")
        queue.handler(concurrency=8)(plain if colour == "def" else awaiting)
        queue.send_many(range(8))
        worker, thread = running(broker)
        try:
            for _ in range(8):
                assert began.acquire(timeout=60)
            server.signal(signal.SIGSTOP)
            worker.stop.signal()
            may_end.set()
            thread.join(15)  # it takes 3 s; a reply after the other took a minute
            assert not thread.is_alive()
        finally:
            server.signal(signal.SIGCONT)
            thread.join(60)
    said = [line for line in caplog.messages if "cannot" in line and "waiting for Redis" not in line]
    verb = "settle" if fails else "ack"
    assert said == [f"q: cannot {verb} 8 messages: redelivered after the lease"]


@COLOURS
def test_a_stop_loses_no_ack_to_a_connection_that_broke_long_before(
    colour: str, broker: rq_dlq.Broker, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a firewall forgot it while the call ran: Redis answers, over another one."""
    monkeypatch.setattr("rq_dlq.worker.worker.GRACE", 0.1)
    queue = broker.queue("q")
    held = Held(queue, colour)
    blocking, awaiting, broken = Link.talk, AsyncLink.talk, threading.Event()

    def lose(link: Any) -> None:
        if broken.is_set() and link.pool.connection_kwargs["socket_timeout"] != HASTY:
            raise redis.TimeoutError("no reply")

    def talk(self: Link, commands: list[Any]) -> list[Any]:
        lose(self)
        return blocking(self, commands)

    async def talk_awaiting(self: AsyncLink, commands: list[Any]) -> list[Any]:
        lose(self)
        return await awaiting(self, commands)

    monkeypatch.setattr(Link, "talk", talk)
    monkeypatch.setattr(AsyncLink, "talk", talk_awaiting)
    queue.send("x")
    with working(broker) as worker:
        assert held.began.wait(60)
        worker.stop.signal()
        wait_until(worker.stop.giving_up.is_set)
        broken.set()
        held.may_end.set()
        wait_until(lambda: worker.tally.counts == {"acked": 1})
        broken.clear()
    assert queue.stats().totals["acked"] == 1
