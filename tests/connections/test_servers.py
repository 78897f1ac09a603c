"""One server, by each way to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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
