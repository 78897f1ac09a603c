"""The map of policies: the entries that match a queue, and the resulting settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rq_dlq.policy import breaker, partial, per_key
from rq_dlq.policy import dead_letter as dead_letters
from rq_dlq.policy import expiry as expiries
from rq_dlq.policy.entry import Entry
from rq_dlq.policy.fields import (
    BY_PART,
    FIELDS,
    KINDS,
    PARTS,
    PLAIN,
    check_kind,
    in_seconds,
    later_kind,
)
from rq_dlq.policy.patterns import Pattern
from rq_dlq.policy.settings import QueueSettings, Source
from rq_dlq.values.names import Naming, Template

if TYPE_CHECKING:
    from rq_dlq.policy._checks import JSON

VERSION: Final = b"#version"  # cannot be a pattern, since a wildcard is a whole word
DECLARED: Final = "declared in code"
DEFAULT: Final = "default"
IN_FORCE: Final = {"per_key", "breaker"}
"""Fields that are text in Redis and values of their own classes in settings."""

Layers: TypeAlias = list[tuple[str, Entry]]
"""Entries with their sources, the strongest first."""


@dataclass(frozen=True, slots=True)
class PolicyMap:
    """The entries for patterns of queues.

    Attributes:
        entries: the entries by the pattern's text.
        naming: the broker's templates for dead-letter and expiry queues.
        version: the number of changes in Redis.
        unreadable: fields in Redis that are not entries. They are ignored, so that they do not stop a queue.
    """

    entries: Mapping[str, Entry]
    naming: Naming = field(default_factory=Naming)
    version: int = 0
    unreadable: tuple[str, ...] = ()
    _patterns: tuple[Pattern, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Sort the patterns, the most specific first.

        Raises:
            PolicyError: one of the texts is not a pattern.
        """
        parsed = {Pattern.parse(text): entry for text, entry in self.entries.items()}
        object.__setattr__(self, "entries", {pattern.text: entry for pattern, entry in parsed.items()})
        object.__setattr__(self, "_patterns", tuple(sorted(parsed, key=lambda pattern: pattern.rank)))

    @classmethod
    def read(cls, fields: Mapping[bytes, bytes], naming: Naming) -> PolicyMap:
        """Read the map from Redis: the output of `Entry.encode` by pattern, and the version."""
        entries: dict[str, Entry] = {}
        unreadable: list[str] = []
        version = 0
        for name, value in fields.items():
            text = name.decode(errors="backslashreplace")
            try:
                if name == VERSION:
                    version = int(value)
                else:
                    entries[Pattern.parse(text).text] = Entry.decode(value)
            except ValueError:  # such as a PolicyError
                unreadable.append(text)
        return cls(entries, naming, version, tuple(sorted(unreadable)))

    def resolve(self, name: str) -> list[str]:
        """The patterns that match a queue, the most specific first."""
        return [pattern.text for pattern in self._patterns if pattern.matches(name)]

    def settings(self, family: str, declared: Entry | None = None) -> QueueSettings:
        """The settings of a queue, field by field.

        The strongest first: pinned entries, declared settings, other entries (each the most specific first),
        defaults.

        Args:
            family: the queue's name.
            declared: the entry that a program declares in code.

        Raises:
            UpgradeRequired: a part has a kind that only a later version can read.
        """
        found = _strongest(self._layers(family, declared), family)
        dead, expired, redelivery = (_part(found, part) for part in ("dead_letter", "expiry", "redelivery"))
        for part, values in (("dead_letter", dead), ("redelivery", redelivery)):
            check_kind(part, _values(values), family)
        dead_name = _place(dead, self.naming.dead, family, {family, self.naming.expired.of(family)})
        expired_name = _place(expired, self.naming.expired, family, {family, dead_name})
        policy = partial.complete(_values(redelivery))
        strategy = dead_letters.complete(_values(dead), self.naming.dead)
        expiry = expiries.complete(_values(expired), self.naming.expired)
        plain = {row.name: found.get(row.name, (row.default, DEFAULT)) for row in PLAIN}
        return QueueSettings(
            redelivery=policy,
            expiry=expiry,
            dead_letter=strategy,
            **{row.name: in_seconds(row, plain[row.name][0]) for row in PLAIN if row.name not in IN_FORCE},
            per_key=per_key.in_force(plain["per_key"][0], family),
            breaker=breaker.in_force(plain["breaker"][0], family),
            dead_name=dead_name,
            expired_name=expired_name,
            sources=(
                *_sources("redelivery", policy.as_wire(), redelivery),
                *_sources("dead_letter", strategy.as_wire(), dead),
                *_sources("expiry", expiry.as_wire(), expired),
                *(Source(name, value, source) for name, (value, source) in plain.items()),
            ),
        )

    def _layers(self, family: str, declared: Entry | None) -> Layers:
        stored = [(text, self.entries[text]) for text in self.resolve(family)]
        pinned = [(f"pinned {text}", entry) for text, entry in stored if entry.pinned]
        others = [(text, entry) for text, entry in stored if not entry.pinned]
        return [*pinned, *([(DECLARED, declared)] if declared else []), *others]


_Sourced: TypeAlias = dict[str, tuple[Any, str]]
"""By field: the value in force, and its source."""


def _strongest(layers: Layers, family: str) -> _Sourced:
    """Each known field, with the value of the strongest entry that sets it."""
    found: _Sourced = {}
    for source, entry in layers:
        concerned = dead_letters.concerns(entry.part("dead_letter"), family)
        later = {part for part in PARTS if later_kind(part, entry.part(part))}
        for where, value in entry.fields().items():
            row = FIELDS.get(where)
            if row is None or (row.part == "dead_letter" and not concerned):
                continue
            # If the kind of a part is unknown, only the kind counts.
            if row.part not in later or row.name == KINDS[row.part][0]:
                found.setdefault(where, (value, source))
    return found


def _part(found: _Sourced, part: str) -> _Sourced:
    """The fields of a part, by their names."""
    return {name: found[row.where] for name, row in BY_PART[part].items() if row.where in found}


def _values(found: _Sourced) -> dict[str, Any]:
    return {name: value for name, (value, _) in found.items()}


def _place(found: _Sourced, naming: Template, family: str, taken: set[str]) -> str:
    """The name of a queue's dead-letter or expiry queue.

    A name that is already taken (the queue itself may have a shared name) is ignored.
    """
    shared = found.get("strategy", ("shared", ""))[0] == "shared" and found.get("name", (None, ""))[0]
    prefix, suffix = (found.get(affix, (getattr(naming, affix), ""))[0] for affix in ("prefix", "suffix"))
    name = shared or Template(prefix, suffix).of(family)
    if name not in taken:
        return str(name)
    for unusable in ("name", "prefix", "suffix"):
        found.pop(unusable, None)
    if found.get("strategy", ("", ""))[0] == "shared":
        del found["strategy"]
    return naming.of(family)


def _sources(part: str, fields: Mapping[str, JSON], found: _Sourced) -> list[Source]:
    return [
        Source(f"{part}.{name}", value, found[name][1] if name in found else DEFAULT)
        for name, value in fields.items()
    ]
