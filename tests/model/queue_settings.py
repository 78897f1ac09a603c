"""What the settings of a queue say, in plain Python and as they stand in Redis."""

from __future__ import annotations

import json
from dataclasses import dataclass

from rq_dlq.core.queues import queue
from rq_dlq.policy import RedeliveryPolicy


@dataclass(frozen=True)
class Settings:
    """What the queue's settings say; durations in milliseconds, None: not said."""

    policy: RedeliveryPolicy
    dead: str = "keep"  # or discard
    expired: str = "expired"  # or dead, or discard
    transient: str = "keep"  # or discard: what need not outlive its failure
    dead_for: int | None = None
    expired_for: int | None = None
    never: bool = False  # messages do not expire
    ttl: int | None = None
    least: int | None = None
    most: int | None = None
    max_in_flight: int | None = None
    outcomes: int | None = None
    dedup_window: int | None = None
    per_key: str = ""  # order, order hold or limit N; empty: keys do not count

    @property
    def seats(self) -> int:
        """How many messages of a key may be ready or leased."""
        return int(self.per_key.removeprefix("limit ")) if self.per_key.startswith("limit") else 1

    def allowed(self, ttl: int) -> int:
        """The time to live that a message gets that was sent with this one; 0: none."""
        if self.never:
            return 0
        if self.ttl is not None:
            return ttl or self.ttl
        if not ttl:
            return self.most or self.least or 0
        return min(max(ttl, self.least or 0), self.most or ttl + (self.least or 0))

    def wire(self) -> dict[str, str]:
        """The fields in Redis."""
        bounds = (self.ttl, self.least, self.most)
        said = {
            "dead": self.dead, "expired": self.expired, "transient": self.transient,
            "dead_for": self.dead_for, "expired_for": self.expired_for,
        }  # fmt: skip
        fields = {
            "redelivery": queue.encode_policy(self.policy.as_wire()).decode(),
            "dead_letter": json.dumps(said),
        }
        if self.never or any(bounds):
            fields["expiry"] = "never" if self.never else " ".join(str(bound or "-") for bound in bounds)
        for name in ("max_in_flight", "outcomes", "dedup_window"):
            if (said := getattr(self, name)) is not None:
                fields[name] = str(said)
        if self.per_key:
            fields["per_key"] = self.per_key
        return fields
