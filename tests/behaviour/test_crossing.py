"""What crosses processes and threads: pickles, forks, many threads at once."""

from __future__ import annotations

import asyncio
import ctypes
import mmap
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

import rq_dlq
import rq_dlq.asyncio
from rq_dlq import ConfigurationError, InvalidInput, RedeliveryPolicy, errors
from rq_dlq.values import forks
from tests.servers import wait_until
from tests.tables import each_row_afresh


class Order(msgspec.Struct):
    number: int


@pytest.fixture
def backend() -> str:
    """Only the real server."""
    return "real"


def again(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - our own


POLICIES = [
    RedeliveryPolicy(initial_delay="2s", max_redeliveries=3, fatal=(KeyError,)),
    RedeliveryPolicy(delays=[1, 2, 3]),
    RedeliveryPolicy.artemis(**{"redelivery-delay": 5000}),
    RedeliveryPolicy.activemq(maximumRedeliveries=6),
]


@each_row_afresh("policy", POLICIES)
def test_policies_pickle(policy: RedeliveryPolicy) -> None:
    assert again(policy) == policy
    assert [again(policy).delay(n, 0) for n in range(1, 4)] == [policy.delay(n, 0) for n in range(1, 4)]


PUBLIC_ERRORS = [
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)
]
ARGUMENTS: dict[type[Exception], tuple[tuple[Any, ...], dict[str, Any]]] = {
    errors.Unconfirmed: (("why", ["1", "2"]), {}),
    errors.MissingRights: (("why", ("+zadd",)), {}),
    errors.UpgradeRequired: (("why", "2.0"), {}),
    errors.Redeliver: (("2m",), {"charge": False}),
}


@each_row_afresh("kind", PUBLIC_ERRORS)
def test_errors_pickle_with_what_they_say(kind: type[Exception]) -> None:
    """A handler may do its work in another process."""
    positional, named = ARGUMENTS.get(kind, (("why",), {}))
    error = kind(*positional, **named)
    if isinstance(error, errors.BrokerUnavailable):
        error.indeterminate = False
    copy = again(error)
    assert type(copy) is kind
    assert (str(copy), copy.args, vars(copy)) == (str(error), error.args, vars(error))


def test_broker_pickles_and_connects_again(server: str, raw: Any) -> None:
    with rq_dlq.Broker(f"unix://{server}", namespace="other") as broker:
        broker.queue("a").send("x")
        with again(broker) as copy:
            assert copy.settings == broker.settings
            (delivery,) = copy.queue("a").claim()
            assert delivery.ack().outcome == "acked"
    assert raw.smembers("other:queues") == {b"a"}


def test_a_gather_crosses_no_namespaces(server: str) -> None:
    """Names of gathers have no namespace: the ends of such children would reach nobody."""
    url = f"unix://{server}"
    with rq_dlq.Broker(url) as broker, rq_dlq.Broker(url, namespace="other") as other:
        gather = broker.gather(then=(broker.queue("reports"), "then"))
        with gather, pytest.raises(InvalidInput, match="'render' is in the namespace 'other'"):
            gather.send(other.queue("render"), "x")
        assert not other.queue("render").claim()


async def test_awaiting_broker_pickles(server: str) -> None:
    async with rq_dlq.asyncio.Broker(f"unix://{server}") as broker:
        await broker.queue("a").send("x")
        async with again(broker) as copy:
            assert [d.body for d in await copy.queue("a").claim()] == ["x"]


def test_queue_pickles_with_its_settings(server: str, raw: Any) -> None:
    policy = RedeliveryPolicy(delays=[7], max_redeliveries=0)
    with rq_dlq.Broker(f"unix://{server}") as broker:
        queue = again(broker.queue("a", type=Order, lease="7s", redelivery=policy))
        queue.send(Order(1))
        (delivery,) = queue.claim()
        assert delivery.body == Order(1)
        assert delivery.nack().outcome == "dead"
        queue._broker.close()
    assert raw.hget("rq:{a}:settings", "declared")


def test_async_queue_pickles(server: str) -> None:
    queue = again(rq_dlq.asyncio.Broker(f"unix://{server}").queue("a", type=Order, lease="7s"))
    assert (queue.name, queue._core.codec.type, queue._core.lease) == ("a", Order, 7_000)


def test_a_password_crosses_but_is_not_shown() -> None:
    broker = again(rq_dlq.Broker("redis://user:secret@127.0.0.1:1/0"))
    assert broker.settings.url == "redis://user:secret@127.0.0.1:1/0"
    assert "secret" not in repr(broker)


def test_a_broker_of_a_pool_does_not_pickle(sync_broker: rq_dlq.Broker) -> None:
    import redis  # noqa: PLC0415

    broker = rq_dlq.Broker(pool=redis.ConnectionPool())
    with pytest.raises(ConfigurationError, match="cannot be pickled for another process"):
        pickle.dumps(broker)
    del sync_broker


async def test_tasks_that_connect_at_once_leave_no_connection_open(server: str, raw: Any) -> None:
    """Each finds the broker unconnected; only one may stay so."""
    raw.client_kill_filter(_type="normal", skipme=True)  # what an earlier test left to the garbage collector
    async with rq_dlq.asyncio.Broker(f"unix://{server}") as broker:
        queue = broker.queue("a")
        await asyncio.gather(*(queue.send(n) for n in range(20)))
        assert sorted(d.body for d in await queue.claim(100)) == list(range(20))
    wait_until(lambda: raw.info("clients")["connected_clients"] == 1)


def in_a_child(work: Callable[[], object], fork: Callable[[], int] = os.fork) -> None:
    """Fork, and run this in the child; one that hangs is killed."""
    child = fork()
    if child == 0:  # pragma: no cover - in another process
        try:
            signal.alarm(60)
            work()
        except BaseException:  # noqa: BLE001 - whatever it is, the parent is told
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


FORKS: dict[str, Callable[[], int]] = {"of Python": os.fork, "of C": ctypes.PyDLL(None).fork}
"""uWSGI forks in C, and Python's hooks run in none of its workers."""


@pytest.mark.parametrize("fork", FORKS)
def test_a_fork_shares_no_connection_and_no_id(fork: str, server: str, raw: Any) -> None:
    with rq_dlq.Broker(f"unix://{server}") as broker:
        queue = broker.queue("a")
        queue.send("before")

        def child() -> None:
            queue.send_many(["child"] * 100)
            queue.claim()[0].ack()

        in_a_child(child, FORKS[fork])
        queue.send_many(["parent"] * 100)
        claimed = queue.claim(1000)
    assert sorted(d.body for d in claimed) == ["child"] * 100 + ["parent"] * 100
    assert len(raw.hkeys("rq:{a}:messages")) == 200


@pytest.mark.parametrize(("name", "value"), [("sys.platform", "darwin"), ("WIPE_ON_FORK", 1 << 16)])
def test_where_the_kernel_cannot_tell_the_system_is_asked_for_the_process(
    name: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"rq_dlq.values.forks.{name}", value)
    assert forks._noted() is os.getpid


def test_a_fork_of_python_is_noticed_where_the_kernel_does_not_do_as_it_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rq_dlq.values.forks.WIPE_ON_FORK", mmap.MADV_NORMAL)
    noted = forks._noted()
    assert noted() == os.getpid()

    def child() -> None:
        assert noted() == os.getpid()

    in_a_child(child)


@contextmanager
def held_by_a_thread(lock: Any) -> Iterator[None]:
    """Another thread holds this lock."""
    held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            let_go.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    yield
    let_go.set()
    thread.join()


@pytest.mark.parametrize("name", ["_lock", "_fork_lock"])
def test_a_fork_does_not_wait_for_a_lock_of_its_parent_s_pool(server: str, raw: Any, name: str) -> None:
    """The thread that holds it is not there, so nobody releases it."""
    del raw
    with rq_dlq.Broker(f"unix://{server}") as broker:
        queue = broker.queue("a")
        queue.send("parent")

        def child() -> None:
            queue.send("child")
            broker.close()

        with held_by_a_thread(getattr(broker._connected().pool, name)):
            in_a_child(child)
        assert [d.body for d in queue.claim(9)] == ["parent", "child"]


def test_a_fork_of_an_awaiting_broker_has_connections_of_its_own(server: str, raw: Any) -> None:
    """It may use the broker, or just close it, in event loops of its own."""
    del raw
    broker = rq_dlq.asyncio.Broker(f"unix://{server}")
    queue = broker.queue("a")

    def send() -> None:
        asyncio.run(queue.send("child"))
        asyncio.run(queue.send("child"))
        asyncio.run(broker.close())

    with asyncio.Runner() as runner:
        runner.run(queue.send("parent"))
        in_a_child(send)
        in_a_child(lambda: asyncio.run(broker.close()))
        assert [d.body for d in runner.run(queue.claim(9))] == ["parent", "child", "child"]
        runner.run(broker.close())


def test_a_fork_does_not_take_up_its_parent_s_claim(server: str, raw: Any) -> None:
    """I12: a token is of one process only, or both would hold the message."""
    del raw
    with rq_dlq.Broker(f"unix://{server}") as broker:
        queue = broker.queue("a")
        queue.send_many(range(2))
        queue._core.indeterminate_claims.note("a-claim-of-unknown-outcome")

        def child() -> None:
            assert [d.body for d in queue.claim()] == [0]

        in_a_child(child)
        assert [d.body for d in queue.claim()] == [1]


def test_threads_claim_each_message_once(server: str, raw: Any) -> None:
    """I1, I2: eight of them, on one broker."""
    del raw
    with rq_dlq.Broker(f"unix://{server}") as broker:
        queue = broker.queue("a")
        queue.send_many(range(2_000))
        seen: list[list[int]] = [[] for _ in range(8)]
        errors: list[BaseException] = []

        def work(mine: list[int], count: int) -> None:
            try:
                while claimed := queue.claim(count):
                    mine += [delivery.body for delivery in claimed]
                    assert all(queue.ack(claimed))
            except BaseException as error:  # noqa: BLE001
                errors.append(error)

        threads = [threading.Thread(target=work, args=(mine, 1 + 3 * n)) for n, mine in enumerate(seen)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert sorted(body for mine in seen for body in mine) == list(range(2_000))
        assert queue.stats().totals["acked"] == 2_000


def test_threads_send_each_message_once(server: str, raw: Any) -> None:
    del raw
    with rq_dlq.Broker(f"unix://{server}") as broker:
        queue = broker.queue("a")
        threads = [
            threading.Thread(target=queue.send_many, args=(range(n * 300, n * 300 + 300),)) for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        claimed = [d.body for _ in range(3) for d in queue.claim(1000)]
    assert sorted(claimed) == list(range(2_400))
