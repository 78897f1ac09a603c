"""Workers run on a real Redis with its own clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Any

import pytest
import redis

import rq_dlq
from rq_dlq.client.settings import version_of
from rq_dlq.worker import Worker
from tests import servers
from tests.needs import need_release

Working = Callable[..., AbstractContextManager[Worker]]


@pytest.fixture(params=["real"])
def backend(request: pytest.FixtureRequest) -> str:
    """Only the real server."""
    return str(request.param)


@pytest.fixture
def fillable() -> Iterator[tuple[rq_dlq.Broker, Any]]:
    """A broker of a server of its own, whose memory may be full, and a plain client.

    Before Redis 7 no script may add when it is.
    """
    with (
        servers.running() as path,
        redis.Redis(unix_socket_path=path) as raw,
        rq_dlq.Broker(f"unix://{path}") as broker,
    ):
        need_release(version_of(raw.info("server")["redis_version"]), 7)
        yield broker, raw


@pytest.fixture(autouse=True)
def _prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle worker sees at once that it is to stop."""
    monkeypatch.setattr(import_module("rq_dlq.core.claiming.claim"), "MAX_BLOCK", 50)
    monkeypatch.setattr("rq_dlq.worker.claiming.IDLE_WAIT", 50)


@pytest.fixture
def broker(server: str, raw: Any) -> Iterator[rq_dlq.Broker]:
    """A broker with the server's clock; its keys are audited after the test."""
    del raw
    broker = rq_dlq.Broker(f"unix://{server}")
    yield broker
    broker.close()


class Ahead:
    """The clock by which a worker extends its leases. Moved ahead, it makes all of them due."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        """As `time.monotonic`."""
        return time.monotonic() + self.seconds


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> Ahead:
    """A worker's clock that a test moves; that of the server stays. No call counts as stuck."""
    clock = Ahead()
    for module in ("leases", "consumer", "holding", "thread_consumer", "async_consumer"):
        monkeypatch.setattr(f"rq_dlq.worker.{module}.time", clock)
    for module in ("thread_consumer", "async_consumer"):
        monkeypatch.setattr(f"rq_dlq.worker.{module}.STUCK_AFTER", float("inf"))
    return clock


@pytest.fixture
def working() -> Working:
    """To be used in a with statement; the handlers run in a thread, and must have stopped at its end."""

    @contextmanager
    def run(broker: rq_dlq.Broker, **options: Any) -> Iterator[Worker]:
        worker = Worker(broker, **options)
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            yield worker
        finally:
            worker.stop.signal()
            thread.join(15)
            assert not thread.is_alive(), "the worker did not stop"

    return run
