"""The lines of roles, as a server of a test can read them."""

from __future__ import annotations

from typing import Any

from rq_dlq._redis.acl import READS, acl_line
from rq_dlq._redis.roles import ROLES


def rules_of(role: str, client: Any, queue: str = "*", durability: str = "memory") -> list[str]:
    """The rules of a role in the namespace rq, for a server, as arguments of ACL SETUSER after a name."""
    reads = READS if reads_apart(client.info("server")["redis_version"]) else "~"
    return acl_line(ROLES[role], "x", "rq", queue, durability, reads=reads).split()[2:]


def reads_apart(version: str) -> bool:
    """Whether this release knows keys for reading only."""
    return int(version.partition(".")[0]) >= 7
