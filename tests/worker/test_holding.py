"""What a consumer holds is kept, settled or given back: whatever fails, blocks or comes to its end."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from typing import Any

import pytest
import redis

import rq_dlq
from rq_dlq import BrokerRefused, BrokerUnavailable, MissingRights, RedeliveryPolicy, RqDlqError
from rq_dlq._redis.awaiting.link import AsyncLink
from rq_dlq._redis.blocking.link import Link
from rq_dlq.core.settling import settle
from rq_dlq.worker import Worker
from rq_dlq.worker.claiming import Pace
from tests.behaviour.helpers import after
from tests.servers import wait_until
from tests.servers.counts import verbs_run
from tests.worker.conftest import Ahead, Working
from tests.worker.test_suspects import suspects

COLOURS = pytest.mark.parametrize("colour", ["def", "async def"])
FOR_EVER = 1_000_000
BODY = "the body of the message"


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is tried again soon."""
    for module in (
        "claimer",
        "holding",
        "thread_consumer",
        "async_consumer",
        "leases",
        "consumer",
        "async_settling",
    ):
        monkeypatch.setattr(f"rq_dlq.worker.{module}.RETRY_AFTER", 0.01)


def fail(monkeypatch: pytest.MonkeyPatch, verb: str, *errors: Exception) -> list[Exception]:
    """Let the next calls of a verb fail like this; returns the errors that are left."""
    real, left = getattr(settle, verb), [*errors]

    def failing(*arguments: Any, **options: Any) -> Any:
        if left:
            raise left.pop(0)
        return real(*arguments, **options)

    monkeypatch.setattr(settle, verb, failing)
    return left


def handle(queue: Any, colour: str, act: Callable[[Any], object], **options: Any) -> None:
    async def awaiting(body: Any) -> None:
        act(body)

    queue.handler(**options)(act if colour == "def" else awaiting)


class Held:
    """A handler that runs until it may end."""

    def __init__(self, queue: Any, colour: str, **options: Any) -> None:
        self.began, self.may_end = threading.Event(), threading.Event()
        queue.handler(**options)(self.plain if colour == "def" else self.awaiting)

    def plain(self, _: Any) -> None:
        self.began.set()
        assert self.may_end.wait(60)

    async def awaiting(self, _: Any) -> None:
        self.began.set()
        while not self.may_end.is_set():  # noqa: ASYNC110 - a condition elsewhere
            await asyncio.sleep(0.01)


def lease_end(raw: Any) -> float:
    """When the only lease of queue a ends, milliseconds; infinite: there is none."""
    leases = raw.zrange("rq:{a}:leases", 0, -1, withscores=True)
    return float(leases[0][1]) if leases else float("inf")


@COLOURS
def test_the_lease_is_kept_until_the_ack_succeeds(
    colour: str, broker: rq_dlq.Broker, raw: Any, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, handled = broker.queue("a", lease=1), list[int]()
    handle(queue, colour, handled.append)
    refused = fail(monkeypatch, "ack", *[BrokerUnavailable("no server")] * FOR_EVER)
    queue.send(1)
    with working(broker):
        wait_until(lambda: handled)
        first = lease_end(raw)
        wait_until(lambda: lease_end(raw) > first, 20)
        refused.clear()
        wait_until(lambda: queue.stats().totals.get("acked") == 1)
    assert handled == [1]


@COLOURS
def test_an_extension_that_failed_is_tried_again_soon(
    colour: str, broker: rq_dlq.Broker, raw: Any, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only after another third of the lease: an outage of two thirds may leave enough of it."""
    queue = broker.queue("a", lease=6)
    held = Held(queue, colour)
    left = fail(monkeypatch, "extend", *[BrokerUnavailable("no server")] * 5)
    queue.send(1)
    with working(broker):
        assert held.began.wait(20)
        first = lease_end(raw)
        wait_until(lambda: lease_end(raw) > first)
        extended = raw.time()[0] * 1000
        held.may_end.set()
    assert not left
    assert extended < first
    assert queue.stats().totals == {"sent": 1, "acked": 1}


def test_leases_that_cannot_be_kept_end_the_worker(
    broker: rq_dlq.Broker, ahead: Ahead, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault in the event loop ends it like one in the worker's thread."""
    queue = broker.queue("a", lease="1h")
    held, worker = Held(queue, "async def"), Worker(broker)
    fail(monkeypatch, "extend", AssertionError("a fault of the program"))
    queue.send(1)
    with ThreadPoolExecutor() as threads:
        running = threads.submit(worker.run)
        try:
            assert held.began.wait(60)
            ahead.seconds = 7_200
            ended = running.exception(60)
        finally:
            worker.stop.signal()
            held.may_end.set()
    assert (type(ended), "a consumer failed" in str(ended)) == (RqDlqError, True)
    assert queue.stats().leased == 0


def test_a_call_that_ended_does_not_lose_its_lease_while_it_runs(
    broker: rq_dlq.Broker, raw: Any, working: Working, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """Its settlement says that the lease was lost."""
    caplog.set_level(logging.INFO, "rq_dlq")
    queue = broker.queue("a", lease=2, redelivery=after("0s"))
    refused = fail(monkeypatch, "settle_by_error", *[BrokerUnavailable("no server")] * FOR_EVER)
    handle(queue, "async def", int, concurrency=1, ack_each=True)
    queue.send("no number")

    def stolen() -> bool:
        raw.zadd("rq:{a}:leases", {token: 1})
        return bool(broker.queue("a", lease="1m").claim())

    with working(broker):
        wait_until(lambda: len(refused) < FOR_EVER)
        (token,) = raw.zrange("rq:{a}:leases", 0, -1)
        wait_until(stolen)  # unless the worker is faster, and extends it
        asked = verbs_run(raw)
        wait_until(lambda: verbs_run(raw) > asked + 1)
        refused.clear()
        wait_until(lambda: "the result of attempt 1 is ignored" in caplog.text)
    assert "while its handler runs" not in caplog.text


@COLOURS
def test_what_was_given_up_makes_no_later_failure_final(
    colour: str, broker: rq_dlq.Broker, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusals of the first ack, a lease ago, do not count for the next one."""
    queue, handled = broker.queue("a", lease=1), list[int]()
    handle(queue, colour, handled.append)
    fail(monkeypatch, "ack", MissingRights("no right"), BrokerRefused("the disk is full"))
    queue.send(1)
    with working(broker):
        wait_until(lambda: queue.stats().totals.get("acked") == 1)
    assert handled == [1, 1]


@COLOURS
def test_what_was_not_begun_at_the_stop_is_released_when_that_is_not_refused_any_more(
    colour: str, broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, left = broker.queue("a"), list[list[Exception]]()

    def act(body: int) -> None:
        if body == 150:
            left.append(fail(monkeypatch, "release", *[BrokerRefused("the disk is full")] * 5))
            worker.stop.signal()

    handle(queue, colour, act)
    queue.send_many(range(300))
    worker = Worker(broker)
    worker.run()
    assert left == [[]]
    assert queue.stats().leased == 0


@COLOURS
def test_what_a_last_claim_took_is_given_back_though_its_reply_was_lost(
    colour: str, broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, lost = broker.queue("a"), list[str]()
    blocking, awaiting = Link.talk, AsyncLink.talk

    def lose(replies: list[Any]) -> list[Any]:
        if BODY in str(replies) and len(lost) < 3:
            lost.append("a claim")
            worker.stop.signal()
            message = "the reply was lost"
            raise redis.ConnectionError(message)
        return replies

    async def talk_awaiting(self: AsyncLink, commands: list[Any]) -> list[Any]:
        return lose(await awaiting(self, commands))

    handle(queue, colour, print)
    queue.send(BODY)
    monkeypatch.setattr(Link, "talk", lambda self, commands: lose(blocking(self, commands)))
    monkeypatch.setattr(AsyncLink, "talk", talk_awaiting)
    worker = Worker(broker)
    worker.run()
    assert lost
    assert (queue.stats().ready, queue.stats().leased) == (1, 0)


def broken_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next claim, and all that follow, fail by a fault of the program."""

    def broken(*_: object, **__: object) -> Any:
        message = "a fault of the program"
        raise AssertionError(message)

    monkeypatch.setattr(import_module("rq_dlq.core.claiming.claim"), "claim_call", broken)


@COLOURS
def test_a_consumer_that_fails_loses_no_ack(
    colour: str, broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle(broker.queue("a"), colour, lambda _: broken_claims(monkeypatch))
    broker.queue("a").send(1)
    worker = Worker(broker)
    with pytest.raises(RqDlqError, match="a consumer failed"):
        worker.run()
    assert worker.tally.counts == {"acked": 1}


def test_the_calls_of_a_consumer_that_fails_run_to_their_end(
    broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With their leases: another consumer, on which the worker waits, may run for long."""
    queue, worker = broker.queue("a"), list[Worker]()

    @queue.handler(concurrency=2)
    async def handle(body: Any) -> None:
        if body == "breaks":
            broken_claims(monkeypatch)
        else:
            while not worker[0].stop.broken:  # noqa: ASYNC110 - a condition elsewhere
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)

    queue.send_many(["waits", "breaks"])
    worker.append(Worker(broker))
    with pytest.raises(RqDlqError, match="a consumer failed"):
        worker[0].run()
    assert worker[0].tally.counts == {"acked": 2}


@pytest.mark.parametrize("ends", [False, True], ids=["works", "is stopped"])
def test_what_ended_before_a_call_that_blocks_the_event_loop_is_acked(
    ends: bool, broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch, working: Working
) -> None:
    monkeypatch.setattr("rq_dlq.worker.worker.GRACE", 0.2)
    queue, blocks, go_on = broker.queue("a"), threading.Event(), threading.Event()

    @queue.handler(concurrency=2)
    async def handle(body: Any) -> None:
        if body == "blocks":
            blocks.set()
            go_on.wait(60)

    queue.send_many(["ends", "blocks"])
    if ends:
        monkeypatch.setattr("rq_dlq.worker.async_consumer.STUCK_AFTER", 60)
    with working(broker) as worker:
        assert blocks.wait(20)
        if ends:
            worker.stop.signal()
            worker.stop.signal()
            wait_until(lambda: queue.stats().leased == 0)
            wait_until(lambda: worker.tally.counts == {"acked": 1, "released": 1})
        else:
            wait_until(lambda: queue.stats().totals.get("acked") == 1)
        go_on.set()


def test_a_suspect_that_was_lost_before_it_began_keeps_no_permit(
    broker: rq_dlq.Broker, raw: Any, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else no suspect ever ran in this process again."""
    monkeypatch.setattr("rq_dlq.worker.async_consumer.STUCK_AFTER", 60)
    monkeypatch.setattr("rq_dlq.worker.async_consumer.Pace", partial(Pace, soon=60.0))
    policy = RedeliveryPolicy(delays=[0], max_redeliveries=9)
    queue, seen, go_on = broker.queue("a", lease=2, redelivery=policy), list[Any](), threading.Event()

    @queue.handler(concurrency=1)
    async def handle(body: Any) -> None:
        seen.append(body)
        while body == "runs" and not go_on.is_set():  # noqa: ASYNC110 - a condition elsewhere
            await asyncio.sleep(0.01)

    suspects(queue, "suspect")
    queue.send_many([*range(20), "runs"], priority=9)
    with working(broker) as worker:
        wait_until(lambda: "runs" in seen and queue.stats().leased == 2)  # the suspect is claimed ahead
        raw.zadd("rq:{a}:leases", dict.fromkeys(raw.zrange("rq:{a}:leases", 0, -1), 1))
        taken = broker.queue("a", lease="1m").claim(2)
        wait_until(lambda: worker.tally.counts["lost"])
        queue.release(taken)
        go_on.set()
        wait_until(lambda: "suspect" in seen, 20)
