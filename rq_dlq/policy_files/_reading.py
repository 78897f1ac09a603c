"""The result of reading a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from rq_dlq.policy import Entry
    from rq_dlq.policy._checks import JSON

Conversion: TypeAlias = Literal["becomes", "not needed", "no counterpart"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One setting of a file, and its equivalent.

    Attributes:
        line: its line in the file.
        place: its block, such as "address-setting orders.#".
        setting: its name in the file; empty: the block as a whole.
        value: its value in the file; empty: it is missing, and its default applies.
        outcome: it becomes a field here, is not needed, or has no counterpart.
        pattern: the pattern of our entry.
        field: the field of that entry, such as "redelivery.initial_delay".
        becomes: the field's value, as Redis stores it; durations in whole milliseconds.
        note: the reason, or further information.
    """

    line: int
    place: str
    setting: str
    value: str
    outcome: Conversion
    pattern: str = ""
    field: str = ""
    becomes: JSON = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """An error in a file.

    Attributes:
        line: its line; 0: no particular line.
        setting: the setting with the error.
        message: the problem, and the advice.
    """

    line: int
    setting: str
    message: str


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of reading a file.

    Attributes:
        entries: the entries by pattern; empty if there is a problem.
        findings: the equivalent of each setting, in the order of the file.
        problems: the problems, in the order of the file.
        lines: the line where an entry begins, by pattern.
    """

    entries: Mapping[str, Entry] = field(default_factory=dict[str, "Entry"])
    findings: Sequence[Finding] = ()
    problems: Sequence[Problem] = ()
    lines: Mapping[str, int] = field(default_factory=dict[str, int])
