"""The durability profiles: the guarantee of each after a crash, and its requirements on the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from rq_dlq.core.steps.call import Command, read_hash
from rq_dlq.core.steps.step import Pipeline
from rq_dlq.errors import BrokerRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rq_dlq.core.steps.step import Steps

Durability = Literal["memory", "fsync", "replicated"]
DURABILITIES: tuple[Durability, ...] = get_args(Durability)
PROMISES: Mapping[Durability, str] = {
    "memory": "a server crash may lose messages that were confirmed to their sender",
    "fsync": "a crash of the server or its machine loses no confirmed message, as long as the disk survives",
    "replicated": (
        "a failover keeps messages that enough replicas confirmed; the sender of others gets Unconfirmed"
    ),
}
KEEP = "and CONFIG REWRITE (or edit its configuration file), so that a restart keeps the setting"
_ASKED = (b"*append*", b"save", b"min-replicas-*", b"io-threads")  # none of these patterns matches a password


def configuration() -> Steps[Mapping[str, str] | None]:
    """The server's settings for its disk, replicas and threads; None: CONFIG GET is refused."""
    try:
        parts = yield Pipeline([Command((b"CONFIG", b"GET", pattern), _read_config) for pattern in _ASKED])
    except BrokerRefused:
        return None
    return {name: value for part in parts for name, value in part.items()}


def _read_config(reply: Any) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in read_hash(reply).items()}


def what_fsync_lacks(info: Mapping[str, str], config: Mapping[str, str] | None) -> str:
    """Why a server cannot provide the durability `fsync`, and what to do; empty: it can.

    Args:
        info: from INFO.
        config: from `configuration`.
    """
    loading = info.get("loading") == "1"  # while loading it reports the file as off
    is_off = info.get("aof_enabled") == "0" and not loading
    if (config or {}).get("appendonly") == "no" or is_off:
        return f"its append-only file is off: redis-cli CONFIG SET appendonly yes, {KEEP}"
    if config is None:
        return (
            "this Redis user has no right to read appendfsync, so it cannot be checked: grant CONFIG GET "
            "(+config|get)"
        )
    if config.get("appendfsync") != "always":
        found = config.get("appendfsync")
        return f"appendfsync is {found}: redis-cli CONFIG SET appendfsync always, {KEEP}"
    if config.get("no-appendfsync-on-rewrite") == "yes":
        return (
            "while its append-only file is rewritten, writes do not reach the disk: "
            f"redis-cli CONFIG SET no-appendfsync-on-rewrite no, {KEEP}"
        )
    return ""
