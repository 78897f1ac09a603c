"""Times to live, and where expired messages go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec import UNSET, UnsetType

from rq_dlq.errors import PolicyError
from rq_dlq.policy import _checks as check
from rq_dlq.policy import fields

if TYPE_CHECKING:
    from rq_dlq.policy._checks import JSON
    from rq_dlq.values.durations import Duration
    from rq_dlq.values.names import Template

TTLS: Final = ("expiry_delay", "min_expiry_delay", "max_expiry_delay")
ROWS: Final = fields.BY_PART["expiry"]


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class ExpiryPolicy:
    """The time to live that messages get when they are sent, and what happens to expired messages.

    A field that is not set is inherited. Durations are seconds; None: no limit.

    Attributes:
        expiry_delay: the ttl of a message that is sent without one. If it is set, the next two are ignored.
        min_expiry_delay: the shortest ttl; a shorter one is raised to it.
        max_expiry_delay: the longest ttl; a longer one is lowered to it, and a message without a ttl gets it
            (or the shortest, if there is no longest).
        no_expiry: messages never expire, even if they have a ttl.
        prefix: put before the queue's name to name its own expiry queue; by default the broker's ("EXP.").
        suffix: put after it.
        name: the name of one expiry queue that many queues share, without prefix and suffix. None: each
            queue has its own.
        discard: drop expired messages, and count them.
        retention: how long expired messages are kept; None, the default: forever.

    Examples:
        >>> ExpiryPolicy(expiry_delay="1h", retention="30d").expiry_delay
        3600.0
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
            PolicyError: a setting is not valid, or contradicts another.
        """
        fields.store(
            "expiry",
            self,
            expiry_delay=expiry_delay,
            min_expiry_delay=min_expiry_delay,
            max_expiry_delay=max_expiry_delay,
            no_expiry=no_expiry,
            prefix=prefix,
            suffix=suffix,
            name=name,
            discard=discard,
            retention=retention,
        )
        self._check()

    def clamp(self, ttl_ms: int | None) -> int | None:
        """The ttl of a message, in milliseconds; None: it never expires.

        Args:
            ttl_ms: the sender's ttl; None: the sender set none.
        """
        wire = self.as_wire()
        if wire.get("no_expiry"):
            return None
        default, low, high = (wire.get(name) for name in TTLS)
        if isinstance(default, int):
            return default if ttl_ms is None else ttl_ms
        if isinstance(high, int) and (ttl_ms is None or ttl_ms > high):
            return high
        if isinstance(low, int) and (ttl_ms is None or ttl_ms < low):
            return low
        return ttl_ms

    def as_wire(self) -> dict[str, JSON]:
        """The fields that are set, as Redis stores them: JSON values, whole milliseconds.

        Only one destination for expired messages can apply, so the others are stored as unset.
        """
        wire = fields.to_wire("expiry", self)
        individual = "prefix" in wire or "suffix" in wire
        if individual or wire.get("discard"):
            wire.setdefault("name", None)
        if individual or wire.get("name") is not None:
            wire.setdefault("discard", False)
        return {name: wire[name] for name in ROWS if name in wire}

    def _check(self) -> None:
        low, high = self.min_expiry_delay, self.max_expiry_delay
        if low and high:
            check.within(round(low * 1000), round(high * 1000), "min_expiry_delay", "max_expiry_delay")
        individual = not (self.prefix is UNSET and self.suffix is UNSET)
        if self.name and individual:
            message = (
                "name is one expiry queue for many, prefix and suffix make one for each. Pass one or the "
                "other"
            )
            raise PolicyError(message)
        if self.discard and (self.name or individual):
            raise PolicyError(
                "discard drops the messages that a name, prefix or suffix would keep. Pass one or the other"
            )
        check.apart(self.prefix, self.suffix)


def wire_of(given: object) -> dict[str, JSON]:
    """The fields that an entry sets, as Redis stores them.

    Args:
        given: a policy, or a mapping of some of the fields.

    Raises:
        PolicyError: a field is not valid, or contradicts another one.
    """
    if isinstance(given, ExpiryPolicy):
        return given.as_wire()
    return ExpiryPolicy(**check.fields(given, ROWS, "expiry")).as_wire()


def over(before: Mapping[str, JSON], given: object) -> dict[str, JSON]:
    """The fields of an earlier entry with those of `wire_of` in their place."""
    new = wire_of(given)
    if isinstance(given, ExpiryPolicy):
        gone = {*ROWS}
    else:
        gone = {"prefix", "suffix"} if new.get("name") is not None or new.get("discard") else set[str]()
    return {**{name: value for name, value in before.items() if name not in gone}, **new}


def complete(given: Mapping[str, JSON], naming: Template) -> ExpiryPolicy:
    """The combined policy of several entries, with every field.

    The minimum of one entry may exceed the maximum of another: then the maximum counts. Prefix and suffix
    stay unset if expired messages are dropped, or if many queues share one expiry queue.

    Args:
        given: fields of any entries.
        naming: the template for expiry queues that no entry names.
    """
    every = fields.with_defaults("expiry", given, naming)
    if every["discard"] or every["name"] is not None:
        del every["prefix"], every["suffix"]
    low, high = every["min_expiry_delay"], every["max_expiry_delay"]
    if low is not None and high is not None:
        every["min_expiry_delay"] = min(low, high)
    return ExpiryPolicy(**fields.from_wire("expiry", every))
