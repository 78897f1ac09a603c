"""An awaiting broker is used in one event loop at a time."""

from __future__ import annotations

import asyncio
import threading

import pytest

import rq_dlq.asyncio
from rq_dlq import ConfigurationError

pytestmark = pytest.mark.parametrize("backend", ["real"], indirect=True)


def test_another_event_loop_that_runs_meanwhile_is_told_so(server: str) -> None:
    """Its calls would hang or break off, since both would share locks and sockets."""
    broker, over = rq_dlq.asyncio.Broker(f"unix://{server}"), threading.Event()
    ready = threading.Event()

    async def first() -> int:
        await broker.queue("a").send(1)
        ready.set()
        await asyncio.to_thread(over.wait, 60)
        await broker.queue("a").send(2)
        found = (await broker.queue("a").stats()).ready
        await broker.close()
        return found

    async def third() -> None:
        await broker.queue("a").send(3)
        await broker.close()

    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(asyncio.run(first())))
    thread.start()
    try:
        assert ready.wait(60)
        with pytest.raises(ConfigurationError, match="make a broker for each event loop"):
            asyncio.run(third())
    finally:
        over.set()
        thread.join(60)
    assert found == [2]
    asyncio.run(third())  # now that the other has ended
