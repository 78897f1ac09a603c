"""Replicas: whether they really have what the server has, and what the server does without them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rq_dlq.doctor.check import Check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rq_dlq.doctor.facts import Facts, Replica


def replicas(facts: Facts, wanted: int) -> Iterator[Check]:
    """How many are online, and what the server does when there are too few.

    Args:
        wanted: how many have to confirm what is sent; 0: none.
    """
    connected = facts.replicas
    online = [replica for replica in connected if replica.online]
    found = "; ".join(map(_told, connected)) or "none"
    if len(online) < wanted:
        advice = f"{wanted} have to confirm what is sent, so every send is Unconfirmed: start replicas"
        yield Check("replicas", "fail", found, advice)
    elif len(online) < len(connected):
        advice = "what is not online yet has not all messages: a failover to it would lose them"
        yield Check("replicas", "warn", found, advice)
    else:
        yield Check("replicas", "ok", found)
    yield from _least(facts, wanted)


def _told(replica: Replica) -> str:
    if replica.online:
        return f"{replica.address} online, {replica.behind:,} bytes behind"
    if replica.state == "online":
        return f"{replica.address} not heard of for {replica.lag} s"
    return f"{replica.address} not online yet ({replica.state})"


def _least(facts: Facts, wanted: int) -> Iterator[Check]:
    """`min-replicas-to-write`."""
    if facts.config is None:
        return
    least = int(facts.config.get("min-replicas-to-write", "0"))
    good = int(facts.info.get("min_slaves_good_slaves", "0"))
    found = f"min-replicas-to-write {least}"
    if least > good:
        advice = f"the server refuses changes, since only {good} of its replicas keep up: start replicas"
        yield Check("min-replicas", "fail", found, advice)
    elif least < wanted:
        advice = (
            "a master that was cut off goes on taking messages, all Unconfirmed, and loses them: "
            f"redis-cli CONFIG SET min-replicas-to-write {wanted}"
        )
        yield Check("min-replicas", "warn", found, advice)
    else:
        yield Check("min-replicas", "ok", found)
