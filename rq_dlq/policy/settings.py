"""What holds for one queue, and where each part of it was said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rq_dlq.policy.dead_letter import REPORT_INTERVAL
from rq_dlq.policy.expiry import TTLS

if TYPE_CHECKING:
    from rq_dlq.policy._checks import JSON
    from rq_dlq.policy.dead_letter import DeadLetterStrategy
    from rq_dlq.policy.expiry import ExpiryPolicy
    from rq_dlq.policy.redelivery import RedeliveryPolicy

USUAL: Final[dict[str, Any]] = {
    "dead": "keep",
    "expired": "expired",
    "transient": "keep",
    "dead_for": None,
    "expired_for": None,
    "report_interval": REPORT_INTERVAL,
}


@dataclass(frozen=True, slots=True)
class Source:
    """Where a field of a queue's settings comes from.

    Attributes:
        field: "redelivery.initial_delay".
        value: as it stands in Redis; durations in whole milliseconds.
        source: a pattern, "pinned" and a pattern, "declared in code" or "default".
    """

    field: str
    value: JSON
    source: str


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """What holds for one queue.

    Attributes:
        redelivery: without `fatal`, which the client judges.
        expiry: with every field.
        dead_letter: with every field.
        max_in_flight: deliveries at a time; None: no limit.
        outcomes: events that the outcome history keeps, about; None: it is not written.
        dead_name: of the queue's dead-letter queue, also where dead letters are dropped.
        expired_name: of its expiry queue.
        sources: of every field, in a fixed order.
    """

    redelivery: RedeliveryPolicy
    expiry: ExpiryPolicy
    dead_letter: DeadLetterStrategy
    max_in_flight: int | None
    outcomes: int | None
    dead_name: str
    expired_name: str
    sources: tuple[Source, ...]

    def wire(self) -> dict[str, str]:
        """The fields of the queue's settings in Redis; one that says nothing unusual is left out."""
        fates, ttls = self._fates(), self._ttls()
        wire = {"redelivery": _json({"redelivery": self.redelivery.as_wire()})}
        if fates != USUAL:
            wire["dead_letter"] = _json(fates)
        if ttls:
            wire["expiry"] = ttls
        if self.max_in_flight is not None:
            wire["max_in_flight"] = str(self.max_in_flight)
        if self.outcomes is not None:
            wire["outcomes"] = str(self.outcomes)
        return wire

    def _fates(self) -> dict[str, JSON]:
        """What becomes of messages that die, expire, or die without being meant to last."""
        dead, expired = self.dead_letter.as_wire(), self.expiry.as_wire()
        discarding = dead["strategy"] == "discarding"
        fate = "discard" if expired["discard"] else "expired"
        if dead["process_expired"]:
            fate = "discard" if discarding else "dead"
        return {
            "dead": "discard" if discarding else "keep",
            "expired": fate,
            "transient": "keep" if dead["process_non_persistent"] else "discard",
            "dead_for": dead["expiration"],
            "expired_for": expired["retention"],
            "report_interval": dead.get("report_interval", REPORT_INTERVAL),
        }

    def _ttls(self) -> str:
        """The ttls that apply at send, "DELAY MIN MAX" in milliseconds; empty: none."""
        said = self.expiry.as_wire()
        if said["no_expiry"]:
            return "never"
        spans = [said[name] for name in TTLS]
        return "" if spans == [None] * 3 else " ".join("-" if span is None else str(span) for span in spans)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
