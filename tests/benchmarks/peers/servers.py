"""The servers of the benchmark, each on one core, and how many of their messages are not done."""

from __future__ import annotations

import json
import socket
import subprocess
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import redis

from tests import servers


class Server(Protocol):
    """What the benchmark wants of a server."""

    url: str
    version: dict[str, str]

    def left(self, commands: Sequence[Sequence[str]]) -> int:
        """The messages that are not done."""

    def flush(self) -> None:
        """Remove everything."""


class Redis:
    """A redis-server with nothing on disk."""

    def __init__(self, port: int) -> None:
        self.url = f"redis://127.0.0.1:{port}"
        self._client: Any = redis.Redis(port=port, decode_responses=True)
        self.version = {"Redis": str(self._client.info("server")["redis_version"])}

    def flush(self) -> None:
        """Remove everything."""
        self._client.flushall()

    def left(self, commands: Sequence[Sequence[str]]) -> int:
        """The sum of what the commands tell."""
        pipeline = self._client.pipeline()
        for command in commands:
            pipeline.execute_command(*command)
        replies = pipeline.execute(raise_on_error=False)
        return sum(map(self._number, commands, replies))

    def _number(self, command: Sequence[str], reply: Any) -> int:
        if isinstance(reply, int):
            return reply
        if not reply or isinstance(reply, redis.ResponseError):  # a stream that nobody has begun to read
            return int(self._client.xlen(command[-1]))
        return sum(int(group["pending"]) + int(group["lag"] or 0) for group in reply)


class Other(ABC):
    """A server of another kind, which the adapter empties."""

    version: dict[str, str]

    @abstractmethod
    def told(self) -> dict[str, str]:
        """What it says of its version; OSError: it is not up."""

    def answers(self) -> bool:
        """Whether it is up."""
        try:
            self.version = self.told()
        except OSError:
            return False
        return True

    def flush(self) -> None:  # noqa: B027 - nothing is left to do
        """The adapter removes everything when it prepares."""


class Nats(Other):
    """A nats-server with JetStream in memory."""

    def __init__(self, port: int, monitor: int) -> None:
        self.url = f"nats://127.0.0.1:{port}"
        self._monitor = f"http://127.0.0.1:{monitor}"

    def ask(self, path: str) -> Any:
        """What its monitoring says."""
        with urllib.request.urlopen(f"{self._monitor}/{path}", timeout=5) as answer:  # noqa: S310
            return json.load(answer)

    def told(self) -> dict[str, str]:
        """What its monitoring says."""
        return {"nats-server": str(self.ask("varz")["version"])}

    def left(self, commands: Sequence[Sequence[str]]) -> int:
        """The messages of its streams: with work queues, those that nobody has acked."""
        del commands
        return int(self.ask("jsz")["messages"])


class Beanstalkd(Other):
    """A beanstalkd with nothing on disk."""

    def __init__(self, port: int) -> None:
        self.url = f"beanstalk://127.0.0.1:{port}"
        self._port = port

    def ask(self, command: str) -> dict[str, str]:
        """What it says to a command for statistics: names and values."""
        with socket.create_connection(("127.0.0.1", self._port), timeout=5) as connection:
            connection.sendall(f"{command}\r\n".encode())
            with connection.makefile("rb") as reply:
                said, _, size = reply.readline().decode().strip().partition(" ")
                lines = reply.read(int(size)).decode().splitlines() if said == "OK" else []
        return dict(line.split(": ", 1) for line in lines if ": " in line)

    def told(self) -> dict[str, str]:
        """What its statistics say."""
        return {"beanstalkd": self.ask("stats")["version"].strip('"')}

    def left(self, commands: Sequence[Sequence[str]]) -> int:
        """The jobs of all tubes that nobody has deleted."""
        del commands
        told = self.ask("stats")
        return sum(int(told[f"current-jobs-{where}"]) for where in ("ready", "reserved", "delayed", "buried"))


@contextmanager
def running(name: str, core: int, folder: Path) -> Iterator[Server]:
    """The server of a peer, on this core."""
    pinned = ("taskset", "-c", str(core))
    port, monitor = servers.free_port(), servers.free_port()
    server: Nats | Beanstalkd
    if name == "nats":
        command = ["nats-server", "-js", "-a", "127.0.0.1", "-p", str(port), "-m", str(monitor)]
        command += ["-sd", str(folder / "nats"), "-l", str(folder / "nats.log")]
        server = Nats(port, monitor)
    elif name == "beanstalkd":
        command, server = ["beanstalkd", "-l", "127.0.0.1", "-p", str(port)], Beanstalkd(port)
    else:
        with servers.Server(folder / "redis", port=port, inside=pinned):
            yield Redis(port)
        return
    with subprocess.Popen([*pinned, *command]) as process:
        try:
            servers.wait_until(server.answers)
            yield server
        finally:
            process.kill()
