"""When a worker ends by itself."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import Any

import pytest
from redis import Redis

import rq_dlq
from rq_dlq.core.claiming import claim as claiming
from rq_dlq.core.settling import settle
from rq_dlq.worker import Worker
from rq_dlq.worker.claiming import Pace, Patience
from tests.behaviour.helpers import after
from tests.servers import wait_until
from tests.worker.conftest import Working
from tests.worker.test_handlers import COLOURS, register


def drain(broker: rq_dlq.Broker) -> Worker:
    worker = Worker(broker, until="drained")
    worker.run()
    return worker


@COLOURS
def test_drained_waits_for_redeliveries(colour: str, broker: rq_dlq.Broker) -> None:
    queue = broker.queue("a", redelivery=after("150ms", "150ms", most=2))
    seen: list[Any] = []

    def fail_at_first(body: Any, delivery: Any) -> None:
        seen.append(body)
        if body == "bad" or (body == "late" and delivery.delivery_count == 1):
            raise ValueError(body)

    register(queue, colour, fail_at_first)
    queue.send_many(["good", "bad", "late"])
    worker = drain(broker)
    assert sorted(seen) == ["bad", "bad", "bad", "good", "late", "late"]
    assert queue.stats().dead == 1
    assert worker.tally.counts == {"acked": 2, "redelivered": 3, "dead": 1}


@COLOURS
def test_drained_waits_for_what_another_consumer_holds(
    colour: str, broker: rq_dlq.Broker, working: Working
) -> None:
    queue, seen = broker.queue("a"), list[Any]()
    register(queue, colour, lambda body, _: seen.append(body))
    queue.send_many(["theirs", "ours"])
    (theirs,) = queue.claim()
    with working(broker, until="drained") as worker:
        wait_until(lambda: seen == ["ours"])
        theirs.release()
        wait_until(lambda: seen == ["ours", "theirs"])
        wait_until(lambda: worker.tally.counts["acked"] == 2)
    assert queue.stats().leased == 0


@COLOURS
def test_drained_takes_up_what_another_consumer_lost(colour: str, broker: rq_dlq.Broker) -> None:
    queue = broker.queue("a", redelivery=after("0s", most=5))
    seen: list[int] = []
    register(queue, colour, lambda _, delivery: seen.append(delivery.delivery_count))
    queue.send("x")
    queue.claim(lease="100ms")
    drain(broker)
    assert seen == [2]


@COLOURS
def test_what_comes_while_a_call_runs_is_taken_by_the_others(colour: str, broker: rq_dlq.Broker) -> None:
    queue, came = broker.queue("a"), threading.Event()

    def plain(body: str) -> None:
        if body == "second":
            came.set()
        else:
            queue.send("second")
            assert came.wait(60)

    async def awaiting(body: str) -> None:
        if body == "second":
            came.set()
        else:
            queue.send("second")
            assert await asyncio.to_thread(came.wait, 10)

    queue.handler(concurrency=2)(plain if colour == "def" else awaiting)
    queue.send("first")
    assert drain(broker).tally.counts == {"acked": 2}


@COLOURS
def test_what_the_workers_thread_releases_is_not_left(
    colour: str, broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim finds nothing while the release of what waited behind a long call is on its way."""
    queue, seen = broker.queue("a"), list[int]()
    releasing, empty = threading.Event(), threading.Event()
    release, claim = settle.release, claiming.claim

    def slow_release(*args: Any, **options: Any) -> Any:
        releasing.set()
        assert empty.wait(60)
        return (yield from release(*args, **options))

    def claim_and_say(*args: Any, **options: Any) -> Any:
        found = yield from claim(*args, **options)
        if not found and releasing.is_set():
            empty.set()
        return found

    def handle(body: int, _: Any) -> None:
        seen.append(body)
        if queue.stats().ready == 0:  # the rest is claimed
            assert releasing.wait(60)

    monkeypatch.setattr(settle, "release", slow_release)
    monkeypatch.setattr(claiming, "claim", claim_and_say)
    for consumer in ("thread_consumer", "async_consumer"):
        monkeypatch.setattr(f"rq_dlq.worker.{consumer}.STUCK_AFTER", 0.05)
        monkeypatch.setattr(f"rq_dlq.worker.{consumer}.Pace", partial(Pace, 60.0))  # it claims ahead
    register(queue, colour, handle)
    queue.send_many(range(10))
    Worker(broker, until="empty").run()
    assert sorted(seen) == [*range(10)]


@COLOURS
def test_to_wait_for_the_end_is_no_storm(
    colour: str, broker: rq_dlq.Broker, raw: Redis, working: Working
) -> None:
    queue, rounds = broker.queue("a"), 5
    register(queue, colour, lambda _, __: None)
    queue.send("x")
    (theirs,) = queue.claim()
    raw.config_resetstat()
    with working(broker, until="drained"):
        wait_until(lambda: calls(raw, "blpop") >= rounds)
        verbs = calls(raw, "evalsha")
        theirs.ack()
    assert verbs < 8 * rounds


@COLOURS
def test_an_idle_consumer_claims_once_a_wait(
    colour: str, broker: rq_dlq.Broker, raw: Redis, working: Working
) -> None:
    register(broker.queue("a"), colour, lambda _, __: None)
    raw.config_resetstat()
    with working(broker):
        wait_until(lambda: calls(raw, "blpop") >= 10)
        assert calls(raw, "evalsha") <= calls(raw, "blpop") + 3  # the queue is opened, and claims have begun


def calls(raw: Redis, command: str) -> int:
    return int(raw.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"])


def test_the_end_is_looked_for_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rq_dlq.worker.claiming.IDLE_WAIT", 1_000)
    patience, waits = Patience("drained"), list[int]()
    for _ in range(9):
        waits.append(patience.wait)
        patience.note(found=False)
    assert waits == [0, 10, 20, 40, 80, 160, 320, 640, 1000]
    patience.note(found=True)
    assert patience.wait == 0


@COLOURS
def test_empty_leaves_redeliveries(colour: str, broker: rq_dlq.Broker) -> None:
    queue = broker.queue("a", redelivery=after("1h", most=2))
    register(queue, colour, lambda _, __: 1 / 0)
    queue.send("x")
    broker.run(burst=True)
    assert queue.stats().scheduled == 1


@COLOURS
def test_drained_dead_letters_stay_where_their_handler_failed(colour: str, broker: rq_dlq.Broker) -> None:
    broker.queue("a").send_many(["good", "bad"])
    broker.queue("a").poison(broker.queue("a").claim(2))
    dead = broker.queue("DLQ.a")

    def fail(body: str, _: Any) -> None:
        if body == "bad":
            raise ValueError(body)

    register(dead, colour, fail)
    assert drain(broker).tally.counts == {"acked": 1, "kept": 1}
    (letter,) = broker.queue("a").dlq.browse()
    assert (letter.nacked, letter.history[-1].event) == (1, "kept")
    assert letter.history[-1].cause.message == "bad"
    assert broker.queue("a").dlq.redrive(all=True).counts.moved == 1


@pytest.mark.parametrize(
    ("verb", "outcome"),
    [("ack", "acked"), ("nack", "redelivered"), ("poison", "dead"), ("release", "released")],
)
@COLOURS
def test_what_a_handler_settles_itself_is_counted(
    colour: str, verb: str, outcome: str, broker: rq_dlq.Broker
) -> None:
    queue = broker.queue("a", redelivery=after("0s", most=5))

    def plain(body: Any, delivery: Any) -> None:
        del body
        if delivery.delivery_count == 1:
            getattr(delivery, verb)()

    async def awaiting(body: Any, delivery: Any) -> None:
        del body
        if delivery.delivery_count == 1:
            await getattr(delivery, verb)()

    queue.handler()(plain if colour == "def" else awaiting)
    queue.send("x")
    again = {"acked": 1} if outcome in {"redelivered", "released"} else {}
    assert drain(broker).tally.counts == {outcome: 1} | again


@COLOURS
def test_bodies_that_do_not_decode_are_counted_and_logged(
    colour: str, broker: rq_dlq.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    queue = broker.queue("a", type=int)
    register(queue, colour, lambda _, __: None)
    queue.send(1)
    broker.queue("a").send(b"{", id="m")
    assert drain(broker).tally.counts == {"acked": 1, "dead": 1}
    assert "a m: try 1 of 13 failed: UnprocessableMessage: " in caplog.text
    assert "; dead letter in DLQ.a" in caplog.text
