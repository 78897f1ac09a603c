"""One entry of the map of policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Unpack, cast

import msgspec

from rq_dlq.errors import PolicyError
from rq_dlq.policy import _checks as check
from rq_dlq.policy import dead_letter as dead_letters
from rq_dlq.policy import expiry as expiries
from rq_dlq.policy import partial
from rq_dlq.policy.fields import BY_PART, FIELDS, PARTS, PLAIN, SETTABLE, from_wire, later_kind
from rq_dlq.values.codec import NO_JSON
from rq_dlq.values.durations import shown

if TYPE_CHECKING:
    from rq_dlq.policy._checks import JSON
    from rq_dlq.policy.settings import EntryFields

MARKS: Final = {"breaker": "sha1-breaker ", "per_key": "sha1-keys "}
"""By field: a mark stored before the strategy of an entry that sets the field. A version without the field,
or with another hash for lanes, reads it as a strategy of a later version, and refuses to open the queue."""
BEFORE: Final = (
    {"breaker": "breaking ", "per_key": "keyed "},  # 0.1.0
    {"breaker": "probing ", "per_key": "keyed "},
)
"""The marks of versions with the former hash."""
READERS: Final = {"redelivery": partial, "dead_letter": dead_letters, "expiry": expiries}
"""By part: the function that checks its fields together."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The fields that a pattern or a program sets for queues; other fields are inherited.

    Make an entry with `of`.

    Attributes:
        stored: the JSON in Redis, with whole milliseconds: a mapping of fields for each of redelivery,
            dead_letter and expiry, and the fields outside these parts. Unknown fields from a newer version
            are kept.
        pinned: an operator's entry that overrides the settings that programs declare.
    """

    stored: Mapping[str, Any]
    pinned: bool = False

    @classmethod
    def of(cls, *, pinned: bool = False, **given: Unpack[EntryFields]) -> Entry:
        """The entry with these fields and no others.

        Args:
            pinned: see the class.
            given: see `EntryFields`. A policy sets all its fields (except `fatal`, which stays with the
                client); a mapping sets the fields it contains, by the policy's names, and `arithmetic`.

        Raises:
            PolicyError: a field is not valid, or contradicts another one; or there are no fields.
        """
        known = check.fields(given, SETTABLE, "the policy of a queue")
        entry: dict[str, Any] = {
            part: fields
            for part, reader in READERS.items()
            if part in known and (fields := reader.wire_of(known[part]))
        }
        entry |= {row.name: row.given(known[row.name], row.name) for row in PLAIN if row.name in known}
        return _checked(cls(entry, check.flag(pinned, "pinned")))

    @classmethod
    def over(cls, before: Entry | None, *, pinned: bool | None = None, **given: Unpack[EntryFields]) -> Entry:
        """An earlier entry with these fields changed; its other fields stay.

        Args:
            before: the earlier entry; None: there is none.
            pinned: see the class; None: as before.
            given: as for `of`. A policy or a strategy takes the place of its whole part, except fields of a
                later version; a mapping changes the fields that it has.

        Raises:
            PolicyError: a field is not valid, or contradicts another one, perhaps one that stays; or there
                are no fields.
        """
        known = check.fields(given, SETTABLE, "the policy of a queue")
        entry = dict(before.stored) if before else {}
        for name, value in known.items():
            if name in READERS:
                entry |= {name: part} if (part := READERS[name].over(entry.get(name, {}), value)) else {}
            else:
                entry[name] = FIELDS[name].given(value, name)
        was = before is not None and before.pinned
        return cls.decode(cls(entry, was if pinned is None else check.flag(pinned, "pinned")).encode())

    def part(self, name: str) -> Mapping[str, JSON]:
        """The fields of the part "redelivery", "dead_letter" or "expiry"."""
        part: Mapping[str, JSON] = self.stored.get(name, {})
        return part

    def fields(self) -> dict[str, JSON]:
        """All its fields, by names such as "redelivery.initial_delay" and "max_in_flight"."""
        parts = {f"{part}.{name}": value for part in PARTS for name, value in self.part(part).items()}
        return parts | {name: value for name, value in self.stored.items() if name not in PARTS}

    def encode(self) -> bytes:
        """The JSON text that Redis stores."""
        stored = {**self.stored, **({"pinned": True} if self.pinned else {})}
        if marks := _marks_of(stored):
            dead = self.part("dead_letter")
            stored["dead_letter"] = {**dead, "strategy": f"{marks}{dead.get('strategy', '')}"}
        return msgspec.json.encode(stored)

    @classmethod
    def decode(cls, text: bytes) -> Entry:
        """Read an entry that `encode` wrote, in this version or a newer one.

        Raises:
            PolicyError: it is not an entry.
        """
        try:
            given: object = msgspec.json.decode(text)
        except NO_JSON as error:
            message = f"not an entry of the map of policies: {shown(text)} is not JSON ({error})"
            raise PolicyError(message) from None
        if not isinstance(given, dict):
            raise PolicyError(f"not an entry of the map of policies: {shown(text)} is not an object")
        stored = _without_mark(cast("dict[str, Any]", given))
        pinned = check.flag(stored.pop("pinned", False), "pinned")
        entry: dict[str, Any] = {}
        for name, value in stored.items():
            if name in READERS:
                entry |= {name: fields} if (fields := _read(name, value)) else {}
            else:
                entry[name] = FIELDS[name].read(value, name) if name in FIELDS else value
        return _checked(cls(entry, pinned))


def _marks_of(stored: Mapping[str, Any], marks: Mapping[str, str] = MARKS) -> str:
    return "".join(mark for name, mark in marks.items() if stored.get(name) is not None)


def _without_mark(stored: dict[str, Any]) -> dict[str, Any]:
    """The stored entry without the marks for earlier versions."""
    found: object = stored.get("dead_letter")
    dead = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    strategy: object = dead.get("strategy")
    known = [_marks_of(stored, marks) for marks in (MARKS, *BEFORE)]
    marks = next((one for one in known if isinstance(strategy, str) and strategy.startswith(one)), "")
    if not marks or not isinstance(strategy, str):
        return stored
    usual = {"strategy": strategy.removeprefix(marks)} if strategy != marks else {}
    others = {name: value for name, value in dead.items() if name != "strategy"}
    return {**stored, "dead_letter": {**others, **usual}}


def marked_anew(text: bytes) -> bytes:
    """An entry in Redis with the marks of this version, if it has earlier ones; otherwise as it is."""
    if not any(f'"{mark}'.encode() in text for marks in BEFORE for mark in marks.values()):
        return text
    try:
        return Entry.decode(text).encode()
    except PolicyError:
        return text


def _read(part: str, stored: object) -> dict[str, Any]:
    """The fields of a part in Redis: known fields are checked; unknown fields and later kinds are kept."""
    rows = BY_PART[part]
    if not isinstance(stored, dict):
        return check.fields(stored, rows, part)  # raises the error
    fields = cast("dict[str, Any]", stored)
    known = {name: value for name, value in fields.items() if name in rows}
    if not known or later_kind(part, fields):
        return fields
    read = partial.read(known) if part == "redelivery" else READERS[part].wire_of(from_wire(part, known))
    return {**read, **{name: value for name, value in fields.items() if name not in rows}}


def _checked(entry: Entry) -> Entry:
    """Check that the parts of an entry do not contradict each other."""
    if not entry.stored:
        raise PolicyError(f"the entry sets nothing. Pass {', '.join(SETTABLE[:-1])} or {SETTABLE[-1]}")
    dead, expired = entry.part("dead_letter"), entry.part("expiry")
    one_name = dead.get("name") is not None and dead.get("name") == expired.get("name")
    affixes = [(part.get("prefix"), part.get("suffix", "")) for part in (dead, expired)]
    if one_name or (affixes[0] == affixes[1] and affixes[0][0] is not None):
        raise PolicyError(
            "dead letters and expired messages would have the same queue name. Pass two names, or "
            "process_expired=True, which makes expired messages dead letters"
        )
    return entry
