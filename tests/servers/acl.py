"""The lines of roles, as a server of a test can read them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rq_dlq._redis.acl import BOTH, OLD, acl_line
from rq_dlq._redis.role import Way
from rq_dlq._redis.roles import ROLES


def rules_of(role: str, client: Any, queue: str = "*", durability: str = "memory") -> list[str]:
    """The rules of a role in the namespace rq, for a server, as arguments of ACL SETUSER after a name."""
    ways = ways_of(client.info("server")["redis_version"])
    return acl_line(ROLES[role], "x", "rq", queue, durability, ways=ways).split()[2:]


def acl_file(folder: Path, program: str, password: str, roles: Iterable[str]) -> Path:
    """A file for a server of this program: everybody may do all, and users have the rights of these roles."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    ways = ways_of(said.partition(" v=")[2])
    lines = [f"{acl_line(ROLES[role], role, 'rq', ways=ways)} >{password}\n" for role in roles]
    file = folder / "users.acl"
    file.write_text("".join(["user default on nopass ~* &* +@all\n", *lines]))
    return file


def ways_of(version: str) -> Sequence[Way]:
    """How users of this release run the verbs."""
    return BOTH if reads_apart(version) else OLD


def reads_apart(version: str) -> bool:
    """Whether this release knows keys for reading only."""
    return int(version.partition(".")[0]) >= 7
