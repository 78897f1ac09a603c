"""The rooms of the product, and what imports what.

A room is a folder or a module of the package itself. Imports in functions count, and so do those for type
checkers alone.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from graphlib import CycleError, TopologicalSorter

ENTRIES = {"__init__", "__main__"}
ONE_ROOM = {"asyncio": "client"}
"""The two colours of the façade count as one room of a subject."""
REGISTERS = {"rq_dlq._public", "rq_dlq._redis.roles"}
"""They name everything, a line each: what users import, and who may run what."""


@dataclass(frozen=True)
class Rooms:
    """The modules of the package: their texts, by their names."""

    modules: Mapping[str, str]

    @property
    def circle(self) -> list[str]:
        """Modules of which each imports the next, but not for types alone; empty: there is no circle."""
        modules = self.modules
        graph = {name: {*imported(text, modules, running)} - {name} for name, text in modules.items()}
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            return [*error.args[1][1:]]
        return []

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """By module: those that it imports."""
        return {name: {*imported(text, self.modules, ast.walk)} for name, text in self.modules.items()}

    @cached_property
    def uses(self) -> dict[str, set[str]]:
        """By room: those that it imports from."""
        uses: dict[str, set[str]] = {room_of(name): set() for name in self.modules}
        for name, used in self.imports.items():
            uses[room_of(name)] |= {room_of(other) for other in used} - {room_of(name)} - ENTRIES
        return {room: used for room, used in uses.items() if room not in ENTRIES}

    @property
    def arrows_up(self) -> list[str]:
        """The imports from a room to one that stands on it, over however many others."""
        return [
            f"{room} -> {other}"
            for room, used in self.uses.items()
            for other in used
            if room in self.under(other)
        ]

    def under(self, room: str) -> set[str]:
        """The rooms that a room stands on."""
        found: set[str] = set()
        new = self.uses[room]
        while new:
            found |= new
            new = {other for one in new for other in self.uses[one]} - found
        return found

    @property
    def floors(self) -> list[str]:
        """The longest way down, from room to room; where no arrow leads up, these are the floors."""
        ways = {room: [room] for room in self.uses}
        for _ in self.uses:
            ways = {
                room: [room, *max((ways[one] for one in used), key=len, default=[])]
                for room, used in self.uses.items()
            }
        return max(ways.values(), key=len)

    def lives_in(self, subject: str) -> list[str]:
        """The rooms that a subject of `core` lives in: they import its modules, or have one of its name."""
        home = f"rq_dlq.core.{subject}."
        found = {
            room_of(name)
            for name, used in self.imports.items()
            if name not in REGISTERS
            if is_named(name, subject) or any(f"{one}.".startswith(home) for one in (name, *used))
        }
        return sorted({ONE_ROOM.get(room, room) for room in found})


@cache
def parsed(text: str) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(text)


def module_of(path: str) -> str:
    """The name by which a file is imported."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def room_of(module: str) -> str:
    """What stands directly in the package."""
    return module.split(".")[1] if "." in module else "__init__"


def is_named(module: str, subject: str) -> bool:
    """Whether a module, or a folder that it is in, has the name of a subject, in the singular or plural."""
    return subject.removesuffix("s") in {part.strip("_").removesuffix("s") for part in module.split(".")}


def imported(
    text: str, modules: Mapping[str, str], nodes: Callable[[ast.AST], Iterator[ast.AST]]
) -> Iterator[str]:
    """The modules that a module imports in these nodes."""
    for node in nodes(parsed(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in modules or node.module in modules:
                    yield whole if whole in modules else node.module


def running(node: ast.AST) -> Iterator[ast.AST]:
    """All that is not under `if TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            yield child
            yield from running(child)
