"""One entry of the map of policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from rq_dlq.codec import NO_JSON
from rq_dlq.durations import shown
from rq_dlq.errors import PolicyError
from rq_dlq.policy import _checks as check
from rq_dlq.policy import dead_letter as dead_letters
from rq_dlq.policy import expiry as expiries
from rq_dlq.policy import partial

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rq_dlq.policy._checks import JSON
    from rq_dlq.policy.dead_letter import DeadLetterStrategy
    from rq_dlq.policy.expiry import ExpiryPolicy
    from rq_dlq.policy.redelivery import RedeliveryPolicy

PARTS: Final = ("redelivery", "dead_letter", "expiry")
NUMBERS: Final = ("max_in_flight", "outcomes")
KEYS: Final = (*PARTS, *NUMBERS, "pinned")


@dataclass(frozen=True, slots=True)
class Entry:
    """What one pattern, or one program, says of queues: some fields; the others are inherited.

    Make one with `of`. Its mappings are JSON, as they stand in Redis, with whole milliseconds.

    Attributes:
        redelivery: fields of `RedeliveryPolicy.as_wire`.
        dead_letter: the strategy and its fields.
        expiry: fields of `ExpiryPolicy`.
        max_in_flight: deliveries at a time; None: no limit.
        outcomes: events that the outcome history keeps, about; None: it is not written.
        pinned: an operator's, which counts more than what programs declare.
    """

    redelivery: Mapping[str, JSON]
    dead_letter: Mapping[str, JSON]
    expiry: Mapping[str, JSON]
    max_in_flight: int | UnsetType | None
    outcomes: int | UnsetType | None = UNSET
    pinned: bool = False

    @classmethod
    def of(
        cls,
        *,
        redelivery: RedeliveryPolicy | Mapping[str, object] | UnsetType = UNSET,
        dead_letter: DeadLetterStrategy | Mapping[str, object] | UnsetType | None = UNSET,
        expiry: ExpiryPolicy | Mapping[str, object] | UnsetType = UNSET,
        max_in_flight: int | UnsetType | None = UNSET,
        outcomes: int | UnsetType | None = UNSET,
        pinned: bool = False,
    ) -> Entry:
        """The entry that says this and nothing else.

        Args:
            redelivery: a policy says all its fields (but `fatal`, which stays with the client); a
                mapping those that it has, by the policy's names, and `arithmetic`.
            dead_letter: a strategy or a mapping; None: dead letters are discarded.
            expiry: a policy or a mapping.
            max_in_flight: 1 or more; None: no limit.
            outcomes: how many events the queue's outcome history keeps, about; None or 0: it is not written.
            pinned: see the class.

        Raises:
            PolicyError: it makes no sense, even if no other entry says anything; or it says nothing.
        """
        entry = cls(
            redelivery={} if redelivery is UNSET else partial.said_of(redelivery),
            dead_letter={} if dead_letter is UNSET else dead_letters.said_of(dead_letter),
            expiry={} if expiry is UNSET else expiries.said_of(expiry),
            max_in_flight=check.said(max_in_flight, "max_in_flight", _in_flight),
            outcomes=check.said(outcomes, "outcomes", _outcomes),
            pinned=check.flag(pinned, "pinned"),
        )
        return _checked(entry)

    def encode(self) -> bytes:
        """As it stands in Redis."""
        said: dict[str, Any] = {name: getattr(self, name) for name in PARTS if getattr(self, name)}
        said |= {name: getattr(self, name) for name in NUMBERS if getattr(self, name) is not UNSET}
        if self.pinned:
            said["pinned"] = True
        return msgspec.json.encode(said)

    @classmethod
    def decode(cls, text: bytes) -> Entry:
        """What `encode` wrote.

        Raises:
            PolicyError: it is no entry.
        """
        try:
            given: object = msgspec.json.decode(text)
        except NO_JSON as error:
            message = f"no entry of the map of policies: {shown(text)} is no JSON ({error})"
            raise PolicyError(message) from None
        fields = check.fields(given, KEYS, "the entry")
        entry = cls(
            redelivery=partial.read(fields.get("redelivery", {})),
            dead_letter=dead_letters.read(fields.get("dead_letter", {})),
            expiry=expiries.read(fields.get("expiry", {})),
            max_in_flight=check.said(fields.get("max_in_flight", UNSET), "max_in_flight", _in_flight),
            outcomes=check.said(fields.get("outcomes", UNSET), "outcomes", _outcomes),
            pinned=check.flag(fields.get("pinned", False), "pinned"),
        )
        return _checked(entry)


def _checked(entry: Entry) -> Entry:
    """Check what its parts say together."""
    if not any(getattr(entry, part) for part in PARTS) and all(
        getattr(entry, name) is UNSET for name in NUMBERS
    ):
        message = "the entry says nothing. Pass redelivery, dead_letter, expiry, max_in_flight or outcomes"
        raise PolicyError(message)
    dead, expired = entry.dead_letter, entry.expiry
    one_name = dead.get("name") is not None and dead.get("name") == expired.get("name")
    affixes = [(part.get("prefix"), part.get("suffix", "")) for part in (dead, expired)]
    if one_name or (affixes[0] == affixes[1] and affixes[0][0] is not None):
        message = (
            "dead letters and expired messages have the same name of a queue. Pass two, "
            "or process_expired=True, which makes the expired dead letters"
        )
        raise PolicyError(message)
    return entry


def _in_flight(value: object, name: str) -> int | None:
    if value is None:
        return None
    try:
        return check.whole(value, name, 1, check.MOST_REDELIVERIES)
    except PolicyError as error:
        message = f"{error}, or None for no limit"
        raise PolicyError(message) from None


def _outcomes(value: object, name: str) -> int | None:
    if value is None:
        return None
    try:
        return check.whole(value, name, 0, check.MOST_REDELIVERIES) or None
    except PolicyError as error:
        message = f"{error}, or None for no outcome history"
        raise PolicyError(message) from None
