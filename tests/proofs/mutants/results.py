"""What became of the mutants, kept in a file, so that a run that was broken off goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from tests.proofs.mutants.mutate import Mutant

ROOT = Path(__file__).parents[3]
KILLERS = Path(__file__).with_name("killers.json")
Outcome = Literal["killed", "survived", "unsettled"]
"""Of a mutant: a test failed on it; no test did; time was over before all tests had their turn."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a mutant.

    Attributes:
        key: the mutant's.
        by: the test that killed it, or what else ended it.
        tests: how many had their turn.
    """

    key: str
    mutant: str
    outcome: Outcome
    by: str
    tests: int
    seconds: float


class Results:
    """The results so far; each is in the file before `add` returns."""

    def __init__(self, path: Path | None, *, fresh: bool = False) -> None:
        if path is not None and fresh:
            path.unlink(missing_ok=True)
        self._path = path
        self._by_key: dict[str, Result] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                result = Result(**json.loads(line))
                self._by_key[result.key] = result

    def add(self, result: Result) -> None:
        """Note one."""
        self._by_key[result.key] = result
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write(json.dumps(asdict(result)) + "\n")

    def of(self, mutant: Mutant) -> Result | None:
        """What became of it."""
        return self._by_key.get(mutant.key)


def killers() -> dict[str, str]:
    """By the mark of a mutant: the test that killed it when all were tried, so that it is the first again."""
    held: dict[str, list[str]] = json.loads(KILLERS.read_text()) if KILLERS.exists() else {}
    return {mark: test for test, marks in held.items() for mark in marks}


def note_killers(every: Iterable[Mutant], results: Results) -> None:
    """Write them down: what is known now, else what was known, of the mutants that there are."""
    known, by_test = killers(), dict[str, list[str]]()
    for mutant in every:
        result = results.of(mutant)
        test = result.by if result and "::" in result.by and " " not in result.by.partition("[")[0] else None
        test = test or known.get(mutant.mark)
        if test:
            by_test.setdefault(test, []).append(mutant.mark)
    lines = (f"{json.dumps(test)}: {json.dumps(sorted(marks))}" for test, marks in sorted(by_test.items()))
    KILLERS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def fingerprint(paths: Iterable[Path], names: Iterable[str]) -> str:
    """Changes with the text of any of these files, and with these names."""
    found = hashlib.sha1(usedforsecurity=False)
    for path in sorted(paths):
        found.update(path.read_bytes())
    for name in names:
        found.update(name.encode() + b"\n")
    return found.hexdigest()


def remembered(path: Path, mark: str) -> Any:
    """What a file holds, if it was written under this mark."""
    if path.exists():
        held = json.loads(path.read_text())
        if held["mark"] == mark:
            return held["value"]
    return None


def remember(path: Path, mark: str, value: Any) -> None:
    """Write it for `remembered`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"mark": mark, "value": value}))
