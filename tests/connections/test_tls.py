"""TLS: to one server, to a cluster, through sentinels."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

import rq_dlq.asyncio
from rq_dlq import BrokerUnavailable
from rq_dlq._redis.connection import socket_of
from rq_dlq._redis.errors import unavailable
from tests.connections.conftest import Opening
from tests.needs import needs
from tests.servers import Server, free_port
from tests.servers.certificates import Certificate
from tests.servers.clusters import Cluster
from tests.servers.sentinels import Watched
from tests.tables import each_row

pytestmark = needs("openssl", "tls")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """For all servers here."""
    return Certificate.made(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def server(certificate: Certificate, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One that is reached by TLS only."""
    port = free_port()
    with Server(tmp_path_factory.mktemp("tls"), *certificate.options(port), port=port) as server:
        yield server


async def test_one_server(opened: Opening, server: Server, certificate: Certificate) -> None:
    async with opened(f"rediss://127.0.0.1:{server.port}/0?{certificate.trusted}") as broker:
        await broker.queue("a").send("x")
        assert await broker.queues() == ["a"]


async def test_a_certificate_of_the_client(opened: Opening, server: Server, certificate: Certificate) -> None:
    """Where the server wants one."""
    server.client().config_set("tls-auth-clients", "yes")
    mine = f"ssl_certfile={certificate.file}&ssl_keyfile={certificate.key}"
    try:
        async with opened(f"rediss://127.0.0.1:{server.port}/0?{certificate.trusted}&{mine}") as broker:
            await broker.queue("a").send("x")
        async with opened(f"rediss://127.0.0.1:{server.port}/0?{certificate.trusted}") as broker:
            told = r"ssl_certfile|cannot reach"  # by what TLS says first
            with pytest.raises(BrokerUnavailable, match=told):
                await broker.queues()
    finally:
        server.client().config_set("tls-auth-clients", "optional")


async def test_a_server_that_is_not_trusted(opened: Opening, server: Server, tmp_path: Path) -> None:
    """Nothing is said to it, unless the user says that it need not be trusted."""
    other = Certificate.made(tmp_path)
    told = (
        r"not trusted \(.*\): pass that of its authority"
        if redis.__version__ >= "6"
        else "cannot reach|not trusted"
    )
    for trusted in ("", f"?{other.trusted}"):
        async with opened(f"rediss://127.0.0.1:{server.port}/0{trusted}") as broker:
            with pytest.raises(BrokerUnavailable, match=told):
                await broker.queues()
    async with opened(f"rediss://127.0.0.1:{server.port}/0?ssl_cert_reqs=none") as broker:
        await broker.queues()


async def test_another_host(opened: Opening, server: Server, certificate: Certificate) -> None:
    async with opened(f"rediss://localhost:{server.port}/0?{certificate.trusted}") as broker:
        with pytest.raises(BrokerUnavailable) as raised:
            await broker.queues()
    assert str(raised.value).endswith("not for localhost: use a name that it has in the URL")


async def test_a_file_that_is_not_there(opened: Opening, server: Server) -> None:
    async with opened(f"rediss://127.0.0.1:{server.port}/0?ssl_ca_certs=/nowhere/ca.pem") as broker:
        with pytest.raises(
            BrokerUnavailable, match=r"a file in the URL of .* does not exist: correct the path"
        ):
            await broker.queues()


@each_row(
    ("url", "said", "told"),
    [
        (
            "rediss://h",
            "[SSL: …] certificate verify failed: certificate has expired (_ssl.c:992)",
            "expired: renew it",
        ),
        (
            "rediss://h",
            "[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:992)",
            "not use TLS: write redis://",
        ),
        (
            "rediss://h",
            "[SSL: …] tlsv13 alert certificate required (_ssl.c:2580)",
            "add ssl_certfile=… and ssl_keyfile",
        ),
        (
            "redis://h",
            "Error while reading from h:1 : (104, 'Connection reset by peer')",
            "write rediss:// if it",
        ),
    ],
)
def test_an_error_of_tls_says_what_to_do(url: str, said: str, told: str) -> None:
    assert told in str(unavailable(url, redis.ConnectionError(said)))


async def test_a_client_without_tls(opened: Opening, server: Server) -> None:
    async with opened(f"redis://127.0.0.1:{server.port}/0") as broker:
        with pytest.raises(BrokerUnavailable):
            await broker.queues()


@pytest.fixture(scope="module")
def nodes(certificate: Certificate, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that speaks TLS only."""
    with Cluster(tmp_path_factory.mktemp("nodes"), certificate=certificate) as cluster:
        yield cluster


async def test_a_cluster(opened: Opening, nodes: Cluster) -> None:
    async with opened(nodes.url) as broker:
        for name in ("a", "b", "c", "d"):
            await broker.queue(name).send("x")
            assert (await broker.queue(name).claim())[0].body == "x"


async def test_through_sentinels(opened: Opening, certificate: Certificate, tmp_path: Path) -> None:
    with Watched(tmp_path, certificate=certificate) as watched:
        async with opened(watched.url) as broker:
            await broker.queue("a").send("x")
            assert (await broker.queue("a").claim())[0].body == "x"


async def test_a_closed_broker_leaves_no_socket_open_though_the_server_is_silent(
    server: Server, certificate: Certificate
) -> None:
    """TLS says good-bye and waits for an answer, for longer than an event loop may last."""
    url = f"rediss://127.0.0.1:{server.port}/0?{certificate.trusted}"
    broker: Any = rq_dlq.asyncio.Broker(url)
    await broker.queues()
    writers = [socket_of(connection) for connection in (await broker._connected())._link._idle._all]
    sockets = [writer.get_extra_info("socket") for writer in writers]
    assert sockets
    server.signal(signal.SIGSTOP)
    try:
        await broker.close()
        await asyncio.sleep(0)
        assert [left.fileno() for left in sockets] == [-1] * len(sockets)
    finally:
        server.signal(signal.SIGCONT)
