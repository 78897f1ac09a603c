"""Pools of redis-py's that are passed in: whatever they are, they stay their owner's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis
import redis.asyncio

import rq_dlq
import rq_dlq.asyncio
from rq_dlq import BrokerUnavailable
from rq_dlq._redis import Retries, pools
from rq_dlq._redis.blocking.link import Link
from rq_dlq._redis.connection import arguments
from rq_dlq.core.settling import settle
from rq_dlq.core.steps.call import Command
from tests.behaviour.stepping import alone
from tests.colours import Awaited
from tests.connections.conftest import Opening
from tests.connections.sources import Colour, Direct, ways
from tests.servers import Server, free_port, wait_until
from tests.servers.counts import WORDS
from tests.servers.proxy import Commands, Fault, Proxy
from tests.verbs.life import Life

ONCE = Retries(attempts=1)
MORE_THAN_A_SOCKET_HOLDS = 1_000_000  # bytes
WAYS = [(colour, name) for colour in ("blocking", "awaiting") for name in ways(colour)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a port."""
    with Server(tmp_path_factory.mktemp("server"), port=free_port()) as server:
        yield server


@pytest.fixture
def raw(server: Server) -> Iterator[Any]:
    """A plain client of the server, which is empty."""
    with server.client() as client:
        client.flushall()
        yield client


@pytest.mark.parametrize(("colour", "name"), WAYS)
async def test_every_verb_by_every_way_to_a_broker(
    colour: Colour, name: str, server: Server, raw: Any
) -> None:
    """Whatever the pool is: RESP3, decoding replies, with redis-py's own retries, of a socket."""
    broker = ways(colour)[name](Direct(server))
    life = Life(Awaited(broker) if colour == "blocking" else broker, "w")
    await life.live()
    life.look(raw)
    assert life.wrong == []
    if colour == "blocking":
        broker.close()
        broker._connected().pool.disconnect()
    else:
        await broker.close()
        await broker._connections.pool.disconnect()


def test_more_threads_than_connections(server: Server, raw: Any) -> None:
    """Nobody keeps a connection that another waits for."""
    del raw
    pool = redis.BlockingConnectionPool(host="127.0.0.1", port=server.port, max_connections=2, timeout=5)
    broker = rq_dlq.Broker(pool=pool)
    queue = broker.queue("a")
    together = threading.Barrier(8)

    def work() -> None:
        together.wait()
        for n in range(20):
            queue.send(n)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert queue.stats().ready == 160
    pool.disconnect()


async def test_tasks_that_connect_at_once_do_not_cut_each_other_off(server: Server, raw: Any) -> None:
    """Each finds the broker unconnected; those that are not needed leave the shared pool alone."""
    del raw
    pool = redis.asyncio.ConnectionPool(host="127.0.0.1", port=server.port)
    async with rq_dlq.asyncio.Broker(pool=pool) as broker:
        queue = broker.queue("a")
        await asyncio.gather(*(queue.send(n) for n in range(20)))
        assert (await queue.stats()).ready == 20
    await pool.disconnect()


def test_close_leaves_the_pool_to_its_owner(server: Server, raw: Any) -> None:
    pool = redis.ConnectionPool(host="127.0.0.1", port=server.port)
    mine = redis.Redis(connection_pool=pool, single_connection_client=True)
    before = mine.client_id()
    with rq_dlq.Broker(pool=pool) as broker:
        broker.queue("a").send("x")
    assert mine.client_id() == before
    mine.close()
    pool.disconnect()
    wait_until(lambda: raw.info("clients")["connected_clients"] == 1)


def swallow(commands: Commands) -> Fault | None:
    """A rule: no verb is answered."""
    return "hole" if commands[0][0] in WORDS else None


@pytest.mark.parametrize("colour", ["blocking", "awaiting"])
async def test_nobody_waits_for_ever(
    colour: str, server: Server, raw: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pool may have no timeout, as those of older versions of redis-py have by default: we have one."""
    del raw
    monkeypatch.setattr(pools, "SOCKET_TIMEOUT", 0.2)
    with Proxy(server.socket, tmp_path, swallow) as proxy:
        where: dict[str, Any] = {"host": "127.0.0.1", "port": proxy.port, "socket_timeout": None}
        if colour == "blocking":
            pool: Any = redis.ConnectionPool(**where)
            with pytest.raises(BrokerUnavailable, match="imeout"):
                rq_dlq.Broker(pool=pool, retries=ONCE).queue("a").send("x")
            assert redis.Redis(connection_pool=pool).ping()
            connection = pool.get_connection(*arguments(pool))
            assert (connection.socket_timeout, connection._sock.gettimeout()) == (None, None)
            pool.disconnect()
        else:
            pool = redis.asyncio.ConnectionPool(**where)
            with pytest.raises(BrokerUnavailable, match="imeout"):
                await rq_dlq.asyncio.Broker(pool=pool, retries=ONCE).queue("a").send("x")
            connection = await pool.get_connection(*arguments(pool))
            assert connection.socket_timeout is None
            await pool.disconnect()


async def done_with(queue: Any, count: int) -> None:
    """Claim and ack so many messages, which may still be on their way."""
    while count:
        claimed = await queue.claim(count, wait="10s")
        assert claimed
        await queue.ack(claimed)
        count -= len(claimed)


@contextmanager
def frozen(server: Server) -> Iterator[None]:
    """It neither reads nor answers; what was sent to it meanwhile it reads afterwards."""
    assert server.process is not None
    process = psutil.Process(server.process.pid)
    process.suspend()
    try:
        yield
    finally:
        process.resume()


def failing(base: Any, method: str, raised: list[Exception]) -> Any:
    """A kind of connection of which this raises what is there to be raised, once."""

    def fail(self: Any, *args: Any, **options: Any) -> Any:
        if raised:
            raise raised.pop()
        return getattr(super(kind, self), method)(*args, **options)

    kind = type("Failing", (base,), {method: fail})
    return kind


@pytest.mark.usefixtures("raw")
@pytest.mark.parametrize("colour", ["blocking", "awaiting"])
@pytest.mark.parametrize(
    ("method", "error", "heard"),
    [
        ("connect", redis.ConnectionError, False),
        ("send_packed_command", redis.ConnectionError, False),
        ("send_packed_command", redis.TimeoutError, True),
        ("read_response", redis.ConnectionError, True),
    ],
)
async def test_what_no_server_heard_is_no_repetition(
    method: str, error: type[Exception], colour: str, server: Server, *, heard: bool
) -> None:
    """A stale ack is told so; where the first try may have been heard it is taken for done (I2)."""
    awaiting, raised = colour == "awaiting", list[Exception]()
    base = redis.asyncio.Connection if awaiting else redis.Connection
    kinds = redis.asyncio if awaiting else redis
    kind = failing(base, method, raised)
    pool = kinds.ConnectionPool(connection_class=kind, host="127.0.0.1", port=server.port)
    broker = rq_dlq.asyncio.Broker(pool=pool) if awaiting else Awaited(rq_dlq.Broker(pool=pool))
    queue = broker.queue("a")
    await queue.send("x")
    (stale,) = await queue.claim()
    with rq_dlq.Broker(server.url) as other:
        other._run(settle.release(other.queue("a")._core, [stale._held]))
        (held,) = other.queue("a").claim()
        held.ack()
    if method == "connect":
        await pool.disconnect() if awaiting else pool.disconnect()
    raised.append(error("no"))
    (settlement,) = await queue.ack([stale])
    assert not raised
    assert bool(settlement) is heard
    await pool.disconnect() if awaiting else pool.disconnect()


async def test_a_commit_that_times_out_while_it_is_written_may_still_arrive(
    opened: Opening, server: Server, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I12: asyncio sends what it has buffered after it has given up; so the next commit is a repetition."""
    del raw
    monkeypatch.setattr(pools, "SHORTEST_TIMEOUT", 1)
    async with opened(f"unix://{server.socket}?socket_timeout=1", retries=ONCE) as broker:
        queue = broker.queue("a")
        session = queue.session()
        await session.send(queue, "first")
        await session.commit()
        await session.send(queue, "x" * MORE_THAN_A_SOCKET_HOLDS)
        with frozen(server), pytest.raises(BrokerUnavailable) as failed:
            await session.commit()
        assert failed.value.indeterminate
        if not isinstance(broker, Awaited):
            await done_with(queue, 2)
        await session.commit()
        assert (await queue.stats()).totals["sent"] == 2


async def test_the_last_calls_take_a_second_whatever_the_timeout(
    opened: Opening, server: Server, raw: Any
) -> None:
    """Whoever interrupts a program while Redis does not answer would wait for ten minutes."""
    del raw
    async with opened(f"unix://{server.socket}?socket_timeout=600", retries=ONCE) as broker:
        await broker.queues()
        blocking = isinstance(broker, Awaited)
        connections: Any = Awaited(broker.inner._connections) if blocking else broker._connections
        with frozen(server), pytest.raises(BrokerUnavailable):
            await connections.run_once(alone(Command((b"PING",))))


async def test_the_last_calls_do_not_check_rights_again(opened: Opening, server: Server, raw: Any) -> None:
    """Hundreds of tasks that are cancelled at once have one second together."""
    async with opened(server.url) as broker:
        queue = broker.queue("a")
        await queue.send(1)
        (one,) = await queue.claim()
        raw.config_resetstat()
        await broker.close()
        assert "cmdstat_multi" not in raw.info("commandstats")
        assert (await queue.stats()).ready == 1
        del one


async def test_the_last_calls_of_hundreds_of_tasks_open_no_connections(server: Server, raw: Any) -> None:
    """In asyncio any call ends in time. New connections take longer: each would make its TLS context."""
    pool = redis.asyncio.BlockingConnectionPool.from_url(server.url, max_connections=2)
    async with rq_dlq.asyncio.Broker(pool=pool) as broker:
        await broker.queues()
        connections: Any = broker._connections
        opened = raw.info("stats")["total_connections_received"]
        last = (connections.run_once(alone(Command((b"PING",)))) for _ in range(150))
        assert await asyncio.gather(*last) == [b"PONG"] * 150
        assert raw.info("stats")["total_connections_received"] <= opened + 1, "the other one of the pool"
    await pool.disconnect()


def test_a_wait_is_shorter_than_the_timeout_of_the_pool(server: Server, raw: Any) -> None:
    """Else each looks like a server that is gone, and nobody is woken."""
    pool = redis.ConnectionPool(host="127.0.0.1", port=server.port, socket_timeout=0.6)
    broker = rq_dlq.Broker(pool=pool)
    broker.queue("a").open()
    before = raw.info("stats")["total_connections_received"]
    assert broker.queue("a").claim(wait="1s") == []
    assert raw.info("stats")["total_connections_received"] == before
    pool.disconnect()


def test_a_connection_whose_reply_is_unread_is_nobody_else_s(server: Server, raw: Any) -> None:
    """An interrupt comes between a question and its answer: the answer is not taken for the next one's."""
    del raw
    pool = redis.ConnectionPool(host="127.0.0.1", port=server.port)
    link = Link(lambda: pool, ours=True)
    others: list[Any] = []
    link.talk([(b"PING",)])
    connection = link._idle._all[0]
    read = connection.read_response

    def interrupted(**_: Any) -> Any:
        others.append(list(link._idle._all))
        raise KeyboardInterrupt

    connection.read_response = interrupted
    disconnect = connection.disconnect

    def watched(*args: Any) -> None:
        others.append(list(link._idle._all))
        disconnect(*args)

    connection.disconnect = watched
    with pytest.raises(KeyboardInterrupt):
        link.talk([(b"ECHO", b"one")])
    connection.read_response = read
    assert others == [[], []], "it could be taken before it was closed"
    assert link.talk([(b"ECHO", b"two")]) == [b"two"]
    link.close()
