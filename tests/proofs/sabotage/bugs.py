"""The table of planted bugs: bugs.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

ROOT = Path(__file__).parents[3]
FILE = Path(__file__).with_name("bugs.yaml")
Language = Literal["Lua", "Python"]
LANGUAGES: tuple[Language, ...] = get_args(Language)


@dataclass(frozen=True, slots=True)
class Change:
    """A piece of a file that reads otherwise.

    Attributes:
        file: its path in the tree.
    """

    file: str
    was: str
    becomes: str

    def make(self, tree: Path) -> None:
        """Change the file in this tree.

        Raises:
            ValueError: the piece is not there, or there more than once.
        """
        path = tree / self.file
        text = path.read_text(encoding="utf-8")
        if (times := text.count(self.was)) != 1:
            message = f"{self.file} has {times} times, not once: {self.was}"
            raise ValueError(message)
        path.write_text(text.replace(self.was, self.becomes), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug, and the row that claims to exclude it.

    Attributes:
        row: as in T5.
        name: what is wrong, in words.
        changes: what it takes; usually one.
        says: a part of the sentence with which the row fails on it.
    """

    row: str
    name: str
    changes: tuple[Change, ...]
    says: str

    @property
    def language(self) -> Language:
        """What it is written in."""
        return "Lua" if self.changes[0].file.endswith(".lua") else "Python"

    def plant(self, tree: Path) -> None:
        """Make all its changes in a tree."""
        for change in self.changes:
            change.make(tree)


@dataclass(frozen=True, slots=True)
class Planted:
    """The bugs of a row.

    Attributes:
        without: the languages in which the row can have none, and why.
        open: the languages in which it has none yet.
    """

    row: str
    bugs: tuple[Bug, ...]
    without: Mapping[Language, str]
    open: Sequence[Language]


@cache
def planted() -> dict[str, Planted]:
    """The bugs of each row, by its name."""
    table: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return {
        row: Planted(
            row,
            tuple(_bug(row, entry) for entry in cells.get("bugs", ())),
            cells.get("without", {}),
            cells.get("open", ()),
        )
        for row, cells in table.items()
    }


def _bug(row: str, entry: Mapping[str, Any]) -> Bug:
    places = (entry, *entry.get("also", ()))
    changes = (Change(place["file"], place["was"], place["becomes"]) for place in places)
    return Bug(row, entry["bug"], tuple(changes), entry["says"])
