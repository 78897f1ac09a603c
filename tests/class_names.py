"""Names of classes that more than one module of the package gives to a class of its own.

A reader who meets such a name must first find out which one it is. Not counted are the colours, of which one
is generated from the other, a subclass of the class whose name it has, and what Django looks up by its name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from tests.colours_twin import ROOMS
from tests.room_imports import parsed

DJANGO = {"Command", "Meta", "Migration"}

KNOWN = {
    "Outbox": "one, for SQLAlchemy and for Django",
    "OutboxRow": "one, as a value and as a model of Django",
}
"""Names that are left, and the one thing that they mean. Users have imported them; this only falls."""


def defined_twice(files: Mapping[str, str]) -> dict[str, list[str]]:
    """By name without a leading underscore, where the classes are, of Python files by their paths."""
    found: dict[str, dict[str, str]] = {}
    for path, text in files.items():
        for name, line in _classes(path, text):
            found.setdefault(name.lstrip("_"), {}).setdefault(_awaiting(path), f"{path}:{line} {name}")
    return {name: [*places.values()] for name, places in sorted(found.items()) if len(places) > 1}


def _classes(path: str, text: str) -> Iterator[tuple[str, int]]:
    fixed = DJANGO if path.startswith("rq_dlq/django/") else set[str]()
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.ClassDef) and node.name not in _bases(node) | fixed:
            yield node.name, node.lineno


def _bases(node: ast.ClassDef) -> set[str]:
    """The last part of the name of each base."""
    bases = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
    return {ast.unparse(base).rpartition(".")[2] for base in bases}


def _awaiting(path: str) -> str:
    """The path of its awaiting twin, or its own."""
    for awaiting, blocking in ROOMS.items():
        if path.startswith(f"{blocking}/"):
            return path.replace(blocking, awaiting, 1)
    return path
