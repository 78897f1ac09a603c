"""Whether a server can keep a durability profile, and what each promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rq_dlq.doctor.check import Check
from rq_dlq.doctor.versions import FSYNC_FLAWS
from rq_dlq.durability import DURABILITIES, PROMISES, Durability, what_fsync_lacks

if TYPE_CHECKING:
    from rq_dlq.doctor.facts import Facts


def promise(facts: Facts, durability: Durability, replicas: int) -> Check:
    """Whether it can keep this profile; with "memory", which asks nothing: which ones it could keep."""
    if durability == "memory":
        told = (f"{name}: {_lacks(facts, name, replicas) or PROMISES[name]}" for name in DURABILITIES)
        return Check("durability", "ok", "\n".join(told))
    if lacks := _lacks(facts, durability, replicas):
        return Check("durability", "fail", durability, lacks)
    flaws = [flaw.reason for flaw in FSYNC_FLAWS if durability == "fsync" and flaw.ails(facts)]
    found = f"{durability}: {PROMISES[durability]}"
    return Check("durability", "warn" if flaws else "ok", found, "; ".join(flaws))


def _lacks(facts: Facts, durability: Durability, replicas: int) -> str:
    """What it cannot keep it for; empty: nothing."""
    if durability == "fsync":
        lacks = what_fsync_lacks(facts.info, facts.config)
        return f"not kept: {lacks}" if lacks else ""
    online = sum(replica.online for replica in facts.replicas)
    if durability == "replicated" and online < replicas:
        return f"not kept: {online} of {replicas} replicas are online"
    return ""
