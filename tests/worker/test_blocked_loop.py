"""A call that blocks the event loop: the leases beside it are kept for a while, and the log names it."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

import rq_dlq
from rq_dlq.worker.blocking import EventLoopWatch
from tests.servers import wait_until
from tests.worker.conftest import Working


def test_each_message_runs_once_though_one_call_blocks_for_three_leases(
    broker: rq_dlq.Broker, raw: Any, server: str, working: Working, caplog: pytest.LogCaptureFixture
) -> None:
    """Beside calls that wait, with a second worker that would take what lapses."""
    queue, may_end, ran = broker.queue("a", lease=0.6), threading.Event(), list[Any]()

    async def handle(body: Any) -> None:
        ran.append(body)
        if body == "blocks":
            may_end.wait(60)
        while not may_end.is_set():  # noqa: ASYNC110 - a condition elsewhere
            await asyncio.sleep(0.01)

    queue.handler(concurrency=20)(handle)
    queue.send_many([*range(39), "blocks"], priority=1)
    with rq_dlq.Broker(f"unix://{server}") as other:
        other.queue("a", lease=0.6).handler(concurrency=20)(handle)
        with working(broker), working(other):
            wait_until(lambda: len(ran) == 40)
            first = min(end for _, end in raw.zrange("rq:{a}:leases", 0, -1, withscores=True))
            wait_until(lambda: raw.time()[0] * 1000 > first + 1_800)
            wait_until(lambda: "the event loop is blocked by" in caplog.text)
            may_end.set()
            wait_until(lambda: queue.stats().totals.get("acked") == 40)
            wait_until(lambda: "the event loop was blocked for" in caplog.text)
    assert sorted(map(str, ran)) == sorted(map(str, [*range(39), "blocks"]))
    assert "lapsed" not in queue.stats().totals
    assert "by handle (a " in caplog.text
    assert "use def, or asyncio.to_thread" in caplog.text


@pytest.mark.parametrize("timeout", [0.9, None])
def test_it_loses_its_leases_in_the_end(
    timeout: float | None, broker: rq_dlq.Broker, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the handler's timeout, or ten leases; then the process is not healthy."""
    monkeypatch.setattr("rq_dlq.worker.leases.BLOCKED_LEASES", 3)
    queue, may_end = broker.queue("a", lease=0.3), threading.Event()

    @queue.handler(timeout=timeout)
    async def handle(_: Any) -> None:
        may_end.wait(60)

    queue.send(1)
    with working(broker) as worker:
        wait_until(lambda: any(check.state == "fail" for check in worker.vitals.live()))
        wait_until(lambda: broker.queue("a", lease="1m").claim())
        may_end.set()


def test_what_blocks_it_has_a_name_if_it_is_no_call(caplog: pytest.LogCaptureFixture) -> None:
    """As a task that a handler made."""
    loop = asyncio.new_event_loop()

    async def sums_up() -> None:
        watch.turn(time.monotonic() - 12)
        watch.look([lambda _: ""])

    watch = EventLoopWatch(loop)
    loop.run_until_complete(sums_up())
    watch.turn(watch._blocked_since + 12)
    watch.look([])
    loop.close()
    assert [line.partition(": use")[0].partition(".<locals>.")[2] or line for line in caplog.messages] == [
        "sums_up",
        "sums_up",
    ]


def test_a_worker_without_async_handlers_has_no_event_loop_that_is_blocked(
    broker: rq_dlq.Broker, working: Working, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rq_dlq.worker.blocking.NOTED_AFTER", 0.0)
    looked = list[bool]()
    monkeypatch.setattr(EventLoopWatch, "_name", lambda *_: str(looked.append(True)))  # type: ignore[func-returns-value]
    broker.queue("a").handler(print)
    broker.queue("a").send(1)
    with working(broker):
        wait_until(lambda: broker.queue("a").stats().totals.get("acked"))
    assert not looked
    assert "event loop" not in caplog.text


def test_a_call_that_does_not_end_at_its_timeout_is_told_once(
    broker: rq_dlq.Broker, working: Working, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a thread one that waits in C code, in the event loop one that catches its cancellation."""
    monkeypatch.setattr("rq_dlq.worker.ending.SAY_AFTER", 0.1)
    caplog.set_level("INFO")
    may_end = threading.Event()

    @broker.queue("a").handler(timeout=0.05)
    def waits(_: Any) -> None:
        may_end.wait(60)

    @broker.queue("b").handler(timeout=0.05)
    async def catches(_: Any) -> None:
        while not may_end.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    ids = [broker.queue(name).send(1) for name in "ab"]
    with working(broker) as worker:
        wait_until(lambda: caplog.text.count("runs longer than its timeout of 50ms") == 2)
        worker.stop.signal()
        wait_until(lambda: "waiting for 2 calls, which a second signal cancels: " in caplog.text)
        may_end.set()
    told = [line for line in caplog.messages if "longer than its timeout" in line]
    assert sorted(told) == [
        f"{name} runs longer than its timeout of 50ms, and does not end"
        for name in sorted([f"waits (a {ids[0]})", f"catches (b {ids[1]})"])
    ]
