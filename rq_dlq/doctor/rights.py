"""What the Redis user may do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rq_dlq._redis.roles import ROLES, missing_rights
from rq_dlq.doctor.check import Check
from rq_dlq.errors import RqDlqError

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq._redis import Connections


def rights(connections: Connections, keys: QueueKeys) -> Check:
    """Which roles this user can play on a queue; no command is carried out."""
    lacking: dict[str, list[str]] = {}
    try:
        for name, role in ROLES.items():
            lacking[name] = connections.alone(missing_rights([role], keys, connections.scripts))
    except RqDlqError as error:
        return Check("rights", "warn", "the server does not tell", str(error))
    granted = [name for name, rights in lacking.items() if not rights]
    refused = [f"not {name}: {_few(rights)} missing" for name, rights in lacking.items() if rights]
    found = "; ".join([", ".join(granted) or "no role", *refused])
    if granted:
        return Check("rights", "ok", found)
    return Check("rights", "fail", found, "`rq-dlq acl ROLE` prints the line of a role for the ACLs of Redis")


def _few(rights: list[str], most: int = 5) -> str:
    more = len(rights) - most
    return " ".join(rights[:most]) + (f" and {more} more" if more > 0 else "")
