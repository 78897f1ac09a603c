"""What a row found wrong, in words."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

from tests.audit import audit


def wrong(faults: Mapping[str, int]) -> list[str]:
    """Of what there should be none, that of which there is some."""
    return [f"{number:,} {what}" for what, number in faults.items() if number]


def over(value: float, most: float) -> int:
    """The value, rounded up, where it is more than it may be; else 0."""
    return ceil(value) if value > most else 0


def audited(raw: Any, home: str) -> list[str]:
    """What the audit of a queue's keys finds."""
    try:
        audit(raw, home)
    except AssertionError as error:
        return [f"audit: {error}".partition("\n")[0]]
    return []
