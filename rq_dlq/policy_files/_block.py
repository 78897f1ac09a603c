"""One block of another broker's file on its way to an entry of ours."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rq_dlq.durations import shown
from rq_dlq.errors import PolicyError
from rq_dlq.policy import Entry
from rq_dlq.policy_files._reading import Finding, Outcome, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rq_dlq.policy._checks import JSON
    from rq_dlq.policy_files._xml import Element

WHOLE = re.compile(r"[+-]?[0-9]{1,30}")
DECIMAL = re.compile(r"[+-]?(?:[0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,3})?")
FLAGS = {"true": True, "false": False}


class Setting(NamedTuple):
    """One setting, as it stands in the file; one without a value is not there, and its default is meant."""

    name: str
    value: str
    line: int


@dataclass(eq=False, slots=True)
class Block:
    """What a block says, finding by finding.

    Attributes:
        place: what it is, for people: "address-setting orders.#".
        pattern: of our entry.
        said: our entry as it stands in Redis.
    """

    place: str
    line: int
    pattern: str = ""
    said: dict[str, Any] = field(default_factory=dict[str, Any])
    findings: list[Finding] = field(default_factory=list[Finding])
    problems: list[Problem] = field(default_factory=list[Problem])

    def becomes(self, setting: Setting, where: str, value: JSON, note: str = "") -> None:
        """A setting becomes a field of our entry."""
        part, dot, name = where.partition(".")
        if dot:
            self.said.setdefault(part, {})[name] = value
        else:
            self.said[part] = value
        self.findings.append(
            Finding(
                setting.line,
                self.place,
                setting.name,
                setting.value,
                "becomes",
                self.pattern,
                where,
                value,
                note,
            )
        )

    def passed_over(self, setting: Setting, outcome: Outcome, note: str) -> None:
        """A setting becomes nothing."""
        self.findings.append(
            Finding(setting.line, self.place, setting.name, setting.value, outcome, note=note)
        )

    def wrong(self, setting: Setting, message: str) -> None:
        """A setting makes no sense."""
        self.problems.append(Problem(setting.line, setting.name, message))

    def whole(self, setting: Setting, low: int | None = None) -> int | None:
        """A whole number; None: it is none, which is a problem."""
        number = int(setting.value) if WHOLE.fullmatch(setting.value) else None
        if number is None or (low is not None and number < low):
            bound = "" if low is None else f", {low} or more"
            self.wrong(setting, f"{shown(setting.value)} is no whole number{bound}{_property(setting)}")
            return None
        return number

    def decimal(self, setting: Setting) -> float | None:
        """A number; None: it is none, which is a problem."""
        if not DECIMAL.fullmatch(setting.value):
            self.wrong(setting, f"{shown(setting.value)} is no number{_property(setting)}")
            return None
        return float(setting.value)

    def flag(self, setting: Setting) -> bool | None:
        """True or false; None: neither, which is a problem."""
        if setting.value.lower() not in FLAGS:
            message = f"{shown(setting.value)} is neither true nor false{_property(setting)}"
            self.wrong(setting, message)
        return FLAGS.get(setting.value.lower())

    def take(self, other: Block) -> None:
        """Take over what another block of the same pattern says."""
        for part, fields in other.said.items():
            self.said[part] = self.said.get(part, {}) | fields if isinstance(fields, dict) else fields
        self.findings += other.findings
        self.problems += other.problems

    def entry(self) -> Entry | None:
        """The entry; None: it would say nothing, or makes no sense, which is a problem."""
        if self.problems:
            return None
        pinned = self.said.get("pinned", False)
        said = {part: fields for part, fields in self.said.items() if part != "pinned"}
        whole: Entry | None = None
        for tried in [*({part: fields} for part, fields in said.items()), {**said, "pinned": pinned}]:
            if not said:
                continue
            try:
                whole = Entry.decode(msgspec.json.encode(tried))
            except PolicyError as error:
                self._blame(str(error), [part for part in tried if part != "pinned"])
                return None
        return whole

    def _blame(self, message: str, parts: list[str]) -> None:
        """Put a problem to the setting that it names, else to the last one of these parts."""
        suspects = [finding for finding in self.findings if finding.field.split(".")[0] in parts]
        named = [
            finding for finding in suspects if finding.setting and plain(finding.setting) in plain(message)
        ]
        told = [finding for finding in suspects if finding.field.rpartition(".")[2] in message]
        found = named or told or suspects
        best = ([finding for finding in found if not finding.note.endswith("default")] or found)[-1]
        self.problems.append(Problem(best.line, best.setting, message))


def settings_of(element: Element) -> dict[str, Setting]:
    """The attributes of an element by name."""
    return {
        name: Setting(name, value.strip(), element.lines.get(name, element.line))
        for name, value in element.attributes.items()
        if name != "id"
    }


def unknown(block: Block, setting: Setting, known: Iterable[str], owner: str) -> None:
    """A setting that there is not is a problem."""
    closest = get_close_matches(setting.name, known, n=1, cutoff=0)[0]
    message = f"{owner} has no such setting (the closest is {closest}). Correct it, or leave it out"
    block.wrong(setting, message)


def plain(name: str) -> str:
    """A name without its way to join words: max-redelivery-delay and maxRedeliveryDelay are the same."""
    return re.sub("[-_]", "", name).lower()


def _property(setting: Setting) -> str:
    return ". Write the value that the property has into a copy" if "${" in setting.value else ""
