"""What a worker process reports of itself: `broker.workers()`, `rq-dlq worker ls`."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
import threading
from importlib import import_module
from typing import Any

import msgspec
import pytest
import redis

import rq_dlq
import rq_dlq.asyncio
from rq_dlq import ConsumerReport
from rq_dlq.worker import reporting
from tests.servers import wait_until
from tests.servers.acl import rules_of
from tests.worker.conftest import Working

ME = f"{socket.gethostname()}:{os.getpid()}"


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "PERIOD", 0.05)


def held(broker: rq_dlq.Broker) -> dict[str, int]:
    """How many messages the only worker holds, by queue."""
    return {name: one.held for worker in broker.workers() for name, one in worker.queues.items()}


@pytest.mark.parametrize("colour", ["threads", "async"])
def test_a_worker_reports_what_it_holds(server: str, raw: Any, colour: str, working: Working) -> None:
    del raw
    url, calls = f"unix://{server}", threading.Semaphore(0)
    may_end = threading.Event()

    def handle(body: int) -> None:
        calls.release()
        assert may_end.wait(60)
        if body == 1:
            raise ValueError("bad")

    async def handle_async(body: int) -> None:
        calls.release()
        assert await asyncio.to_thread(may_end.wait, 20)
        if body == 1:
            raise ValueError("bad")

    with rq_dlq.Broker(url, version="1.4.2") as broker:
        orders = broker.queue("orders")
        apps: dict[str, Any] = {"threads": broker, "async": rq_dlq.asyncio.Broker(url, version="1.4.2")}
        app = apps[colour]
        app.queue("orders").handler(concurrency=3)(handle if colour == "threads" else handle_async)
        app.queue("mail").handler(handle)
        with working(app):
            wait_until(lambda: held(broker) == {"orders": 0, "mail": 0})
            orders.send_many([1, 2])
            for _ in range(2):
                assert calls.acquire(timeout=20)
            wait_until(lambda: held(broker) == {"orders": 2, "mail": 0})
            (worker,) = broker.workers()
            assert (worker.process, worker.version) == (ME, "1.4.2")
            assert worker.rq_dlq_version == rq_dlq.__version__
            assert (worker.state, msgspec.structs.replace(worker.queues["mail"], takes=None)) == (
                "working",
                ConsumerReport(1),
            )
            assert worker.queues["orders"].concurrency == 3
            assert 0 <= (worker.oldest or -1) <= 20
            assert worker.started_at <= worker.seen_at
            may_end.set()
            wait_until(lambda: [(one.done, one.failed) for one in broker.workers()] == [(1, 1)])
            wait_until(lambda: held(broker) == {"orders": 0, "mail": 0})
        assert broker.workers() == []


def test_a_worker_reports_what_did_not_count(broker: rq_dlq.Broker, working: Working) -> None:
    """The classes of errors that the breaker's `errors` leave out, of messages with a dependency."""
    breaker = rq_dlq.Breaker(errors=rq_dlq.Breaker.UNREACHABLE)
    orders = broker.queue("orders", breaker=breaker)

    @orders.handler
    def handle(body: str) -> None:
        raise {"bad": KeyError, "down": ConnectionError}[body](body)

    orders.send_many(["bad", "down"], dependency="payments")
    with working(broker):
        wait_until(lambda: [one.queues["orders"].uncounted for one in broker.workers()] == [("KeyError",)])


def test_it_says_that_it_stops_and_then_leaves(broker: rq_dlq.Broker, working: Working) -> None:
    may_end = threading.Event()
    orders = broker.queue("orders")
    orders.handler(lambda _: may_end.wait(60))
    with working(broker) as worker:
        orders.send("x")
        wait_until(lambda: held(broker) == {"orders": 1})
        worker.stop.signal()
        wait_until(lambda: [one.state for one in broker.workers()] == ["stopping"])
        may_end.set()
    assert broker.workers() == []


def test_a_worker_without_the_right_works_and_says_so_once(
    broker: rq_dlq.Broker, server: str, working: Working, caplog: Any
) -> None:
    with redis.Redis(unix_socket_path=server) as raw:
        granted = " ".join(rules_of("consumer", raw, "orders"))
        rules = re.sub(r" \(~rq:processes [^)]*\)| ~rq:processes(?= )", "", granted).split()
        assert len(rules) < len(granted.split())
        raw.execute_command("ACL", "SETUSER", "joe", *rules, ">secret")
        try:
            with rq_dlq.Broker(f"unix://joe:secret@{server}") as joe:
                done = threading.Semaphore(0)
                joe.queue("orders").handler(lambda _: done.release())
                with working(joe):
                    for _ in range(3):
                        broker.queue("orders").send("x")
                        assert done.acquire(timeout=20)
                    wait_until(lambda: len(_told(caplog)) == 1)
        finally:
            raw.acl_deluser("joe")
    assert len(_told(caplog)) == 1
    assert "rq:processes" in _told(caplog)[0]


def names(raw: Any) -> list[str]:
    """The processes whose reports are stored."""
    return [key.decode().partition("/")[0] for key in raw.hkeys("rq:processes")]


def _told(caplog: Any) -> list[str]:
    found = [record for record in caplog.records if record.levelno == logging.WARNING]
    return [text for record in found if "worker ls" in (text := record.getMessage())]


def test_every_hour_a_process_removes_what_is_never_read(
    broker: rq_dlq.Broker, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    reporter = reporting.reporter_of(broker.settings, 5.0)
    broker._run(reporter.note("rq"))
    raw.hset("rq:processes", "dead:1", "{}")
    broker._run(reporter.note("rq"))
    assert raw.hlen("rq:processes") == 2
    monkeypatch.setattr(import_module("rq_dlq.core.processes.processes"), "FORGET_EVERY", -1)
    broker._run(reporter.note("rq"))
    assert names(raw) == [ME]
    broker._run(reporter.leave("rq"))
    assert raw.hlen("rq:processes") == 0


def test_what_is_never_read_is_removed_by_the_next_worker(
    broker: rq_dlq.Broker, raw: Any, working: Working
) -> None:
    raw.hset("rq:processes", "dead:1", "{}")
    broker.queue("orders").handler(print)
    with working(broker):
        wait_until(lambda: names(raw) == [ME])
