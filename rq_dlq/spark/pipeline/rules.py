"""Rules for redriving: a TOML file, one table per rule. The first rule that matches a dead letter applies.

    ["the gateway was down"]
    queue = "orders*"
    error_class = "TimeoutError"
    max_redriven = 2    # times; a message that dies once more is quarantined
    rate = 50           # messages per second

A rule has one or more of queue, error_class (both may have `*`), fingerprint and reason, and all must be met.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from pyspark.sql import functions as F  # noqa: N812 - as in most Spark programs

from rq_dlq.core.choosing.choice import REASONS
from rq_dlq.errors import InvalidInput
from rq_dlq.policy_files._toml_lines import line_of, lines_of
from rq_dlq.spark.queues import expression
from rq_dlq.values.durations import shown

if TYPE_CHECKING:
    from pyspark.sql import Column

CONDITIONS: Final = ("queue", "error_class", "fingerprint", "reason")
KEYS: Final = (*CONDITIONS, "max_redriven", "rate")
MOST: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A choice of dead letters to redrive.

    Attributes:
        name: for people.
        queue, error_class: patterns with `*`; empty: any.
        fingerprint, reason: empty: any.
        max_redriven: a message that was redriven this often is quarantined.
        rate: messages per second; None: no limit.
    """

    name: str
    queue: str = ""
    error_class: str = ""
    fingerprint: str = ""
    reason: str = ""
    max_redriven: int = 3
    rate: float | None = None

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            InvalidInput: a value is not valid.
        """
        for key in KEYS:
            if wrong := _wrong(key, getattr(self, key)):
                raise InvalidInput(f"{key}: {wrong}")
        if not any(getattr(self, name) for name in CONDITIONS):
            raise InvalidInput(
                f'a rule without a condition matches everything: add {", ".join(CONDITIONS)}, or queue = "*"'
            )

    def fits(self) -> Column:
        """Whether the rule matches a dead letter, for rows of the view `dlq`."""
        met = F.lit(True)  # noqa: FBT003
        for name in ("queue", "error_class"):
            if pattern := getattr(self, name):
                met &= F.col(name).rlike(f"^(?s:{expression(pattern)})$")
        for name in ("fingerprint", "reason"):
            if value := getattr(self, name):
                met &= F.col(name) == value
        return met


def read_rules(text: str, name: str = "rules") -> tuple[Rule, ...]:
    """The rules of a file.

    Args:
        text: of the file.
        name: of the file, for the error.

    Raises:
        InvalidInput: the file has errors; the text lists all of them with their lines.
    """
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidInput(f"{name}: not TOML: {error}") from None
    lines = lines_of(text)
    rules: list[Rule] = []
    problems: list[str] = []
    for title, table in tables.items():
        wrong = _problems(title, table)
        for key, why in wrong.items():
            path = (title, key) if key else (title,)
            problems.append(f"{name}, line {line_of(lines, path)}: {title}{key and '.'}{key}: {why}")
        if not wrong:
            rules.append(Rule(name=title, **table))
    if not tables:
        problems.append(f'{name}: there is no rule. A rule is a table such as ["the gateway was down"]')
    if problems:
        raise InvalidInput("\n".join(problems))
    return tuple(rules)


def _problems(title: str, table: object) -> dict[str, str]:
    """The errors in a rule, by setting; the empty name stands for the rule as a whole."""
    if not isinstance(table, dict):
        return {"": f'not a rule: write its settings below a line such as ["{title}"]'}
    given = cast("Mapping[str, Any]", table)
    known = ", ".join(KEYS)
    wrong = {key: f"there is no such setting. The settings are {known}" for key in given if key not in KEYS}
    wrong |= {key: why for key in given if key in KEYS and (why := _wrong(key, given[key]))}
    if not wrong:
        try:
            Rule(name=title, **given)
        except InvalidInput as error:
            return {"": str(error)}
    return wrong


def _wrong(key: str, value: object) -> str:
    """Why a value is not valid for a setting; empty: it is valid."""
    if key == "max_redriven":
        whole = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST
        return "" if whole else f"{shown(value)} is not a whole number from 1 to {MOST:,}"
    if key == "rate":
        number = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MOST
        return "" if value is None or number else f"{shown(value)} is not a number above 0, at most {MOST:,}"
    if not isinstance(value, str):
        return f"{shown(value)} is not text"
    if key == "reason" and value not in {"", *REASONS}:
        return f"{shown(value)} is not one of {', '.join(REASONS)}"
    if key == "fingerprint" and re.search(r"[*\s]", value):
        return f"{shown(value)} is not a fingerprint: copy a whole one from the report"
    return ""
