"""Nonsense from callers: each a clear error of ours, and nothing in Redis has changed.

The tables are data: who finds another way to call it wrongly adds a row.
"""

from __future__ import annotations

import logging
import math
import socket
import time
import traceback
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import redis

import rq_dlq
import rq_dlq.asyncio
from rq_dlq import (
    BrokerRefused,
    BrokerUnavailable,
    ConfigurationError,
    InvalidDuration,
    InvalidInput,
    InvalidMessage,
    InvalidName,
    LeaseLost,
    Message,
    MessageTooLarge,
    PolicyError,
    Redeliver,
    RedeliveryPolicy,
    RqDlqError,
)
from rq_dlq.worker import Worker
from tests import servers
from tests.contents import contents
from tests.tables import each_row

CYCLE: list[Any] = []
CYCLE.append(CYCLE)
DEEP: list[Any] = []
for _ in range(100_000):
    DEEP = [DEEP]


class Hostile:
    """Its every method fails."""

    def __repr__(self) -> str:
        message = "no repr"
        raise RuntimeError(message)

    __str__ = __repr__


NAMES = [
    None, 1, b"a", "", " ", "a b", "a\n", "a\tb", "a\0b", "\x7f", "a{b", "a}", "{a}", "*", "a.*", "a.#", "a>",
    '"a"', "'a'", "a\\b", "\ud800", "a" * 201, "ä" * 101, "DLQ.DLQ.a", "EXP.DLQ.a", "DLQ.EXP.a",
    "DLQ.DLQ.DLQ.a", "DLQ. ", ["a"], object(), "a\u2028b", "a\u00a0b",
    "\u202eevil", "a\u200eb", "a\u2066", "\u061ca", "{\u200fa}.b", "DLQ.\u202dx",
    "a.{b}.c", "{a}b", "{}.a", "{a}.", "{a}.{b}", "{a.b", "{{a}}.b", "DLQ.{a}", "DLQ.a{b", "{DLQ.a}.b}",
    "DLQ." + "a" * 201, "DLQ.DLQ.{a}.b",
]  # fmt: skip
IDS = ["", " \n", "a\0", "a\nb", "a\tb", "\x7f", "\ud800", "a" * 201, "ä" * 101, 1, b"a", True, object()]
BODIES = [
    object(), lambda: None, iter([1]), 1j, CYCLE, DEEP, "\ud800", ["\udfff"], {"\ud800": 1}, {1j: 1},
    "x" * (1 << 20), b"x" * ((1 << 20) + 1), Hostile(), print, type,
]  # fmt: skip
DURATIONS = [
    -1, -0.001, math.nan, math.inf, -math.inf, True, False, "", " ", "5 parsecs", "1x", "-1s", "s", "1h-1m",
    "1m1h",
    "1e3", "0x10", "nan", "inf", "1,5s", b"1s", 10**400, "9" * 30, "3651d", 315_360_001, timedelta(days=3651),
    timedelta(seconds=-1), [1], object(), datetime(2026, 1, 1),  # noqa: DTZ001
]  # fmt: skip
PRIORITIES = [-1, 10, 2.5, 4.0, True, None, "4", b"4", math.nan, 10**30, object()]
HEADERS = [
    {"a": 1}, {1: "a"}, {"a": None}, {"a": b"b"}, {"a": ["b"]}, {"\ud800": "a"}, {"a": "\ud800"},
    {"a": "b" * 70_000},
    ["a"], [("a", "b")], "a=b", 5, object(), Hostile(),
]  # fmt: skip
COUNTS = [0, -1, 1001, True, None, 1.0, "1", math.nan, 10**30, object()]
FLAGS = [None, 0, 5, 0.5, "no", b"yes", [], {}, object()]
POLICIES: list[dict[str, Any]] = [
    {"max_redeliveries": -2}, {"max_redeliveries": 1.5}, {"max_redeliveries": True},
    {"max_redeliveries": "3"},
    {"initial_delay": -1}, {"initial_delay": "soon"}, {"initial_delay": True}, {"multiplier": 0.5},
    {"multiplier": math.nan}, {"multiplier": math.inf}, {"multiplier": "2"}, {"max_delay": -1},
    {"initial_delay": "1h", "max_delay": "1m"}, {"collision_avoidance": -0.1}, {"collision_avoidance": 1.1},
    {"collision_avoidance": math.nan}, {"delays": []}, {"delays": [-1]}, {"delays": "1s"},
    {"delays": [1, "x"]},
    {"delays": [1], "initial_delay": 2}, {"fatal": ("ValueError",)}, {"fatal": (1,)}, {"fatal": "ValueError"},
]  # fmt: skip
URLS = [
    "localhost", "http://localhost", "redis//localhost", "redis://localhost:port", "redis://localhost:99999999",
    "redis://user:secret@localhost:port", "redis://user:secret@localhost:1/0?socket_timeout=soon",
    "redis://user:se/cret@localhost:1", 5, b"redis://localhost", "\ud800", "memory://", "unix:",
]  # fmt: skip
OPTIONS: list[dict[str, Any]] = [
    {"namespace": ""}, {"namespace": "a b"}, {"namespace": "{a}"}, {"namespace": None}, {"naming": "DLQ."},
    {"max_message_bytes": 0}, {"max_message_bytes": -1}, {"max_message_bytes": "1"}, {"nonsense": 1},
    {"patience": "soon"}, {"patience": -1},
    {"urll": "x"},
]  # fmt: skip
TYPES = [1, "Order", object(), lambda: None, {"a": int}]


@pytest.fixture(params=["fake"])
def backend(request: pytest.FixtureRequest) -> str:
    """What is wrong is seen before any server is asked; where it is not, a test says so."""
    return str(request.param)


@pytest.fixture
def queue(sync_broker: rq_dlq.Broker, raw: Any) -> Iterator[Any]:
    """A queue with something in it; at the end that is still all."""
    queue = sync_broker.queue("a")
    queue.send("here before", id="m")
    queue.send("dead before", id="n", priority=9)
    queue.claim()[0].poison()
    before = contents(raw)
    yield queue
    assert contents(raw) == before


def sentence(error: BaseException) -> str:
    """The text of an error: short, printable, and it says something."""
    text = str(error)
    assert 20 < len(text) < 600
    text.encode()
    assert "\n" not in text
    return text


@each_row("name", NAMES)
def test_queue_names(name: Any, queue: Any) -> None:
    with pytest.raises(InvalidName) as raised:
        queue._broker.queue(name)
    sentence(raised.value)


@each_row("message_id", IDS)
def test_ids(message_id: Any, queue: Any) -> None:
    with pytest.raises(InvalidMessage) as raised:
        queue.send("x", id=message_id)
    sentence(raised.value)
    with pytest.raises(InvalidMessage):
        Message(body="x", id=message_id)


@each_row("ids", ["m", [""], [1], [None], [b"m"], 5])
def test_ids_of_dead_letters(ids: Any, queue: Any) -> None:
    for verb in (queue.dlq.redrive, queue.dlq.browse, queue.dlq.purge):
        with pytest.raises(InvalidInput) as raised:
            verb(ids=ids)
        sentence(raised.value)


@each_row("body", BODIES)
def test_bodies(body: Any, queue: Any) -> None:
    with pytest.raises(InvalidMessage) as raised:
        queue.send(body)
    sentence(raised.value)
    with pytest.raises(InvalidMessage):
        queue.send_many([1, 2, body])


def test_a_body_too_large_says_so(queue: Any) -> None:
    with pytest.raises(MessageTooLarge, match=r"send a reference to the data, or raise max_message_bytes"):
        queue.send("x" * (1 << 20))


@each_row("body", ["text", 1, None, {"a": 1}])
def test_bodies_of_a_queue_of_bytes(body: Any, queue: Any) -> None:
    with pytest.raises(InvalidMessage, match="the queue carries bytes"):
        queue._broker.queue("a", type=bytes).send(body)


@each_row("span", DURATIONS)
def test_durations(span: Any, queue: Any) -> None:
    broker = queue._broker
    for call in (
        lambda: queue.send("x", delay=span),
        lambda: queue.send("x", ttl=span),
        lambda: queue.send_many(["x"], delay=span),
        lambda: queue.claim(wait=span),
        lambda: queue.claim(lease=span),
        lambda: broker.queue("a", lease=span),
        lambda: queue.dlq.purge(older_than=span),
        lambda: queue.handler(timeout=span)(lambda body: body),
        lambda: Redeliver(after=span),
    ):
        with pytest.raises(InvalidDuration) as raised:
            call()
        sentence(raised.value)


@each_row("span", [0, "0s", 0.0001, timedelta(0)])
def test_durations_that_must_not_be_nothing(span: Any, queue: Any) -> None:
    for call in (
        lambda: queue.send("x", ttl=span),
        lambda: queue.claim(lease=span),
        lambda: queue._broker.queue("a", lease=span),
    ):
        with pytest.raises(InvalidDuration):
            call()


@each_row("priority", PRIORITIES)
def test_priorities(priority: Any, queue: Any) -> None:
    with pytest.raises(InvalidMessage) as raised:
        queue.send("x", priority=priority)
    sentence(raised.value)


@each_row("headers", HEADERS)
def test_headers(headers: Any, queue: Any) -> None:
    with pytest.raises(InvalidMessage) as raised:
        queue.send("x", headers=headers)
    sentence(raised.value)
    with pytest.raises(InvalidMessage):
        queue.send_many([Message(body=1, headers=headers)])


@each_row("flag", FLAGS)
def test_flags(flag: Any, queue: Any) -> None:
    for call in (
        lambda: queue.send("x", persistent=flag),
        lambda: queue.send_many(["x"], persistent=flag),
    ):
        with pytest.raises(InvalidInput, match="Pass True or False") as raised:
            call()
        sentence(raised.value)


@each_row("before", [0, 5, True, "now", [], object()])
def test_what_is_no_overview(before: Any, queue: Any) -> None:
    with pytest.raises(InvalidInput, match="Pass the return value of an earlier overview") as raised:
        queue._broker.overview(before)
    sentence(raised.value)


@each_row("limit", [None, -1, 1.5, True, "1"])
def test_limits_of_the_audit(limit: Any, queue: Any) -> None:
    with pytest.raises(InvalidInput) as raised:
        queue._broker.audit(limit)
    sentence(raised.value)


@each_row("name", [None, 5, b"a", "", " ", "a\nb", "\ud800", "a" * 200, ["a"]])
def test_names_of_schedules(name: Any, queue: Any) -> None:
    for call in (
        lambda: queue.schedule(name, "x", every="1h"),
        lambda: queue.unschedule(name),
        lambda: queue.pause_schedule(name),
        lambda: queue.resume_schedule(name),
    ):
        with pytest.raises(InvalidInput, match="cannot name a schedule") as raised:
            call()
        sentence(raised.value)


@each_row("job", [None, 5, b"a", ["a"], object()])
def test_ids_of_redrives(job: Any, queue: Any) -> None:
    with pytest.raises(InvalidInput, match="there is no redrive") as raised:
        queue.dlq.job(job)
    sentence(raised.value)


@each_row("function", [int, 5, None, lambda app: app])
def test_lifespans(function: Any, queue: Any) -> None:
    with pytest.raises(ConfigurationError, match="cannot be a lifespan") as raised:
        queue._broker.lifespan(function)
    sentence(raised.value)


@pytest.fixture
def handled(queue: Any) -> Any:
    """The queue, with a handler."""
    queue.handler(print)
    return queue


@each_row("until", [None, "burst", "", 5, True, ["empty"]])
def test_ends_of_a_worker(until: Any, handled: Any) -> None:
    with pytest.raises(ConfigurationError, match="'stopped', 'empty', 'drained'") as raised:
        Worker(handled._broker, until=until)
    sentence(raised.value)


@each_row("queues", [["a"], "a", 5, True, {"a"}])
def test_what_is_no_choice_of_queues(queues: Any, handled: Any) -> None:
    with pytest.raises(ConfigurationError, match="Pass a mapping of names") as raised:
        Worker(handled._broker, queues=queues)
    sentence(raised.value)


@each_row("count", COUNTS)
def test_counts(count: Any, queue: Any) -> None:
    with pytest.raises(InvalidInput) as raised:
        queue.claim(count)
    sentence(raised.value)


@each_row("items", [5, None, object()])
def test_what_is_no_iterable(items: Any, queue: Any) -> None:
    with pytest.raises(InvalidInput) as raised:
        queue.send_many(items)
    sentence(raised.value)


@each_row("items", ["text", b"bytes"])
def test_a_text_is_not_sent_character_by_character(items: Any, queue: Any) -> None:
    with pytest.raises(InvalidInput):
        queue.send_many(items)


@each_row("batch", [5, None, "m", ["m"], [None], {"m": 1}, [("m", "t")]])
@each_row("verb", ["ack", "nack", "poison", "release", "extend"])
def test_batches(verb: str, batch: Any, queue: Any) -> None:
    with pytest.raises(InvalidInput) as raised:
        getattr(queue, verb)(batch)
    sentence(raised.value)


@each_row("settings", POLICIES)
def test_policies(settings: dict[str, Any]) -> None:
    with pytest.raises(PolicyError) as raised:
        RedeliveryPolicy(**settings)
    sentence(raised.value)


@each_row("policy", [5, "1s", {"max_redeliveries": "1"}, {"retries": 1}, RedeliveryPolicy, object()])
def test_what_is_no_policy(policy: Any, queue: Any) -> None:
    with pytest.raises(InvalidInput) as raised:
        queue._broker.queue("b", redelivery=policy)
    sentence(raised.value)


@each_row("name", ["DLQ.a", "EXP.a"])
def test_a_policy_where_there_is_no_redelivery(name: str, queue: Any) -> None:
    with pytest.raises(InvalidInput, match="has no policy, since messages that fail there stay there"):
        queue._broker.queue(name, redelivery=RedeliveryPolicy())


@each_row("kind", TYPES)
def test_types_of_bodies(kind: Any, queue: Any) -> None:
    with pytest.raises(InvalidInput) as raised:
        queue._broker.queue("b", type=kind)
    sentence(raised.value)


@each_row("since", ["yesterday", 5, datetime(2026, 1, 1)])  # noqa: DTZ001
def test_since(since: Any, queue: Any) -> None:
    with pytest.raises(InvalidInput) as raised:
        queue.dlq.browse(since=since)
    sentence(raised.value)


@each_row("limit", [-1, 1.5, True, "1", math.nan])
def test_limits(limit: Any, queue: Any) -> None:
    for call in (queue.dlq.browse, queue.peek):
        with pytest.raises(InvalidInput) as raised:
            call(limit=limit)
        sentence(raised.value)


@each_row("concurrency", [0, -1, 1001, True, 1.5, "1", None])
def test_concurrency(concurrency: Any, queue: Any) -> None:
    with pytest.raises(ConfigurationError) as raised:
        queue.handler(concurrency=concurrency)(lambda body: body)
    sentence(raised.value)


@each_row("concurrency", [0, -1, 1001, True, 2.0, "4"])
def test_concurrency_of_a_worker(concurrency: Any, handled: Any) -> None:
    with pytest.raises(ConfigurationError, match="use a whole number from 1 to 1,000") as raised:
        Worker(handled._broker, queues={"a": concurrency})
    sentence(raised.value)


@pytest.fixture
def delivery(sync_broker: rq_dlq.Broker) -> rq_dlq.Delivery[Any]:
    """One that is held, of the queue `a`."""
    queue = sync_broker.queue("a")
    queue.send("x")
    (claimed,) = queue.claim()
    return claimed


@each_row("delay", DURATIONS)
def test_delays_of_a_nack(delay: Any, delivery: rq_dlq.Delivery[Any], raw: Any) -> None:
    before = contents(raw)
    with pytest.raises(InvalidDuration):
        delivery.nack(delay=delay)
    with pytest.raises(InvalidDuration):
        delivery.extend(delay)
    assert contents(raw) == before


@each_row("charge", FLAGS)
def test_what_is_neither_charged_nor_free(
    charge: Any, delivery: rq_dlq.Delivery[Any], sync_broker: rq_dlq.Broker, raw: Any
) -> None:
    queue, before = sync_broker.queue("a"), contents(raw)
    for nack in (lambda: delivery.nack(charge=charge), lambda: queue.nack([delivery], charge=charge)):
        with pytest.raises(InvalidInput, match="Pass True or False") as raised:
            nack()
        sentence(raised.value)
    assert contents(raw) == before


@each_row("error", [5, b"bytes", {"a": 1}, KeyError, object(), Hostile()])
def test_errors_of_a_nack_may_be_anything(error: Any, sync_broker: rq_dlq.Broker, raw: Any) -> None:
    """Whoever has nothing better to say must not lose the message by it."""
    del raw
    queue = sync_broker.queue("a", redelivery=RedeliveryPolicy(delays=[0], max_redeliveries=0))
    for verb in ("nack", "poison"):
        queue.send("x")
        (delivery,) = queue.claim()
        getattr(delivery, verb)(error)
    assert [bool(letter.cause.message) for letter in queue.dlq.browse()] == [True, True]
    queue.dlq.purge(all=True)


# Where Redis is


@each_row("url", URLS)
def test_urls_of_nonsense(url: Any) -> None:
    with pytest.raises(RqDlqError) as raised:
        rq_dlq.Broker(url).queue("a").send("x")
    text = sentence(raised.value)
    shown = "".join(traceback.format_exception(raised.value))
    assert not {"secret", "se/cret", "cret"} & set(shown.replace("@", " ").split()), shown
    assert "secret" not in text
    assert "cret@" not in shown


@each_row("options", OPTIONS)
def test_options_of_a_broker(options: dict[str, Any]) -> None:
    with pytest.raises((InvalidInput, ConfigurationError)) as raised:
        rq_dlq.Broker("redis://localhost", **options)
    sentence(raised.value)


PASSWORDS = [
    ("redis://user:hunter2@{}", "hunter2"),
    ("redis://:hunter2@{}", "hunter2"),
    ("redis://:hunter2:more@{}", "hunter2"),
    ("redis://:hun%2Fter2@{}", "hun%2Fter2"),
    ("redis://:@hunter2@{}", "hunter2"),
    ("redis://{}?password=hunter2", "hunter2"),
]


@pytest.fixture
def nobody() -> str:
    """An address at which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@each_row("url, password", PASSWORDS)
def test_a_server_that_is_not_there(url: str, password: str, nobody: str, caplog: Any) -> None:
    """It is told soon, what to do is told, the password is not."""
    caplog.set_level(logging.DEBUG)
    broker = rq_dlq.Broker(url.format(nobody))
    begin = time.monotonic()
    with pytest.raises(BrokerUnavailable) as raised:
        broker.queue("a").send("x")
    assert time.monotonic() - begin < 10
    text = sentence(raised.value)
    assert text.startswith("cannot reach redis://")
    assert text.endswith("start Redis, set RQ_DLQ_URL, or omit the URL to use the embedded server")
    shown = "".join(traceback.format_exception(raised.value)) + caplog.text
    for where in (text, shown, repr(broker), repr(broker.queue("a")), broker.url, repr(broker.settings)):
        assert password not in where


async def test_a_server_that_is_not_there_awaiting(nobody: str) -> None:
    broker = rq_dlq.asyncio.Broker(f"redis://user:hunter2@{nobody}")
    with pytest.raises(BrokerUnavailable) as raised:
        await broker.queue("a").send("x")
    assert "hunter2" not in "".join(traceback.format_exception(raised.value)) + repr(broker)


def test_a_socket_that_is_not_there() -> None:
    with pytest.raises(BrokerUnavailable, match=r"cannot reach unix:///nowhere/redis\.sock"):
        rq_dlq.Broker("unix:///nowhere/redis.sock").queue("a").send("x")


def test_a_name_that_does_not_resolve() -> None:
    with pytest.raises(BrokerUnavailable, match=r"cannot reach redis://nobody\.invalid:6379"):
        rq_dlq.Broker("redis://nobody.invalid:6379").queue("a").send("x")


def test_something_that_is_no_redis() -> None:
    """It answers, but not in the protocol."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def answer() -> None:
            for _ in range(9):
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                peer.close()

        import threading  # noqa: PLC0415

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        with pytest.raises(RqDlqError) as raised:
            rq_dlq.Broker(f"redis://127.0.0.1:{port}").queue("a").send("x")
        sentence(raised.value)
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    """A server that wants a password."""
    with servers.running() as path:
        client = redis.Redis(unix_socket_path=path)
        client.config_set("requirepass", "right")
        client.close()
        yield path


@each_row(
    "credentials, advice",
    [
        (":wrong-one@", "user or password is wrong"),
        ("bob:wrong-one@", "user or password is wrong"),
        ("", "the server requires a password"),
    ],
)
def test_passwords(credentials: str, advice: str, guarded: str) -> None:
    begin = time.monotonic()
    with pytest.raises(BrokerRefused, match=advice) as raised:
        rq_dlq.Broker(f"unix://{credentials}{guarded}").queue("a").send("x")
    assert time.monotonic() - begin < 10
    assert "wrong-one" not in "".join(traceback.format_exception(raised.value))
    with rq_dlq.Broker(f"unix://:right@{guarded}") as broker:
        assert broker.queues() == []


@pytest.fixture(scope="module")
def evicting() -> Iterator[str]:
    """A server that drops keys when memory is full."""
    with servers.running("--maxmemory-policy", "allkeys-lru") as path:
        yield path


def test_a_server_that_evicts_is_refused(evicting: str) -> None:
    with rq_dlq.Broker(f"unix://{evicting}") as broker:
        with pytest.raises(BrokerRefused, match="maxmemory-policy is allkeys-lru") as raised:
            broker.queue("a").send("x")
        assert "CONFIG SET maxmemory-policy noeviction" in sentence(raised.value)
    client = redis.Redis(unix_socket_path=evicting)
    assert client.dbsize() == 0
    client.close()


async def test_a_server_that_evicts_is_refused_awaiting(evicting: str) -> None:
    async with rq_dlq.asyncio.Broker(f"unix://{evicting}") as broker:
        for _ in range(2):
            with pytest.raises(BrokerRefused, match="maxmemory-policy is allkeys-lru"):
                await broker.queue("a").send("x")


def test_a_server_that_evicts_may_be_accepted(evicting: str) -> None:
    with rq_dlq.Broker(f"unix://{evicting}", require_noeviction=False) as broker:
        broker.queue("a").send("x")
        assert broker.queue("a").purge(all=True) == 1


KEYS = [
    "messages", "states", "history", "ready", "scheduled", "dead", "expired", "expiring", "leases", "claims",
    "counters",
]  # fmt: skip


@pytest.mark.parametrize("backend", ["fake", "real"], indirect=True)
@pytest.mark.parametrize("key", KEYS)
def test_a_key_of_the_wrong_type(key: str, sync_broker: rq_dlq.Broker, raw: Any) -> None:
    """I9: each call is refused or works, and nothing is lost: without the key all is as it was."""
    queue = sync_broker.queue("a", redelivery=RedeliveryPolicy(delays=[0], max_redeliveries=None))
    queue.send_many(range(5))
    queue.send("delayed", delay="1h", ttl="2h")
    held = queue.claim(2)
    held[0].nack("boom")
    path, aside = f"rq:{{a}}:{key}", "aside"
    if raw.exists(path):
        raw.rename(path, aside)
    raw.set(path, "something else")
    refused = 0
    for call in (
        lambda: queue.send("new", id="new"),
        lambda: queue.claim(1),
        held[1].ack,
        held[1].nack,
        held[1].release,
        held[1].extend,
        queue.stats,
        queue.peek,
        queue.maintain,
        queue.dlq.browse,
        lambda: queue.dlq.redrive(all=True),
    ):
        try:
            call()
        except BrokerRefused as error:
            refused += "a key of the queue holds something else" in sentence(error)
        except LeaseLost:
            continue
    assert refused
    raw.delete(path)
    if raw.exists(aside):
        raw.rename(aside, path)
    queue.send("last", id="last")
    seen: list[Any] = []
    for _ in range(10):
        seen += [delivery.body for delivery in queue.claim(100, lease="1h")]
    raw.flushall()  # the counts may have moved; no message has
    assert {2, 3, 4, "last"} <= set(seen)
