"""What a worker does with the calls of its handlers."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

import pytest

import rq_dlq
from rq_dlq import (
    Breaker,
    ConfigurationError,
    Message,
    Poison,
    Redeliver,
    RedeliveryPolicy,
    RqDlqError,
    SharedDeadLetterStrategy,
    UnprocessableMessage,
)
from rq_dlq.worker import Worker
from rq_dlq.worker.claiming import Pace
from rq_dlq.worker.consumer import Consumer
from rq_dlq.worker.reporting import Reporting
from tests.behaviour.helpers import after
from tests.servers import wait_until
from tests.tables import each_row
from tests.worker.conftest import Working

COLOURS = pytest.mark.parametrize("colour", ["def", "async def"])
LATER = after("1h", most=9)
CURRENT = ContextVar("current", default="")


def register(queue: Any, colour: str, work: Callable[[Any, Any], object], **options: Any) -> None:
    """Make a plain function the handler, as `def` or `async def`."""

    def plain(body: Any, delivery: Any) -> None:
        work(body, delivery)

    async def awaiting(body: Any, delivery: Any) -> None:
        await asyncio.sleep(0)
        work(body, delivery)

    queue.handler(**options)(plain if colour == "def" else awaiting)


def totals(queue: Any) -> dict[str, int]:
    return dict(queue.stats().totals)


@COLOURS
def test_every_message_is_handled_once(colour: str, broker: rq_dlq.Broker, working: Working) -> None:
    queue = broker.queue("a")
    seen: list[int] = []
    register(queue, colour, lambda body, _: seen.append(body), concurrency=4)
    queue.send_many(range(500))
    with working(broker):
        wait_until(lambda: totals(queue).get("acked") == 500)
    assert sorted(seen) == list(range(500))


def test_a_call_sees_no_context_variable_of_the_one_before(broker: rq_dlq.Broker, working: Working) -> None:
    queue, seen = broker.queue("a"), list[str]()

    @queue.handler(concurrency=2)
    async def handle(body: int) -> None:
        seen.append(CURRENT.get())
        CURRENT.set("of another call")
        await asyncio.sleep(0.001 * (body % 2))

    queue.send_many(range(20))
    with working(broker):
        wait_until(lambda: totals(queue).get("acked") == 20)
    assert seen == [""] * 20
    assert totals(queue).get("lapsed", 0) == 0


def test_a_handler_may_leave_out_the_delivery(broker: rq_dlq.Broker, working: Working) -> None:
    seen: list[Any] = []
    broker.queue("a").handler()(seen.append)
    broker.queue("a").send("x")
    with working(broker):
        wait_until(lambda: seen == ["x"])


def test_one_worker_serves_many_queues(broker: rq_dlq.Broker, working: Working) -> None:
    seen: set[tuple[str, Any]] = set()
    for name, colour in (("a", "def"), ("b", "async def"), ("c", "def")):
        queue = broker.queue(name)
        register(queue, colour, lambda body, delivery: seen.add((delivery.queue, body)))
        queue.send(1)
    with working(broker):
        wait_until(lambda: seen == {("a", 1), ("b", 1), ("c", 1)})


def test_only_the_named_queues(broker: rq_dlq.Broker, working: Working) -> None:
    seen: list[Any] = []
    for name in ("a", "b"):
        register(broker.queue(name), "def", lambda _, delivery: seen.append(delivery.queue))
        broker.queue(name).send(1)
    with working(broker, queues={"b": 2}, until="empty"):
        wait_until(lambda: seen == ["b"])
    assert broker.queue("a").stats().ready == 1


def test_concurrent_defs_run_at_the_same_time(broker: rq_dlq.Broker, working: Working) -> None:
    queue, all_here = broker.queue("a"), threading.Barrier(4)
    register(queue, "def", lambda _, __: all_here.wait(60), concurrency=4)
    queue.send_many(range(4))
    with working(broker):
        wait_until(lambda: totals(queue).get("acked") == 4)


def test_concurrent_async_defs_run_at_the_same_time(broker: rq_dlq.Broker, working: Working) -> None:
    queue, here, most = broker.queue("a"), [0], [0]

    @queue.handler(concurrency=4)
    async def handle(body: int) -> None:
        del body
        here[0] += 1
        most[0] = max(most[0], here[0])
        while most[0] < 4:  # noqa: ASYNC110 - a condition elsewhere
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        here[0] -= 1

    queue.send_many(range(12))
    with working(broker):
        wait_until(lambda: totals(queue).get("acked") == 12)
    assert most == [4]


def test_slow_handlers_claim_one_at_a_time_and_fast_ones_many() -> None:
    pace = Pace()
    assert pace.claim == 1
    pace.note(0.0005)
    assert pace.claim == 200
    for _ in range(20):
        pace.note(1.0)
    assert pace.claim == 1


def test_what_waits_behind_a_stuck_call_is_given_back(
    broker: rq_dlq.Broker, server: str, working: Working
) -> None:
    queue, go_on, stuck = broker.queue("a"), threading.Event(), threading.Event()

    def handle(body: Any) -> None:
        if body == "stuck":
            stuck.set()
            go_on.wait(60)

    queue.handler()(handle)
    queue.send_many(range(50))  # shows that the handler is fast, so that many are claimed
    other = rq_dlq.Broker(f"unix://{server}")
    helped: list[Any] = []
    other.queue("a").handler()(helped.append)
    with working(broker):
        wait_until(lambda: totals(queue).get("acked") == 50)
        queue.send_many(["stuck", *range(20)])
        assert stuck.wait(60)
        with working(other):
            wait_until(lambda: totals(queue).get("acked") == 70)
        go_on.set()
        wait_until(lambda: totals(queue).get("acked") == 71)
    assert helped
    assert totals(queue).get("lapsed", 0) == 0
    other.close()


@COLOURS
def test_a_long_call_keeps_its_lease(colour: str, broker: rq_dlq.Broker, working: Working) -> None:
    queue, seen = broker.queue("a", lease=2), list[int]()

    def plain(body: int, delivery: Any) -> None:
        seen.append(delivery.delivery_count)
        time.sleep(3 if body == 0 else 0)

    async def awaiting(body: int, delivery: Any) -> None:
        seen.append(delivery.delivery_count)
        await asyncio.sleep(3 if body == 0 else 0)

    queue.handler(concurrency=2)(plain if colour == "def" else awaiting)
    queue.send_many(range(3))
    with working(broker):
        wait_until(lambda: totals(queue).get("acked") == 3)
    assert seen == [1, 1, 1]
    assert totals(queue).get("lapsed", 0) == 0


@COLOURS
def test_a_handler_is_told_that_its_lease_was_lost(
    colour: str, broker: rq_dlq.Broker, raw: Any, working: Working, caplog: Any
) -> None:
    """Another holder has the message; the call's result does not count (I2)."""
    caplog.set_level(logging.INFO, "rq_dlq")
    queue = broker.queue("a", lease=2, redelivery=after("0s"))
    told, begun = list[bool](), threading.Event()

    def steal(delivery: Any) -> None:
        begun.set()
        raw.zadd("rq:{a}:leases", {delivery.token: 1})
        broker.queue("a", lease="1m").claim()

    def plain(body: Any, delivery: Any) -> None:
        del body
        steal(delivery)
        wait_until(lambda: delivery.lost)
        told.append(delivery.lost)

    async def awaiting(body: Any, delivery: Any) -> None:
        del body
        steal(delivery)
        while not delivery.lost:  # noqa: ASYNC110 - a condition elsewhere
            await asyncio.sleep(0.01)
        told.append(delivery.lost)

    queue.handler()(plain if colour == "def" else awaiting)
    queue.send("x")
    with working(broker):
        wait_until(lambda: told == [True])
    assert queue.stats().leased == 1
    assert "the lease was lost while its handler was running" in caplog.text
    assert "the result of attempt 1 is ignored" in caplog.text


def busy(body: Any) -> None:
    while body is not None:
        pass


async def asleep(body: Any) -> None:
    await asyncio.sleep(0 if body is None else 3600)


@pytest.mark.parametrize("function", [busy, asleep])
def test_a_timeout_ends_the_call(function: Any, broker: rq_dlq.Broker, working: Working) -> None:
    queue = broker.queue("a", redelivery=after("0s", most=0))
    queue.handler(timeout="0.1s")(function)
    queue.send_many(["x", None, "y", None])
    with working(broker):
        wait_until(lambda: (totals(queue).get("acked"), queue.stats().dead) == (2, 2))
    for letter in queue.dlq.browse():
        assert letter.cause.type.endswith("HandlerTimeout")
        assert letter.cause.message == "the call ran longer than its handler's timeout"
        assert letter.cause.traceback


@COLOURS
def test_a_timeout_of_the_handler_s_own_is_its_own(
    colour: str, broker: rq_dlq.Broker, working: Working
) -> None:
    queue = broker.queue("a", redelivery=after("0s", most=0))

    def fail(_: Any, __: Any) -> None:
        raise TimeoutError

    register(queue, colour, fail, timeout="10s")
    queue.send("x")
    with working(broker):
        wait_until(lambda: queue.stats().dead)
    assert [letter.cause.type for letter in queue.dlq.browse()] == ["TimeoutError"]


def deep(depth: int = 0) -> int:
    return deep(depth + 1) + 1


def spoiled() -> Redeliver:
    """A handler's instruction that was right when it was made."""
    error = Redeliver(after="1s")
    error.after = "soon"
    return error


class Busy(Redeliver):
    """A subclass that does not call the `__init__` of its base."""

    def __init__(self, seconds: float) -> None:
        self.after = seconds


class Unwilling(Redeliver):
    """A property of its own fails."""

    @property
    def charge(self) -> bool:
        """Whether it is charged."""
        raise ZeroDivisionError

    @charge.setter
    def charge(self, _: bool) -> None: ...


def undecided() -> Redeliver:
    error = Redeliver()
    error.charge = None  # type: ignore[assignment]
    return error


def unformatted() -> SyntaxError:
    """An error that Python's `traceback` fails at."""
    error = SyntaxError("bad")
    error.filename, error.lineno, error.text = "f", "one", "abc"  # type: ignore[assignment]
    error.offset = "two"  # type: ignore[assignment]
    return error


ERRORS: dict[str, tuple[Callable[[], BaseException], str, str]] = {
    # what the handler raises, what becomes of the message, the type of the cause
    "an error": (lambda: ValueError("bad"), "nacked", "ValueError"),
    "Redeliver": (lambda: Redeliver(after="2m"), "nacked", "rq_dlq.errors.Redeliver"),
    "Redeliver nonsense": (lambda: Redeliver(after="soon"), "nacked", "rq_dlq.errors.InvalidDuration"),
    "Redeliver spoiled": (spoiled, "nacked", "rq_dlq.errors.InvalidDuration"),
    "Redeliver undecided": (undecided, "nacked", "rq_dlq.errors.InvalidInput"),
    "Redeliver without init": (lambda: Busy(5), "nacked", "tests.worker.test_handlers.Busy"),
    "Redeliver that fails": (Unwilling, "nacked", "ZeroDivisionError"),
    "unformatted": (unformatted, "nacked", "SyntaxError"),
    "Poison": (lambda: Poison("bad"), "poison", "rq_dlq.errors.Poison"),
    "fatal": (lambda: KeyError("bad"), "poison", "KeyError"),
    "unprocessable": (
        lambda: UnprocessableMessage("bad"), "unprocessable", "rq_dlq.errors.UnprocessableMessage",
    ),
    "SystemExit": (lambda: SystemExit(3), "nacked", "SystemExit"),
    "KeyboardInterrupt": (KeyboardInterrupt, "nacked", "KeyboardInterrupt"),
    "MemoryError": (MemoryError, "nacked", "MemoryError"),
    "CancelledError": (asyncio.CancelledError, "nacked", "asyncio.exceptions.CancelledError"),
    "GeneratorExit": (GeneratorExit, "nacked", "GeneratorExit"),
    "StopIteration": (lambda: StopIteration(1), "nacked", ""),
    "a group": (lambda: ExceptionGroup("two", [KeyError("a"), KeyError("b")]), "nacked", "ExceptionGroup"),
    "no text": (type("Mute", (Exception,), {"__str__": lambda _: 1 / 0}), "nacked", "tests."),
    "surrogates": (lambda: ValueError("\ud800"), "nacked", "ValueError"),
    "huge": (lambda: ValueError("x" * 1_000_000), "nacked", "ValueError"),
}  # fmt: skip


@COLOURS
def test_whatever_a_handler_raises_the_worker_lives(
    colour: str, broker: rq_dlq.Broker, working: Working
) -> None:
    policy = RedeliveryPolicy(delays=["1h"], fatal=(KeyError,))
    queue = broker.queue("a", redelivery=policy)

    def handle(body: Any, _: Any) -> None:
        if body in ERRORS:
            error = ERRORS[body][0]()
            raise error

    register(queue, colour, handle)
    queue.send_many(list(ERRORS))
    queue.send("succeeds")
    with working(broker):
        wait_until(lambda: totals(queue).get("acked") == 1 and queue.stats().leased == 0)
    found = {message.body: ("nacked", message) for message in _scheduled(queue)}
    found |= {letter.body: (letter.reason, letter) for letter in queue.dlq.browse()}
    assert {name: outcome for name, (outcome, _) in found.items()} == {
        name: outcome for name, (_, outcome, _) in ERRORS.items()
    }
    for name, (_, _, cause) in ERRORS.items():
        assert found[name][1].history[-1].cause.type.startswith(cause), name


def _scheduled(queue: Any) -> list[Any]:
    found: list[Any] = queue.select(places=["scheduled"]).browse()
    return found


@COLOURS
@pytest.mark.parametrize("make", [lambda: Redeliver(after="soon"), spoiled])
def test_a_delay_that_is_none_is_logged(
    make: Callable[[], Redeliver], colour: str, broker: rq_dlq.Broker, working: Working, caplog: Any
) -> None:
    caplog.set_level(logging.INFO, "rq_dlq")
    queue = broker.queue("a", redelivery=after("1h"))

    def fail(_: Any, __: Any) -> None:
        raise make()

    register(queue, colour, fail)
    queue.send("x")
    with working(broker):
        wait_until(lambda: "'soon' is not a duration" in caplog.text)
    assert "back in" in caplog.text


@COLOURS
def test_a_subclass_of_redeliver_need_not_call_its_base(
    colour: str, broker: rq_dlq.Broker, caplog: Any
) -> None:
    caplog.set_level(logging.INFO, "rq_dlq")
    queue = broker.queue("a", redelivery=after("1h"))

    def fail(_: Any, __: Any) -> None:
        raise Busy(120)

    register(queue, colour, fail)
    queue.send("x")
    broker.run(burst=True)
    assert "back in 2m" in caplog.text


@COLOURS
def test_endless_recursion_is_an_error_like_others(
    colour: str, broker: rq_dlq.Broker, working: Working
) -> None:
    queue = broker.queue("a", redelivery=after("0s", most=0))
    register(queue, colour, lambda body, _: deep() if body == "deep" else None)
    queue.send_many(["deep", "next"])
    with working(broker):
        wait_until(lambda: (queue.stats().dead, totals(queue).get("acked")) == (1, 1))
    assert queue.dlq.browse()[0].cause.type == "RecursionError"


@pytest.mark.parametrize("verb", ["ack", "nack", "poison", "release"])
def test_a_handler_may_settle_itself(verb: str, broker: rq_dlq.Broker, working: Working, caplog: Any) -> None:
    """Its end then changes nothing, and no lease is missed meanwhile."""
    caplog.set_level(logging.WARNING, "rq_dlq")
    queue = broker.queue("a", lease=1, redelivery=LATER)
    ended = threading.Event()

    def handle(body: Any, delivery: Any) -> None:
        if delivery.delivery_count == 1 and body == "x":
            getattr(delivery, verb)()
            time.sleep(0.5)
            ended.set()

    queue.handler()(handle)
    queue.send("x")
    with working(broker):
        assert ended.wait(60)
        queue.send("y")
        wait_until(lambda: totals(queue).get("acked", 0) == (2 if verb in {"ack", "release"} else 1))
    assert "lost" not in caplog.text
    names = {"ack": "acked", "nack": "nacked", "poison": "poison", "release": "released"}
    assert totals(queue)[names[verb]] == (2 if verb == "ack" else 1)


def test_an_async_handler_may_settle_itself(broker: rq_dlq.Broker, working: Working) -> None:
    queue = broker.queue("a", redelivery=LATER)

    @queue.handler()
    async def handle(body: Any, delivery: Any) -> None:
        del body
        await delivery.poison("my own verdict")

    queue.send("x")
    with working(broker):
        wait_until(lambda: queue.stats().dead)
    assert totals(queue).get("acked", 0) == 0


def test_burst_stops_when_nothing_is_ready(broker: rq_dlq.Broker) -> None:
    queue, others = broker.queue("a", redelivery=after("0s", most=1)), broker.queue("b")
    register(queue, "def", lambda _, __: 1 / 0, concurrency=2)
    seen: list[int] = []
    register(others, "async def", lambda body, _: seen.append(body), concurrency=3)
    queue.send_many(range(20))
    others.send_many(range(200))
    others.send("scheduled", delay="1h")
    broker.run(burst=True)
    assert queue.stats().dead == 20
    assert sorted(seen) == list(range(200))
    assert others.stats().scheduled == 1


@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
@COLOURS
def test_each_failure_is_a_line_and_a_death_has_its_traceback(
    colour: str, level: int, broker: rq_dlq.Broker, caplog: Any
) -> None:
    caplog.set_level(level, "rq_dlq")
    queue = broker.queue("a", redelivery=after("0s", "0s", most=1))

    def fail(_: Any, __: Any) -> None:
        message = "no stock"
        raise ValueError(message)

    register(queue, colour, fail)
    queue.send("x", id="m")
    broker.run(burst=True)
    failures = [record for record in caplog.records if " failed: " in record.getMessage()]
    assert [(record.getMessage(), record.levelname) for record in failures] == [
        ("a m: try 1 of 2 failed: ValueError: no stock; back in 0s", "WARNING"),
        ("a m: try 2 of 2 failed: ValueError: no stock; dead letter in DLQ.a", "ERROR"),
    ]
    assert [bool(record.exc_info) for record in failures] == [level == logging.DEBUG, True]


def test_the_line_of_a_failure_names_what_its_message_waits_for(broker: rq_dlq.Broker, caplog: Any) -> None:
    """Not "back in 0s", while the breaker lets one probe after the other fail."""
    queue = broker.queue("a", breaker=Breaker(distinct=2), redelivery=after("1h"))

    def fail(_: Any, __: Any) -> None:
        message = "503"
        raise ConnectionError(message)

    register(queue, "def", fail)
    queue.send_many([Message("x", id=id) for id in ("m", "n")], dependency="payments")
    broker.run(burst=True)
    assert [line for line in caplog.messages if " failed: " in line] == [
        "a m: try 1 failed: ConnectionError: 503; back in 1h",
        "a n: uncharged attempt 1 failed: ConnectionError: 503; back as soon as payments is up",
    ]


UNCHARGED = "uncharged attempt 1 failed: Redeliver: redeliver after 5m; back in 5m"


@each_row(
    ("name", "error", "says"),
    [
        ("a", ValueError("x"), "try 1 of 3 failed: ValueError: x; back in 1h"),
        ("b", Redeliver(after="5m"), "try 1 of 3 failed: Redeliver: redeliver after 5m; back in 5m"),
        ("c", Redeliver(after="5m", charge=False), UNCHARGED),
        ("d", Redeliver(after="5m", pause_key=True), UNCHARGED),
    ],
)
def test_the_line_of_a_failure_counts_what_is_charged(
    name: str, error: Exception, says: str, broker: rq_dlq.Broker, caplog: Any
) -> None:
    caplog.set_level(logging.INFO, "rq_dlq")
    queue = broker.queue(name, redelivery=after("1h", most=2))

    def fail(_: Any, __: Any) -> None:
        raise error

    register(queue, "def", fail)
    queue.send("x", id="m", key="k")
    Worker(broker, queues={name: None}, until="empty").run()
    assert f"{name} m: {says}" in caplog.messages


def test_the_line_of_a_failure_names_the_policy_in_force(broker: rq_dlq.Broker, caplog: Any) -> None:
    """An operator set it."""
    queue = broker.queue("a")
    broker.policies.set("a", redelivery={"max_redeliveries": 0}, dead_letter=SharedDeadLetterStrategy("LOST"))

    def fail(_: Any, __: Any) -> None:
        raise Poison

    register(queue, "def", fail)
    queue.send("x", id="m")
    broker.run(burst=True)
    assert "a m: try 1 of 1 failed: Poison; dead letter in LOST" in caplog.messages


def test_a_redelivery_that_was_asked_for_is_no_warning(broker: rq_dlq.Broker, caplog: Any) -> None:
    caplog.set_level(logging.INFO, "rq_dlq")
    queue = broker.queue("a")

    def later(_: Any, __: Any) -> None:
        raise Redeliver(after="1h")

    register(queue, "def", later)
    queue.send("x", id="m")
    broker.run(burst=True)
    (record,) = [record for record in caplog.records if "back in 1h" in record.getMessage()]
    assert record.levelname == "INFO"
    (end,) = [line for line in caplog.messages if line.startswith("no message is ready")]
    assert "0 done, 1 failed, 0 dead; left: a: 1 scheduled, the next in " in end


def test_a_message_cannot_steer_the_log(broker: rq_dlq.Broker, caplog: Any) -> None:
    caplog.set_level(logging.INFO, "rq_dlq")
    queue = broker.queue("a", redelivery=after("0s", most=0))

    def fail(body: str, _: Any) -> None:
        raise ValueError(body)

    register(queue, "def", fail)
    queue.send("no\nERROR stock\x1b[2J\x9b0m\u2028\u202e\u061c", id="m")
    broker.run(burst=True)
    (line,) = [record.getMessage() for record in caplog.records if " failed: " in record.getMessage()]
    assert r"ValueError: no\nERROR stock\x1b[2J\x9b0m\u2028\u202e\u061c; dead letter" in line


def test_a_body_that_does_not_decode_reaches_no_handler(broker: rq_dlq.Broker, working: Working) -> None:
    broker.queue("a").send_many([b"{", 2])
    queue, seen = broker.queue("a", type=int), list[int]()
    register(queue, "def", lambda body, _: seen.append(body))
    with working(broker):
        wait_until(lambda: (seen, queue.stats().dead) == ([2], 1))


@COLOURS
def test_a_consumer_that_breaks_off_ends_the_worker_with_an_error(
    colour: str, broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that whoever started it starts it again."""

    def broken(_: Any, __: Any) -> None:
        raise KeyError

    monkeypatch.setattr("rq_dlq.worker.claimer.Claimer.claim", broken)
    register(broker.queue("a"), colour, lambda _, __: None)
    with pytest.raises(RqDlqError, match="a consumer failed"):
        broker.run()


@COLOURS
@pytest.mark.parametrize("where", ["start", "tend"])
def test_an_error_of_the_worker_itself_ends_its_consumers(
    where: str, colour: str, broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would go on without leases, after the lifespan was left."""
    queue, begun, notes = broker.queue("a"), threading.Event(), list[str]()
    start = Consumer.start

    def fails(*_: Any, **__: Any) -> None:
        wait_until(begun.is_set)
        raise RuntimeError("can't start new thread")

    def first_starts(consumer: Any) -> None:
        monkeypatch.setattr(Consumer, "start", fails)
        start(consumer)

    def plain(_: Any) -> None:
        begun.set()
        try:
            while not threading.Event().wait(0.005):
                pass
        finally:
            notes.append("ended")

    async def awaiting(_: Any) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            notes.append("ended")

    @broker.lifespan
    def resources() -> Iterator[None]:
        try:
            yield
        finally:
            notes.append("left")

    queue.handler(plain if colour == "def" else awaiting)
    broker.queue("b").handler(print)
    queue.send("x")
    if where == "start":
        monkeypatch.setattr(Consumer, "start", first_starts)
    else:
        monkeypatch.setattr(Reporting, "report", fails)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        broker.run()
    assert notes == ["ended", "left"]
    assert (queue.stats().ready, queue.stats().leased) == (1, 0)
    assert not [one for one in threading.enumerate() if one.name in {"rq-dlq a", "rq-dlq b"}]


def test_a_worker_without_handlers_is_refused(broker: rq_dlq.Broker) -> None:
    with pytest.raises(ConfigurationError, match="there is no handler to run"):
        broker.run()


def test_a_queue_without_a_handler_is_refused(broker: rq_dlq.Broker) -> None:
    register(broker.queue("a"), "def", lambda _, __: None)
    with pytest.raises(ConfigurationError, match="no handler takes the messages of 'b'"):
        Worker(broker, queues={"b": None})


def traced(function: Any) -> Any:
    """A decorator as many are: what wraps an `async def` is a `def`."""

    @wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return inner


def nested(result: Any) -> Any:
    """An `async def` that returns something."""

    async def handle(_: Any) -> Any:
        return result()

    return handle


async def awaits(_: Any) -> None:
    """What some decorator calls."""


def yields(_: Any) -> Iterator[None]:
    yield


async def yields_meanwhile(_: Any) -> AsyncIterator[None]:
    yield


UNRUN: dict[str, tuple[Any, str]] = {
    "def, a coroutine": (traced(awaits), "the call returned a coroutine, which is never awaited: make the"),
    "def, a generator": (traced(yields), "the call returned a generator, which is never run: remove"),
    "def, an async generator": (traced(yields_meanwhile), "the call returned an async generator, which"),
    "async def, a coroutine": (nested(lambda: awaits(1)), "the call returned a coroutine, which is never"),
    "async def, a generator": (nested(lambda: yields(1)), "the call returned a generator, which is never"),
    "async def, an async generator": (nested(lambda: yields_meanwhile(1)), "the call returned an async gen"),
}


@pytest.mark.parametrize("kind", UNRUN)
def test_a_message_of_which_nothing_has_run_is_not_acked(kind: str, broker: rq_dlq.Broker) -> None:
    function, said = UNRUN[kind]
    queue = broker.queue("a", redelivery=after("1h"))
    queue.handler(function)
    queue.send("x")
    broker.run(burst=True)
    (message,) = _scheduled(queue)
    assert message.history[-1].cause.type == "TypeError"
    assert message.history[-1].cause.message.startswith(said)


@pytest.mark.parametrize("result", [7, [1], iter("x"), Future(), object])
@COLOURS
def test_what_a_handler_returns_is_ignored(result: Any, colour: str, broker: rq_dlq.Broker) -> None:
    queue = broker.queue("a")
    queue.handler((lambda _: result) if colour == "def" else nested(lambda: result))
    queue.send("x")
    broker.run(burst=True)
    assert totals(queue)["acked"] == 1


class Awaits:
    """A handler that is an object."""

    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    async def __call__(self, body: Any, _: Any) -> None:
        await asyncio.sleep(0)
        self.seen.append(body)

    async def method(self, body: Any, _: Any) -> None:
        await self(body, _)


@pytest.mark.parametrize(
    "of",
    [Awaits, lambda seen: partial(Awaits(seen)), lambda seen: Awaits(seen).method],
    ids=["object", "partial", "method"],
)
def test_an_object_may_be_an_async_handler(of: Any, broker: rq_dlq.Broker) -> None:
    queue, seen = broker.queue("a"), list[Any]()
    queue.handler(of(seen))
    queue.send("x")
    broker.run(burst=True)
    assert (seen, totals(queue)["acked"]) == (["x"], 1)


class Yields:
    """It can be called, but a call runs nothing."""

    def __call__(self, _: Any) -> Iterator[None]:
        yield

    async def method(self, _: Any) -> AsyncIterator[None]:
        yield


@each_row("function", [
    yields, yields_meanwhile, Yields(), Yields().method, partial(yields), partial(partial(Yields())),
])  # fmt: skip
def test_a_function_that_yields_is_no_handler(function: Any, broker: rq_dlq.Broker) -> None:
    with pytest.raises(ConfigurationError, match="cannot be a handler: remove the `yield`"):
        broker.queue("a").handler(function)


@each_row("function", [lambda: None, lambda _, __, ___: None])
def test_a_function_that_takes_no_message_is_no_handler(function: Any, broker: rq_dlq.Broker) -> None:
    with pytest.raises(ConfigurationError, match="a handler takes"):
        broker.queue("a").handler()(function)


def test_two_handlers_for_a_queue_are_refused(broker: rq_dlq.Broker) -> None:
    register(broker.queue("a"), "def", lambda _, __: None)
    with pytest.raises(ConfigurationError, match="already has a handler"):
        register(broker.queue("a"), "def", lambda _, __: None)


@COLOURS
@pytest.mark.parametrize("how", ["with", "nack", "batch", "poison"])
def test_a_handler_that_settles_by_itself_is_logged_as_well(
    how: str, colour: str, broker: rq_dlq.Broker, caplog: Any
) -> None:
    caplog.set_level(logging.INFO, "rq_dlq")
    queue = broker.queue("a", redelivery=after("1h"))

    def plain(_: Any, delivery: rq_dlq.Delivery[Any]) -> None:
        error = ValueError("no card")
        match how:
            case "with":
                with delivery:
                    raise error
            case "nack":
                delivery.nack(error)
            case "batch":
                queue.nack([delivery], error)
            case _:
                with delivery:
                    raise Poison("no card")

    async def awaiting(_: Any, delivery: Any) -> None:
        error = ValueError("no card")
        match how:
            case "with":
                async with delivery:
                    raise error
            case "nack":
                await delivery.nack(error)
            case "batch":
                await delivery._queue.nack([delivery], error)
            case _:
                async with delivery:
                    raise Poison("no card")

    queue.handler(plain if colour == "def" else awaiting)
    queue.send("x", id="m")
    broker.run(burst=True)
    (line,) = [line for line in caplog.messages if line.startswith("a m: ")]
    kind, then = ("Poison", "dead letter in DLQ.a") if how == "poison" else ("ValueError", "back in 1h")
    assert line == f"a m: try 1 failed: {kind}: no card; {then}"


def test_an_error_after_the_ack_is_logged(broker: rq_dlq.Broker, caplog: Any) -> None:
    queue = broker.queue("a")

    @queue.handler
    def acks(_: Any, delivery: rq_dlq.Delivery[Any]) -> None:
        delivery.ack()
        raise ValueError("too late")

    queue.send("x", id="m")
    broker.run(burst=True)
    assert "a m: its handler failed after it was acked: ValueError: too late" in caplog.messages
    assert totals(queue) == {"sent": 1, "acked": 1} | {
        k: n for k, n in totals(queue).items() if k == "claimed"
    }


def test_the_result_for_a_message_that_is_gone_is_ignored(broker: rq_dlq.Broker, caplog: Any) -> None:
    queue = broker.queue("a")
    queue.handler()(lambda _: queue.delete(force=True))
    queue.send("x", id="m")
    broker.run(burst=True)
    assert "a m: it is no longer in the queue, so the result of attempt 1 is ignored" in caplog.messages


def test_a_burst_ends_with_a_sum(broker: rq_dlq.Broker, caplog: Any) -> None:
    caplog.set_level(logging.INFO, "rq_dlq")
    queue = broker.queue("a")

    def work(body: Any, _: Any) -> None:
        if body == "bad":
            raise Poison

    register(queue, "def", work)
    queue.send_many(["good", "good", "bad"])
    broker.run(burst=True)
    assert "no message is ready: 2 done, 1 failed, 1 dead; left: nothing" in caplog.messages


@dataclass
class Order:
    total: float


def sees_orders(seen: list[Any]) -> Callable[[Any], None]:
    def charge(order: Order) -> None:
        seen.append(order)

    return charge


@COLOURS
def test_the_annotation_of_the_body_is_its_type(colour: str, broker: rq_dlq.Broker) -> None:
    seen: list[Any] = []
    queue = broker.queue("a")
    charge = sees_orders(seen)

    async def awaiting(order: Order, _: Any) -> None:
        charge(order)

    queue.handler(charge if colour == "def" else awaiting)
    queue.send_many([{"total": 9.5}, {"total": "9.5"}])
    broker.run(burst=True)
    assert seen == [Order(9.5)]
    (message,) = queue.select(all=True).browse()
    assert [event.event for event in message.history] == ["passed_on"]


def test_the_type_of_a_queue_comes_before_an_annotation(broker: rq_dlq.Broker) -> None:
    seen: list[Any] = []
    queue = broker.queue("a", type=dict[str, float])
    queue.handler(sees_orders(seen))
    queue.send({"total": 9.5})
    broker.run(burst=True)
    assert seen == [{"total": 9.5}]


@pytest.mark.parametrize("wrong", ["Nowhere", "threading.Lock"])
def test_an_annotation_that_is_not_a_type_of_bodies_is_refused(wrong: str, broker: rq_dlq.Broker) -> None:
    def charge(order: Any) -> None:
        del order

    charge.__annotations__["order"] = wrong
    broker.queue("a").handler(charge)
    with pytest.raises(ConfigurationError, match=r"annotation of handler 'charge'"):
        Worker(broker)


@pytest.mark.parametrize("when", ["before", "while it is settled"])
def test_a_handler_that_had_its_own_task_cancelled_is_settled(when: str, broker: rq_dlq.Broker) -> None:
    queue = broker.queue("a", redelivery=LATER)

    @queue.handler()
    async def handle(body: Any) -> None:
        del body
        task = asyncio.current_task()
        assert task
        if when == "before":
            task.cancel()
        else:
            asyncio.get_running_loop().call_soon(task.cancel)
        raise ValueError("it failed")

    queue.send(1)
    worker = Worker(broker, until="empty")
    worker.run()
    assert worker.tally.counts == {"redelivered": 1}
    assert queue.stats().scheduled == 1
