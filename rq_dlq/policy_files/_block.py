"""A block of another broker's file during its conversion to an entry."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rq_dlq.errors import PolicyError
from rq_dlq.policy import Entry
from rq_dlq.policy.arguments import plain
from rq_dlq.policy_files._reading import Finding, Problem, Reading
from rq_dlq.values.durations import shown

if TYPE_CHECKING:
    from rq_dlq.policy import Pattern, RedeliveryPolicy
    from rq_dlq.policy._checks import JSON
    from rq_dlq.policy_files._patterns import Names
    from rq_dlq.policy_files._reading import Conversion
    from rq_dlq.policy_files._xml import Element

WHOLE = re.compile(r"[+-]?[0-9]{1,30}")
DECIMAL = re.compile(r"[+-]?(?:[0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,3})?")
FLAGS = {"true": True, "false": False}


class Setting(NamedTuple):
    """One setting of the file. If it is missing, the value is empty, and its default applies."""

    name: str
    value: str
    line: int


class Settings(dict[str, Setting]):
    """The settings of an element by name. A missing one has an empty value and the element's line."""

    def __init__(self, line: int, given: Iterable[Setting] = ()) -> None:
        super().__init__((setting.name, setting) for setting in given)
        self.line = line

    @classmethod
    def of(cls, element: Element) -> Settings:
        """The attributes of an element."""
        lines = element.lines
        given = (
            Setting(name, value.strip(), lines.get(name, element.line))
            for name, value in element.attributes.items()
            if name != "id"
        )
        return cls(element.line, given)

    def __missing__(self, name: str) -> Setting:
        return Setting(name, "", self.line)


@dataclass(eq=False, slots=True)
class Block:
    """A block, and the conversion of its settings.

    Attributes:
        place: the block's readable name: "address-setting orders.#".
        settings: the settings of the block.
        pattern: the pattern of our entry.
        fields: our entry, as Redis stores it.
        findings: the equivalent of each setting.
        problems: the errors in the block.
    """

    place: str
    settings: Settings
    pattern: str = ""
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    findings: list[Finding] = field(default_factory=list[Finding])
    problems: list[Problem] = field(default_factory=list[Problem])

    @property
    def line(self) -> int:
        """The line where it begins."""
        return self.settings.line

    @property
    def itself(self) -> Setting:
        """The block as a whole, for findings about no particular setting."""
        return self.settings[""]

    def becomes(self, setting: Setting, where: str, value: JSON, note: str = "") -> None:
        """Convert a setting to a field of our entry."""
        part, dot, name = where.partition(".")
        fields = self.fields.setdefault(part, {}) if dot else self.fields
        fields[name or part] = value
        self._find(setting, "becomes", note, pattern=self.pattern, field=where, becomes=value)

    def passed_over(self, setting: Setting, outcome: Conversion, note: str) -> None:
        """Note that a setting has no field here."""
        self._find(setting, outcome, note)

    def _find(self, setting: Setting, outcome: Conversion, note: str, **of_field: Any) -> None:
        name, value, line = setting
        self.findings.append(Finding(line, self.place, name, value, outcome, note=note, **of_field))

    def matched(self, setting: Setting, name: str, names: Names, lost: str) -> Pattern | None:
        """Our pattern for a name in a setting; None: no pattern fits, and a problem or finding is added."""
        try:
            pattern = names.pattern(name)
        except PolicyError as error:
            if name in names.renamed:
                self.wrong(setting, str(error))
            else:
                self.passed_over(setting, "no counterpart", f"{lost}: {error}")
            return None
        if name in names.renamed:
            self.passed_over(setting, "not needed", f"{name} is {pattern.text} here")
        return pattern

    def wrong(self, setting: Setting, message: str) -> None:
        """Add a problem with a setting."""
        self.problems.append(Problem(setting.line, setting.name, message))

    def unknown(self, setting: Setting, known: Iterable[str], owner: str) -> None:
        """Add a problem for an unknown setting."""
        like = get_close_matches(setting.name, [*known], n=1)
        hint = f" (the closest is {like[0]})" if like else ""
        message = f"{owner} has no such setting{hint}. Correct it, or leave it out"
        self.wrong(setting, message)

    def whole(self, setting: Setting, low: int | None = None) -> int | None:
        """The setting as a whole number; None: it is not one, and a problem is added."""
        number = int(setting.value) if WHOLE.fullmatch(setting.value) else None
        if number is None or (low is not None and number < low):
            bound = "" if low is None else f", {low} or more"
            self.wrong(setting, f"{shown(setting.value)} is not a whole number{bound}{_property(setting)}")
            return None
        return number

    def decimal(self, setting: Setting) -> float | None:
        """The setting as a number; None: it is not one, and a problem is added."""
        if not DECIMAL.fullmatch(setting.value):
            self.wrong(setting, f"{shown(setting.value)} is not a number{_property(setting)}")
            return None
        return float(setting.value)

    def flag(self, setting: Setting) -> bool | None:
        """The setting as True or False; None: it is neither, and a problem is added."""
        if setting.value.lower() not in FLAGS:
            message = f"{shown(setting.value)} is neither true nor false{_property(setting)}"
            self.wrong(setting, message)
        return FLAGS.get(setting.value.lower())

    def take(self, other: Block) -> None:
        """Add the fields, findings and problems of another block for the same pattern."""
        for part, fields in other.fields.items():
            self.fields[part] = self.fields.get(part, {}) | fields if isinstance(fields, dict) else fields
        self.findings += other.findings
        self.problems += other.problems

    def redelivery(
        self, make: Callable[..., RedeliveryPolicy], given: Mapping[str, Any]
    ) -> RedeliveryPolicy | None:
        """The policy of the given settings; None: they are not valid, and a problem is added."""
        try:
            return make(**given)
        except PolicyError as error:
            named = [name for name in given if plain(name) in plain(str(error))] or list(given)
            self.wrong(self.settings[max(named, key=len)], str(error))
            return None

    def entry(self) -> Entry | None:
        """The entry; None: it would be empty, or there is a problem."""
        if self.problems:
            return None
        pinned = self.fields.get("pinned", False)
        parts = {part: fields for part, fields in self.fields.items() if part != "pinned"}
        whole: Entry | None = None
        for tried in [*({part: fields} for part, fields in parts.items()), {**parts, "pinned": pinned}]:
            if not parts:
                continue
            try:
                whole = Entry.decode(msgspec.json.encode(tried))
            except PolicyError as error:
                self._blame(str(error), [part for part in tried if part != "pinned"])
                return None
        return whole

    def _blame(self, message: str, parts: list[str]) -> None:
        """Add a problem for the setting that the message names, or for the last setting of these parts."""
        suspects = [one for one in self.findings if one.field.split(".")[0] in parts]
        named = [one for one in suspects if one.setting and plain(one.setting) in plain(message)]
        mentioned = [one for one in suspects if one.field.rpartition(".")[2] in message]
        found = named or mentioned or suspects
        best = ([one for one in found if not one.note.endswith("default")] or found)[-1]
        self.problems.append(Problem(best.line, best.setting, message))


def reading_of(blocks: Sequence[Block], apart: Sequence[Block], nothing: Problem | None) -> Reading:
    """The result of reading a file.

    Args:
        blocks: the blocks that become entries, one per pattern.
        apart: the blocks that only have findings and problems.
        nothing: the problem if no block has findings or problems.
    """
    entries = {block.pattern: block.entry() for block in blocks}
    every = [*apart, *blocks]
    findings = sorted((one for block in every for one in block.findings), key=lambda one: one.line)
    problems = sorted((one for block in every for one in block.problems), key=lambda one: one.line)
    if nothing and not findings and not problems:
        problems = [nothing]
    return Reading(
        {} if problems else {pattern: entry for pattern, entry in entries.items() if entry is not None},
        findings,
        problems,
        {block.pattern: block.line for block in blocks},
    )


def _property(setting: Setting) -> str:
    """The advice for a value that the broker takes from a property: `${NAME}`, or `${NAME:default}`."""
    _, begins, name = setting.value.partition("${")
    name, default, value = name.partition("}")[0].partition(":")
    if not begins:
        return ""
    usual = f", or its default, {value}," if default else ""
    return f". Write the value of the property {name}{usual} into a copy of the file"
