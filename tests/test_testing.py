"""The pytest plugin, as the tests of a program use it; on fakeredis and on a real server."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis

import rq_dlq as library
import rq_dlq.asyncio
from rq_dlq import BrokerUnavailable, ConfigurationError, InvalidInput, LeaseLost, RedeliveryPolicy
from rq_dlq._redis import AsyncConnections
from rq_dlq.core.claiming.claim import claim
from rq_dlq.core.steps.step import Steps, Wait
from rq_dlq.testing import TestBroker
from rq_dlq.testing.redirect import redirected
from rq_dlq.testing.server import _of_process, server_at

pytest_plugins = ["pytester"]

# A program: its broker and queues are made where it is imported, long before a test.
program = library.Broker("redis://production.example:6379", durability="fsync")
orders = program.queue(
    "orders", redelivery=RedeliveryPolicy(initial_delay="1m", collision_avoidance=0, max_redeliveries=1)
)
mail = program.queue("mail")
payments = library.Broker("redis://production.example:6379", durability="replicated").queue("payments")
handled: list[Any] = []


@orders.handler()
def charge(order: Any) -> None:
    if order == "bad":
        raise ValueError("no card")
    handled.append(order)
    mail.send(f"receipt for {order}")


@mail.handler()
async def post(text: str) -> None:
    await asyncio.sleep(0)
    handled.append(text)


@program.task(queue="greetings")
def welcome(user: int, *, lang: str = "en") -> None:
    handled.append((user, lang))


@program.task(queue="greetings", cron="0 7 * * *", missed="skip")
def greet(*, delivery: library.Delivery[Any] | None = None) -> None:
    assert delivery is not None
    handled.append(delivery.headers["tick"])


@pytest.fixture(params=["fake", "real"])
def broker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestBroker]:
    """What the fixture `rq_dlq` gives, on both kinds of server."""
    handled.clear()
    url = None
    if request.param == "real":
        url = f"unix://{request.getfixturevalue('empty_socket')}?db=9"
    with server_at(url) as server:
        yield redirected(server, monkeypatch)
        monkeypatch.undo()


def test_a_failure_comes_back_and_dies(broker: TestBroker) -> None:
    """The program's own queues and handlers, on the server of the test; time is moved."""
    orders.send("bad", id="b")
    orders.send("good")
    assert broker.drain(orders) == {"acked": 1, "redelivered": 1}
    assert handled == ["good"]
    broker.advance("59s")
    assert broker.drain(orders) == {}
    broker.advance("1s")
    assert broker.drain(orders) == {"dead": 1}
    (letter,) = broker.assert_dead(orders, 1, reason="exhausted")
    assert (letter.id, letter.cause.message) == ("b", "no card")
    assert letter.died_at == broker.now


def test_time_stands_still(broker: TestBroker) -> None:
    before = broker.now
    orders.send("x", delay="1h")
    assert broker.now == before
    broker.advance("1h")
    assert broker.now - before == timedelta(hours=1)
    assert len(orders.claim()) == 1


def bury(count: int) -> None:
    """Dead letters whose handler would succeed now."""
    mail.send_many(map(str, range(count)))
    for delivery in mail.claim(count):
        delivery.poison(ValueError("closed"))


@pytest.mark.parametrize("detach", [True, False])
def test_a_redrive_goes_on_at_its_rate(broker: TestBroker, detach: bool) -> None:
    bury(20)
    job = mail.dlq.redrive(all=True, rate=2, detach=detach)
    if not detach:
        broker.advance("9s")
        assert job.refresh().counts.moved == 0
        broker.advance("1s")
    broker.advance("2s")
    assert 4 <= job.refresh().counts.moved <= 8, "a rate that was not used for a second is saved"
    broker.advance("1h")
    assert (job.refresh().state, job.counts.moved) == ("done", 20)


def test_a_redrive_waits_for_its_canary(broker: TestBroker) -> None:
    bury(3)
    job = mail.dlq.redrive(all=True, canary=1, detach=True)
    broker.advance("7d")
    assert (job.refresh().state, job.counts.moved) == ("running", 1)
    assert broker.drain(mail) == {"acked": 1}
    broker.advance("1s")
    assert (job.refresh().state, job.counts.moved) == ("done", 3)


@pytest.mark.parametrize("test", [1, 2])
def test_each_test_has_an_empty_server(broker: TestBroker, test: int) -> None:
    """The objects of the program are the same, and what they remember of the last server does no harm."""
    assert broker.queues() == []
    assert orders.send(test, id="the same", on_duplicate="raise") == "the same"
    assert [delivery.body for delivery in orders.claim(10)] == [test]


def test_what_is_not_dead_is_told(broker: TestBroker) -> None:
    orders.send("bad", id="b")
    with pytest.raises(AssertionError, match=r"expected dead letters of 'orders', found 0 of 0; .*ready=1"):
        broker.assert_dead(orders)
    (delivery,) = orders.claim()
    delivery.poison(ValueError("broken"))
    with pytest.raises(
        AssertionError, match=r"(?s)expected 2 dead of 'orders', found 1 .* b: poison .* broken"
    ):
        broker.assert_dead(orders, 2)
    with pytest.raises(AssertionError, match=r"by reason 'expired', found 0 of 1"):
        broker.assert_dead(orders, reason="expired")
    for count in (None, 0):
        with pytest.raises(InvalidInput, match="reason 'posion': pass one of exhausted, poison,"):
            broker.assert_dead(orders, count, reason="posion")


def test_a_crash_is_a_lapse(broker: TestBroker) -> None:
    orders.send("x")
    (delivery,) = orders.claim()
    broker.crash(delivery)
    assert orders.stats().scheduled == 1
    broker.advance("1m")
    (again,) = orders.claim()
    assert again.delivery_count == 2
    with pytest.raises(LeaseLost):
        delivery.ack()


def test_a_lost_reply_acks_once(broker: TestBroker) -> None:
    mail.send("x")
    (delivery,) = mail.claim()
    broker.faults.drop_reply("ack")
    assert broker.faults.pending() == ["reply of 'ack'"]
    assert delivery.ack().outcome in {"acked", "settled"}
    assert broker.faults.pending() == []
    assert mail.stats().totals["acked"] == 1


def test_a_lost_reply_to_the_claim_after_a_wait(broker: TestBroker) -> None:
    """The server makes it as the wait ends, in the same round trip."""
    queue = program.queue("letters")
    queue.open()

    def first_wait() -> Steps[Any]:
        steps = claim(queue._core, queue._deliveries, wait=10)
        step = next(steps)
        while not isinstance(step, Wait):
            step = steps.send((yield step))
        broker.faults.drop_reply("claim")
        return (yield step)

    _, claimed = program._run(first_wait())
    assert broker.faults.pending() == []
    assert not claimed.rows


def test_a_call_that_never_arrives(broker: TestBroker) -> None:
    broker.faults.drop_call("send", times=3)
    with pytest.raises(BrokerUnavailable):
        mail.send("x")
    assert mail.stats().ready == 0
    with pytest.raises(InvalidInput, match=r"there is no verb 'sned': choose from ack, .* send"):
        broker.faults.drop_reply("sned")


def test_handlers_run_inline(broker: TestBroker) -> None:
    """Also those of what a handler sends; afterwards messages wait again."""
    with broker.inline():
        orders.send_many(["a", "b"])
        assert handled[:2] == ["a", "b"]
        assert sorted(handled[2:]) == ["receipt for a", "receipt for b"]
    orders.send("c")
    assert "c" not in handled


def test_tasks_run(broker: TestBroker) -> None:
    welcome.send(7, lang="de")
    assert broker.drain(welcome) == {"acked": 1}
    with broker.inline():
        welcome.send(8)
    assert handled == [(7, "de"), (8, "en")]


def test_the_dead_letters_of_a_task(broker: TestBroker) -> None:
    welcome.send(7)
    (delivery,) = program.queue("greetings").claim()
    delivery.poison("broken")
    assert broker.assert_dead(welcome, 1)[0].cause.message == "broken"


@pytest.mark.parametrize("given", ["orders", program, None])
def test_what_cannot_be_drained(broker: TestBroker, given: Any) -> None:
    with pytest.raises(ConfigurationError, match="is not a queue or a task: pass what"):
        broker.drain(given)
    with pytest.raises(ConfigurationError, match="is not a queue or a task"):
        broker.assert_dead(given)


def test_without_a_handler_nothing_runs_inline(broker: TestBroker) -> None:
    """Handlers belong to a broker object, so another one of the same URL has none."""
    producer = library.Broker("redis://production.example:6379").queue("orders")
    with (
        broker.inline(),
        pytest.raises(ConfigurationError, match=r"'orders' has no handler for it: .* to drain\(\)"),
    ):
        producer.send("x")
    assert orders.stats().ready == 0
    producer.send("x")
    with pytest.raises(ConfigurationError, match="'orders' has no handler for it"):
        broker.drain(producer)
    assert broker.drain(orders) == {"acked": 1}


async def test_without_a_handler_nothing_runs_inline_when_awaited(broker: TestBroker) -> None:
    producer = rq_dlq.asyncio.Broker("redis://production.example:6379").queue("orders")
    with broker.inline(), pytest.raises(ConfigurationError, match="'orders' has no handler for it"):
        await producer.send("x")
    assert orders.stats().ready == 0


@pytest.mark.parametrize("colour", ["def", "async def"])
async def test_tasks_may_send_inline_at_the_same_time(colour: str, broker: TestBroker) -> None:
    """Each send returns after its handler, and is refused if there is none."""
    begun, go_on, done = threading.Event(), threading.Event(), list[int]()

    def slow(body: int) -> None:
        begun.set()
        assert go_on.wait(60)
        done.append(body)

    async def slow_meanwhile(body: int) -> None:
        await asyncio.to_thread(slow, body)

    async def send(body: int) -> bool:
        await queue.send(body)
        return body in done

    async with rq_dlq.asyncio.Broker() as own:
        queue = own.queue("slow")
        queue.handler(slow if colour == "def" else slow_meanwhile)
        with broker.inline():
            sending = [asyncio.create_task(send(1))]
            await asyncio.to_thread(begun.wait, 60)
            try:
                with pytest.raises(ConfigurationError, match="'nobody' has no handler for it"):
                    await own.queue("nobody").send("x")
                sending += [asyncio.create_task(send(2)), asyncio.create_task(send(3))]
                await asyncio.wait(sending, timeout=0.1)
            finally:
                go_on.set()
            assert await asyncio.gather(*sending) == [True] * 3


@pytest.mark.timeout(60)
def test_a_handler_may_send_inline_from_a_thread_of_its_own(broker: TestBroker) -> None:
    """And wait for it: the message is handled afterwards."""
    own = library.Broker()
    first, second, seen = own.queue("first"), own.queue("second"), list[str]()

    @first.handler
    def fan_out(body: str) -> None:
        with ThreadPoolExecutor(2) as pool:
            assert len(list(pool.map(second.send, [body, body]))) == 2
        seen.append("sent")

    second.handler(seen.append)
    with broker.inline():
        first.send("x")
    assert seen == ["sent", "x", "x"]


@pytest.mark.usefixtures("broker")
def test_no_replica_is_asked() -> None:
    """Also by queue objects that were made before the test."""
    payments.send("x")
    payments.send_many(["y", "z"])
    assert payments.stats().ready == 3


async def test_the_other_colour(broker: TestBroker) -> None:
    """An awaiting program is on the same server."""
    awaiting = rq_dlq.asyncio.Broker("redis://production.example:6379")
    queue = awaiting.queue("mail")
    broker.faults.drop_reply("send")
    await queue.send("x")
    assert mail.stats().ready == 1
    (delivery,) = await queue.claim()
    await delivery.poison("broken")
    assert broker.assert_dead(queue, 1)[0].cause.message == "broken"
    await awaiting.close()


@pytest.mark.usefixtures("broker")
async def test_what_calls_open_at_the_same_time_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker's loop makes its first two calls together; the connections of one of them are kept."""
    opened, closed = list[Any](), list[Any]()
    connect, close = rq_dlq.asyncio.Broker._connect, AsyncConnections.close

    async def opening(own: Any, *args: Any, **options: Any) -> Any:
        opened.append(await connect(own, *args, **options))
        return opened[-1]

    async def closing(connections: Any) -> None:
        closed.append(connections)
        await close(connections)

    monkeypatch.setattr(rq_dlq.asyncio.Broker, "_connect", opening)
    monkeypatch.setattr(AsyncConnections, "close", closing)
    async with rq_dlq.asyncio.Broker() as own:
        await asyncio.gather(*(own.queue(name).send("x") for name in ("a", "b")))
    assert len(opened) == 2
    assert all(any(one is other for other in closed) for one in opened)


def test_a_run_of_pytest_imports_little() -> None:
    """The plugin is imported by each run in its environment, whether or not a test uses it."""
    code = "import sys, rq_dlq.testing.plugin; print({'redis', 'rq_dlq.client'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def run(pytester: pytest.Pytester, code: str, *options: str) -> pytest.RunResult:
    """Run it without the plugins of others, which take a second to import."""
    pytester.makepyfile(textwrap.dedent(code))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        return pytester.runpytest_subprocess(
            "-p", "no:cacheprovider", "-p", "rq_dlq.testing.plugin", *options
        )


def installed(pytester: pytest.Pytester) -> pytest.RunResult:
    """Run it as a user does: pytest finds the plugin, and those of others."""
    return pytester.runpytest_subprocess("-p", "no:cacheprovider")


PROGRAM = """
    import rq_dlq as library
    queue = library.Broker("redis://production.example").queue("orders")

    @queue.handler()
    def handle(body):
        raise ValueError(body)

    def test_orders(rq_dlq):
        queue.send("broken")
        while rq_dlq.drain(queue)["dead"] == 0:
            rq_dlq.advance("1h")
        rq_dlq.assert_dead(queue, reason="exhausted")
"""


def test_the_same_on_a_server(pytester: pytest.Pytester, empty_socket: str) -> None:
    run(pytester, PROGRAM, f"--rq-dlq-redis=unix://{empty_socket}?db=8").assert_outcomes(passed=1)


def test_processes_do_not_share_a_database(pytester: pytest.Pytester, empty_socket: str) -> None:
    many = """
        import pytest

        @pytest.mark.parametrize("number", range(20))
        def test_of_many(rq_dlq, number):
            queue = rq_dlq.queue("a")
            queue.send(number)
            assert [message.body for message in queue.peek()] == [number]
    """
    url = f"unix://{empty_socket}?db=6"
    run(pytester, many, f"--rq-dlq-redis={url}", "-n", "2", "-p", "xdist").assert_outcomes(passed=20)
    too_many = pytest.raises(ConfigurationError, match="2 processes of pytest need as many databases")
    with too_many, server_at(f"unix://{empty_socket}", 1):
        pass
    for url, expected in {
        "redis://:p%40w@h:1/15?a=b": "redis://:p%40w@h:1/13?a=b",
        "redis://h?db=9": "redis://h/7",
        "unix:///s?db=2": "unix:///s?db=0",
    }.items():
        assert _of_process(url, 2) == expected


def test_a_database_that_is_used_is_left_alone(pytester: pytest.Pytester, empty_socket: str) -> None:
    with redis.Redis(unix_socket_path=empty_socket, db=7) as client:
        client.set("mine", 1)
        result = run(pytester, PROGRAM, f"--rq-dlq-redis=unix://{empty_socket}?db=7")
        result.assert_outcomes(errors=1)
        result.stdout.fnmatch_lines(["*has 1 keys, and tests flush it: use an empty one*"])
        assert client.get("mine") == b"1"
        client.flushdb()


def test_a_fault_that_did_not_happen_fails_the_test(pytester: pytest.Pytester) -> None:
    code = """
        def test_nothing(rq_dlq):
            rq_dlq.faults.drop_reply("claim")
    """
    result = run(pytester, code)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*these faults did not occur*reply of 'claim'*"])


def test_without_fakeredis_it_says_what_to_do(pytester: pytest.Pytester) -> None:
    code = """
        import sys

        sys.modules["fakeredis"] = None

        def test_nothing(rq_dlq):
            pass
    """
    run(pytester, code).stdout.fnmatch_lines(["*pip install 'rq-dlq?testing?'*"])


def test_the_fixture_of_a_program_and_the_page(pytester: pytest.Pytester) -> None:
    """The program and the tests of docs/testing.md, as they stand there; and a program of a few lines."""
    page = (Path(__file__).parents[1] / "docs" / "testing.md").read_text()
    app, *tests = re.findall(r"```python\n(?:# \w+\.py\n)?(.*?)```", page, re.DOTALL)
    pytester.makepyfile("\n".join(tests), app=app, test_program=textwrap.dedent(PROGRAM))
    installed(pytester).assert_outcomes(passed=5 + 1)


def test_time_fires_the_schedules_that_a_worker_declared(broker: TestBroker) -> None:
    assert broker.drain(greet) == {}
    (first,) = broker.schedules()
    assert first.next_at is not None
    broker.advance(first.next_at - broker.now - timedelta(seconds=1))
    assert broker.drain(greet) == {}
    broker.advance("2d1s")
    assert broker.drain(greet) == {"acked": 3}, "as a worker would, each tick at its time"
    ticks = [first.next_at + timedelta(days=day) for day in range(3)]
    assert [datetime.fromisoformat(tick) for tick in handled] == ticks


def test_time_fires_schedules_of_other_namespaces(broker: TestBroker) -> None:
    shop = library.Broker(namespace="shop").queue("orders")
    shop.schedule("t", 0, every="1h")
    broker.queue("orders").schedule("t", 0, every="90m")
    broker.advance("3h")
    assert (shop.stats().ready, broker.queue("orders").stats().ready) == (3, 2)
