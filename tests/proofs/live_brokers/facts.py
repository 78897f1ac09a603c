"""What was observed, and whether two sides did the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["same", "better on purpose", "differs", "unexplained"]
GRAVITY: Sequence[Verdict] = ("same", "better on purpose", "differs", "unexplained")
ERROR = "error"
"""The fact that a side broke off."""
LATE = 250
"""Milliseconds by which two waits may differ on a busy machine, and still be the same."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Milliseconds between deliveries.

    Attributes:
        late: by how many they may differ.
        within: what they are spread over; then all that counts is that they are in there.
    """

    values: tuple[int, ...]
    late: int = LATE
    within: tuple[int, int] | None = None

    def like(self, other: Waits) -> bool:
        """Whether there are as many, and each is as long; or, where they are spread, within the bounds."""
        pairs = list(zip(self.values, other.values, strict=False))
        if len(self.values) != len(other.values):
            return False
        if self.within is None:
            return all(abs(mine - its) <= self.late for mine, its in pairs)
        low, high = self.within
        return all(low <= wait <= high + self.late for pair in pairs for wait in pair)

    def __str__(self) -> str:
        spread = "" if self.within is None else " within {} to {}".format(*self.within)
        return " ".join(f"+{wait}" for wait in self.values) + spread


Fact = Waits | str | int | bool | tuple[str | int, ...]
Facts = Mapping[str, Fact]


@dataclass(frozen=True, slots=True)
class Why:
    """Why a fact differs."""

    verdict: Literal["better on purpose", "differs"]
    text: str


def better(text: str) -> Why:
    """It differs on purpose, for the better."""
    return Why("better on purpose", text)


def differs(text: str) -> Why:
    """It differs; whoever comes from there has to know."""
    return Why("differs", text)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The verdict on two observations.

    Attributes:
        verdict: the gravest of all facts.
        why: for each fact that differs.
    """

    verdict: Verdict
    why: Mapping[str, str]


def compare(there: Facts, here: Facts, reasons: Mapping[str, Why]) -> Comparison:
    """Compare fact by fact. A reason for what does not differ is wrong; an error is never the same."""
    verdicts: list[Verdict] = ["same"]
    why: dict[str, str] = {}
    for name in dict.fromkeys((*there, *here, *reasons)):
        alike = name != ERROR and equal(there.get(name), here.get(name))
        reason = reasons.get(name)
        if alike and reason:
            verdicts.append("unexplained")
            why[name] = f"it is the same, though this is said to differ: {reason.text}"
        elif not alike:
            verdicts.append(reason.verdict if reason else "unexplained")
            why[name] = reason.text if reason else "nothing says why"
    return Comparison(max(verdicts, key=GRAVITY.index), why)


def equal(there: Fact | None, here: Fact | None) -> bool:
    """Whether a fact is the same on both sides."""
    if isinstance(there, Waits) and isinstance(here, Waits):
        return there.like(here)
    return there == here


def shown(facts: Facts) -> str:
    """As a cell of the table."""
    return "; ".join(f"{name}: {text}" for name, text in cells(facts).items())


def cells(facts: Facts) -> dict[str, str]:
    """The values as a reader sees them, by their names in words."""
    return {name.replace("_", " "): cell(fact) for name, fact in facts.items()}


def cell(fact: Fact) -> str:
    """A value as a reader sees it."""
    if isinstance(fact, bool):
        return "yes" if fact else "no"
    if isinstance(fact, tuple):
        return " ".join(map(str, fact)) or "none"
    return str(fact) or "none"
