"""What a benchmark says above its tables."""

from __future__ import annotations

import os
import sys

import redis


def heading(module: str, path: str) -> str:
    """The command that was run, and on what.

    Args:
        module: of the benchmark.
        path: the socket of the server.
    """
    with redis.Redis(unix_socket_path=path) as raw:
        version = raw.info("server")["redis_version"]
    command = " ".join(["python", "-m", module, *sys.argv[1:]])
    return f"$ {command}\nRedis {version}, Python {sys.version.split()[0]}, {os.cpu_count()} cores"
