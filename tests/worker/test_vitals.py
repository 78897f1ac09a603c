"""Whether a process lives and works, as it says itself."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

import rq_dlq
import rq_dlq.asyncio
from rq_dlq.core.steps.step import NodeUnavailable
from rq_dlq.doctor.check import Check
from rq_dlq.doctor.vitals import Vitals
from rq_dlq.worker import reporting, upkeep
from rq_dlq.worker.maintenance import Maintenance
from tests.servers import wait_until
from tests.worker.conftest import Working
from tests.worker.test_processes import restartable

NEVER = (0.0, 0.0)


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "PERIOD", 0.05)


def failed(checks: Iterable[Check]) -> dict[str, str]:
    return {check.name: check.found for check in checks if check.state == "fail"}


def is_ready(of: Vitals) -> bool:
    return not failed(of.ready())


@pytest.mark.parametrize("colour", ["threads", "async"])
def test_a_worker_from_its_start_to_its_end(server: str, raw: Any, colour: str, working: Working) -> None:
    del raw
    opened, begun, may_open, may_end = (threading.Event() for _ in range(4))
    broker: Any = rq_dlq.Broker(f"unix://{server}")
    if colour == "async":
        broker = rq_dlq.asyncio.Broker(f"unix://{server}")

    def handle(_: int) -> None:
        begun.set()
        assert may_end.wait(60)

    async def handle_async(_: int) -> None:
        begun.set()
        assert await asyncio.to_thread(may_end.wait, 20)

    @broker.lifespan
    def lifespan() -> Iterator[None]:
        opened.set()
        assert may_open.wait(60)
        yield

    broker.queue("orders").handler(handle if colour == "threads" else handle_async)
    with rq_dlq.Broker(f"unix://{server}") as sender, working(broker) as worker:
        assert opened.wait(60)
        assert failed(worker.vitals.live()) == {}
        assert failed(worker.vitals.ready()) == {"process": "starting", "redis": "not reached yet"}
        may_open.set()
        wait_until(lambda: is_ready(worker.vitals))
        sender.queue("orders").send(1)
        assert begun.wait(60)
        _turns_on(worker.vitals)
        assert is_ready(worker.vitals)
        worker.stop.signal()
        assert failed(worker.vitals.ready()) == {"process": "stopping"}
        _turns_on(worker.vitals)
        assert failed(worker.vitals.live()) == {}
        may_end.set()


def _turns_on(of: Vitals) -> None:
    """Wait until all that turns has done so, again: a handler that runs holds nothing up."""
    before = dict(of._turns)
    assert before
    wait_until(lambda: all(of._turns.get(name, NEVER) > then for name, then in before.items()))


def test_an_event_loop_that_a_handler_blocks_is_told(server: str, raw: Any, working: Working) -> None:
    """When its leases lapse, which are kept for the handler's timeout."""
    del raw
    broker = rq_dlq.asyncio.Broker(f"unix://{server}")
    begun, may_end = threading.Event(), threading.Event()

    @broker.queue("orders").handler(timeout=0.5)
    async def blocks(_: int) -> None:
        begun.set()
        assert may_end.wait(60)

    with rq_dlq.Broker(f"unix://{server}") as sender, working(broker) as worker:
        sender.queue("orders").send(1)
        assert begun.wait(60)
        wait_until(lambda: "event loop (orders)" in failed(worker.vitals.live()))
        may_end.set()
        wait_until(lambda: failed(worker.vitals.live()) == {})


def test_without_redis_it_lives_and_is_not_ready(working: Working, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "rq_dlq.worker")
    with restartable() as (path, (kill, start)), rq_dlq.Broker(f"unix://{path}") as broker:
        broker.queue("orders").handler(print)
        maintenance = Maintenance(broker, period="20ms")
        with working(broker) as worker, _maintaining(maintenance):
            both = worker.vitals, maintenance.vitals
            wait_until(lambda: all(map(is_ready, both)))
            kill()
            wait_until(lambda: all("redis" in failed(one.ready()) for one in both))
            assert [failed(one.live()) for one in both] == [{}, {}]
            start()
            wait_until(lambda: all(map(is_ready, both)))
        said = [one.message for one in caplog.records if one.name == "rq_dlq.worker"]
        (away,) = [number for number, line in enumerate(said) if line.startswith("waiting for Redis: cannot")]
        assert away < said.index("Redis is back")
        assert failed(maintenance.vitals.ready()) == {"process": "stopping"}
        assert failed(maintenance.vitals.live()) == {}


def test_an_outage_is_said_once(
    working: Working, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("DEBUG", "rq_dlq.worker")
    monkeypatch.setattr(upkeep, "UPKEEP", 0.05)
    begun, may_end = threading.Event(), threading.Event()

    def handle(_: int) -> None:
        begun.set()
        assert may_end.wait(60)

    def said(level: int) -> list[str]:
        return [one.message.partition(": cannot reach")[0] for one in caplog.records if one.levelno >= level]

    with restartable() as (path, (kill, start)), rq_dlq.Broker(f"unix://{path}") as broker:
        queue = broker.queue("orders", lease="10s")
        queue.handler(handle)
        with working(broker) as worker:
            queue.send(1)
            assert begun.wait(60)
            kill()
            wait_until(lambda: said(logging.DEBUG).count("cannot maintain the queues") > 2)
            wait_until(lambda: said(logging.DEBUG).count("cannot fire schedules") > 2)
            wait_until(lambda: said(logging.DEBUG).count("orders: cannot extend the leases") > 1)
            start()
            wait_until(lambda: is_ready(worker.vitals))
            may_end.set()
    about = [text for text in said(logging.INFO) if "Redis" in text or "cannot" in text]
    assert about == ["waiting for Redis", "Redis is back"]


@pytest.mark.parametrize("stopping", [False, True])
def test_what_is_no_outage_is_said_each_time(stopping: bool, caplog: pytest.LogCaptureFixture) -> None:
    noted, logger = Vitals(lambda: stopping), logging.getLogger("rq_dlq.worker")
    for error in (rq_dlq.BrokerRefused("OOM"), rq_dlq.BrokerUnavailable("all")) * 2:
        noted.note_failure("cannot ack", error, logger, logging.WARNING, "orders")
    assert caplog.messages == ["cannot ack: OOM", "waiting for Redis: all", "cannot ack: OOM"]


def lost_node() -> rq_dlq.BrokerUnavailable:
    """Of a call to a queue of that node."""
    error = rq_dlq.BrokerUnavailable("a node")
    error.node = "10.0.0.1:6379"
    return error


@pytest.mark.parametrize("lost", [lost_node, lambda: NodeUnavailable("a node")])
def test_a_lost_node_is_said_once_for_each_of_its_queues(
    lost: Callable[[], rq_dlq.BrokerUnavailable], caplog: pytest.LogCaptureFixture
) -> None:
    """Reports go to another one."""
    caplog.set_level("INFO", "rq_dlq.worker")
    noted, logger = Vitals(lambda: False), logging.getLogger("rq_dlq.worker")
    for _ in range(3):
        for name in ("orders", "mails"):
            noted.note_failure(f"{name}: cannot claim", lost(), logger, logging.ERROR, name)
            noted.note_failure(f"{name}: cannot ack", lost(), logger, logging.ERROR, name)
        noted.note_success("invoices", logger)
        noted.note_redis("", logger)
    first = ["orders: cannot claim: a node", "mails: cannot claim: a node"]
    assert caplog.messages == first
    for _ in range(2):
        noted.note_success("orders", logger)
    noted.note_failure("orders: cannot ack", lost(), logger, logging.ERROR, "orders")
    assert caplog.messages == [*first, "orders: Redis is back", "orders: cannot ack: a node"]


@contextmanager
def _maintaining(maintenance: Maintenance) -> Iterator[None]:
    thread = threading.Thread(target=maintenance.run)
    thread.start()
    yield
    maintenance.stop()
    thread.join(15)
    assert not thread.is_alive()


def test_claims_that_are_refused_are_told(broker: rq_dlq.Broker, server: str, working: Working) -> None:
    broker.queue("orders").handler(concurrency=2)(print)
    with redis.Redis(unix_socket_path=server) as raw, working(broker) as worker:
        wait_until(lambda: is_ready(worker.vitals))
        raw.set("rq:{orders}:leases", "no index")
        broker.queue("orders").send(1)
        wait_until(lambda: "WRONGTYPE" in failed(worker.vitals.ready()).get("orders", ""))
        assert failed(worker.vitals.live()) == {}
        raw.delete("rq:{orders}:leases")
        wait_until(lambda: is_ready(worker.vitals))
