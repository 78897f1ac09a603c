"""How long a message may wait, and where it goes when it waited too long."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, UnsetType

from rq_dlq.errors import PolicyError
from rq_dlq.policy import _checks as check

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rq_dlq._names import Template
    from rq_dlq.durations import Duration
    from rq_dlq.policy._checks import JSON

TTLS: Final = ("expiry_delay", "min_expiry_delay", "max_expiry_delay")
PERIODS: Final = frozenset({*TTLS, "retention"})


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class ExpiryPolicy:
    """The time to live that messages get when they are sent, and what becomes of the expired.

    A field that is not said is inherited. Durations are seconds; None says: none.

    Attributes:
        expiry_delay: of a message sent without a ttl. With it the next two are ignored.
        min_expiry_delay: the shortest ttl; a shorter one is raised to it.
        max_expiry_delay: the longest ttl; a longer one is lowered to it, and a message without one
            gets this (where there is none, the shortest).
        no_expiry: messages never expire, whatever their ttl.
        prefix: of each queue's own expiry queue; unless said the broker's ("EXP.").
        suffix: of the same.
        name: of one expiry queue for many; then there is no prefix and no suffix. None: each has its own.
        discard: expired messages are dropped, counted.
        retention: how long expired messages are kept; None, and unless said: for ever.
    """

    expiry_delay: float | UnsetType | None
    min_expiry_delay: float | UnsetType | None
    max_expiry_delay: float | UnsetType | None
    no_expiry: bool | UnsetType
    prefix: str | UnsetType
    suffix: str | UnsetType
    name: str | UnsetType | None
    discard: bool | UnsetType
    retention: float | UnsetType | None

    def __init__(
        self,
        *,
        expiry_delay: Duration | UnsetType | None = UNSET,
        min_expiry_delay: Duration | UnsetType | None = UNSET,
        max_expiry_delay: Duration | UnsetType | None = UNSET,
        no_expiry: bool | UnsetType = UNSET,
        prefix: str | UnsetType = UNSET,
        suffix: str | UnsetType = UNSET,
        name: str | UnsetType | None = UNSET,
        discard: bool | UnsetType = UNSET,
        retention: Duration | UnsetType | None = UNSET,
    ) -> None:
        """Check the settings, and store durations as seconds.

        Raises:
            PolicyError: a setting makes no sense, or contradicts another.
        """
        check.store(
            self,
            expiry_delay=check.said(expiry_delay, "expiry_delay", check.period),
            min_expiry_delay=check.said(min_expiry_delay, "min_expiry_delay", check.period),
            max_expiry_delay=check.said(max_expiry_delay, "max_expiry_delay", check.period),
            no_expiry=check.said(no_expiry, "no_expiry", check.flag),
            prefix=check.said(prefix, "prefix", check.affix),
            suffix=check.said(suffix, "suffix", check.affix),
            name=check.said(name, "name", _name),
            discard=check.said(discard, "discard", check.flag),
            retention=check.said(retention, "retention", check.period),
        )
        self._check_bounds()
        self._check_place()

    def clamp(self, ttl_ms: int | None) -> int | None:
        """The ttl that a message gets, in milliseconds; None: it never expires.

        Args:
            ttl_ms: the one that its sender asked for; None: none.
        """
        said = self.as_wire()
        if said.get("no_expiry"):
            return None
        default, low, high = (said.get(name) for name in TTLS)
        if isinstance(default, int):
            return default if ttl_ms is None else ttl_ms
        if isinstance(high, int) and (ttl_ms is None or ttl_ms > high):
            return high
        if isinstance(low, int) and (ttl_ms is None or ttl_ms < low):
            return low
        return ttl_ms

    def as_wire(self) -> dict[str, JSON]:
        """What is said, as it stands in Redis: JSON values, whole milliseconds.

        Where expired messages go is one thing: who says one way says that it is no other.
        """
        said = check.to_wire({name: getattr(self, name) for name in FIELDS}, PERIODS)
        individual = "prefix" in said or "suffix" in said
        if individual or said.get("discard"):
            said.setdefault("name", None)
        if individual or said.get("name") is not None:
            said.setdefault("discard", False)
        return {name: said[name] for name in FIELDS if name in said}

    def _check_bounds(self) -> None:
        low, high = self.min_expiry_delay, self.max_expiry_delay
        if low and high:
            check.within(round(low * 1000), round(high * 1000), "min_expiry_delay", "max_expiry_delay")

    def _check_place(self) -> None:
        individual = not (self.prefix is UNSET and self.suffix is UNSET)
        if self.name and individual:
            message = "name is one expiry queue for many, prefix and suffix are of one for each. Pass either"
            raise PolicyError(message)
        if self.discard and (self.name or individual):
            message = "discard drops what a name, prefix or suffix would keep. Pass either"
            raise PolicyError(message)
        check.apart(self.prefix, self.suffix)


FIELDS: Final = tuple(field.name for field in dataclasses.fields(ExpiryPolicy))
DEFAULTS: Final[Mapping[str, JSON]] = {
    "expiry_delay": None,
    "min_expiry_delay": None,
    "max_expiry_delay": None,
    "no_expiry": False,
    "name": None,
    "discard": False,
    "retention": None,
}


def said_of(given: object) -> dict[str, JSON]:
    """What an entry says, as it stands in Redis.

    Args:
        given: a policy, or a mapping of some of the fields.

    Raises:
        PolicyError: it makes no sense.
    """
    if isinstance(given, ExpiryPolicy):
        return given.as_wire()
    return ExpiryPolicy(**check.fields(given, FIELDS, "expiry")).as_wire()


def read(wire: object) -> dict[str, JSON]:
    """What an entry in Redis says.

    Raises:
        PolicyError: it makes no sense.
    """
    return said_of(check.from_wire(check.fields(wire, FIELDS, "expiry"), PERIODS))


def complete(said: Mapping[str, JSON], naming: Template) -> ExpiryPolicy:
    """The policy, with every field, of what entries say together.

    Bounds from two entries may cross: the maximum counts. Prefix and suffix stay unset where
    expired messages are dropped or have one queue for many.

    Args:
        said: of any entries.
        naming: of expiry queues, where nothing is said.
    """
    fields: dict[str, Any] = {**DEFAULTS, "prefix": naming.prefix, "suffix": naming.suffix, **said}
    if fields["discard"] or fields["name"] is not None:
        del fields["prefix"], fields["suffix"]
    low, high = fields["min_expiry_delay"], fields["max_expiry_delay"]
    if low is not None and high is not None:
        fields["min_expiry_delay"] = min(low, high)
    return ExpiryPolicy(**check.from_wire(fields, PERIODS))


def _name(value: object, name: str) -> str | None:
    return None if value is None else check.queue_name(value, name)
