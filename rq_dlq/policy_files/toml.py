"""Our own policy files: TOML, one table per pattern.

    ["orders.#".redelivery]
    initial_delay = "5s"
    max_redeliveries = 8

    ["orders.#".dead_letter]
    strategy = "shared"
    name = "orders.lost"

    ["orders.eu"]
    max_in_flight = 10
    pinned = true

The fields are those of the table in `rq_dlq.policy.fields`; `unlimited`, `never` and similar words mean None.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from rq_dlq.errors import PolicyError
from rq_dlq.policy import Entry, Pattern
from rq_dlq.policy.fields import PARTS, SETTABLE, meant
from rq_dlq.policy_files._reading import Problem, Reading
from rq_dlq.policy_files._toml_lines import line_of, lines_of
from rq_dlq.values.durations import shown

if TYPE_CHECKING:
    from rq_dlq.policy_files._toml_lines import Path

Fields: TypeAlias = dict[str, Any]
"""Values by names such as "redelivery.initial_delay" and "max_in_flight"."""

KEYS: Final = (*SETTABLE, "pinned")
WHERE: Final = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


def read(text: str) -> Reading:
    """The entries of a file, or all its problems."""
    try:
        tables: dict[str, Any] = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return Reading(problems=[_no_toml(str(error), text)])
    lines = lines_of(text)
    entries: dict[str, Entry] = {}
    first: dict[str, int] = {}
    problems: list[Problem] = []
    for name, table in tables.items():
        line = line_of(lines, (name,))
        pattern, why = _pattern(name, first)
        if pattern is None:
            problems.append(Problem(line, name, why))
            continue
        entry, wrong = _entry(name, table, lines)
        problems += wrong
        first[pattern] = line
        if entry is not None:
            entries[pattern] = entry
    if not tables:
        problems.append(Problem(0, "", 'there is no table, such as ["orders.#".redelivery]'))
    problems.sort(key=lambda problem: problem.line)
    return Reading({} if problems else entries, problems=problems, lines=first)


def _no_toml(error: str, text: str) -> Problem:
    where = WHERE.search(error)
    line = int(where[1]) if where and where[1] else text.count("\n") + 1
    return Problem(line, "", f"not TOML: {WHERE.sub('', error)}")


def _pattern(name: str, before: Mapping[str, int]) -> tuple[str | None, str]:
    """The pattern of a table; None: its name is not a pattern, with the reason."""
    try:
        pattern = Pattern.parse(name).text
    except PolicyError as error:
        return None, str(error)
    if pattern in before:
        return None, f"it is equivalent to the pattern of line {before[pattern]}. Put both into one"
    return pattern, ""


def _entry(name: str, table: object, lines: Mapping[Path, int]) -> tuple[Entry | None, list[Problem]]:
    """The entry of a table, or its problems."""
    if not isinstance(table, dict):
        message = f'not a table: write the settings of a pattern below a line such as ["{name}".redelivery]'
        return None, [Problem(line_of(lines, (name,)), name, message)]
    fields, problems = _fields(name, cast("dict[str, Any]", table), lines)
    if not fields and not problems:
        problems.append(Problem(line_of(lines, (name,)), name, str(_built({}))))
    while fields and isinstance(wrong := _built(fields), str):
        culprits = _culprits(fields, wrong)
        problems.append(_problem(name, culprits, wrong, lines))
        fields = {field: value for field, value in fields.items() if field not in culprits}
    return (None, problems) if problems else (cast("Entry", _built(fields)), [])


def _fields(name: str, table: Mapping[str, Any], lines: Mapping[Path, int]) -> tuple[Fields, list[Problem]]:
    """The fields of a table, and a problem for each key that is not a field."""
    fields: Fields = {}
    problems: list[Problem] = []
    for key, value in table.items():
        line = line_of(lines, (name, key))
        if key not in KEYS:
            problems.append(Problem(line, f"{name}.{key}", _unknown(key, value)))
        elif key not in PARTS:
            fields[key] = meant(key, value)
        elif not isinstance(value, dict):
            quoted = name if re.fullmatch("[A-Za-z0-9_-]+", name) else f'"{name}"'
            message = f"{shown(value)} is not a table. Write its fields below a line [{quoted}.{key}]"
            problems.append(Problem(line, key, message))
        else:
            inner = cast("dict[str, Any]", value)
            fields |= {f"{key}.{field}": meant(f"{key}.{field}", typed) for field, typed in inner.items()}
    return fields, problems


def _unknown(key: str, value: object) -> str:
    if isinstance(value, dict):
        hint = 'Put a pattern with dots in quotes: ["orders.eu".redelivery]'
    else:
        like = get_close_matches(key, KEYS, n=1)
        hint = f"The closest is {like[0]!r}" if like else ""
    return f"there is no such setting. The settings are {', '.join(KEYS)}. {hint}".removesuffix(". ")


def _built(fields: Fields) -> Entry | str:
    """The entry with these fields, or the error in them."""
    arguments: dict[str, Any] = {}
    for field, value in fields.items():
        part, dot, name = field.partition(".")
        if dot:
            arguments.setdefault(part, {})[name] = value
        else:
            arguments[field] = value
    try:
        return Entry.of(**arguments)
    except PolicyError as error:
        return str(error)


def _culprits(fields: Fields, wrong: str) -> list[str]:
    """The fields that cause an error: without one of them the error changes or disappears."""
    kind = wrong.partition(":")[0]

    def matters(field: str) -> bool:
        rest = _built({name: value for name, value in fields.items() if name != field})
        return not isinstance(rest, str) or rest.partition(":")[0] != kind

    found = [field for field in fields if matters(field)]
    return found or list(fields)


def _problem(name: str, culprits: list[str], wrong: str, lines: Mapping[Path, int]) -> Problem:
    """A problem, at the last line of the fields that together cause it."""
    where = sorted((line_of(lines, (name, *field.split("."))), field) for field in culprits)
    line, field = where[-1]
    others = ", ".join(f"with {other}, line {at}" for at, other in where[:-1])
    return Problem(line, f"{field} ({others})" if others else field, wrong)
