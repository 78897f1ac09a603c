"""What a thread has sent without waiting for the reply: acks, and its next claim."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import rq_dlq
from rq_dlq import BrokerRefused
from rq_dlq._redis.blocking.link import Link
from rq_dlq._redis.in_flight import InFlight
from rq_dlq.core.claiming import claim
from rq_dlq.worker import Worker
from rq_dlq.worker.claiming import Pace
from rq_dlq.worker.finished import MOST
from rq_dlq.worker.thread_consumer import ThreadConsumer
from tests.servers import wait_until
from tests.worker.conftest import Working
from tests.worker.test_suspects import ONCE, suspects

MESSAGES = 1_000
Consumers = list[ThreadConsumer]


@pytest.fixture
def consumers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Consumers]:
    """The consumers that have started, which claim many at once, whatever the machine does."""
    started, start = Consumers(), ThreadConsumer.start

    def begin(consumer: ThreadConsumer) -> None:
        started.append(consumer)
        start(consumer)

    monkeypatch.setattr(ThreadConsumer, "start", begin)
    monkeypatch.setattr("rq_dlq.worker.thread_consumer.Pace", partial(Pace, soon=60.0))
    yield started
    assert started


def waits(monkeypatch: pytest.MonkeyPatch, look: Callable[[], None]) -> None:
    """Look whenever the thread of a consumer is about to wait for a reply."""
    result, talk = InFlight.result, Link.talk

    def look_first() -> None:
        if threading.current_thread().name == "rq-dlq a":
            look()

    def hear(begun: Any, connections: Any) -> Any:
        look_first()
        return result(begun, connections)

    def talks(link: Link, commands: Any) -> Any:
        look_first()
        return talk(link, commands)

    monkeypatch.setattr(InFlight, "result", hear)
    monkeypatch.setattr(Link, "talk", talks)


def test_nothing_that_is_finished_waits_for_another_reply(
    broker: rq_dlq.Broker, consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has been sent: so a killed worker does not repeat it, however long the reply takes."""
    queue, unsent = broker.queue("a"), list[int]()
    claims_meanwhile = 0

    @queue.handler()
    def handle(_: Any) -> None:
        nonlocal claims_meanwhile
        claims_meanwhile += consumers[0]._claims_ahead

    waits(monkeypatch, lambda: unsent.append(len(consumers[0]._done)))
    queue.send_many(range(MESSAGES))
    worker = Worker(broker, until="empty")
    worker.run()
    assert worker.tally.counts == {"acked": MESSAGES}
    assert claims_meanwhile > MESSAGES / 10
    assert len(unsent) > MESSAGES / MOST
    assert set(unsent) == {0}


def test_what_waits_for_a_call_is_no_more_than_without_a_claim_ahead(
    broker: rq_dlq.Broker, consumers: Consumers
) -> None:
    queue, most = broker.queue("a"), 0

    @queue.handler()
    def handle(body: int) -> None:
        nonlocal most
        if body % 7 == 0:
            most = max(most, queue.stats().leased)

    queue.send_many(range(MESSAGES))
    Worker(broker, until="empty").run()
    assert consumers[0]._pace.most / 2 < most <= consumers[0]._pace.most + MOST


@pytest.mark.parametrize("threads", [1, 4])
def test_the_more_threads_the_later_is_a_claim_ahead(
    threads: int, broker: rq_dlq.Broker, consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is larger then; while one waits for it, the others run."""
    queue, left, claims = broker.queue("a"), list[int](), claim.claim

    def note(*args: Any, **options: Any) -> Any:
        left.extend(len(one._unstarted) for one in consumers if one._thread is threading.current_thread())
        return claims(*args, **options)

    monkeypatch.setattr(claim, "claim", note)
    queue.handler(concurrency=threads)(lambda _: None)
    queue.send_many(range(4 * MESSAGES))
    Worker(broker, until="empty").run()
    bound = consumers[0]._pace.most / (1 + threads)
    assert bound / 2 < max(left) < bound if threads == 1 else max(left) < bound


def test_it_is_released_untried_at_the_stop(broker: rq_dlq.Broker, consumers: Consumers) -> None:
    queue, begun = broker.queue("a"), set[int]()

    @queue.handler()
    def handle(body: int) -> None:
        begun.add(body)
        if consumers[0]._claims_ahead and len(begun) > MESSAGES / 4:
            worker.stop.signal()

    queue.send_many(range(MESSAGES))
    worker = Worker(broker)
    worker.run()
    stats = queue.stats()
    assert (stats.leased, stats.totals["acked"]) == (0, len(begun))
    assert stats.totals["released"] > 0
    rest = [delivery for _ in range(MESSAGES // 100) for delivery in queue.claim(100)]
    assert {delivery.body for delivery in rest} == {*range(MESSAGES)} - begun
    assert {(delivery.attempt, delivery.charged, delivery.lapsed) for delivery in rest} == {(1, 0, 0)}


def test_while_a_call_takes_long_the_workers_thread_reads_the_replies(
    broker: rq_dlq.Broker, consumers: Consumers, working: Working
) -> None:
    """The acks count, and what was claimed ahead is given to others."""
    queue, long, go_on, ended = broker.queue("a"), threading.Event(), threading.Event(), list[int]()

    @queue.handler()
    def handle(body: int) -> None:
        sent, unsent = consumers[0]._claims_ahead, consumers[0]._done
        if sent and unsent and len(ended) > MESSAGES / 4 and not long.is_set():
            long.set()
            go_on.wait(60)
        ended.append(body)

    queue.send_many(range(MESSAGES))
    with working(broker) as worker:
        assert long.wait(60)
        wait_until(lambda: worker.tally.counts["acked"] == len(ended))
        wait_until(lambda: queue.stats().leased == 1)
        assert not consumers[0]._sent
        go_on.set()
        wait_until(lambda: queue.stats().totals["acked"] == MESSAGES)
    assert queue.stats().totals.get("lapsed", 0) == 0
    assert sorted(ended) == [*range(MESSAGES)]


def test_a_call_does_not_begin_when_the_lease_is_over_that_was_claimed_ahead(
    broker: rq_dlq.Broker, raw: Any, consumers: Consumers, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the process is frozen before it reads the reply to the claim."""
    queue, other = broker.queue("a", lease=60), broker.queue("a", lease="1h")
    seen, before, taken, result, ahead = list[int](), list[int](), set[int](), InFlight.result, [0.0]
    monkeypatch.setattr("rq_dlq.worker.leases.Leases.keep", lambda *_: None)
    clock = type("Clock", (), {"monotonic": staticmethod(lambda: time.monotonic() + ahead[0])})
    monkeypatch.setattr("rq_dlq.worker.thread_consumer.time", clock)

    def late(begun: Any, connections: Any) -> Any:
        mine = threading.current_thread().name == "rq-dlq a"
        if mine and consumers[0]._claims_ahead and len(seen) > MESSAGES / 4 and not taken:
            wait_until(lambda: begun.is_answered)
            raw.zadd("rq:{a}:leases", dict.fromkeys(raw.zrange("rq:{a}:leases", 0, -1), 1))
            taken.update(delivery.body for delivery in other.claim(MESSAGES))
            before.extend(seen)
            ahead[0] = 61.0
        return result(begun, connections)

    monkeypatch.setattr(InFlight, "result", late)

    @queue.handler()
    def handle(body: int) -> None:
        seen.append(body)

    queue.send_many(range(MESSAGES))
    with working(broker):
        wait_until(lambda: taken)
        queue.send(MESSAGES)
        wait_until(lambda: MESSAGES in seen)
    assert taken - {*before}  # some had not begun
    assert not taken & {*seen[len(before) :]}
    assert queue.stats().leased == len(taken)


def test_nothing_is_under_way_beside_a_suspect(broker: rq_dlq.Broker, consumers: Consumers) -> None:
    """It may kill the process, and what else that held would be a suspect, too."""
    queue, beside = broker.queue("a", redelivery=ONCE), list[tuple[int, int, int]]()

    @queue.handler()
    def handle(_: Any, delivery: Any) -> None:
        if delivery.lapsed:
            one = consumers[0]
            beside.append((len(one._unstarted), len(one._sent), len(one._done)))

    suspects(queue, *range(5))
    for priority in (0, 9):  # those in between are found by a claim that is made ahead
        queue.send_many(range(MESSAGES // 2), priority=priority)
    Worker(broker, until="empty").run()
    assert queue.stats().totals["acked"] == MESSAGES + 5
    assert beside == [(0, 0, 0)] * 5


def test_acks_do_not_wait_for_a_claim_that_is_refused(
    broker: rq_dlq.Broker, consumers: Consumers, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, most, refused, claims = broker.queue("a"), 0, 0, claim.claim

    def refuse(*args: Any, **options: Any) -> Any:
        nonlocal refused
        found = yield from claims(*args, **options)
        if options["wait"] == 0 and refused < 5:
            refused += 1
            queue.release(found, begun=False) if found else None
            message = "not now"
            raise BrokerRefused(message)
        return found

    monkeypatch.setattr(claim, "claim", refuse)

    @queue.handler()
    def handle(_: Any) -> None:
        nonlocal most
        most = max(most, len(consumers[0]._done))

    queue.send_many(range(MESSAGES))
    with working(broker):
        wait_until(lambda: queue.stats().totals.get("acked") == MESSAGES)
    assert refused == 5
    assert most < MOST
