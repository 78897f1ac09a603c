"""A worker with an awaiting broker: the same handlers, of both colours."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import rq_dlq
import rq_dlq.asyncio
from rq_dlq import ConfigurationError, RqDlqError
from tests.worker.test_handlers import COLOURS, register


@pytest.fixture
async def awaiting(server: str, raw: Any) -> AsyncIterator[rq_dlq.asyncio.Broker]:
    del raw
    async with rq_dlq.asyncio.Broker(f"unix://{server}") as broker:
        yield broker


@COLOURS
async def test_it_runs_handlers_of_both_colours(colour: str, awaiting: rq_dlq.asyncio.Broker) -> None:
    queue, seen = awaiting.queue("a", type=int), list[int]()
    register(queue, colour, lambda body, _: seen.append(body), concurrency=3)
    await queue.send_many(range(100))
    await awaiting.run(burst=True)
    assert sorted(seen) == list(range(100))
    assert (await queue.stats()).totals["acked"] == 100


@COLOURS
async def test_the_delivery_has_the_colour_of_the_handler(
    colour: str, awaiting: rq_dlq.asyncio.Broker
) -> None:
    queue, kinds = awaiting.queue("a"), set[type]()
    register(queue, colour, lambda _, delivery: kinds.add(type(delivery)))
    await queue.send("x")
    await awaiting.run(burst=True)
    assert kinds == {rq_dlq.Delivery if colour == "def" else rq_dlq.asyncio.Delivery}


async def test_async_handlers_run_in_the_loop_that_awaits_the_worker(awaiting: rq_dlq.asyncio.Broker) -> None:
    loops = list[Any]()

    @awaiting.queue("a").handler
    async def handle(body: Any) -> None:
        del body
        loops.append(asyncio.get_running_loop())

    await awaiting.queue("a").send("x")
    await awaiting.run(burst=True)
    assert loops == [asyncio.get_running_loop()]


@pytest.mark.parametrize("how", ["signal", "cancel"])
async def test_it_ends_by_a_signal_or_a_cancellation_when_what_runs_is_done(
    how: str, awaiting: rq_dlq.asyncio.Broker
) -> None:
    queue, begun, go_on, ended = awaiting.queue("a"), asyncio.Event(), asyncio.Event(), list[int]()

    @queue.handler
    async def handle(body: int) -> None:
        begun.set()
        await go_on.wait()
        ended.append(body)

    await queue.send_many([1, 2])
    running = asyncio.create_task(awaiting.run())
    await asyncio.wait_for(begun.wait(), 10)
    if how == "signal":
        os.kill(os.getpid(), signal.SIGTERM)
    else:
        running.cancel()
    await asyncio.wait([running], timeout=0.1)
    assert not running.done()
    go_on.set()
    if how == "signal":
        await running
    else:
        with pytest.raises(asyncio.CancelledError):
            await running
    assert ended == [1]
    stats = await queue.stats()
    assert (stats.ready, stats.leased) == (1, 0)


@pytest.mark.parametrize("how", ["signal", "cancel"])
async def test_it_can_be_stopped_while_it_waits_for_redis(
    how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = rq_dlq.asyncio.Broker(f"unix://{tmp_path}/nobody.sock")
    broker.queue("a").handler(print)
    running = asyncio.create_task(broker.run())
    async with asyncio.timeout(60):
        while "waiting for Redis" not in caplog.text:  # noqa: ASYNC110 - a condition elsewhere
            await asyncio.sleep(0.005)
        if how == "signal":
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            running.cancel()
        await asyncio.wait([running])
    assert running.cancelled() == (how == "cancel")
    assert running.cancelled() or running.exception() is None


async def test_its_errors_are_raised(awaiting: rq_dlq.asyncio.Broker) -> None:
    with pytest.raises(ConfigurationError, match="there is no handler to run"):
        await awaiting.run()
    awaiting.queue("a").handler(print)

    @awaiting.lifespan
    async def resources() -> AsyncIterator[None]:
        _ = {"a": 1}["b"]
        yield

    with pytest.raises(RqDlqError, match=r"the lifespan .*resources failed before the first message"):
        await awaiting.run()


async def test_a_broker_of_a_pool_is_refused() -> None:
    import redis.asyncio  # noqa: PLC0415

    broker = rq_dlq.asyncio.Broker(pool=redis.asyncio.ConnectionPool())
    broker.queue("a").handler(print)
    with pytest.raises(ConfigurationError, match="make this one from a URL, not from a pool"):
        await broker.run()
