"""What a file turned out to say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rq_dlq.policy import Entry
    from rq_dlq.policy._checks import JSON

Outcome: TypeAlias = Literal["becomes", "not needed", "no counterpart"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One setting of a file, and what it becomes.

    Attributes:
        line: where it stands.
        place: the block that it stands in, "address-setting orders.#".
        setting: its name there; empty: the block as a whole.
        value: as it stands there; empty: it is not there, and its default is told.
        outcome: becomes a field of ours, is not needed, or has no counterpart.
        pattern: of our entry.
        field: of that entry, "redelivery.initial_delay".
        becomes: the field's value, as it stands in Redis; durations in whole milliseconds.
        note: why, or what to know of it.
    """

    line: int
    place: str
    setting: str
    value: str
    outcome: Outcome
    pattern: str = ""
    field: str = ""
    becomes: JSON = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a file.

    Attributes:
        line: where; 0: nowhere in particular.
        setting: which one.
        message: why, and what to do about it.
    """

    line: int
    setting: str
    message: str


@dataclass(frozen=True, slots=True)
class Reading:
    """A file that was read.

    Attributes:
        entries: by pattern; none where there is a problem.
        findings: what became of each setting, in the order of the file.
        problems: in the order of the file.
        lines: by pattern: where its entry begins.
    """

    entries: Mapping[str, Entry] = field(default_factory=dict[str, "Entry"])
    findings: Sequence[Finding] = ()
    problems: Sequence[Problem] = ()
    lines: Mapping[str, int] = field(default_factory=dict[str, int])
