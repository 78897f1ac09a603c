"""What a row found wrong, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from rq_dlq._keys import QueueKeys
from tests.audit import audit
from tests.proofs.reliability.journal import Sums


def wrong(faults: Mapping[str, int]) -> list[str]:
    """Of what there should be none, that of which there is some."""
    return [f"{number:,} {what}" for what, number in faults.items() if number]


def over(value: float, most: float) -> int:
    """The value, rounded up, where it is more than it may be; else 0."""
    return ceil(value) if value > most else 0


def audited(raw: Any, family: str) -> list[str]:
    """What the audit of a queue's keys finds."""
    try:
        audit(raw, family)
    except AssertionError as error:
        return [f"audit: {error}".partition("\n")[0]]
    return []


def counters(raw: Any, family: str) -> dict[str, int]:
    """What a queue has counted."""
    return {name.decode(): int(n) for name, n in raw.hgetall(QueueKeys("rq", family)["counters"]).items()}


def unexplained(totals: Mapping[str, int], told: Sums) -> dict[str, int]:
    """By how much a queue's counts are off what the journals tell."""
    return {
        "sent that the journals do not explain": beyond(totals.get("sent", 0), told.entered, told.resent),
        "acked that they do not explain": beyond(totals.get("acked", 0), told.settled, told.resent),
    }


def beyond(counted: int, told: int, perhaps: int) -> int:
    """By how much a count is off what was told, of which some more may have happened."""
    return max(told - counted, counted - told - perhaps, 0)


def first(found: Sequence[str], most: int = 5) -> list[str]:
    """How many findings there are, and the first of them."""
    return [f"{len(found):,} wrong", *found[:most]] if found else []
