"""A task that is cancelled ends, wherever its call is: as it connects, writes, or waits for the reply."""

from __future__ import annotations

import asyncio
import gc
from itertools import count

import pytest

import rq_dlq.asyncio


@pytest.mark.parametrize("new", [True, False], ids=["new connection", "idle connection"])
async def test_a_cancelled_call_ends(redis_socket: str, *, new: bool) -> None:
    """It is cancelled at each turn of the event loop, until it is done before."""
    for turns in count():
        async with rq_dlq.asyncio.Broker(f"unix://{redis_socket}", namespace="cancelled") as broker:
            if not new:
                await broker.queue("a").stats()
            call = asyncio.create_task(broker.queue("a").stats())
            for _ in range(turns):
                await asyncio.sleep(0)
            if call.done():
                assert turns > 2
                return
            call.cancel("enough")
            with pytest.raises(asyncio.CancelledError, match="enough"):
                await call
            assert (await broker.queue("a").stats()).ready == 0  # the connections are in order


@pytest.mark.parametrize("new", [True, False], ids=["new connection", "idle connection"])
@pytest.mark.parametrize("pause", [0, 1, 2])
def test_a_call_that_is_cancelled_twice_leaves_no_connection_open(
    redis_socket: str, pause: int, *, new: bool
) -> None:
    """The second time, the connection of the first is being closed; and then the event loop ends."""

    async def cancelled_after(turns: int) -> bool:
        async with rq_dlq.asyncio.Broker(f"unix://{redis_socket}", namespace="cancelled") as broker:
            if not new:
                await broker.queue("a").stats()
            call = asyncio.create_task(broker.queue("a").stats())
            await pass_turns(turns)
            if call.done():
                return False
            call.cancel()
            await pass_turns(pause)
            call.cancel()
            await asyncio.wait([call])
        return True

    async def pass_turns(number: int) -> None:
        for _ in range(number):
            await asyncio.sleep(0)

    turns = 0
    while asyncio.run(cancelled_after(turns)):
        turns += 1
    gc.collect()  # finds what was left open, which fails the test
    assert turns > 2
