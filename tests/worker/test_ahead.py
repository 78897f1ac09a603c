"""What async handlers have claimed ahead."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

import rq_dlq
from rq_dlq.worker import Worker
from rq_dlq.worker.claiming import Pace
from tests.servers import wait_until
from tests.tables import each_row
from tests.worker.conftest import Working


def test_it_is_what_starts_soon() -> None:
    pace = Pace(at_once=8)
    assert pace.ahead == 0  # the pace is not known yet
    pace.note(0.1)
    assert pace.ahead == 8
    pace.note(0.0)
    assert pace.ahead == 10
    for _ in range(20):
        pace.note(10.0)
    assert pace.ahead == 0


@pytest.mark.parametrize("blocks", [False, True], ids=["awaits", "blocks"])
def test_what_waits_behind_a_stuck_call_is_given_back(
    blocks: bool, broker: rq_dlq.Broker, server: str, working: Working
) -> None:
    queue, go_on, stuck = broker.queue("a"), threading.Event(), threading.Event()

    @queue.handler(concurrency=1)
    async def handle(body: Any) -> None:
        if body == "stuck":
            stuck.set()
            while not (go_on.wait(2) if blocks else go_on.is_set()):  # noqa: ASYNC110 - a condition elsewhere
                await asyncio.sleep(0.05)  # for the reply to a claim that was under way

    queue.send_many([*range(200), "stuck", *range(50)])
    helped: list[Any] = []
    with rq_dlq.Broker(f"unix://{server}") as other, working(broker):
        other.queue("a").handler()(helped.append)
        assert stuck.wait(60)
        with working(other):
            wait_until(lambda: len(helped) == 50)
        go_on.set()
        wait_until(lambda: queue.stats().totals["acked"] == 251)
    assert queue.stats().totals.get("lapsed", 0) == 0


@each_row("colour", ["def", "async def"])
def test_no_handler_gets_what_outlived_its_time_since_its_claim(colour: str, broker: rq_dlq.Broker) -> None:
    """I7: it is given back, so that the server expires it."""
    queue, outlived = broker.queue(colour.replace(" ", "-")), 0

    def note(body: int, delivery: rq_dlq.Delivery[int] | rq_dlq.asyncio.Delivery[int]) -> None:
        nonlocal outlived
        outlived += delivery._time_to_live(time.monotonic()) <= 0
        if body % 50 == 0:  # as if the claim had been an hour ago
            delivery._lease.read_at -= 3_600

    async def note_awaiting(body: int, delivery: rq_dlq.asyncio.Delivery[int]) -> None:
        note(body, delivery)

    queue.handler(concurrency=1)(note if colour == "def" else note_awaiting)
    queue.send_many(range(300), ttl="1h")
    queue.send_many(range(50, 55))
    Worker(broker, queues={queue.name: None}, until="empty").run()
    totals = queue.stats().totals
    assert (outlived, totals["acked"]) == (0, 305)
    assert totals["released"] > 0


def test_a_handler_of_expired_messages_gets_them(broker: rq_dlq.Broker) -> None:
    queue, seen = broker.queue("a"), list[int]()
    queue.send_many(range(3), ttl="1ms")
    wait_until(lambda: queue.maintain() and queue.stats().expired == 3)

    @broker.queue("EXP.a").handler()
    def handle(body: int, delivery: rq_dlq.Delivery[int]) -> None:
        delivery._lease.read_at -= 3_600
        seen.append(body)

    Worker(broker, until="empty").run()
    assert seen == [0, 1, 2]


def test_it_is_given_back_at_the_stop(broker: rq_dlq.Broker) -> None:
    queue, worker = broker.queue("a"), list[Worker]()

    @queue.handler(concurrency=2)
    async def handle(body: Any) -> None:
        if body == "the end":
            worker[0].stop.signal()

    queue.send_many([*range(200), "the end", *range(50)])
    worker.append(Worker(broker))
    worker[0].run()
    stats = queue.stats()
    assert stats.leased == 0
    assert stats.ready + stats.totals["acked"] == 251


def test_what_was_lost_before_its_call_began_is_dropped(
    broker: rq_dlq.Broker, server: str, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was frozen for longer than the lease."""
    monkeypatch.setattr("rq_dlq.worker.async_consumer.STUCK_AFTER", 60)
    queue, lost, go_on = broker.queue("a", lease=1), threading.Event(), threading.Event()
    seen: list[Any] = []

    @queue.handler(concurrency=1)
    async def handle(body: Any) -> None:
        seen.append(body)
        if body == "block":
            lost.set()
            go_on.wait(60)

    queue.send_many([*range(200), "block", *range(200, 250)])
    after = set(range(200, 250))
    with rq_dlq.Broker(f"unix://{server}") as other, working(broker):
        assert lost.wait(60)
        done_elsewhere(other, after)
        go_on.set()
        wait_until(lambda: queue.stats().totals["acked"] == 251)
    assert not after & set(seen)


def done_elsewhere(other: rq_dlq.Broker, bodies: set[int]) -> None:
    """Let another consumer take and ack these messages, as soon as their leases are over."""
    taken, queue = list[rq_dlq.Delivery](), other.queue("a")

    def take() -> bool:
        taken.extend(queue.claim(1_000))
        return bodies <= {delivery.body for delivery in taken}

    wait_until(take)
    queue.ack(taken)


def test_a_call_that_has_a_task_already_does_not_begin_when_its_lease_is_over(
    broker: rq_dlq.Broker, server: str, working: Working
) -> None:
    """Of those that begin together, one blocks the event loop for longer than the lease."""
    queue, blocks, go_on = broker.queue("a", lease=1), threading.Event(), threading.Event()
    seen = list[Any]()

    @queue.handler(concurrency=8, timeout=1)  # its leases are kept for so long
    async def handle(body: Any) -> None:
        seen.append(body)
        if body == "block":
            blocks.set()
            go_on.wait(60)
        await asyncio.sleep(0)

    queue.send_many(["first", "block", *range(6)])
    with rq_dlq.Broker(f"unix://{server}") as other, working(broker) as worker:
        assert blocks.wait(60)
        done_elsewhere(other, set(range(6)))
        go_on.set()
        wait_until(lambda: sum(map(worker.tally.counts.__getitem__, ("lost", "gone"))) >= 6)
        queue.send("last")
        wait_until(lambda: "last" in seen)
    assert seen == ["first", "block", "last"]
