"""No password is told: not by an error, a log, a repr, a traceback, a command, or the list of processes."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

from rq_dlq._redis import Retries, masked
from rq_dlq.cli import main
from rq_dlq.cli._processes import worker_command
from rq_dlq.errors import ConfigurationError, RqDlqError
from tests.connections.conftest import Opening
from tests.servers import Server, free_port, wait_until
from tests.servers.clusters import Cluster
from tests.servers.sentinels import MASTER, Watched
from tests.servers.started import Started
from tests.tables import each_row

NEEDLE = "n33dle"
# What people put into URLs, percent-encoded or not.
PASSWORDS = [
    NEEDLE, *(f"{NEEDLE}{sign}x" for sign in "@:/?#%&=;"), *(f"x{sign}{NEEDLE}" for sign in "@:/?#%&=;"),
    f"%40{NEEDLE}", f"x@y:{NEEDLE}/z@{NEEDLE}", f"://{NEEDLE}",
]  # fmt: skip
WITH_ACCOUNT = [
    "redis://me:{}@127.0.0.1:1/0", "redis://:{}@127.0.0.1:1", "redis://{}@127.0.0.1:1",
    "rediss://me:{}@127.0.0.1:1/0", "unix://me:{}@/no/such.sock?db=0", "unix://me:a/{}@/no/such.sock", "redis://me:{}@127.0.0.1:1?client_name=x",
    "redis+sentinel://me:{}@127.0.0.1:1,127.0.0.1:2/orders/0", "rediss+sentinel://:{}@127.0.0.1:1/orders",
    # and what is no URL, but holds a password all the same
    "redis://me:{}@127.0.0.1:port", "redis:/me:{}@127.0.0.1", "me:{}@127.0.0.1:6379", "http://me:{}@127.0.0.1",
    "redis+sentinel://me:{}@127.0.0.1:1", "redis+sentinel://me:{}@127.0.0.1:port/orders",
]  # fmt: skip
WITH_PARAMETER = [
    "redis://127.0.0.1:1?password={}", "unix:///no/such.sock?db=0&password={}",
    "rediss://127.0.0.1:1?ssl_certfile=x&ssl_keyfile=y&ssl_password={}",
    "redis+sentinel://127.0.0.1:1/orders?sentinel_username=me&sentinel_password={}",
    "redis+sentinel://me:x@127.0.0.1:1/orders?sentinel_password={}&db=1", "redis://127.0.0.1:1?pass%77ord={}",
    "redis://127.0.0.1:1?password={}&nonsense=1", "redis://127.0.0.1:1?auth_token={}",
    "redis://127.0.0.1:1?pwd={}", "redis://127.0.0.1:1/0?db=1&key={}", "rediss://:x@127.0.0.1:1?ssl_password={}",
]  # fmt: skip
URLS = [
    url.format(password)
    for url in WITH_ACCOUNT
    for password in PASSWORDS
    if not (
        url.startswith("redis://{}") and password.startswith(f"{NEEDLE}:")
    )  # which is a user with a password
]
URLS += [  # without the @ after the password, which therefore has none either
    url.format(password)
    for url in ("redis://me:{}:127.0.0.1:1/0", "redis://me:{}/127.0.0.1", "me:{}:127.0.0.1")
    for password in PASSWORDS
    if "@" not in password
]
URLS += [url.format(password) for url in WITH_PARAMETER for password in PASSWORDS]
IMPATIENT = Retries(attempts=2, seconds=0.01)


@each_row("url", URLS)
def test_masked(url: str) -> None:
    assert NEEDLE not in masked(url)


def test_a_password_that_looks_like_a_parameter_is_masked() -> None:
    odd = "&" + "\ufffd" * 20 + "%" + "\ufffd" * 40 + "=x"
    assert NEEDLE not in masked(f"redis://user:{NEEDLE}{odd}@host:1/0?{odd}")


@each_row(
    ("url", "shown"),
    [
        ("redis://localhost:6379/0", "redis://localhost:6379/0"),
        ("redis://me:secret@h:1/0?db=2", "redis://me:***@h:1/0?db=2"),
        ("unix:///tmp/r.sock?password=secret&db=2", "unix:///tmp/r.sock?password=***&db=2"),
        ("redis+sentinel://me:secret@a,b/orders/0?sentinel_password=x&protocol=3",
         "redis+sentinel://me:***@a,b/orders/0?sentinel_password=***&protocol=3"),
        ("redis://[::1]:6379/0", "redis://[::1]:6379/0"),
        ("redis+sentinel://a:1,b:2/orders/0", "redis+sentinel://a:1,b:2/orders/0"),
        ("unix:///tmp/a:b.sock", "unix:///tmp/a:b.sock"),
        ("redis://h:a", "redis://***"),
        ("rediss://h?ssl_ca_certs=/ca.pem", "rediss://h?ssl_ca_certs=/ca.pem"),
        ("redis://h?username=me&max_connections=3&foo=1&socket_read_size=9",
         "redis://h?username=me&max_connections=3&foo=***&socket_read_size=9"),
    ],
)  # fmt: skip
def test_what_is_left(url: str, shown: str) -> None:
    assert masked(url) == shown


class Said:
    """All that was said, one way or another."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        self._caplog = caplog
        self._text: list[str] = []

    def __call__(self, thing: object) -> None:
        """This, too."""
        if isinstance(thing, BaseException):
            self._text += traceback.format_exception(thing)
        self._text += [repr(thing), str(thing)]

    def check(self) -> None:
        """The needle is nowhere."""
        text = "\n".join([*self._text, self._caplog.text, *map(repr, self._caplog.records)])
        assert NEEDLE not in text, text
        assert self._text


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Said:
    """What was said in this test."""
    return Said(caplog)


async def said_about(url: str, opened: Opening, said: Said) -> None:
    """A broker, its copy in another process, its queues, and why it cannot be reached."""
    async with opened(url, retries=IMPATIENT) as broker:
        inner = getattr(broker, "inner", broker)
        both: list[Any] = [inner, pickle.loads(pickle.dumps(inner))]  # noqa: S301 - our own
        for thing in both:
            for part in (thing, thing.settings, thing.url, thing.queue("a")):
                said(part)
        with pytest.raises(RqDlqError) as raised:
            await broker.queues()
        said(raised.value)
        logging.getLogger("rq_dlq").warning("cannot go on", exc_info=raised.value)


@each_row("url", [url.format(NEEDLE) for url in (*WITH_ACCOUNT, *WITH_PARAMETER)])
async def test_servers_that_cannot_be_reached(url: str, opened: Opening, said: Said) -> None:
    if url.startswith(("redis:/me", "me:", "http:")):  # no URL, so there is no broker
        with pytest.raises(ConfigurationError) as raised:
            await said_about(url, opened, said)
        said(raised.value)
    else:
        await said_about(url, opened, said)
    said.check()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """It wants a password."""
    with Server(tmp_path_factory.mktemp("server"), "--requirepass", NEEDLE, port=free_port()) as server:
        yield server


async def test_a_server_that_refuses(opened: Opening, server: Server, said: Said) -> None:
    await said_about(f"redis://:x{NEEDLE}@127.0.0.1:{server.port}", opened, said)
    async with opened(f"redis://:{NEEDLE}@127.0.0.1:{server.port}?db=99") as broker:
        with pytest.raises(RqDlqError) as raised:
            await broker.queues()
    said(raised.value)
    async with opened(f"unix://:{NEEDLE}@{server.socket}") as broker:
        server.client(password=NEEDLE).set("rq:queues", "no set")
        with pytest.raises(RqDlqError) as raised:
            await broker.queues()
        server.client(password=NEEDLE).delete("rq:queues")
    said(raised.value)
    said.check()


async def test_sentinels_that_refuse(opened: Opening, said: Said, tmp_path: Path) -> None:
    """redis-py 6 and 7 put the password into the text of the error."""
    with Watched(tmp_path, password=NEEDLE) as watched:
        for account, word in ((f":{NEEDLE}@", "x"), (f":x{NEEDLE}@", NEEDLE), ("", f"x{NEEDLE}")):
            url = f"redis+sentinel://{account}{watched.hosts}/{MASTER}/0?sentinel_password={word}"
            await said_about(url, opened, said)
        url = f"redis+sentinel://:{NEEDLE}@{watched.hosts}/nobody/0?sentinel_password={NEEDLE}"
        await said_about(url, opened, said)
    said.check()


async def test_a_cluster_whose_node_is_gone(opened: Opening, said: Said, tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        owner = cluster.owner("{orders}")
        url = f"redis://:{NEEDLE}@127.0.0.1:{cluster.other(owner).port}"
        for node in cluster.nodes:
            node.client().config_set("requirepass", NEEDLE)
        async with opened(url, retries=IMPATIENT) as broker:
            await broker.queue("orders").send("x")
            owner.kill()
            with pytest.raises(RqDlqError) as raised:
                await broker.queue("orders").send("y")
        said(raised.value)
    said.check()


APP = """
import rq_dlq
broker = rq_dlq.Broker()
broker.queue("a").handler()(lambda body: None)
"""
COMMANDS = [
    ["doctor"], ["doctor", "-o", "json"], ["queue", "ls"], ["queue", "show", "a"], ["send", "a", "-"],
    ["dlq", "groups", "a"], ["msg", "ls", "a"], ["policy", "ls"], ["queue", "nonsense"],
]  # fmt: skip


@each_row("command", COMMANDS)
@each_row("works", [True, False])
def test_the_command_line(command: list[str], works: bool, server: Server, said: Said) -> None:
    password = NEEDLE if works else f"x{NEEDLE}"
    for url in (f"redis://:{password}@127.0.0.1:{server.port}/0", f"redis://me:{NEEDLE}@127.0.0.1:1"):
        result = CliRunner().invoke(main, ["--url", url, "-vv", *command], input="x\n")
        said(result.output)
        said(result.stderr)
        if result.exception is not None:
            said(result.exception)
    said.check()


@contextmanager
def workers(directory: Path, *options: str, **env: str) -> Iterator[list[psutil.Process]]:
    """`rq-dlq worker`, and the processes that it starts."""
    (directory / "app.py").write_text(APP)
    command = worker_command("app:broker", "--processes", "2", *options)
    with Started(command, env=os.environ | env, cwd=directory, stdin=subprocess.PIPE) as process:
        parent = psutil.Process(process.pid)

        def children() -> list[psutil.Process]:
            """Those that have become what they are to be."""
            return [child for child in parent.children() if child.cmdline() != parent.cmdline()]

        try:
            wait_until(lambda: len(children()) == 2)
            yield [parent, *children()]
        finally:
            process.terminate()


def test_the_list_of_processes(server: Server, tmp_path: Path) -> None:
    """Workers are told the URL by their environment, which only their owner may read."""
    url = f"redis://:{NEEDLE}@127.0.0.1:{server.port}"
    with workers(tmp_path, RQ_DLQ_URL=url) as processes:
        assert all(NEEDLE not in " ".join(process.cmdline()) for process in processes)


def test_the_url_of_the_command_line_is_not_handed_on(server: Server, tmp_path: Path) -> None:
    """Not as an argument: only the process that was given it so shows it."""
    url = f"redis://:{NEEDLE}@127.0.0.1:{server.port}"
    with workers(tmp_path, "--url", url) as (_, *children):
        assert all(NEEDLE not in " ".join(process.cmdline()) for process in children)
        assert all(process.environ()["RQ_DLQ_URL"] == url for process in children)
