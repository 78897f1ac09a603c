"""The needs that each Lua file declares, and the fragments, by the names that they give.

    -- needs: judge, holds; keys: states, messages; args: seed
    -- gives: settle

A line lists names that fragments give, then keys (`all`: every key of the queue), then arguments that the
script must bind, then locals that must precede the fragment wherever it is used. In column 0 it applies to
the whole file, indented to its block. A file with `-- once` is put first in a script that would have it in
several blocks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import TypeVar

from rq_dlq import _keys

T = TypeVar("T")
ALL = "all"  # means every key of the queue
_NEEDS = re.compile(r"( *)-- needs: (.+)")
_PART = re.compile(r"(?:(keys|args|locals|family): )?(\w+(?:, \w+)*)")
_GIVES, _ONCE = "-- gives: ", "-- once"


@dataclass(frozen=True)
class Needs:
    """The needs that one line of a file declares.

    Attributes:
        locals: names that the including file defines.
        family: the owner of the keys. Empty: the same as outside the block; `to_`: keys with this prefix;
            another word: the variable with the number of the queue (1, 2, …).
    """

    file: str
    indent: str
    names: tuple[str, ...]
    keys: tuple[str, ...]
    args: tuple[str, ...]
    locals: tuple[str, ...]
    family: str

    def among(self, given: Mapping[str, T]) -> list[T]:
        """The values given under these names; raises ValueError for an unknown name."""
        if unknown := [name for name in self.names if name not in given]:
            raise ValueError(f"{self.file}.lua needs {', '.join(unknown)}, which no fragment gives")
        return [given[name] for name in self.names]


def needs(file: str, line: str) -> Needs | None:
    """The needs in a line of a file, if any; raises ValueError if the line is malformed."""
    found = _NEEDS.fullmatch(line) if "-- needs: " in line else None
    if not found:
        return None
    lists: dict[str, tuple[str, ...]] = {}
    for text in found[2].split("; "):
        part = _PART.fullmatch(text)
        if not part or (part[1] or "names") in lists:
            raise ValueError(f"{file}.lua needs {text!r}: not names, keys, args, locals or family, each once")
        lists[part[1] or "names"] = tuple(part[2].split(", "))
    keys = lists.get("keys", ())
    keys = (*(_keys.NAMES if ALL in keys else ()), *(key for key in keys if key != ALL))
    names, args, there, family = (lists.get(kind, ()) for kind in ("names", "args", "locals", "family"))
    return Needs(file, found[1], names, keys, args, there, "".join(family))


def read(file: str, text: str) -> tuple[list[str], list[str | Needs]]:
    """The names that a file gives, and its other lines."""
    lines = text.splitlines()
    gives = [name for line in lines if line.startswith(_GIVES) for name in line[len(_GIVES) :].split(", ")]
    return gives, [needs(file, line) or line for line in lines if not line.startswith(_GIVES)]


@dataclass(frozen=True, eq=False)
class Fragment:
    """A file of `lua/lib`.

    Attributes:
        lines: its text, after the needs of the whole file.
        before: the fragments that must precede it.
        has_keys: whether it or one of its needs uses keys. Then it works on one queue.
        once: whether it is put first if it would be repeated.
    """

    lines: list[str | Needs]
    before: list[Fragment]
    has_keys: bool
    once: bool

    @property
    def code(self) -> list[str | Needs]:
        """Its lines without its comments."""
        return [line for line in self.lines if isinstance(line, Needs) or not line.lstrip().startswith("--")]


def library(texts: Mapping[str, str]) -> dict[str, Fragment]:
    """All fragments, by the names that they give, from the texts of the files.

    Raises:
        ValueError: a file gives no name, or another's name, or needs an unknown name; or there is a cycle.
    """
    files = {file: read(file, text) for file, text in texts.items()}
    giving: dict[str, str] = {}
    for file, (names, _) in files.items():
        if not names:
            raise ValueError(f"{file}.lua does not say what it gives")
        if twice := giving.keys() & names:
            raise ValueError(f"{giving[min(twice)]}.lua and {file}.lua both give {min(twice)}")
        giving |= dict.fromkeys(names, file)
    needed = {
        file: [other for line in lines if isinstance(line, Needs) for other in line.among(giving)]
        for file, (_, lines) in files.items()
    }
    found: dict[str, Fragment] = {}
    try:
        for file in TopologicalSorter(needed).static_order():
            names, lines = files[file]
            found |= dict.fromkeys(names, _fragment(lines, found))
    except CycleError as error:
        raise ValueError(f"{' needs '.join(reversed(error.args[1]))}: a cycle") from None
    return found


def _fragment(lines: list[str | Needs], others: Mapping[str, Fragment]) -> Fragment:
    """Make a fragment from its lines and its needs."""
    needs = [line for line in lines if isinstance(line, Needs)]
    first = [line for line in needs if not line.indent]
    above = [one for line in first for one in reversed(line.among(others))]
    before = dict.fromkeys(each for one in above for each in (*one.before, one))
    has_keys = any(line.keys or any(one.has_keys for one in line.among(others)) for line in needs)
    rest = [line for line in lines if line != _ONCE and (isinstance(line, str) or line.indent)]
    return Fragment([*first, *rest], list(before), has_keys, _ONCE in lines)
