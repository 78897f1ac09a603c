"""Queues that hand out nothing, or only so much at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis

import rq_dlq
from rq_dlq import InvalidInput
from rq_dlq.values.failure import moment
from rq_dlq.values.user import user_at_host
from tests.behaviour.claiming.test_waiting import SOON, Client, blocked, claims, seldom  # noqa: F401
from tests.behaviour.faults import lose_replies
from tests.behaviour.helpers import AT_ONCE, after, bury, counts, ids, one
from tests.conftest import Clock
from tests.contents import contents


async def test_paused_and_resumed(broker: Any) -> None:
    queue = broker.queue("a")
    sent = await queue.send_many(range(3))
    assert await queue.pause() is True
    assert await queue.pause() is False
    assert (await queue.stats()).paused
    assert await queue.claim(9) == []
    assert await queue.resume() is True
    assert await queue.resume() is False
    assert not (await queue.stats()).paused
    assert await ids(queue) == sent


async def test_the_counts_say_until_when(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.pause(until="1m")
    stats = await queue.stats()
    assert (stats.paused, stats.until) == (True, moment(clock.now + 60_000))
    clock.advance("1m")
    stats = await queue.stats()
    assert (stats.paused, stats.until) == (False, None), "no claim has seen the end yet"
    await queue.pause()
    stats = await queue.stats()
    assert (stats.paused, stats.until) == (True, None)


async def test_the_audit_says_who(broker: Any) -> None:
    """Each change once, and nothing where there was none."""
    queue = broker.queue("a")
    await queue.pause("ana")
    await queue.pause("ben")
    await queue.resume()
    await queue.resume("ben")
    resumed, paused = await broker.audit()
    assert (paused.did, paused.by, paused.queue, paused.job) == ("paused", "ana", "a", "")
    assert (resumed.did, resumed.by, resumed.user) == (
        "resumed",
        user_at_host(),
        paused.user,
    )
    with pytest.raises(InvalidInput, match="pass a name"):
        await queue.pause("")


async def test_it_holds_for_every_client(broker: Any, sync_broker: rq_dlq.Broker) -> None:
    """It is in Redis: also one that comes later, and declares another policy, gets nothing."""
    await broker.queue("a").send("x")
    await broker.queue("a").pause()
    other = sync_broker.queue("a", redelivery=AT_ONCE, max_in_flight=5)
    assert other.claim() == []
    assert other.stats().paused
    assert await broker.policies.set("#", redelivery=AT_ONCE) == 1
    assert other.claim() == []
    assert other.resume()
    assert await ids(broker.queue("a"))


async def test_all_else_goes_on(broker: Any, clock: Clock) -> None:
    """Sending, settling, lapses, expiry and what falls due; and the dead letters can be had."""
    queue = broker.queue("a", redelivery=after("1m", most=1))
    await bury(queue, ["dead"])
    await queue.send_many(range(5))
    acked, nacked, poisoned, _ = await queue.claim(4)
    await queue.pause()
    await acked.ack()
    await nacked.nack("boom")
    await poisoned.poison("bad")
    await queue.send("mortal", ttl="30s")
    await queue.send("delayed", delay="1m")
    assert await counts(queue) == {"ready": 2, "scheduled": 2, "leased": 1, "dead": 2}
    clock.advance("30s")
    assert await queue.claim(9) == []
    assert await counts(queue) == {"ready": 1, "scheduled": 3, "dead": 2, "expired": 1}
    clock.advance("1m")
    await queue.maintain()
    assert await counts(queue) == {"ready": 4, "dead": 2, "expired": 1}
    assert len(await broker.queue("DLQ.a").claim(9)) == 2
    assert len(await broker.queue("EXP.a").claim(9)) == 1
    assert await queue.claim(9) == []


async def test_what_was_claimed_before_stays_claimed(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x")
    delivery = await one(queue)
    await queue.pause()
    await delivery.extend("1h")
    assert await delivery.release()
    assert await queue.claim() == []
    await queue.resume()
    assert (await one(queue)).id == delivery.id


@pytest.mark.parametrize("name", ["DLQ.a", "EXP.a"])
async def test_only_queues_that_are_sent_to(name: str, broker: Any, raw: Any) -> None:
    await broker.queue("a").send("x")
    before = contents(raw)
    for verb in ("pause", "resume", "reset"):
        with pytest.raises(InvalidInput):
            await getattr(broker.queue(name), verb)()
    assert contents(raw) == before


# At most so many at a time


async def test_no_more_in_flight(broker: Any, sync_broker: rq_dlq.Broker) -> None:
    """All consumers together."""
    queue, other = broker.queue("a", max_in_flight=5), sync_broker.queue("a")
    await queue.send_many(range(20))
    first = await queue.claim(3)
    assert len(first) == 3
    second = other.claim(9)
    assert len(second) == 2
    assert await queue.claim(9) == []
    assert other.claim() == []
    await first[0].ack()
    assert [delivery.body for delivery in other.claim(9)] == [5]
    await first[1].poison("bad")
    await first[2].nack("boom", delay="1h")
    assert len(await queue.claim(9)) == 2
    second[0].release()
    assert len(await queue.claim(9)) == 1
    assert (await queue.stats()).leased == 5


async def test_redeliveries_count(broker: Any, clock: Clock) -> None:
    """Hard: what comes back waits until there is room, and what waits is not in flight."""
    queue = broker.queue("a", redelivery=after("1m"), max_in_flight=2)
    await queue.send_many(range(4))
    for delivery in await queue.claim(9):
        await delivery.nack("boom")
    held = await queue.claim(9, lease="1h")
    assert [delivery.body for delivery in held] == [2, 3]
    clock.advance("1m")
    assert await queue.claim(9) == []
    assert await counts(queue) == {"ready": 2, "leased": 2}
    await held[0].ack()
    again = await one(queue, count=9)
    assert (again.body, again.delivery_count) == (0, 2)
    assert await queue.claim(9) == []


async def test_lapsed_leases_make_room(broker: Any, clock: Clock) -> None:
    """I15: the claim that finds no room sweeps first."""
    queue = broker.queue("a", redelivery=AT_ONCE, max_in_flight=2)
    await queue.send_many(range(4))
    assert len(await queue.claim(9, lease="1s")) == 2
    assert await queue.claim(9) == []
    clock.advance("1s")
    assert [delivery.delivery_count for delivery in await queue.claim(9)] == [2, 2]


async def test_changed_at_run_time(broker: Any) -> None:
    """Lowered: nobody loses what they have; raised or lifted: at the next claim."""
    queue = broker.queue("a")
    await queue.send_many(range(20))
    await broker.policies.set("a", max_in_flight=4)
    held = await queue.claim(9)
    assert len(held) == 4
    await broker.policies.set("a", max_in_flight=2)
    await held[0].ack()
    await held[1].ack()
    assert await queue.claim(9) == []
    await held[2].ack()
    assert len(await queue.claim(9)) == 1
    await broker.policies.set("a", max_in_flight=6)
    assert len(await queue.claim(9)) == 4
    await broker.policies.set("a", max_in_flight=None)
    assert len(await queue.claim(9)) == 9


async def test_a_repeated_claim_is_one_claim(broker: Any) -> None:
    """I12: what it was given before does not stand in its own way."""
    queue = broker.queue("a", max_in_flight=3)
    await queue.send_many(range(9))
    lost = await lose_replies(broker, "claim")
    assert len(await queue.claim(3)) == 3
    assert lost.runs == 2
    assert await queue.claim(3) == []


# The totals


async def test_totals_begin_anew(broker: Any, clock: Clock) -> None:
    """I1: what is in the queue counts as sent; the order and the messages stay."""
    queue = broker.queue("a", redelivery=after(0, most=1))
    await queue.send_many(range(10), ttl="1h")
    await bury(queue, ["dead"])
    await queue.nack(await queue.claim(2), "boom")
    await queue.ack(await queue.claim(3))
    left = await counts(queue)
    assert await queue.reset() == sum(left.values())
    assert {name: n for name, n in (await queue.stats()).totals.items() if n} == {"sent": sum(left.values())}
    assert await counts(queue) == left
    clock.advance("1ms")
    await queue.send("last")
    assert (await queue.claim(99))[-1].body == "last"
    assert (await queue.stats()).totals["sent"] == sum(left.values()) + 1


async def test_totals_of_nothing(broker: Any, raw: Any) -> None:
    assert await broker.queue("a").reset() == 0
    assert await broker.queues() == ["a"]
    assert (await broker.queue("a").stats()).waiting == 0
    assert raw.hgetall("rq:{a}:counters") == {b"sent": b"0"}


# Waiting: a real server with its own clock


@pytest.fixture
def live(redis_socket: str, seldom: None) -> Iterator[rq_dlq.Broker]:  # noqa: F811 - the fixture
    """A broker with the server's clock."""
    del seldom
    with rq_dlq.Broker(f"unix://{redis_socket}") as broker:
        yield broker


@pytest.fixture
def watch(redis_socket: str) -> Iterator[Any]:
    """A plain client of an empty server."""
    client = redis.Redis(unix_socket_path=redis_socket)
    client.flushall()
    yield client
    client.close()


@pytest.mark.parametrize("held_up", ["paused", "in flight"])
def test_who_waits_does_not_spin(held_up: str, watch: Any, live: rq_dlq.Broker) -> None:
    """There is something ready, and a lease, and something that falls due soon: still it sleeps."""
    queue = live.queue("a", max_in_flight=1 if held_up == "in flight" else None)
    queue.send_many(range(10))
    assert queue.claim()
    queue.send("due soon", delay="0.3s")
    if held_up == "paused":
        queue.pause()
    before = claims(watch)
    began = time.monotonic()
    assert queue.claim(wait="1.5s") == []
    assert time.monotonic() - began > 1.4
    assert claims(watch) - before <= 5


@pytest.mark.parametrize("held_up", ["paused", "in flight"])
def test_many_who_wait_do_not_wake_each_other(held_up: str, watch: Any, live: rq_dlq.Broker) -> None:
    """What is sent meanwhile wakes one at most, which goes back to sleep."""
    queue = live.queue("a", max_in_flight=1 if held_up == "in flight" else None)
    queue.send_many(range(10))
    assert queue.claim()
    if held_up == "paused":
        queue.pause()
    clients = [Client(queue, "1.5s") for _ in range(8)]
    blocked(watch, 8)
    before = claims(watch)
    for n in range(5):
        queue.send(n)
    for client in clients:
        client.join(60)
    assert [client.got for client in clients] == [[]] * 8
    assert claims(watch) - before <= 5 + 5 + 3 * 8


def test_resume_wakes_who_waits(watch: Any, live: rq_dlq.Broker) -> None:
    """And that one the next, while work is left."""
    queue = live.queue("a")
    queue.pause()
    queue.send_many(range(4))
    clients = [Client(queue) for _ in range(4)]
    blocked(watch, 4)
    resumed = time.monotonic()
    queue.resume()
    for client in clients:
        client.join(60)
    assert sorted(client.got[0].body for client in clients) == list(range(4))
    assert max(client.at for client in clients) - resumed < SOON


@pytest.mark.parametrize("verb", ["release", "nack"])
def test_room_wakes_who_waits(verb: str, watch: Any, live: rq_dlq.Broker) -> None:
    queue = live.queue("a", redelivery=AT_ONCE, max_in_flight=1)
    queue.send("x")
    (delivery,) = queue.claim()
    client = Client(queue)
    blocked(watch, 1)
    settled = time.monotonic()
    getattr(delivery, verb)()
    client.join(60)
    assert len(client.got) == 1
    assert client.at - settled < SOON


def test_moved_messages_wake_who_waits(watch: Any, live: rq_dlq.Broker) -> None:
    queue, other = live.queue("a"), live.queue("b")
    other.open()
    queue.send_many(range(3))
    client = Client(other)
    blocked(watch, 1)
    moved = time.monotonic()
    assert queue.select(all=True).move(other) == 3
    client.join(60)
    assert client.got
    assert client.at - moved < SOON


def test_pausing_while_messages_are_claimed(watch: Any, live: rq_dlq.Broker) -> None:
    """Nobody gets anything from the moment on when pause() has returned."""
    queue = live.queue("a")
    queue.send_many(range(5_000))
    stop = threading.Event()
    taken: list[int] = []

    def work() -> None:
        mine = live.queue("a")
        while not stop.is_set():
            taken.append(len(mine.claim(3)))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    while len(taken) < 20:
        time.sleep(0.001)
    queue.pause()
    left = queue.stats().ready
    more = len(taken)
    while len(taken) < more + 50:
        time.sleep(0.001)
    stop.set()
    for thread in threads:
        thread.join(60)
    assert queue.stats().ready == left > 0
    assert watch.zcard("rq:{a}:ready") == left
