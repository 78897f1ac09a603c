"""One server, by each way to it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import rq_dlq
import rq_dlq.asyncio
from rq_dlq import BrokerRefused, BrokerUnavailable
from tests.connections.conftest import Opening
from tests.servers import Server, free_port


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """By TCP and by a socket, with a user of its own."""
    with Server(tmp_path_factory.mktemp("server"), port=free_port()) as server:
        server.client().execute_command("ACL", "SETUSER", "me", "on", ">p@ss:w/o?r#d", "~*", "&*", "+@all")
        yield server


async def test_a_user_with_a_password(opened: Opening, server: Server) -> None:
    """Both of which are percent-encoded in the URL."""
    for place in (f"127.0.0.1:{server.port}/0", server.socket):
        scheme = "unix" if place == server.socket else "redis"
        async with opened(f"{scheme}://me:p%40ss%3Aw%2Fo%3Fr%23d@{place}") as broker:
            await broker.queue("a").send("x")
        for account in ("me:wrong@", "nobody:p%40ss@"):
            async with opened(f"{scheme}://{account}{place}") as broker:
                with pytest.raises(BrokerRefused, match="user or password is wrong"):
                    await broker.queues()


async def test_a_password_where_there_is_none(opened: Opening, server: Server) -> None:
    """The default user of this server has none."""
    for url in (f"redis://:secret@127.0.0.1:{server.port}", f"unix://:secret@{server.socket}"):
        async with opened(url) as broker:
            with pytest.raises(BrokerRefused, match="default user has no password: remove") as told:
                await broker.queues()
            assert "secret" not in str(told.value)


async def test_fewer_connections_than_tasks(server: Server) -> None:
    """The server is well, so nobody is told to start one."""
    async with rq_dlq.asyncio.Broker(f"redis://127.0.0.1:{server.port}?max_connections=1") as broker:
        queue = broker.queue("c")
        await queue.open()
        calls = [asyncio.create_task(queue.claim(wait="3s")) for _ in range(2)]
        with pytest.raises(BrokerUnavailable, match="in use: raise max_connections in the URL"):
            await asyncio.gather(*calls)
        await asyncio.gather(*calls, return_exceptions=True)


def test_fewer_connections_than_threads(server: Server) -> None:
    with rq_dlq.Broker(f"redis://127.0.0.1:{server.port}?max_connections=1") as broker:
        queue = broker.queue("d")
        queue.open()
        with ThreadPoolExecutor(2) as threads:
            calls = [threads.submit(queue.claim, wait="3s") for _ in range(2)]
            with pytest.raises(BrokerUnavailable, match="in use: raise max_connections in the URL"):
                [call.result(timeout=10) for call in calls]


async def test_a_database_of_its_own(opened: Opening, server: Server) -> None:
    for url in (f"redis://127.0.0.1:{server.port}/3", f"{server.url}?db=3"):
        async with opened(url) as broker:
            await broker.queue("b").send("x")
    assert server.client(db=3).exists("rq:{b}:messages")
    assert not server.client().exists("rq:{b}:messages")


async def test_a_master_that_becomes_a_replica(opened: Opening, server: Server) -> None:
    """Its connections are given up: the next ones may lead elsewhere."""
    async with opened(server.url) as broker:
        queue = broker.queue("a")
        await queue.send("x")
        before = server.client().info("stats")["total_connections_received"]
        server.client().replicaof("127.0.0.1", free_port())
        with pytest.raises(BrokerUnavailable, match="it is a replica: wait for a failover to end"):
            await queue.send("y")
        server.client().replicaof("NO", "ONE")
        await queue.send("y")
        assert server.client().info("stats")["total_connections_received"] >= before + 4
