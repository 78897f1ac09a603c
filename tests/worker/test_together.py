"""The consumers of a worker that ends by itself end together, when nothing is left that they may take."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Literal

import pytest

import rq_dlq
from rq_dlq import PerKey
from rq_dlq.core.claiming import claim as claiming
from rq_dlq.core.steps.step import Wait
from rq_dlq.worker import Worker
from tests.servers import wait_until
from tests.worker.conftest import Working
from tests.worker.test_handlers import COLOURS, register

BOTH = pytest.mark.parametrize("until", ["empty", "drained"])
Until = Literal["empty", "drained"]


@pytest.fixture
def empty_claims(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queues of claims that found nothing, in order."""
    found_none, claim = list[str](), claiming.claim

    def noting(queue: Any, *args: Any, **options: Any) -> Any:
        found = yield from claim(queue, *args, **options)
        if not found:
            found_none.append(queue.name)
        return found

    monkeypatch.setattr(claiming, "claim", noting)
    return found_none


@BOTH
@COLOURS
def test_what_a_call_sends_on_is_handled(
    colour: str, until: Until, broker: rq_dlq.Broker, empty_claims: list[str]
) -> None:
    """Also to a queue whose consumers have found nothing for some time; and what that sends back."""
    first, second, seen = broker.queue("a"), broker.queue("b"), list[str]()

    def after_some_claims(of: str) -> Any:
        before = empty_claims.count(of)
        return lambda: empty_claims.count(of) >= before + 4

    async def begin(body: str) -> None:
        if body == "go":
            await asyncio.to_thread(wait_until, after_some_claims("b"))
            second.send("on")
        else:
            seen.append(body)

    async def go_on(body: str) -> None:
        seen.append(body)
        await asyncio.to_thread(wait_until, after_some_claims("a"))
        first.send("back")

    if colour == "def":
        first.handler(concurrency=2)(lambda body: asyncio.run(begin(body)))
        second.handler(concurrency=2)(lambda body: asyncio.run(go_on(body)))
    else:
        first.handler(concurrency=2)(begin)
        second.handler(concurrency=2)(go_on)
    first.send("go")
    Worker(broker, until=until).run()
    assert seen == ["on", "back"]
    assert (first.stats().ready, second.stats().ready) == (0, 0)


@BOTH
def test_the_next_of_a_key_is_handled(until: Until, broker: rq_dlq.Broker, empty_claims: list[str]) -> None:
    """The other consumers of the queue find nothing until the first call has ended."""
    queue, seen = broker.queue("a", per_key=PerKey(order=True)), list[int]()

    @queue.handler(concurrency=2)
    def handle(body: int) -> None:
        seen.append(body)
        if body == 0:
            wait_until(lambda: len(empty_claims) >= 4)

    queue.send_many([rq_dlq.Message(n, key="k") for n in range(3)])
    Worker(broker, until=until).run()
    assert seen == [0, 1, 2]


@COLOURS
def test_a_rate_is_waited_for(colour: str, broker: rq_dlq.Broker) -> None:
    queue, seen = broker.queue("a", rate="10/s"), list[int]()
    register(queue, colour, lambda body, _: seen.append(body), concurrency=2)
    queue.send_many(range(5))
    broker.run(burst=True)
    assert sorted(seen) == [*range(5)]


@COLOURS
def test_a_place_that_another_consumer_has_is_waited_for(
    colour: str, broker: rq_dlq.Broker, working: Working, empty_claims: list[str]
) -> None:
    queue, seen = broker.queue("a", max_in_flight=1), list[str]()
    register(queue, colour, lambda body, _: seen.append(body))
    queue.send_many(["theirs", "ours"])
    (theirs,) = queue.claim()
    with working(broker, until="empty"):
        wait_until(lambda: len(empty_claims) >= 4)
        theirs.ack()
        wait_until(lambda: seen == ["ours"])


@COLOURS
def test_a_paused_queue_is_left_and_the_log_says_so(
    colour: str, broker: rq_dlq.Broker, caplog: pytest.LogCaptureFixture, empty_claims: list[str]
) -> None:
    caplog.set_level("INFO", "rq_dlq.worker")
    queue = broker.queue("a")
    register(queue, colour, lambda _, __: None)
    queue.send_many(range(3))
    queue.pause()
    broker.run(burst=True)
    assert len(empty_claims) <= 2
    assert (
        "ready messages are left: 0 done, 0 failed, 0 dead; left: a: 3 ready "
        "(the queue is paused until it is resumed)"
    ) in caplog.text


@COLOURS
def test_messages_behind_a_pause_of_their_key_are_left(
    colour: str, broker: rq_dlq.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "rq_dlq.worker")
    queue, seen = broker.queue("a", per_key=PerKey(limit=2)), list[str]()
    register(queue, colour, lambda body, _: seen.append(body))
    queue.key("down").pause()
    queue.send_many([rq_dlq.Message(key, key=key) for key in ("down", "up", "down")])
    broker.run(burst=True)
    assert seen == ["up"]
    assert "no message is ready: 1 done, 0 failed, 0 dead; left: a: 2 blocked" in caplog.text


@COLOURS
def test_messages_that_no_claim_takes_are_left(
    colour: str, broker: rq_dlq.Broker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO", "rq_dlq.worker")
    monkeypatch.setattr("rq_dlq.worker.together.NOT_TAKEN", 300)

    def takes_none(queue: Any, *_: Any, **__: Any) -> Any:
        yield Wait(queue.keys.silent, 10)
        return []

    queue = broker.queue("a")
    register(queue, colour, lambda _, __: None)
    queue.send("x")
    monkeypatch.setattr(claiming, "claim", takes_none)
    broker.run(burst=True)
    assert "left: a: 1 ready (no claim took any for 300ms)" in caplog.text


def test_a_queue_that_cannot_be_claimed_from_is_not_waited_for(
    broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another call runs, it is asked again from time to time; the worker ends with the error."""
    monkeypatch.setattr("rq_dlq.worker.claimer.RETRY_AFTER", 0.02)
    refused, go_on, claim = list[str](), threading.Event(), claiming.claim

    def refusing(queue: Any, *args: Any, **options: Any) -> Any:
        if queue.name == "b":
            refused.append(queue.name)
            if len(refused) == 5:
                go_on.set()
            yield Wait(queue.keys.silent, 1)
            raise rq_dlq.BrokerRefused("no")
        return (yield from claim(queue, *args, **options))

    monkeypatch.setattr(claiming, "claim", refusing)
    broker.queue("a").handler(lambda _: go_on.wait(10))
    broker.queue("b").handler(lambda _: None)
    broker.queue("a").send("x")
    broker.queue("b").send("x")
    with pytest.raises(rq_dlq.RqDlqError, match="claims were refused"):
        broker.run(burst=True)
    assert len(refused) < 100
    assert broker.queue("a").stats().totals["acked"] == 1
