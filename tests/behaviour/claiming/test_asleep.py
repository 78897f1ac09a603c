"""The claim of a client that sleeps: the server makes it when the wait ends. On a real server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rq_dlq
from rq_dlq._keys import QueueKeys
from rq_dlq.core.claiming.claim import claim, patiently
from rq_dlq.core.queues.queue import QueueName
from rq_dlq.core.steps.call import Call
from rq_dlq.core.steps.replies import Word
from rq_dlq.core.steps.step import MAX_BLOCK, Wait
from rq_dlq.worker.claiming import Permit
from tests.behaviour.faults import lose_replies
from tests.behaviour.helpers import after
from tests.behaviour.stepping import alone
from tests.conftest import MOVED_CLOCK, Clock
from tests.servers import wait_until

WAIT = 30_000


@pytest.fixture
def backend() -> str:
    """Only the real server: the others block in their own way."""
    return "real"


@pytest.fixture
def while_asleep(raw: Any) -> Iterator[Callable[[Callable[[], object]], None]]:
    """Another thread does this as soon as a client sleeps."""
    threads: list[threading.Thread] = []

    def begin(act: Callable[[], object]) -> None:
        def main() -> None:
            wait_until(lambda: raw.info("clients")["blocked_clients"] == 1)
            act()

        threads.append(threading.Thread(target=main))
        threads[-1].start()

    yield begin
    for thread in threads:
        thread.join()


@pytest.fixture
def other(server: str, clock: Clock) -> Iterator[rq_dlq.Broker]:
    """What another thread uses."""
    del clock
    with rq_dlq.Broker(f"unix://{server}", verbs=MOVED_CLOCK) as broker:
        yield broker


Meanwhile = Callable[[Callable[[], object]], None]


def claims(queue: Any, **given: Any) -> Any:
    """The steps of a claim."""
    return claim(queue._core, getattr(queue, "inner", queue)._deliveries, **given)


async def first_wait(broker: Any, queue: Any, permit: Any = None) -> tuple[Any, Wait]:
    """The steps of a claim that found nothing, and the wait that they ask for."""
    steps = claims(queue, wait=WAIT, permit=permit)
    step = next(steps)
    while not isinstance(step, Wait):
        step = steps.send(await broker._run(alone(step)))
    return steps, step


async def test_what_ends_a_wait_is_claimed_in_the_same_round_trip(
    broker: Any, other: rq_dlq.Broker, while_asleep: Meanwhile
) -> None:
    queue = broker.queue("a")
    await queue.open()
    _, wait = await first_wait(broker, queue)
    assert wait.then is not None
    assert wait.then.verb == "claim"
    while_asleep(lambda: other.queue("a").send("x", id="the one"))
    took, claimed = await broker._run(alone(wait))
    assert took >= 0
    assert [row.id for row in claimed.rows] == ["the one"]


async def test_a_lost_reply_to_a_wait_loses_no_message(
    broker: Any, other: rq_dlq.Broker, while_asleep: Meanwhile
) -> None:
    """The server has leased it: the claim is repeated, and gets the same delivery."""
    queue = broker.queue("a")
    await queue.open()
    lost = await lose_replies(broker, "wait")
    while_asleep(lambda: other.queue("a").send("x"))
    (delivery,) = await queue.claim(wait="30s")
    assert (lost.runs, delivery.body, delivery.attempt) == (1, "x", 1)
    await delivery.ack()


async def test_a_server_that_lost_its_functions_meanwhile_gets_them_again(
    broker: Any, raw: Any, while_asleep: Meanwhile
) -> None:
    queue = broker.queue("a")
    await queue.open()
    _, wait = await first_wait(broker, queue)
    raw.script_flush()
    raw.function_flush()
    while_asleep(lambda: raw.lpush(wait.key, 1))
    _, claimed = await broker._run(alone(wait))
    assert claimed.rows == []
    await queue.send("x")
    assert [delivery.body for delivery in await queue.claim()] == ["x"]


async def test_a_client_that_gave_up_takes_nothing(async_broker: Any, while_asleep: Meanwhile) -> None:
    """Its connection is closed, so the server drops its claim."""
    queue = async_broker.queue("a")
    await queue.open()
    waiting = asyncio.create_task(queue.claim(wait="30s"))
    sleeps = asyncio.Event()
    loop = asyncio.get_running_loop()
    while_asleep(lambda: loop.call_soon_threadsafe(sleeps.set))
    await sleeps.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await queue.send("x")
    stats = await queue.stats()
    assert (stats.ready, stats.leased) == (1, 0)


async def test_a_sleeping_consumer_has_no_permit_to_run_a_suspect(broker: Any) -> None:
    """Another consumer of its process may need it meanwhile."""
    queue = broker.queue("a")
    await queue.open()
    only = threading.Lock()
    steps, wait = await first_wait(broker, queue, Permit(only))
    assert not only.locked()
    assert wait.then is not None
    assert wait.then.args["suspects"] == "none"
    steps.close()


async def test_a_suspect_that_wakes_a_worker_is_taken_by_its_next_claim(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after(0))
    await queue.send("x")
    await queue.claim(lease="10s")
    permit = Permit(threading.Lock())
    steps, wait = await first_wait(broker, queue, permit)
    clock.advance("11s")
    assert wait.then is not None
    claimed = await broker._run(alone(wait.then))
    with pytest.raises(StopIteration) as ended:
        steps.send((11_000, claimed))
    assert ended.value.value == []
    assert permit.passed, "it must claim again, with the permit"
    again = await broker._run(claims(queue, permit=permit))
    assert [delivery.body for delivery in again] == ["x"]


Found = tuple[str, int | Word]


def told(
    wait: int, replies: list[tuple[float, Found]], stop_at: int = 99
) -> tuple[str, list[tuple[int, int, bool]]]:
    """What a claim with this wait finds, and what it asked for: each pause (0: none), patience, `alarmed`.

    Args:
        replies: how long each pause took, milliseconds, and what the claim after it found, and said.
        stop_at: the number of the claim before which it is stopped.
    """
    keys, asked = QueueKeys("rq", "a"), list[tuple[int, int, bool]]()

    def once(patience: int, *, alarmed: bool, thorough: bool, asleep: bool) -> Any:
        del thorough
        asked.append((0, patience, alarmed))
        call: Call[Any] = Call("claim", keys, {}, (), lambda reply: reply)
        found: Found = yield call
        assert asleep is (asked[-1][0] > 0)
        return found

    steps = patiently(QueueName("a", keys, "live"), once, wait, lambda: len(asked) >= stop_at)
    step = next(steps)
    for took, found in replies:
        try:
            if isinstance(step, Wait):
                assert step.then is not None
                asked[-1] = (int(step.milliseconds), *asked[-1][1:])
                step = steps.send((took, found))
            else:
                step = steps.send(found)
        except StopIteration as stop:
            return stop.value, asked
    raise AssertionError(f"it goes on: {step}")


NONE: Found = ("", Word.NO_EVENT)
GOT: Found = ("x", 0)


@pytest.mark.parametrize(
    ("wait", "replies", "asked"),
    [
        (0, [(0, NONE)], [(0, 0, False)]),
        (500, [(0, NONE), (500, NONE)], [(0, 500, False), (500, 0, False)]),
        (500, [(0, NONE), (200, GOT)], [(0, 500, False), (500, 0, False)]),
        (  # woken for nothing before the end: its last claim was not the last one
            500,
            [(0, NONE), (200, NONE), (0, NONE), (300, NONE)],
            [(0, 500, False), (500, 0, False), (0, 300, False), (300, 0, False)],
        ),
        (  # it holds the alarm until it says otherwise
            2500,
            [(0, ("", 700)), (700, NONE), (1000, NONE), (800, NONE)],
            [(0, MAX_BLOCK, False), (700, MAX_BLOCK, True), (1000, 800, False), (800, 0, False)],
        ),
        (  # it is late: nothing is left
            500,
            [(0, NONE), (620, NONE)],
            [(0, 500, False), (500, 0, False)],
        ),
        (  # there is more to sweep: it claims again at once
            500,
            [(0, NONE), (200, ("", 0)), (0, GOT)],
            [(0, 500, False), (500, 0, False), (0, 300, False)],
        ),
    ],
)
def test_each_claim_knows_how_long_its_client_can_still_wait(
    wait: int, replies: list[tuple[float, Found]], asked: list[tuple[int, int, bool]]
) -> None:
    assert told(wait, replies) == (replies[-1][1][0], asked)


def test_a_stopped_client_passes_the_alarm_on_without_another_wait() -> None:
    got, asked = told(5000, [(0, ("", 700)), (700, ("", 900)), (0, NONE)], stop_at=2)
    assert (got, asked) == ("", [(0, MAX_BLOCK, False), (700, MAX_BLOCK, True), (0, 0, True)])
