"""What a row found wrong, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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


def audited(raw: Any, *families: str) -> list[str]:
    """What the audit of queues' keys finds."""
    found: list[str] = []
    for family in families:
        try:
            audit(raw, family)
        except AssertionError as error:
            found.append(f"audit: {error}".partition("\n")[0])
    return found


def counters(raw: Any, *families: str) -> Counter[str]:
    """What queues have counted, together."""
    found: Counter[str] = Counter()
    for family in families:
        counts = raw.hgetall(QueueKeys("rq", family)["counters"])
        found.update({name.decode(): int(n) for name, n in counts.items()})
    return found


def remaining(raw: Any, families: Iterable[str]) -> set[str]:
    """The messages that are in queues."""
    return {name.decode() for each in families for name in raw.hkeys(QueueKeys("rq", each)["messages"])}


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
