"""A master and its replicas, watched by sentinels, for the tests."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.servers import STARTS, Server, free_port, needed, wait_until
from tests.servers.certificates import Certificate

MASTER = "orders"  # as the sentinels call it
IMPATIENT: dict[str, Any] = {"socket_timeout": 0.5, "retry": Retry(NoBackoff(), 0)}


class Sentinel(Server):
    """One sentinel; it keeps what it knows in a file."""

    def __init__(
        self,
        directory: Path,
        watched: int,
        quorum: int,
        settings: Sequence[str],
        certificate: Certificate | None = None,
    ) -> None:
        program = needed()
        super().__init__(directory, program=program, port=free_port())
        directory.mkdir(parents=True)
        file = directory / "sentinel.conf"
        lines = [
            f"port {self.port}",
            f"unixsocket {self.socket}",
            f"dir {directory}",
            f"sentinel monitor {MASTER} 127.0.0.1 {watched} {quorum}",
            f"sentinel down-after-milliseconds {MASTER} 500",
            f"sentinel failover-timeout {MASTER} 2000",
            *settings,
            *(
                f"{name} {value}"
                for name, value in (certificate.settings(self.port) if certificate else {}).items()
            ),
        ]
        file.write_text("\n".join(lines) + "\n")
        self._command = [program, str(file), "--sentinel"]


class Watched:
    """Servers, the first of which begins as the master, and sentinels that agree by majority.

    Args:
        options: of the servers.
        password: of the servers, and of the sentinels.
        certificate: with which all of them are reached by TLS, and not without.
    """

    def __init__(
        self,
        directory: Path | str,
        *options: str,
        servers: int = 2,
        sentinels: int = 1,
        password: str | None = None,
        certificate: Certificate | None = None,
    ) -> None:
        self._directory, self._options = Path(directory), options
        self._password, self._certificate = password, certificate
        settings: tuple[str, ...] = ()
        if password:
            self._options = (*options, "--requirepass", password, "--masterauth", password)
            settings = (f"requirepass {password}", f"sentinel auth-pass {MASTER} {password}")
        self.servers = [self._server(number) for number in range(servers)]
        watched, quorum = self.servers[0].port, sentinels // 2 + 1
        self.sentinels = [
            Sentinel(self._directory / f"sentinel{number}", watched, quorum, settings, certificate)
            for number in range(sentinels)
        ]
        self._stack = ExitStack()

    def _server(self, number: int) -> Server:
        port = free_port()
        tls = self._certificate.options(port) if self._certificate else ()
        options = ("--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0", *self._options, *tls)
        return Server(self._directory / str(number), *options, port=port)

    @property
    def hosts(self) -> str:
        """The sentinels, as in a URL."""
        return ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)

    @property
    def url(self) -> str:
        """For a broker."""
        if self._certificate:
            return f"rediss+sentinel://{self.hosts}/{MASTER}/0?{self._certificate.trusted}"
        return f"redis+sentinel://{self.hosts}/{MASTER}/0"

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for server in (*self.servers, *self.sentinels):
                stack.callback(server.kill)
            for server in self.servers:
                server.start()
            for replica in self.servers[1:]:
                self.follow(replica, self.servers[0])
            for sentinel in self.sentinels:
                sentinel.start(wait=False)
            wait_until(self.well, STARTS)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def client(self, server: Server) -> redis.Redis:
        """A plain client of a server, or of a sentinel."""
        return server.client(password=self._password, **IMPATIENT)

    def follow(self, replica: Server, master: Server) -> None:
        """Make one the replica of another."""
        self.client(replica).execute_command("REPLICAOF", "127.0.0.1", master.port)

    def hold_back(self, master: Server, replica: Server) -> None:
        """From now on the replica gets nothing of what the master writes."""
        self.client(replica).config_set("masterauth", "held back")
        self.client(master).execute_command("CLIENT", "KILL", "TYPE", "replica")
        wait_until(lambda: not self.online(master))

    def master(self) -> Server | None:
        """The server that all sentinels call the master, and that is one."""
        with suppress(redis.RedisError):
            ports = {int(self._told(sentinel)[b"port"]) for sentinel in self.sentinels}
            for server in self.servers:
                if {server.port} == ports and self.client(server).role()[0] == b"master":
                    return server
        return None

    def well(self) -> bool:
        """Whether the sentinels see each other and all servers, and the replicas keep up."""
        master = self.master()
        return (
            master is not None
            and self.online(master, len(self.servers) - 1)
            and all(map(self._sees_all, self.sentinels))
        )

    def online(self, master: Server, replicas: int = 1) -> bool:
        """Whether so many replicas get what this one writes."""
        with suppress(redis.RedisError):
            facts: Any = self.client(master).info("replication")
            told = [facts.get(f"slave{number}", {"state": ""}) for number in range(len(self.servers))]
            return [replica["state"] for replica in told].count("online") >= replicas
        return False

    def _sees_all(self, sentinel: Server) -> bool:
        with suppress(redis.RedisError):
            replicas = map(pairs, self.client(sentinel).execute_command("SENTINEL", "REPLICAS", MASTER))
            lost = (b"down", b"disconnected")
            well = [told for told in replicas if not any(word in told[b"flags"] for word in lost)]
            others = self._told(sentinel)[b"num-other-sentinels"]
            return int(others) == len(self.sentinels) - 1 and len(well) == len(self.servers) - 1
        return False

    def _told(self, sentinel: Server) -> dict[bytes, bytes]:
        return pairs(self.client(sentinel).execute_command("SENTINEL", "MASTER", MASTER))


def pairs(told: Any) -> dict[bytes, bytes]:
    """What a sentinel says; some versions of redis-py pair it already, others cannot read it."""
    return told if isinstance(told, dict) else dict(zip(told[::2], told[1::2], strict=True))
