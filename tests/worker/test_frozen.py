"""Redis does not answer: calls end in time all the same."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import rq_dlq
from rq_dlq import _work
from tests.servers import Server
from tests.worker.conftest import Working

NEVER = "?socket_timeout=600"  # seconds; nobody gives up meanwhile


@pytest.mark.parametrize("colour", ["def", "async def"])
@pytest.mark.parametrize("limit", [2.0, None], ids=["timeout", "second signal"])
def test_a_call_is_cut_short_while_its_lease_is_being_extended(
    limit: float | None, colour: str, working: Working, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, ended = threading.Event(), threading.Event()
    extend = _work.extend

    def extends(*arguments: Any) -> _work.Steps[Any]:
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
        monkeypatch.setattr(_work, "extend", extends)
        with working(broker) as worker:
            try:
                assert asked.wait(60)
                if limit is None:
                    worker.stop.signal()
                    worker.stop.signal()
                assert ended.wait(60)
            finally:
                monkeypatch.setattr(_work, "extend", extend)
                server.signal(signal.SIGCONT)
