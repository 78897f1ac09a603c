"""Checks whether a server accepts and keeps changes: role, eviction, disk, cluster, replicas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rq_dlq.client.durability import DURABILITIES, PROMISES, Durability, what_fsync_lacks
from rq_dlq.doctor.check import Check, untold
from rq_dlq.doctor.versions import FSYNC_FLAWS

if TYPE_CHECKING:
    from rq_dlq.doctor.facts import Replica, ServerFacts

SLOTS = "16384"


def role(facts: ServerFacts) -> Check:
    """Whether the server is a master."""
    kind = facts.info.get("role")
    if kind is None:
        return untold("role")
    if kind == "master":
        return Check("role", "ok", "master")
    where = f"{facts.info.get('master_host')}:{facts.info.get('master_port')}"
    return Check("role", "fail", "a replica, which refuses changes", f"use the master, {where}")


def eviction(facts: ServerFacts, *, required: bool = True) -> Check:
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
        f"{policy} evicts whole queues when memory is full: "
        "redis-cli CONFIG SET maxmemory-policy noeviction (and set it in its configuration file)"
    )
    return Check("eviction", "fail" if required else "warn", found, advice)


_LOSSES = {  # each with advice
    "always": ("a crash loses no confirmed message", ""),
    "everysec": ("a crash of the machine may lose the last second or two", ""),
    "no": (
        "a crash of the machine may lose the last half minute",
        "redis-cli CONFIG SET appendfsync everysec (and set it in its configuration file)",
    ),
    "unknown": (
        "the losses in a crash depend on appendfsync, which this user has no right to read",
        untold("persistence", "CONFIG GET").advice,
    ),
}


def persistence(facts: ServerFacts) -> Check:
    """Whether the server writes to disk, and whether its last writes succeeded."""
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
    save = (facts.config or {}).get("save")
    found = f"snapshots only: a crash now loses the last {changes:,} changes"
    if save is None:
        found = (
            f"no append-only file, perhaps no snapshots: a crash loses the last {changes:,} changes, or all"
        )
    elif not save:
        found = "neither an append-only file nor snapshots: a restart loses all"
    advice = "redis-cli CONFIG SET appendonly yes (and set it in its configuration file)"
    return Check("persistence", "warn", found, advice)


def cluster(facts: ServerFacts) -> Check:
    """Whether all slots are served; only for a node of a cluster."""
    state, covered = facts.cluster.get("cluster_state"), facts.cluster.get("cluster_slots_ok", "0")
    if state is None:
        return untold("cluster", "CLUSTER INFO")
    nodes = facts.cluster.get("cluster_known_nodes", "?")
    found = f"{covered} of {SLOTS} slots are served, state {state}, {nodes} nodes"
    if state == "ok" and covered == SLOTS:
        return Check("cluster", "ok", found)
    advice = "queues in the other slots do not work: start their nodes, or run `redis-cli --cluster fix`"
    if covered == SLOTS:
        advice = "no queue works: too few masters reach each other, so start them, or mend their network"
    return Check("cluster", "fail", found, advice)


def replicas(facts: ServerFacts, wanted: int) -> Iterator[Check]:
    """How many replicas are online, and how the server reacts when there are too few.

    Args:
        wanted: how many must confirm a send; 0: no confirmation.
    """
    if facts.tells_replicas:
        yield _present(facts.replicas, wanted)
        yield _least(facts, wanted)
    else:
        yield untold("replicas")
        yield untold("min-replicas")


def _present(connected: list[Replica], wanted: int) -> Check:
    online = [replica for replica in connected if replica.online]
    found = "; ".join(map(_described, connected)) or "none"
    if len(online) < wanted:
        advice = f"{wanted} must confirm each send, so every send is Unconfirmed: start replicas"
        return Check("replicas", "fail", found, advice)
    if len(online) < len(connected):
        advice = "a replica that is not online lacks messages: a failover to it would lose them"
        return Check("replicas", "warn", found, advice)
    if 0 < wanted == len(online):
        advice = (
            f"after a failover {wanted - 1} would be left, and no send would be confirmed: run "
            f"{wanted + 2} servers, so that {wanted + 1} replicas are online"
        )
        return Check("replicas", "warn", found, advice)
    return Check("replicas", "ok", found)


def _described(replica: Replica) -> str:
    if replica.online:
        return f"{replica.address} online, {replica.behind:,} bytes behind"
    if replica.state == "online":
        return f"{replica.address} silent for {replica.lag} s"
    return f"{replica.address} not online yet ({replica.state})"


def _least(facts: ServerFacts, wanted: int) -> Check:
    """`min-replicas-to-write`: INFO shows if it is set and how many replicas keep up, CONFIG its value."""
    keep_up, config = int(facts.info.get("min_slaves_good_slaves", "-1")), facts.config
    spare = sum(replica.online for replica in facts.replicas) > wanted
    if keep_up < 0:
        return _guarded("min-replicas-to-write 0", 0, wanted, spare=spare)
    if config is None and keep_up > 0:
        found = f"min-replicas-to-write is set to an unknown value; {keep_up} keep up"
        return Check("min-replicas", "warn", found, untold("", "CONFIG GET").advice)
    least = int((config or {}).get("min-replicas-to-write", "1"))
    found = f"min-replicas-to-write {least if config else 'is set'}; {keep_up} keep up"
    if least > keep_up:
        advice = "the server refuses changes because too few replicas keep up: start replicas"
        return Check("min-replicas", "fail", found, advice)
    return _guarded(found, least, wanted, spare=spare)


def _guarded(found: str, least: int, wanted: int, *, spare: bool) -> Check:
    """Whether the server refuses changes that too few replicas would confirm.

    Args:
        spare: more replicas are online than must confirm, so claims and acks go on after a failover.
    """
    if least >= wanted:
        return Check("min-replicas", "ok", found)
    first = "" if spare else "with one replica more (otherwise claims and acks stop after a failover) run "
    advice = (
        "an isolated master keeps accepting messages, all Unconfirmed, and then loses them: "
        f"{first}redis-cli CONFIG SET min-replicas-to-write {wanted}"
    )
    return Check("min-replicas", "warn", found, advice)


def promise(facts: ServerFacts, durability: Durability, replicas: int) -> Check:
    """Whether the server can provide this durability; for "memory": which profiles it could provide."""
    if durability == "memory":
        each = (f"{name}: {_lacks(facts, name, replicas) or PROMISES[name]}" for name in DURABILITIES)
        return Check("durability", "ok", "\n".join(each))
    if durability == "replicated" and not facts.tells_replicas:
        return untold("durability")
    if lacks := _lacks(facts, durability, replicas):
        return Check("durability", "fail", durability, lacks)
    flaws = _flaws(facts) if durability == "fsync" else []
    found = f"{durability}: {PROMISES[durability]}"
    return Check("durability", "warn" if flaws else "ok", found, "; ".join(flaws))


def _flaws(facts: ServerFacts) -> list[str]:
    """The flaws of this release that break `fsync`."""
    if not facts.release:
        return [f"its release and so its flaws are unknown: {untold('version').advice}"]
    return [flaw.reason for flaw in FSYNC_FLAWS if flaw.affects(facts)]


def _lacks(facts: ServerFacts, durability: Durability, replicas: int) -> str:
    """Why the server cannot provide the durability, or which facts are unknown; empty: it can."""
    if durability == "fsync":
        lacks = what_fsync_lacks(facts.info, facts.config)
        return f"not kept: {lacks}" if lacks else ""
    if durability == "memory":
        return ""
    if not facts.tells_replicas:
        return untold("replicas").found
    online = sum(replica.online for replica in facts.replicas)
    return f"not kept: {online} of {replicas} replicas are online" if online < replicas else ""
