"""Whether a server can keep a durability profile, and what each promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rq_dlq.client.durability import DURABILITIES, PROMISES, Durability, what_fsync_lacks
from rq_dlq.doctor.check import Check, untold
from rq_dlq.doctor.versions import FSYNC_FLAWS

if TYPE_CHECKING:
    from rq_dlq.doctor.facts import Facts


def promise(facts: Facts, durability: Durability, replicas: int) -> Check:
    """Whether the server can keep this profile; for "memory": which profiles it could keep."""
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


def _flaws(facts: Facts) -> list[str]:
    """The flaws of this release that break `fsync`."""
    if not facts.release:
        return [f"its release is unknown, so its flaws are: {untold('version').advice}"]
    return [flaw.reason for flaw in FSYNC_FLAWS if flaw.affects(facts)]


def _lacks(facts: Facts, durability: Durability, replicas: int) -> str:
    """Why the server cannot keep the profile, or what is unknown; empty: it can."""
    if durability == "fsync":
        lacks = what_fsync_lacks(facts.info, facts.config)
        return f"not kept: {lacks}" if lacks else ""
    if durability == "memory":
        return ""
    if not facts.tells_replicas:
        return untold("replicas").found
    online = sum(replica.online for replica in facts.replicas)
    return f"not kept: {online} of {replicas} replicas are online" if online < replicas else ""
