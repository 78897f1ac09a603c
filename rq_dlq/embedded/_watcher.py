"""The watcher: starts the server, stops it when the last client has ended, and cleans up.

    python -I -S _watcher.py HOME WATCHER_LOCK [ENDPOINT SERVER ARGUMENTS…]

Without ENDPOINT and SERVER it watches the server that is already running. The package's docstring
describes the protocol. This is a script, never imported. The first client waits for it, so modules
that are not needed to start the server are imported while the server starts.
"""
# ruff: noqa: PLC0415, PTH108, PTH106, PTH120, PTH123 - pathlib alone would double the time to start

import fcntl
import os
import sys

GRACE = 10.0  # seconds for a server to write its file and end


def main(home: str, watch: str, *service: str) -> None:
    """Fork, so that the client does not have to wait; start the server; watch it."""
    if os.fork():
        os._exit(0)
    os.chdir(home)
    os.set_inheritable(int(watch), False)  # noqa: FBT003 - the server must not hold the lock
    pid, endpoint = (start(*service), service[0]) if service else written()
    guard(pid, endpoint)


def start(endpoint: str, *command: str) -> int:
    """Start the server, which inherits server.lock, and return its pid."""
    lock = os.open("server.lock", os.O_WRONLY | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    pid = os.fork()
    if pid == 0:
        os.ftruncate(lock, 0)
        os.write(lock, f"{os.getpid()}\n{endpoint}\n".encode())
        os.set_inheritable(lock, True)  # noqa: FBT003
        os.execv(command[0], command)  # noqa: S606 - if it fails, the traceback is in the log
    os.close(lock)
    return pid


def written() -> tuple[int, str]:
    """Read the server's pid and endpoint, as `start` wrote them."""
    with open("server.lock") as lock:
        pid, endpoint = lock.read().splitlines()
    return int(pid), endpoint


def guard(pid: int, endpoint: str) -> None:
    """Wait until the server has ended, for any reason, and clean up.

    The server may have ended before it wrote to server.lock, so the endpoint is not read from there.
    """
    import contextlib
    import threading

    threading.Thread(target=end_when_alone, args=(pid,), daemon=True).start()
    lock = os.open("server.lock", os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with contextlib.suppress(ChildProcessError):  # an earlier watcher started it
        os.waitpid(pid, 0)
    tidy(endpoint)


def end_when_alone(pid: int) -> None:
    """Wait until no client is left, and let no new one join; then stop the server, which ends `guard`."""
    import signal
    import time

    clients = os.open("clients.lock", os.O_RDONLY)  # locked until this process ends
    fcntl.flock(clients, fcntl.LOCK_EX)
    os.kill(pid, signal.SIGTERM)
    time.sleep(GRACE)
    os.kill(pid, signal.SIGKILL)


def tidy(endpoint: str) -> None:
    """Remove the remains of a killed server: its socket and server.lock."""
    import contextlib
    import json
    from urllib.parse import unquote

    url = json.loads(endpoint)["url"]
    path = unquote(url.removeprefix("unix://"), errors="surrogateescape")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with contextlib.suppress(OSError):  # not empty: it is the data directory
        os.rmdir(os.path.dirname(path))
    os.unlink("server.lock")


if __name__ == "__main__":
    main(*sys.argv[1:])
