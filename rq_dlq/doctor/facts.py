"""The facts that a server reports."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rq_dlq.client.durability import configuration
from rq_dlq.client.settings import read_info, server_facts, version_of
from rq_dlq.core.steps.call import Command
from rq_dlq.errors import BrokerRefused

if TYPE_CHECKING:
    from rq_dlq.core.steps.step import Steps

MOST_LAG = 10  # seconds without a confirmation after which a replica no longer counts, as in Redis by default


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica, as its master sees it.

    Attributes:
        state: "online", or the stage of its first synchronization.
        lag: seconds since its last confirmation.
        behind: bytes that it has not confirmed.
    """

    address: str
    state: str
    lag: int
    behind: int

    @property
    def online(self) -> bool:
        """Whether it has all data of the master, except for data in transit."""
        return self.state == "online" and 0 <= self.lag <= MOST_LAG


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The facts that a server reports.

    Attributes:
        info: the reply to INFO; empty if this user has no right to run it.
        config: part of CONFIG GET; None: this user has no right to run it, or it was not read.
        cluster: the reply to CLUSTER INFO; empty: there is no cluster, or this user has no right to run it.
    """

    info: Mapping[str, str]
    config: Mapping[str, str] | None = None
    cluster: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def name(self) -> str:
        """The kind of server, in lower case: redis, valkey or another one."""
        return self.info.get("server_name", "redis")

    @property
    def release(self) -> str:
        """Its version; Valkey also reports a compatible Redis version."""
        return self.info.get(f"{self.name}_version") or self.info.get("redis_version", "")

    @property
    def version(self) -> tuple[int, ...]:
        """The version as numbers."""
        return version_of(self.release)

    @property
    def tells_replicas(self) -> bool:
        """Whether it reports its replication."""
        return "role" in self.info

    @property
    def replicas(self) -> list[Replica]:
        """The connected replicas."""
        count, offset = int(self.info.get("connected_slaves", 0)), int(self.info.get("master_repl_offset", 0))
        lines = (self.info.get(f"slave{n}", "") for n in range(count))
        return [_replica(line, offset) for line in lines if line]


def _replica(line: str, offset: int) -> Replica:
    fields = {name: value for name, _, value in (part.partition("=") for part in line.split(","))}
    behind = max(0, offset - int(fields.get("offset", 0)))
    address = f"{fields.get('ip')}:{fields.get('port')}"
    return Replica(address, fields.get("state", ""), int(fields.get("lag", -1)), behind)


def read_facts(*, with_config: bool = True) -> Steps[ServerFacts]:
    """Read the facts of a server.

    Args:
        with_config: also read its configuration, which few users may see; the server logs each refusal in its
            ACL LOG.
    """
    info = yield from server_facts()
    config = (yield from configuration()) if with_config else None
    cluster: Any = {}
    if info.get("cluster_enabled") == "1":
        with suppress(BrokerRefused):
            cluster = yield Command((b"CLUSTER", b"INFO"), read_info)
    return ServerFacts(info, config, cluster)
