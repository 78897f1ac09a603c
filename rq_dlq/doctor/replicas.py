"""Replicas: whether they have what the server has, and what the server does when they are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rq_dlq.doctor.check import Check, untold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rq_dlq.doctor.facts import Facts, Replica


def replicas(facts: Facts, wanted: int) -> Iterator[Check]:
    """How many are online, and what the server does when there are too few.

    Args:
        wanted: how many must confirm a send; 0: none.
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
    return Check("replicas", "ok", found)


def _described(replica: Replica) -> str:
    if replica.online:
        return f"{replica.address} online, {replica.behind:,} bytes behind"
    if replica.state == "online":
        return f"{replica.address} silent for {replica.lag} s"
    return f"{replica.address} not online yet ({replica.state})"


def _least(facts: Facts, wanted: int) -> Check:
    """`min-replicas-to-write`: INFO tells whether it is set and how many keep up, CONFIG tells its value."""
    keep_up, config = int(facts.info.get("min_slaves_good_slaves", "-1")), facts.config
    if keep_up < 0:
        return _guarded("min-replicas-to-write 0", 0, wanted)
    if config is None and keep_up > 0:
        found = f"min-replicas-to-write is set to an unknown value; {keep_up} keep up"
        return Check("min-replicas", "warn", found, untold("", "CONFIG GET").advice)
    least = int((config or {}).get("min-replicas-to-write", "1"))
    found = f"min-replicas-to-write {least if config else 'is set'}; {keep_up} keep up"
    if least > keep_up:
        advice = "the server refuses changes because too few replicas keep up: start replicas"
        return Check("min-replicas", "fail", found, advice)
    return _guarded(found, least, wanted)


def _guarded(found: str, least: int, wanted: int) -> Check:
    if least >= wanted:
        return Check("min-replicas", "ok", found)
    advice = (
        "a master that is cut off goes on accepting messages, all Unconfirmed, and loses them: "
        f"redis-cli CONFIG SET min-replicas-to-write {wanted}"
    )
    return Check("min-replicas", "warn", found, advice)
