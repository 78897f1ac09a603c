"""Durability "fsync" while the server's configuration changes under a broker that is in use."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio
import redis

import rq_dlq
import rq_dlq.asyncio
from rq_dlq import Broker, BrokerRefused, BrokerSettings, Queue
from rq_dlq._keys import QueueKeys
from rq_dlq._redis.guard import PERIOD
from rq_dlq.client.durability import KEEP
from tests.colours import Awaited
from tests.servers import Server
from tests.servers.clusters import Cluster

KEYS = QueueKeys("rq", "q")
AS_STARTED = {"appendonly": "yes", "appendfsync": "everysec"}
WELL = {
    "appendonly": "yes",
    "appendfsync": "always",
    "no-appendfsync-on-rewrite": "no",
    "maxmemory-policy": "noeviction",
}
DRIFTS = [
    ("appendonly", "no", "append-only file is off"),
    ("appendfsync", "everysec", "appendfsync is everysec"),
    ("no-appendfsync-on-rewrite", "yes", "is rewritten, writes do not reach the disk"),
    ("maxmemory-policy", "allkeys-lru", "maxmemory-policy is allkeys-lru"),
]


class Used(NamedTuple):
    """A broker that has sent already, and its server, which was set right at run time only."""

    server: Server
    raw: Any
    broker: Any
    queue: Any
    connections: Any

    def configure(self, name: str, value: str) -> None:
        """Change the server's configuration."""
        self.raw.config_set(name, value)

    def ids(self) -> set[str]:
        """The messages that the server has."""
        return {key.decode() for key in self.raw.hkeys(KEYS["messages"])}

    def later(self, seconds: float) -> None:
        """Move the broker's clock."""
        guard = self.connections._link._guard
        now = guard.clock()
        guard.clock = lambda: now + seconds


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    options = [part for name, value in AS_STARTED.items() for part in (f"--{name}", value)]
    with Server(tmp_path_factory.mktemp("drift"), *options) as server:
        yield server


@pytest_asyncio.fixture(params=["sync", "async"])
async def used(request: pytest.FixtureRequest, server: Server) -> AsyncIterator[Used]:
    with server.client() as raw:
        for name, value in WELL.items():
            raw.config_set(name, value)
        raw.flushall()
        settings = BrokerSettings(url=server.url, durability="fsync")
        broker: Any = Awaited(Broker(settings=settings))
        if request.param == "async":
            broker = rq_dlq.asyncio.Broker(settings=settings)
        queue = broker.queue("q")
        await queue.send("before", id="before")
        inner = broker.inner if request.param == "sync" else broker
        yield Used(server, raw, broker, queue, inner._connections)
        await broker.close()


async def test_a_restart_that_forgot_the_setting_is_noticed_by_the_next_send(used: Used) -> None:
    used.server.kill()
    used.server.start()
    for _ in range(2):
        with pytest.raises(BrokerRefused, match="appendfsync is everysec") as raised:
            await used.queue.send("x", id="a")
    assert KEEP in str(raised.value)
    assert used.ids() == {"before"}
    used.configure("appendfsync", "always")
    assert await used.queue.send("x", id="a") == "a"


async def test_a_restart_that_forgot_the_setting_stops_no_consumer(used: Used) -> None:
    """What was acknowledged comes out of it, and what an ack loses is delivered again."""
    used.server.kill()
    used.server.start()
    (delivery,) = await used.queue.claim(1)
    assert await delivery.ack()
    with pytest.raises(BrokerRefused):  # by the connection that the claim has opened
        await used.queue.send("x")


@pytest.mark.parametrize(("name", "value", "why"), DRIFTS)
async def test_what_changes_at_run_time_is_noticed_within_half_a_minute(
    used: Used, name: str, value: str, why: str
) -> None:
    session = used.queue.session()
    await session.send(used.queue, "x", id="a")
    used.configure(name, value)
    used.later(PERIOD)
    for send in (
        lambda: used.queue.send("x", id="a"),
        lambda: used.queue.send_many(["x", "y"]),
        session.commit,
    ):
        with pytest.raises(BrokerRefused, match=f"{why}.*{name}.*CONFIG REWRITE"):
            await send()
    assert used.ids() == {"before"}
    used.configure(name, WELL[name])
    assert await session.commit() == 0
    assert used.ids() == {"before", "a"}


async def test_between_two_looks_nothing_is_asked(used: Used) -> None:
    used.raw.config_resetstat()
    used.later(PERIOD - 1)
    for _ in range(20):
        await used.queue.send("x")
    assert looks(used.raw) == 0
    used.later(PERIOD)
    for _ in range(20):
        await used.queue.send("x")
    assert looks(used.raw) == 1


async def test_a_new_connection_is_looked_at_whatever_the_time(used: Used) -> None:
    """As after a failover to a server that keeps no file."""
    used.configure("appendfsync", "everysec")
    await used.queue.send("x")
    used.raw.client_kill_filter(_type="normal", skipme=True)
    with pytest.raises(BrokerRefused, match="appendfsync is everysec"):
        await used.queue.send("x")


async def test_a_look_that_may_not_read_the_setting_refuses(used: Used) -> None:
    used.raw.execute_command("ACL", "SETUSER", "default", "-config")
    try:
        used.later(PERIOD)
        with pytest.raises(BrokerRefused, match=r"\+config\|get"):
            await used.queue.send("x", id="a")
    finally:
        used.raw.execute_command("ACL", "SETUSER", "default", "+config")
    assert used.ids() == {"before"}


def test_the_connections_of_a_pool_that_was_passed_in_are_looked_at_once_each(server: Server) -> None:
    pool = redis.ConnectionPool(connection_class=redis.UnixDomainSocketConnection, path=server.socket)
    with server.client() as raw, Broker(pool=pool, durability="fsync") as broker:
        for name, value in WELL.items():
            raw.config_set(name, value)
        queue = broker.queue("q")
        queue.send("x")
        raw.config_resetstat()
        for _ in range(20):
            queue.send("x")
        assert looks(raw) == 0
        pool.disconnect()  # it connects the same object again
        queue.send("x")
        assert looks(raw) == 1
    pool.disconnect()


def test_each_node_of_a_cluster_is_looked_at(tmp_path: Path) -> None:
    options = ("--appendonly", "yes", "--appendfsync", "always")
    with Cluster(tmp_path, *options) as cluster, Broker(cluster.url, durability="fsync") as broker:
        queues = [broker.queue(f"q{number}") for number in range(6)]
        owners = [cluster.owner(queue._core.keys["messages"]) for queue in queues]
        bad = owners[0]
        assert {*owners} > {bad}
        for queue in queues:
            queue.send("x")
        with bad.client() as raw:
            raw.config_set("appendfsync", "everysec")
            raw.client_kill_filter(_type="normal", skipme=True)
        assert [taken(queue) for queue in queues] == [owner is not bad for owner in owners]


def taken(queue: Queue[Any]) -> bool:
    """Whether it takes a message in."""
    try:
        return bool(queue.send("x"))
    except BrokerRefused:
        return False


def looks(raw: Any) -> int:
    """How often the configuration was read."""
    calls = raw.info("commandstats")
    names = ("cmdstat_config|get", "cmdstat_config")  # since 7.0, and before
    asked = sum(calls[name]["calls"] for name in names if name in calls)
    return int(asked) // 3  # patterns
