"""Suspects, whose lease ran out under a worker: they run one at a time in a process, beside all the rest."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import rq_dlq
from rq_dlq import BrokerUnavailable, Poison, RedeliveryPolicy
from rq_dlq.core.claiming import claim
from rq_dlq.core.settling import settle
from rq_dlq.worker.claiming import FIRST_PAUSE, LONGEST_PAUSE, Permit
from tests.servers import wait_until
from tests.servers.counts import verbs_run
from tests.worker.conftest import Working

COLOURS = pytest.mark.parametrize("colour", ["def", "async def"])
ONCE = RedeliveryPolicy(delays=[0], max_redeliveries=1)


def suspects(queue: Any, *bodies: Any) -> None:
    """Send these; a worker claims them, and dies."""
    queue.send_many(bodies)
    permit = Permit(threading.Lock())
    for delivery in queue._run(claim.claim(queue._core, queue._deliveries, count=100, permit=permit)):
        delivery.extend("1ms")
    wait_until(lambda: queue.maintain() and queue.stats().ready == len(bodies))


def verbs(raw: Any) -> int:
    """How many verbs the server was asked for so far."""
    return verbs_run(raw)


def register(queue: Any, colour: str, plain: Callable[[Any, Any], object], concurrency: int = 8) -> None:
    """A handler that may wait."""

    async def awaiting(body: Any, delivery: Any) -> None:
        await asyncio.to_thread(plain, body, delivery)

    queue.handler(concurrency=concurrency)(plain if colour == "def" else awaiting)


class Watch:
    """How many suspects run at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.now = self.most = 0

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.now -= 1


@COLOURS
def test_one_suspect_at_a_time_in_all_handlers_of_a_worker(
    colour: str, broker: rq_dlq.Broker, raw: Any, working: Working
) -> None:
    queues, watch, ended = [broker.queue(name, redelivery=ONCE) for name in "ab"], Watch(), list[Any]()

    def handle(body: Any, delivery: Any) -> None:
        assert delivery.lapsed == 1
        with watch:
            before = verbs(raw)
            wait_until(lambda: verbs(raw) > before + 2)  # others had the time to claim
        ended.append(body)

    for queue in queues:
        suspects(queue, *range(15))
        register(queue, colour, handle)
    with working(broker):
        wait_until(lambda: len(ended) == 30)
    assert watch.most == 1


@COLOURS
def test_what_stands_behind_suspects_runs_beside_one(
    colour: str, broker: rq_dlq.Broker, working: Working
) -> None:
    """I8: for the length of its handler they hold up nothing but each other."""
    queue, fresh, order = broker.queue("a", redelivery=ONCE), set[int](), list[str]()
    suspects(queue, "one", "two", "three")
    queue.send_many(range(20))

    def handle(body: Any, delivery: Any) -> None:
        if delivery.lapsed:
            if body == "one":
                wait_until(lambda: len(fresh) == 20)
            order.append(body)
        else:
            fresh.add(body)

    register(queue, colour, handle)
    with working(broker):
        wait_until(lambda: len(order) == 3)
    assert order == ["one", "two", "three"]


@COLOURS
def test_a_suspect_is_settled_before_the_next_one_runs(
    colour: str, broker: rq_dlq.Broker, raw: Any, working: Working
) -> None:
    """Else a killer would charge one that was done. However it ended, the next one has its turn."""
    queue, left = broker.queue("a", redelivery=ONCE), list[int]()
    bodies = ["acked", "nacked", "poisoned", "settled by itself", "lost", "last"]
    suspects(queue, *bodies)

    def handle(body: Any, delivery: Any) -> None:
        left.append(sum(state.split()[1].startswith(b"+") for state in raw.hvals("rq:{a}:states")))
        if body == "nacked" and delivery.lapsed == 1 and delivery.nacked == 0:
            raise ValueError
        if body == "poisoned":
            raise Poison
        if body == "settled by itself":
            delivery.ack() if colour == "def" else broker._run(settle.ack(queue._core, [delivery._held]))
        if body == "lost":
            raw.zadd("rq:{a}:leases", {delivery.token: 1})
            broker.queue("a").maintain()

    register(queue, colour, handle)
    with working(broker):
        wait_until(lambda: queue.stats().waiting + queue.stats().leased == 0)
    assert set(left) == {1}
    assert queue.stats().totals["acked"] + queue.stats().dead == len(bodies)


@COLOURS
def test_no_other_suspect_runs_until_the_ack_of_one_succeeds(
    colour: str, broker: rq_dlq.Broker, raw: Any, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a killer would charge one that was done, and whose ack is about to be repeated."""
    queue, left, ack, refused = broker.queue("a", redelivery=ONCE), list[int](), settle.ack, list[str]()
    suspects(queue, "one", "two")

    def unreachable(*held: Any) -> Any:
        if len(refused) < 3:
            refused.append("an ack")
            message = "no server"
            raise BrokerUnavailable(message)
        return ack(*held)

    def handle(_: Any, __: Any) -> None:
        left.append(sum(state.split()[1].startswith(b"+") for state in raw.hvals("rq:{a}:states")))

    monkeypatch.setattr(settle, "ack", unreachable)
    for consumer in ("thread_consumer", "async_consumer"):
        monkeypatch.setattr(f"rq_dlq.worker.{consumer}.RETRY_AFTER", 0.01)
    register(queue, colour, handle)
    with working(broker):
        wait_until(lambda: queue.stats().totals.get("acked") == 2)
    assert len(refused) == 3
    assert left == [1, 1]


@COLOURS
def test_while_a_suspect_runs_the_others_are_asked_for_less_and_less_often(
    colour: str, broker: rq_dlq.Broker, raw: Any, working: Working
) -> None:
    queue, asked = broker.queue("a", redelivery=ONCE), list[int]()
    suspects(queue, *range(3))

    def handle(body: Any, delivery: Any) -> None:
        del delivery
        if body == 0:
            before, start = verbs(raw), raw.time()[0]
            wait_until(lambda: raw.time()[0] > start + 2)
            asked.append(verbs(raw) - before)

    register(queue, colour, handle)
    with working(broker):
        wait_until(lambda: raw.hget("rq:{a}:counters", "acked") == b"3")
    consumers = 7 if colour == "def" else 1
    assert asked[0] <= consumers * (3 / LONGEST_PAUSE + 4)


@COLOURS
@pytest.mark.parametrize("until", ["empty", "drained"])
def test_a_burst_ends_when_the_last_suspect_is_done(
    until: str, colour: str, broker: rq_dlq.Broker, working: Working
) -> None:
    queue = broker.queue("a", redelivery=ONCE)
    suspects(queue, *range(10))
    register(queue, colour, lambda _, __: None)
    with working(broker, until=until) as worker:
        wait_until(lambda: worker.tally.counts == {"acked": 10})
    assert queue.stats().waiting + queue.stats().leased == 0


def test_the_permit_is_free_when_a_claim_took_no_suspect() -> None:
    only = threading.Lock()
    first, second = Permit(only), Permit(only)
    assert first.take()
    assert not second.take()
    first.note(None)
    assert second.take()


def test_the_permit_is_kept_until_its_suspect_is_settled() -> None:
    only, killer = threading.Lock(), object()
    first, second = Permit(only), Permit(only)
    assert first.take()
    first.note(killer)  # type: ignore[arg-type]
    assert not first.take()  # of an event loop, which claims on while it runs
    first.note(None)
    assert not second.take()
    assert first.suspect is killer
    first.end()
    assert second.take()


def test_a_permit_that_is_returned_is_not_taken_in_the_middle() -> None:
    """The worker's thread returns it, the event loop takes it."""
    only, permits, taken = threading.Lock(), list[Permit](), list[bool]()

    class Interrupted(Permit):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if name == "suspect" and value is None and permits:
                taken.append(self.take())

    permit, killer = Interrupted(only), object()
    assert permit.take()
    permit.note(killer)  # type: ignore[arg-type]
    permits.append(permit)
    permit.end()
    assert taken == [only.locked()]


def test_who_waits_for_the_permit_has_it_for_the_next_claim() -> None:
    only = threading.Lock()
    first, second = Permit(only), Permit(only)
    first.take()
    second.wait()
    assert not second.take()
    first.note(None)
    second.wait()
    assert not first.take()
    assert second.take()


def test_who_is_turned_away_asks_less_and_less_often() -> None:
    permit, pauses = Permit(threading.Lock()), list[float]()
    for _ in range(6):
        permit.note(None, passed=True)
        pauses.append(permit.pause)
    assert pauses[:2] == [FIRST_PAUSE, 2 * FIRST_PAUSE]
    assert pauses[-1] == LONGEST_PAUSE
    permit.note(None)
    permit.note(None, passed=True)
    assert permit.pause == FIRST_PAUSE
