"""How people write that a setting has no value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

NOTHING: Final[Mapping[str, str]] = {
    "redelivery.max_delay": "unlimited",
    "redelivery.max_redeliveries": "unlimited",
    "redelivery.delays": "none",
    "dead_letter.expiration": "never",
    "dead_letter.only": "all",
    "expiry.expiry_delay": "none",
    "expiry.min_expiry_delay": "none",
    "expiry.max_expiry_delay": "none",
    "expiry.name": "none",
    "expiry.retention": "forever",
    "max_in_flight": "unlimited",
    "outcomes": "none",
}
"""By field: the word for None, which neither a command line nor TOML has."""


def meant(field: str, value: Any) -> Any:
    """A value as it was typed, with None for the word that says it."""
    return None if isinstance(value, str) and value == NOTHING.get(field) else value
