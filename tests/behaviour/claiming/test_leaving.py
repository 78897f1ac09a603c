"""Loops of `consume` in an event loop that ends, or whose broker is closed."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress
from typing import Any

import pytest

import rq_dlq
from tests.conftest import MOVED_CLOCK


@pytest.fixture
def backend() -> str:
    """Only the real server."""
    return "real"


@pytest.fixture
def queue(sync_broker: rq_dlq.Broker) -> rq_dlq.Queue[Any]:
    """What is left of it is looked at from outside."""
    return sync_broker.queue("orders")


def test_closing_the_broker_ends_a_loop_that_waits(server: str, raw: Any, queue: rq_dlq.Queue[Any]) -> None:
    seen: list[Any] = []

    async def main() -> None:
        broker = rq_dlq.asyncio.Broker(f"unix://{server}", verbs=MOVED_CLOCK)

        async def loop() -> None:
            async for delivery in broker.queue("orders").consume(wait="1h"):
                async with delivery:
                    seen.append(delivery.body)

        running = asyncio.create_task(loop())
        while not raw.info("clients")["blocked_clients"]:  # noqa: ASYNC110 - a condition elsewhere
            await asyncio.sleep(0.01)
        await broker.close()
        queue.send("later")
        await asyncio.wait_for(running, 15)

    asyncio.run(main())
    assert seen == []
    assert (queue.stats().ready, queue.stats().leased) == (1, 0)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the broker is not closed
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("how", ["break", "return", "raise", "cancelled"])
def test_a_loop_that_is_left_when_the_program_ends_is_ended(
    server: str, queue: rq_dlq.Queue[Any], how: str, count: int
) -> None:
    """asyncio.run cancels what is left, and closes generators."""
    queue.send_many(range(3))

    async def main() -> None:
        broker = rq_dlq.asyncio.Broker(f"unix://{server}", verbs=MOVED_CLOCK)
        async for delivery in broker.queue("orders").consume(count):
            async with delivery:
                pass
            if how == "break":
                break
            if how == "return":
                return
            if how == "raise":
                raise ValueError
            asyncio.current_task().cancel()  # type: ignore[union-attr]
            await asyncio.sleep(0)

    with suppress(ValueError, asyncio.CancelledError):
        asyncio.run(main())
    gc.collect()
    assert (queue.stats().totals["acked"], queue.stats().ready, queue.stats().leased) == (1, 2, 0)
