"""Releases with known flaws that concern queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rq_dlq.client.settings import version_of
from rq_dlq.doctor.check import Check, untold
from rq_dlq.values.version import OLDEST_SERVER

if TYPE_CHECKING:
    from rq_dlq.doctor.facts import ServerFacts

NEVER = 1 << 30


@dataclass(frozen=True, slots=True)
class Flaw:
    """A flaw of some releases.

    Args:
        reason: the possible effect of the flaw.
        fixed: by kind of server and series, the patch release that fixed it; NEVER: not fixed.
        systems: the affected operating systems; empty: all.
    """

    reason: str
    fixed: Mapping[str, Mapping[str, int]]
    systems: Sequence[str] = field(default=())

    def affects(self, facts: ServerFacts) -> bool:
        """Whether this server has the flaw."""
        series, patch = ".".join(map(str, facts.version[:2])), (*facts.version, 0, 0, 0)[2]
        if self.systems and not facts.info.get("os", "").startswith(tuple(self.systems)):
            return False
        return patch < self.fixed.get(facts.name, {}).get(series, 0)


# From the release notes of Redis and Valkey, and the records of the CVEs.
FLAWS = (
    Flaw(
        "a user who may run scripts can run any code on the server (CVE-2025-49844)",
        {
            "redis": {"6.2": 20, "7.0": NEVER, "7.2": 11, "7.4": 6, "8.0": 4, "8.2": 2},
            "valkey": {"7.2": 11, "8.0": 6, "8.1": 4},
        },
    ),
    Flaw(
        "a user whose blocked client (BLPOP) is evicted can run any code on the server (CVE-2026-23479)",
        {"redis": {"7.4": 9, "8.2": 6, "8.4": 3, "8.6": 3}, "valkey": {"9.0": 4}},
    ),
    Flaw(
        "a script's error can forge replies on its connection (CVE-2025-67733)",
        {"valkey": {"7.2": 12, "8.0": 7, "8.1": 6, "9.0": 2}},
    ),
)
FSYNC_FLAWS = (
    Flaw(
        "on this system a client may get its reply before its change is on the disk (fixed in 6.2.6)",
        {"redis": {"6.2": 6}},
        ("Darwin", "FreeBSD"),
    ),
    Flaw(
        "with io-threads, or while a script runs for seconds, a client may get its reply before its change "
        "is on the disk (fixed in 7.0)",
        {"redis": {"6.2": NEVER}},
    ),
    Flaw(
        "a power cut after the append-only file was rewritten may lose it: its folder was not synced (fixed "
        "in 7.0.3)",
        {"redis": {"7.0": 3}},
    ),
)


def version(facts: ServerFacts) -> Check:
    """Whether the release is new enough and has no known flaw."""
    if not facts.release:
        return untold("version")
    found = f"{facts.name} {facts.release}, {facts.info.get('redis_mode', 'standalone')}"
    if version_of(facts.info.get("redis_version", facts.release)) < OLDEST_SERVER:
        oldest = ".".join(map(str, OLDEST_SERVER))
        return Check("version", "fail", found, f"{oldest} is the oldest supported version: upgrade")
    reasons = [flaw.reason for flaw in FLAWS if flaw.affects(facts)]
    if reasons:
        advice = f"upgrade, unless your distribution has fixed it: {'; '.join(reasons)}"
        return Check("version", "warn", found, advice)
    return Check("version", "ok", found)
