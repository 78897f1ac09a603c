"""Probes by HTTP, the heartbeat file, and what systemd hears."""

from __future__ import annotations

import logging
import os
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from rq_dlq.doctor.vitals import Vitals
from rq_dlq.errors import ConfigurationError
from rq_dlq.telemetry import health
from rq_dlq.telemetry.health import Answer, announced, served
from tests.servers import wait_until

ANY = ("127.0.0.1", 0)


@pytest.fixture
def stopping() -> threading.Event:
    return threading.Event()


@pytest.fixture
def vitals(stopping: threading.Event) -> Vitals:
    """Of a process that works."""
    vitals = Vitals(stopping.is_set)
    vitals.redis = ""
    vitals.turn("worker")
    vitals.begin()
    return vitals


def ask(port: int | None, path: str, method: str = "GET", host: str = "127.0.0.1") -> tuple[int, str]:
    request = urllib.request.Request(f"http://{host}:{port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as reply:  # noqa: S310 - ours
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def move(vitals: Vitals, seconds: float) -> None:
    """The worker's last turn was at another time."""
    turned, within = vitals._turns["worker"]
    vitals._turns["worker"] = turned + seconds, within


def test_probes_answer_with_a_line_for_each_check(vitals: Vitals, stopping: threading.Event) -> None:
    with announced(vitals, address=ANY, pages={"/more": lambda: Answer(200, b"<p>", "text/html")}) as port:
        status, text = ask(port, "/livez?verbose")
        assert (status, text.splitlines()[0]) == (200, "ok   process: working")
        assert text.splitlines()[1].startswith("ok   worker: turned ")
        status, text = ask(port, "/readyz")
        assert (status, text.splitlines()[2]) == (200, "ok   redis: answers")
        vitals.redis = "cannot reach redis://cache"
        assert ask(port, "/readyz")[0] == 503
        assert "fail redis: cannot reach redis://cache\n" in ask(port, "/readyz")[1]
        assert ask(port, "/livez")[0] == 200
        stopping.set()
        assert "fail process: stopping\n" in ask(port, "/readyz")[1]
        assert ask(port, "/more") == (200, "<p>")
        assert ask(port, "/livez", "HEAD") == (200, "")
        assert ask(port, "/") == (404, "the pages are /livez, /readyz, /more\n")
        assert ask(port, "/livez", "POST")[0] == 501


def test_a_page_that_fails_ends_nothing() -> None:
    with served(ANY, {"/bad": lambda: 1 // 0, "/good": lambda: Answer(200, b"")}) as port:  # type: ignore[dict-item,return-value]
        assert ask(port, "/bad")[0] == 500
        assert ask(port, "/good")[0] == 200


def test_an_address_that_is_taken_is_told(vitals: Vitals) -> None:
    with (
        announced(vitals, address=ANY) as port,
        pytest.raises(ConfigurationError, match=rf"cannot listen on 127.0.0.1:{port}: .* choose another"),
        announced(vitals, address=("127.0.0.1", port or 0)),
    ):
        pass


def test_ipv6(vitals: Vitals) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    with announced(vitals, address=("::1", 0)) as port:
        assert ask(port, "/livez", host="[::1]")[0] == 200


# The heartbeat file


def test_the_file_is_touched_while_the_process_lives(
    vitals: Vitals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "BEAT", 0.02)
    file = tmp_path / "alive"
    with announced(vitals, heartbeat_file=file):
        for _ in range(2):
            os.utime(file, (0, 0))
            wait_until(lambda: file.stat().st_mtime > 0)
        move(vitals, -1_000)
        os.utime(file, (0, 0))
        move(vitals, 1_000)
        wait_until(lambda: file.stat().st_mtime > 0)
    assert not file.exists()


def test_a_file_that_cannot_be_written_is_told(vitals: Vitals, tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigurationError, match="cannot write the heartbeat file"),
        announced(vitals, heartbeat_file=tmp_path / "none" / "alive"),
    ):
        pass


# systemd


@pytest.fixture(params=["path", "abstract"])
def systemd(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[socket.socket]:
    """The socket of a service manager, which waits for a watchdog every 40 ms."""
    name = f"{tmp_path}/notify" if request.param == "path" else f"@rq-dlq-{os.getpid()}"
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    monkeypatch.setenv("WATCHDOG_USEC", "40000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name.replace("@", "\0"))
        manager.settimeout(20)
        yield manager


def heard(manager: socket.socket, line: str) -> list[str]:
    """What it hears until a line that begins like this, without the watchdog."""
    lines: list[str] = []
    while not any(one.startswith(line) for one in lines):
        lines += manager.recv(4096).decode().splitlines()
    return [line for line in lines if line != "WATCHDOG=1"]


def test_systemd_hears_of_each_change(
    vitals: Vitals, stopping: threading.Event, systemd: socket.socket
) -> None:
    vitals.redis = "away\nfor now"
    with announced(vitals):
        assert "NOTIFY_SOCKET" not in os.environ
        assert heard(systemd, "WATCHDOG=1") == ["STATUS=redis: away for now"]
        vitals.redis = ""
        assert heard(systemd, "READY=1") == ["STATUS=working", "READY=1"]
        vitals.redis = "away"
        assert heard(systemd, "STATUS=redis: away") == ["STATUS=redis: away"]
        vitals.redis = ""
        stopping.set()
        assert heard(systemd, "STOPPING=1")[-2:] == ["STATUS=process: stopping", "STOPPING=1"]
        heard(systemd, "WATCHDOG=1")


def test_systemd_hears_what_could_not_be_sent_at_first(
    vitals: Vitals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "rq_dlq.health")
    monkeypatch.setenv("NOTIFY_SOCKET", f"{tmp_path}/notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, announced(vitals):
        wait_until(lambda: "cannot notify systemd" in caplog.text)
        manager.bind(f"{tmp_path}/notify")
        manager.settimeout(10)
        assert heard(manager, "READY=1") == ["STATUS=working", "READY=1"]


def test_the_watchdog_hears_nothing_of_a_process_that_hangs(vitals: Vitals, systemd: socket.socket) -> None:
    move(vitals, -1_000)
    with announced(vitals):
        assert heard(systemd, "STATUS=worker: turned 100") is not None  # seconds ago
        vitals.turn("worker")
        assert heard(systemd, "WATCHDOG=1") == ["STATUS=working", "READY=1"]
