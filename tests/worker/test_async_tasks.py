"""The tasks of async calls: one for each call that waits, one for all that wait for nothing."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Coroutine
from contextlib import suppress
from contextvars import ContextVar, copy_context
from typing import Any

import pytest

import rq_dlq
from rq_dlq.worker import Worker
from rq_dlq.worker.async_tasks import AsyncTasks, _is_unchanged

MANY = 40
VARIABLE = ContextVar("variable", default="")


class Unequal:
    """A value that cannot be compared, as an array."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("which element?")

    __hash__ = object.__hash__


HELD: ContextVar[Any] = ContextVar("held")


def own_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


async def turns(count: int) -> None:
    """So many turns of the event loop."""
    for _ in range(count):
        await asyncio.sleep(0)


def work_off(broker: rq_dlq.Broker) -> Counter[str]:
    worker = Worker(broker, until="empty")
    worker.run()
    return worker.tally.counts


def test_calls_that_wait_for_nothing_share_tasks(broker: rq_dlq.Broker) -> None:
    queue, tasks = broker.queue("a"), list[asyncio.Task[Any]]()

    @queue.handler(concurrency=MANY)
    async def handle(body: int) -> None:
        del body
        tasks.append(own_task())

    queue.send_many(range(MANY))
    assert work_off(broker) == {"acked": MANY}
    assert len(tasks) == MANY
    assert len(set(tasks)) < MANY / 2


@pytest.mark.parametrize("share", [1, 2, 3])
def test_a_call_that_waits_has_its_task_for_itself(share: int, broker: rq_dlq.Broker) -> None:
    queue = broker.queue("a")
    began, after_waiting = list[tuple[int, asyncio.Task[Any]]](), list[asyncio.Task[Any]]()

    @queue.handler(concurrency=MANY)
    async def handle(body: int) -> None:
        assert own_task() not in after_waiting, "it began in the task of one that had waited"
        began.append((body, own_task()))
        if body % share == 0:
            await asyncio.sleep(0)
            after_waiting.append(own_task())

    queue.send_many(range(MANY))
    assert work_off(broker) == {"acked": MANY}
    waited = [task for body, task in began if body % share == 0]
    assert len(set(waited)) == len(waited) == len(after_waiting)


def test_calls_that_wait_run_side_by_side(broker: rq_dlq.Broker) -> None:
    queue, together = broker.queue("a"), asyncio.Barrier(MANY)

    @queue.handler(concurrency=MANY)
    async def handle(body: int) -> None:
        del body
        await together.wait()

    queue.send_many(range(MANY))
    assert work_off(broker) == {"acked": MANY}


async def test_what_has_waited_runs_no_other_call() -> None:
    """Not even in the turn in which others begin."""
    go, ran = asyncio.Event(), dict[str, asyncio.Task[Any]]()

    async def run(delivery: Any) -> None:
        ran[delivery] = own_task()
        if str(delivery) == "waits":
            await go.wait()
        tasks.running.pop(delivery)

    unstarted: deque[Any] = deque(["waits", "b"])
    tasks = AsyncTasks(unstarted, run, lambda: True, 9, asyncio.get_running_loop().create_task)
    tasks.begin()
    await turns(3)
    assert "b" in ran
    unstarted.extend("cde")
    go.set()  # it goes on in the turn of these
    tasks.begin()
    await turns(3)
    assert len(ran) == 5
    assert ran["c"] is ran["d"] is ran["e"], "these wait for nothing"
    assert ran["waits"] not in {ran["b"], ran["c"]}


async def test_calls_that_wait_share_no_task_where_others_began_in_the_same_turn() -> None:
    """A claim may come back in the turn in which a call ends."""
    ran: list[asyncio.Task[Any]] = []

    async def run(delivery: Any) -> None:
        ran.append(own_task())
        await asyncio.sleep(0)
        tasks.running.pop(delivery)

    unstarted: deque[Any] = deque(range(MANY))
    tasks = AsyncTasks(unstarted, run, lambda: True, 3, asyncio.get_running_loop().create_task)
    tasks.begin()
    tasks.begin()
    await turns(MANY)
    assert len(set(ran)) == len(ran) == 3


async def test_a_task_may_run_before_it_is_known() -> None:
    """As the eager ones of Python 3.12."""
    ran: list[int] = []

    async def run(delivery: Any) -> None:
        ran.append(delivery)

    def create(coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        with suppress(StopIteration):
            coroutine.send(None)
        return asyncio.create_task(asyncio.sleep(0))

    tasks = AsyncTasks(deque[Any](range(5)), run, lambda: True, 9, create)
    tasks.begin()
    await turns(2)
    assert ran == list(range(5))


async def test_contexts_are_compared_without_their_values() -> None:
    HELD.set(Unequal())
    before, task = copy_context(), asyncio.create_task(turns(1))
    assert _is_unchanged(task, before)
    HELD.set(Unequal())
    assert not _is_unchanged(task, before)
    await task


def test_no_call_sees_what_another_set(broker: rq_dlq.Broker) -> None:
    queue, seen = broker.queue("a"), list[object]()

    @queue.handler(concurrency=MANY)
    async def handle(body: int) -> None:
        del body
        seen.append(HELD.get(None))
        HELD.set("of another call")

    queue.send_many(range(MANY))
    assert work_off(broker) == {"acked": MANY}
    assert seen == [None] * MANY


def test_what_a_call_resets_leaves_no_trace(broker: rq_dlq.Broker) -> None:
    queue, tasks = broker.queue("a"), set[asyncio.Task[Any]]()

    @queue.handler(concurrency=MANY)
    async def handle(body: int) -> None:
        tasks.add(own_task())
        token = VARIABLE.set(str(body))
        VARIABLE.reset(token)

    queue.send_many(range(MANY))
    assert work_off(broker) == {"acked": MANY}
    assert len(tasks) < MANY / 2


def test_a_call_that_cancels_its_task_is_the_last_one_there(broker: rq_dlq.Broker) -> None:
    queue, seen = broker.queue("a"), list[int]()

    @queue.handler(concurrency=MANY)
    async def handle(body: int) -> None:
        assert not own_task().cancelling()
        seen.append(body)
        own_task().cancel()

    queue.send_many(range(MANY))
    assert work_off(broker) == {"acked": MANY}
    assert sorted(seen) == list(range(MANY))


def test_a_cancellation_that_is_taken_back_reaches_no_other_call(broker: rq_dlq.Broker) -> None:
    queue = broker.queue("a")

    @queue.handler(concurrency=MANY)
    async def handle(body: int) -> None:
        if body % 2:
            await asyncio.sleep(0)
        own_task().cancel()
        own_task().uncancel()

    queue.send_many(range(MANY))
    assert work_off(broker) == {"acked": MANY}


def test_a_call_that_waits_for_the_end_of_its_task_is_the_last_one_there(broker: rq_dlq.Broker) -> None:
    queue, lock = broker.queue("a"), asyncio.Lock()

    @queue.handler(concurrency=MANY, timeout="10s")
    async def handle(body: int) -> None:
        del body
        await lock.acquire()
        own_task().add_done_callback(lambda _: lock.release())

    queue.send_many(range(MANY))
    assert work_off(broker) == {"acked": MANY}


def test_no_more_than_the_concurrency_run_at_once(broker: rq_dlq.Broker) -> None:
    queue, most, running = broker.queue("a"), 0, 0

    @queue.handler(concurrency=3)
    async def handle(body: int) -> None:
        nonlocal most, running
        running += 1
        most = max(most, running)
        if body % 3:
            await asyncio.sleep(0)
        running -= 1

    queue.send_many(range(MANY))
    assert work_off(broker) == {"acked": MANY}
    assert 1 < most <= 3
