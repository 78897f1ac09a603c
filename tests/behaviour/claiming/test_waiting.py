"""Waiting for a message: no one polls, and a message wakes few. A real server with its own clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

import rq_dlq
from tests.behaviour.helpers import after
from tests.servers import wait_until
from tests.servers.counts import verbs_run

SELDOM = 20_000  # milliseconds after which a client looks again that nobody woke; a second by default
SOON = 15  # seconds, also on a busy machine; long before a client looks again


@pytest.fixture
def backend() -> str:
    """Only the real server."""
    return "real"


@pytest.fixture
def url(server: str) -> str:
    """Where the server is."""
    return f"unix://{server}"


@pytest.fixture
def seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who got a message in time was woken: by itself it would look again too late."""
    for module in ("claim", "from_view"):
        monkeypatch.setattr(import_module(f"rq_dlq.core.claiming.{module}"), "MAX_BLOCK", SELDOM)
    monkeypatch.setattr("rq_dlq._redis.pools.SOCKET_TIMEOUT", 2 * SELDOM / 1000)


@pytest.fixture
def live(url: str, raw: Any, seldom: None) -> Iterator[rq_dlq.Broker]:
    """A broker with the server's clock."""
    del raw, seldom
    with rq_dlq.Broker(url) as broker:
        yield broker


@pytest.fixture
def usual(url: str, raw: Any) -> Iterator[rq_dlq.Broker]:
    """One whose waiting clients look again as often as they do by default."""
    del raw
    with rq_dlq.Broker(url) as broker:
        yield broker


def claims(raw: Any) -> int:
    """How many verbs the server has run."""
    return verbs_run(raw)


def blocked(raw: Any, number: int) -> None:
    """Wait until so many clients sleep."""
    wait_until(lambda: raw.info("clients")["blocked_clients"] == number)


class Client(threading.Thread):
    """Claims once, waiting; notes what it got and when."""

    def __init__(self, queue: Any, wait: str = "30s") -> None:
        super().__init__()
        self._queue, self._wait = queue, wait
        self.got: list[Any] = []
        self.at = 0.0
        self.start()

    def run(self) -> None:
        self.got = self._queue.claim(wait=self._wait)
        self.at = time.monotonic()


def test_a_send_wakes_a_waiting_client(live: rq_dlq.Broker, raw: Any) -> None:
    queue = live.queue("a")
    client = Client(queue)
    blocked(raw, 1)
    sent = time.monotonic()
    queue.send("x")
    client.join(60)
    assert [delivery.body for delivery in client.got] == ["x"]
    assert client.at - sent < SOON, "it polled"


@pytest.mark.parametrize("verb", ["release", "nack", "redrive", "lapse"])
def test_whatever_makes_a_message_ready_wakes_a_waiting_client(
    verb: str, live: rq_dlq.Broker, raw: Any
) -> None:
    queue = live.queue("a", redelivery=after(0))
    queue.send("x")
    (delivery,) = queue.claim(lease="0.2s" if verb == "lapse" else "30s")
    if verb == "redrive":
        delivery.poison()
    client = Client(queue)
    begin = time.monotonic()
    if verb == "redrive":
        blocked(raw, 1)
        queue.dlq.redrive(all=True)
    elif verb != "lapse":
        blocked(raw, 1)
        getattr(delivery, verb)()
    client.join(60)
    assert [delivery.body for delivery in client.got] == ["x"]
    assert client.at - begin < SOON


def test_a_client_that_is_slow_to_fall_asleep_is_woken(live: rq_dlq.Broker, raw: Any) -> None:
    """What wakes it stays for seconds: it may come between the claim that finds nothing and the wait."""
    queue = live.queue("a")
    queue.send("x")
    assert 3_000 < raw.pttl(queue._core.keys["wake"]) <= 5_000


def test_a_waiting_client_wakes_when_a_message_falls_due(live: rq_dlq.Broker) -> None:
    """I5: not early, and not at the next round second either."""
    queue = live.queue("a")
    sent = time.monotonic()
    queue.send("x", delay="0.3s")
    (delivery,) = queue.claim(wait="30s")
    assert delivery.body == "x"
    assert 0.29 < time.monotonic() - sent < SOON


def test_a_message_scheduled_while_a_client_waits_is_in_time(live: rq_dlq.Broker, raw: Any) -> None:
    """I5: it is told when to look again."""
    queue = live.queue("a")
    client = Client(queue)
    blocked(raw, 1)
    sent = time.monotonic()
    queue.send("x", delay="0.3s")
    client.join(60)
    assert 0.29 < client.at - sent < SOON


def test_who_holds_the_alarm_and_is_woken_in_vain_keeps_it(live: rq_dlq.Broker, raw: Any) -> None:
    queue = live.queue("a")
    queue.send("x", delay="3s")  # a busy machine may take a second until the client sleeps
    client = Client(queue)
    blocked(raw, 1)
    asked = claims(raw)
    raw.lpush(queue._core.keys["wake"], 1)  # as of a message that another client was faster to claim
    wait_until(lambda: claims(raw) > asked)
    client.join(60)
    (delivery,) = client.got
    late = raw.time()[0] + raw.time()[1] / 1e6 - delivery.enqueued_at.timestamp() - 3
    assert late < SOON


def test_the_wait_ends(live: rq_dlq.Broker) -> None:
    begin = time.monotonic()
    assert live.queue("a").claim(wait="0.2s") == []
    assert 0.19 < time.monotonic() - begin < SOON


def test_an_idle_client_asks_once_a_second_at_most(usual: rq_dlq.Broker, raw: Any) -> None:
    queue = usual.queue("a")
    queue.claim()
    before = claims(raw)
    queue.claim(wait="1.5s")
    assert claims(raw) - before <= 4


@pytest.mark.parametrize("delay", [None, "0.1s"])
def test_one_message_wakes_few_of_many(live: rq_dlq.Broker, raw: Any, delay: str | None) -> None:
    """A delayed one: one client has the alarm. Nobody's wait ends meanwhile: its last claim would count."""
    queue = live.queue("a")
    queue.claim()
    clients = [Client(queue) for _ in range(20)]
    blocked(raw, 20)
    before = claims(raw)
    queue.send("x", delay=delay)
    wait_until(lambda: any(client.got for client in clients))
    blocked(raw, 19)  # who was woken in vain sleeps again
    assert claims(raw) - before <= 4
    queue.send_many(range(19))  # for the others
    for client in clients:
        client.join(60)
    assert sorted(str(client.got[0].body) for client in clients) == sorted(["x", *map(str, range(19))])


def test_many_messages_wake_many(live: rq_dlq.Broker, raw: Any) -> None:
    """Each that is woken passes it on while work is left."""
    queue = live.queue("a")
    clients = [Client(queue) for _ in range(10)]
    blocked(raw, 10)
    queue.send_many(range(10))
    for client in clients:
        client.join(60)
    assert sorted(client.got[0].body for client in clients) == list(range(10))
    assert max(client.at for client in clients) - min(client.at for client in clients) < SOON


def test_who_waits_for_dead_letters_takes_no_one_s_call(live: rq_dlq.Broker, raw: Any) -> None:
    """A message wakes a client that can have it."""
    queue = live.queue("a")
    queue.claim()
    dead = live.queue("DLQ.a")
    grave = Client(dead)
    blocked(raw, 1)
    client = Client(queue)
    blocked(raw, 2)
    sent = time.monotonic()
    queue.send("x")
    client.join(60)
    assert client.at - sent < SOON
    (delivery,) = client.got
    delivery.poison()
    raw.lpush(dead._core.keys.silent, 1)  # not to wait until it looks again
    grave.join(60)
    assert [letter.body for letter in grave.got] == ["x"]


def test_who_waits_for_dead_letters_wakes_when_one_has_rested(live: rq_dlq.Broker) -> None:
    queue, dead = live.queue("a"), live.queue("DLQ.a")
    queue.send("x")
    queue.claim()[0].poison()
    (letter,) = dead.claim()
    rest = 1.25
    given_back = time.monotonic()
    assert letter.nack(delay=rest).delay == rest
    client = Client(dead)
    client.join(60)
    assert [letter.body for letter in client.got] == ["x"]
    assert rest - 0.05 < client.at - given_back < rest + SOON


async def test_an_awaiting_client_wakes_and_can_be_cancelled(url: str, raw: Any) -> None:
    """A cancelled claim holds nothing back."""
    import asyncio  # noqa: PLC0415

    async with rq_dlq.asyncio.Broker(url) as broker:
        queue = broker.queue("a")
        await queue.claim()
        waiting = asyncio.create_task(queue.claim(wait="10s"))
        while not raw.info("clients")["blocked_clients"]:  # noqa: ASYNC110 - a condition elsewhere
            await asyncio.sleep(0.005)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        waiting = asyncio.create_task(queue.claim(wait="10s"))
        await asyncio.sleep(0)
        await queue.send("x")
        (delivery,) = await asyncio.wait_for(waiting, 5)
        assert delivery.body == "x"
        await delivery.ack()


def test_a_rate_wakes_one_client_when_it_allows_one_more(live: rq_dlq.Broker, raw: Any) -> None:
    """Each gets its message in time, and nobody polls."""
    queue = live.queue("a", rate="4/s")
    queue.send_many(range(7))
    assert len(queue.claim(9)) == 4
    before = claims(raw)
    clients = [Client(queue) for _ in range(3)]
    for client in clients:
        client.join(SOON)
    assert sorted(client.got[0].body for client in clients) == [4, 5, 6]
    assert claims(raw) - before <= 15


def test_a_rate_of_keys_wakes_one_client_at_the_slot(live: rq_dlq.Broker, raw: Any) -> None:
    """Also clients that slept before there was a slot: who claims one wakes one that sets its alarm."""
    queue = live.queue("a", per_key=rq_dlq.PerKey(rate="4/s"))
    queue.claim()
    before = claims(raw)
    clients = [Client(queue) for _ in range(3)]
    queue.send_many([rq_dlq.Message(n, key="k") for n in range(3)])
    for client in clients:
        client.join(SOON)
    assert sorted(client.got[0].body for client in clients) == [0, 1, 2]
    times = sorted(client.at for client in clients)
    assert times[2] - times[0] >= 0.49
    assert claims(raw) - before <= 18
