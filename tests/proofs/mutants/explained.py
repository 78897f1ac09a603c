"""Mutants that no test can or need see, each with the reason: explained.yaml."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import yaml

from tests.proofs.mutants.mutate import Mutant

FILE = Path(__file__).with_name("explained.yaml")
Change = tuple[str, str, str, str]
"""Module, function, the line as it was, the line as it becomes."""


@cache
def explanations() -> dict[Change, str]:
    """Why it is equivalent or harmless, by the change."""
    return {
        (entry["module"], entry.get("function", ""), entry["was"], becomes): entry["because"]
        for entry in yaml.safe_load(FILE.read_text(encoding="utf-8"))
        for becomes in entry["becomes"]
    }


def change(mutant: Mutant) -> Change:
    """What is looked up."""
    return mutant.file, mutant.function, mutant.was, mutant.becomes


def is_explained(mutant: Mutant) -> bool:
    """Whether a reason is given for it."""
    return change(mutant) in explanations()


def outdated(mutants: Iterable[Mutant]) -> list[Change]:
    """Explanations of mutants that there are no more."""
    there = {change(mutant) for mutant in mutants}
    return sorted(explained for explained in explanations() if explained not in there)
