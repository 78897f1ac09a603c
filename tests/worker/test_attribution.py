"""A worker that is killed with a batch in its hands: who is charged."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

import rq_dlq
from rq_dlq import _work
from rq_dlq._redis import FAIL_FAST
from rq_dlq.attribution import Attribution
from tests.reliability.crowd import Crowd
from tests.servers import wait_until
from tests.worker.conftest import Working
from tests.worker.killed import queue_of, work

COLOURS = pytest.mark.parametrize("colour", ["def", "async def"])
WORKERS, KILLERS, MESSAGES = 3, 20, 4_000


@COLOURS
def test_only_the_killers_die(colour: str, broker: rq_dlq.Broker, server: str) -> None:
    """Twenty among thousands, with a hundred at a time in a worker's hands and a budget of one redelivery.

    A word of a process that is killed may get lost, since Redis reads no further from who cannot be answered
    any more: then the message of the word before is charged, once, and the killer another time.
    """
    queue = queue_of(broker)
    each = MESSAGES // KILLERS
    queue.send_many("kill" if n % each == each - 1 else n for n in range(MESSAGES))
    with Crowd() as crowd:
        names = (f"worker.{n}" for n in count())
        deaths: Counter[int | None] = Counter()

        def all_done() -> bool:
            for name in [name for name, process in crowd.processes.items() if process.exitcode is not None]:
                deaths[crowd.processes[name].exitcode] += 1
                crowd.kill(name)
            while len(crowd.processes) < WORKERS:
                crowd.start(next(names), work, f"unix://{server}", colour)
            stats = queue.stats()
            return stats.waiting + stats.leased == 0

        wait_until(all_done, 90)
    totals = queue.stats().totals
    letters = queue.dlq.browse(limit=MESSAGES)
    assert [(letter.body, letter.reason, letter.lapsed) for letter in letters] == [
        ("kill", "exhausted", 2)
    ] * KILLERS
    assert totals["acked"] == MESSAGES - KILLERS
    assert 0 <= totals["lapsed"] - 2 * KILLERS <= WORKERS
    assert totals["released"] > 10 * KILLERS  # that many were in the hands of those who died
    assert deaths.keys() == {-signal.SIGKILL}


def disconnect(raw: Any) -> None:
    raw.client_kill_filter(_type="normal", skipme=True)


def forget_scripts(raw: Any) -> None:
    raw.script_flush()


def nothing(raw: Any) -> None:
    del raw


@pytest.mark.parametrize("trouble", [disconnect, forget_scripts])
def test_what_broke_is_mended_before_the_next_claim(
    trouble: Callable[[Any], None], broker: rq_dlq.Broker, raw: Any
) -> None:
    """Else that claim is charged as a whole, should its worker die."""
    queue = broker.queue("a")
    attribution = Attribution(queue.work, broker.connect(FAIL_FAST))
    for round_ in range(3):
        queue.send_many(range(5))
        assert attribution.ready(5), round_
        steps = _work.claim(queue.work, queue.delivery, count=5, attributed=True)
        deliveries = broker.connections.run(steps)
        attribution.take(deliveries)
        attribution.begin(deliveries[1])
        trouble(raw)
        if round_ % 2:
            attribution.begin(deliveries[2])  # this may be lost
    attribution.close()


@pytest.mark.parametrize("trouble", [nothing, disconnect, forget_scripts])
@COLOURS
def test_it_is_said_what_begins(
    colour: str, trouble: Callable[[Any], None], broker: rq_dlq.Broker, raw: Any, working: Working
) -> None:
    """Before the handler runs; and what keeps it from being said stops no worker, and passes."""
    queue, told, troubled = broker.queue("a"), set[int](), list[int]()

    def plain(body: int, delivery: Any) -> None:
        if body == 50:
            trouble(raw)
            troubled.append(body)
        held, begun = raw.hmget("rq:{a}:claims", f"{delivery.token}:held", f"{delivery.token}:begun")
        if held != b"1" and begun == delivery.id.encode():
            told.add(body)

    async def awaiting(body: int, delivery: Any) -> None:
        plain(body, delivery)

    queue.handler(concurrency=1 if colour == "def" else 10)(plain if colour == "def" else awaiting)
    with working(broker):
        for first in range(0, 2_000, 100):
            queue.send_many(range(first, first + 100))
            wait_until(lambda: queue.stats().waiting + queue.stats().leased == 0)
            if troubled and len([body for body in told if body > 100]) > 10:
                break
    assert len([body for body in told if body > 100]) > 10
    assert queue.stats().totals.get("lapsed", 0) == 0
