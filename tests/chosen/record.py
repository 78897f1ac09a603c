"""What each test ran, as a file: the lines of the package.

The file is a cache of this checkout, in `build`. It also holds the text of each file as it was recorded, so a
line of today is found in it by comparing the texts, whatever was committed since.
"""

from __future__ import annotations

import difflib
import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, reduce
from operator import or_
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FILE = ROOT / "build" / "recorded.json.gz"
Tests = int
"""A set of tests: the bit of a test is its place in `Record.seconds`."""


@dataclass
class Record:
    """What is known of the tests that were recorded.

    Attributes:
        seconds: by the name of each test, how long it took.
        lines: by a file of the package and a line, the tests that ran it.
        texts: the files of the package, as they were recorded.
        files: by a file of tests, the hash of its text.
    """

    seconds: dict[str, float] = field(default_factory=dict[str, float])
    lines: dict[str, dict[int, Tests]] = field(default_factory=dict[str, dict[int, Tests]])
    texts: dict[str, str] = field(default_factory=dict[str, str])
    files: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def read(cls, file: Path = FILE) -> Record | None:
        """What the file holds; None: there is none."""
        if not file.exists():
            return None
        held: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
        sets = [int(text, 16) for text in held.pop("sets")]
        lines = {
            path: {int(line): sets[n] for line, n in rows.items()} for path, rows in held["lines"].items()
        }
        return cls(**{**held, "lines": lines})

    def write(self, file: Path = FILE) -> None:
        """Into the file, each set of tests once."""
        numbers: dict[Tests, int] = {}

        def number(tests: Tests) -> int:
            return numbers.setdefault(tests, len(numbers))

        held = {
            **vars(self),
            "lines": {
                path: {line: number(tests) for line, tests in rows.items()}
                for path, rows in self.lines.items()
            },
        }
        held["sets"] = [f"{tests:x}" for tests in numbers]
        file.parent.mkdir(parents=True, exist_ok=True)
        begun = file.with_suffix(".new")
        begun.write_bytes(gzip.compress(json.dumps(held).encode(), 1))
        begun.replace(file)

    def names(self, tests: Tests) -> list[str]:
        """The names of a set."""
        return [name for place, name in enumerate(self.seconds) if tests >> place & 1]

    def set_of(self, names: Iterable[str]) -> Tests:
        """The set of these tests; unknown names are left out."""
        places = {name: place for place, name in enumerate(self.seconds)}
        return sum(1 << places[name] for name in {*names} if name in places)

    def by_line(self, path: str, text: str, lines: Iterable[int]) -> list[Tests]:
        """The tests that ran each of these lines of a file with this text, as far as any did."""
        rows, then = self.lines.get(path, {}), then_of(self.texts.get(path, ""), text)
        return [tests for line in lines if (tests := rows.get(then.get(line, 0), 0))]

    def add(
        self,
        seconds: Mapping[str, float],
        lines: Mapping[str, Mapping[int, Iterable[str]]],
        texts: Mapping[str, str],
    ) -> None:
        """Replace what is known of these tests by what they ran now, of files with these texts."""
        older = ~self.set_of(seconds)
        self.lines = {
            path: _moved(self.lines.get(path, {}), self.texts.get(path, ""), text, older)
            for path, text in texts.items()
        }
        self.seconds |= seconds
        self.texts = dict(texts)
        for path, found in lines.items():
            rows = self.lines[path]
            for line, names in found.items():
                if tests := rows.get(line, 0) | self.set_of(names):
                    rows[line] = tests
        self.files |= {file: hash_of(ROOT / file) for file in {file_of(name) for name in seconds}}


Pair = tuple[range, range]
"""Lines of a text, from 1, and those in their place in an earlier one."""


@cache
def compared(then: str, now: str) -> tuple[list[Pair], list[Pair]]:
    """The parts of a text that are the same in an earlier one, and those that are not."""
    if then == now:
        every = range(1, now.count("\n") + 2)
        return [(every, every)], []
    found: tuple[list[Pair], list[Pair]] = ([], [])
    lines, earlier = now.splitlines(), then.splitlines()
    for kind, a, b, c, d in difflib.SequenceMatcher(None, lines, earlier, autojunk=False).get_opcodes():
        found[kind != "equal"].append((range(a + 1, b + 1), range(c + 1, d + 1)))
    return found


@cache
def then_of(then: str, now: str) -> dict[int, int]:
    """By each line of a text that was in an earlier one: its number there."""
    same, _ = compared(then, now)
    return {line: old for lines, before in same for line, old in zip(lines, before, strict=True)}


def _moved(rows: Mapping[int, Tests], then: str, now: str, of: Tests) -> dict[int, Tests]:
    """The sets of an earlier text's lines at those of a later one; what ran old lines may run new ones."""
    same, other = compared(then, now)
    moved = {
        line: rows.get(old, 0) & of for lines, before in same for line, old in zip(lines, before, strict=True)
    }
    for lines, before in other:
        found = reduce(or_, (rows.get(old, 0) for old in before), 0) & of
        moved |= dict.fromkeys(lines, found)
    return {line: tests for line, tests in moved.items() if tests}


def file_of(test: str) -> str:
    """The file of a test."""
    return test.partition("::")[0]


def hash_of(path: Path) -> str:
    """Of a text; empty: the file is gone."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else ""
