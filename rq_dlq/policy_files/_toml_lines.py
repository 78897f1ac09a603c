"""The line of each key in a TOML file, which the standard library's reader does not report."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Final, TypeAlias

Path: TypeAlias = tuple[str, ...]

BLANK: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
KEY: Final = re.compile(r"""[ \t]*("(?:\\.|[^"\\\n])*"|'[^'\n]*'|[A-Za-z0-9_-]+)[ \t]*(\.?)""")
PIECE: Final = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|'''
    r"""#[^\n]*|[\[\]{}]|\n|[^"'#\[\]{}\n]+""",
    re.DOTALL,
)


def lines_of(text: str) -> dict[Path, int]:
    """The line of each key and table, by its path; a key of an inline table has the table's line.

    Args:
        text: valid TOML.
    """
    lines: dict[Path, int] = {}
    table: Path = ()
    position = _skipped(text, 0)
    while position < len(text):
        line = text.count("\n", 0, position) + 1
        header = text[position] == "["
        if header:
            position += 2 if text.startswith("[[", position) else 1
        path, position = _key(text, position)
        if header:
            table = path
            position = text.find("\n", position) % (len(text) + 1)
        else:
            path = table + path
            position = _after_value(text, position + 1)
        for end in range(1, len(path) + 1):
            lines.setdefault(path[:end], line)
        position = _skipped(text, position)
    return lines


def line_of(lines: Mapping[Path, int], path: Path) -> int:
    """The line of a key, or of its table."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def _skipped(text: str, position: int) -> int:
    found = BLANK.match(text, position)
    return found.end() if found else position


def _key(text: str, position: int) -> tuple[Path, int]:
    """A dotted key as a path, and the position where it ends."""
    path: list[str] = []
    while found := KEY.match(text, position):
        position = found.end()
        word = found[1]
        path.append(str(tomllib.loads(f"key = {word}")["key"]) if word[0] in "\"'" else word)
        if not found[2]:
            break
    return tuple(path), position


def _after_value(text: str, position: int) -> int:
    """The end of the line where a value ends. A value may be a list that spans several lines."""
    depth = 0
    while found := PIECE.match(text, position):
        piece = found[0]
        if piece == "\n" and depth <= 0:
            break
        depth += (piece in "[{") - (piece in "]}")
        position = found.end()
    return position if position < len(text) and text[position] == "\n" else len(text)
