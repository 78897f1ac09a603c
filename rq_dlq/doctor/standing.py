"""Whether a server accepts changes and keeps them: its role, eviction policy, disk and cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rq_dlq.doctor.check import Check, untold

if TYPE_CHECKING:
    from rq_dlq.doctor.facts import Facts

SLOTS = "16384"


def role(facts: Facts) -> Check:
    """Whether the server is a master."""
    said = facts.info.get("role")
    if said is None:
        return untold("role")
    if said == "master":
        return Check("role", "ok", "master")
    where = f"{facts.info.get('master_host')}:{facts.info.get('master_port')}"
    return Check("role", "fail", "a replica, which refuses changes", f"use the master, {where}")


def eviction(facts: Facts, *, required: bool = True) -> Check:
    """Whether the server would evict queues when memory is full.

    Args:
        required: whether a broker would refuse such a server.
    """
    policy, limit = facts.info.get("maxmemory_policy"), int(facts.info.get("maxmemory", "0"))
    if policy is None:
        return untold("eviction")
    memory = f"maxmemory {facts.info.get('maxmemory_human', '')}" if limit else "no maxmemory"
    found = f"maxmemory-policy {policy}, {memory}"
    if policy == "noeviction":
        return Check("eviction", "ok", found)
    advice = (
        f"{policy} evicts whole queues when memory is full: redis-cli CONFIG SET maxmemory-policy noeviction"
    )
    return Check("eviction", "fail" if required else "warn", found, advice)


_LOSSES = {  # and what to do about it
    "always": ("a crash loses nothing that was acknowledged", ""),
    "everysec": ("a crash of the machine may lose the last second or two", ""),
    "no": (
        "a crash of the machine may lose the last half minute",
        "redis-cli CONFIG SET appendfsync everysec (and in its configuration file)",
    ),
    "unknown": (
        "what a crash may lose depends on appendfsync, which this user may not read",
        untold("persistence", "CONFIG GET").advice,
    ),
}


def persistence(facts: Facts) -> Check:
    """Whether the server writes to its disk, and whether the last writes succeeded."""
    if "aof_enabled" not in facts.info:
        return untold("persistence")
    for name, what in (("aof_last_write_status", "append-only file"), ("rdb_last_bgsave_status", "snapshot")):
        if facts.info.get(name, "ok") != "ok":
            advice = "see the server's log and free disk space: until then it may refuse changes"
            return Check("persistence", "fail", f"the last write of the {what} failed", advice)
    if facts.info["aof_enabled"] == "1":
        fsync = (facts.config or {}).get("appendfsync", "unknown")
        loss, advice = _LOSSES.get(fsync) or _LOSSES["unknown"]
        found = f"append-only file, fsync {fsync}: {loss}"
        return Check("persistence", "warn" if advice else "ok", found, advice)
    changes = int(facts.info.get("rdb_changes_since_last_save", "0"))
    found = f"snapshots only: a crash now loses the last {changes:,} changes"
    advice = "redis-cli CONFIG SET appendonly yes (and in its configuration file)"
    return Check("persistence", "warn", found, advice)


def cluster(facts: Facts) -> Check:
    """Whether all slots are served; for a node of a cluster only."""
    state, covered = facts.cluster.get("cluster_state"), facts.cluster.get("cluster_slots_ok", "0")
    if state is None:
        return untold("cluster", "CLUSTER INFO")
    nodes = facts.cluster.get("cluster_known_nodes", "?")
    found = f"{covered} of {SLOTS} slots are served, state {state}, {nodes} nodes"
    if state == "ok" and covered == SLOTS:
        return Check("cluster", "ok", found)
    advice = "queues in the other slots stand still: start their nodes, or `redis-cli --cluster fix`"
    return Check("cluster", "fail", found, advice)
