"""The lines that each room of the product may have, in tests/rooms.toml, and what came when it grew."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass

from tests.checkout import ROOT

FIGURES = ROOT / "tests" / "rooms.toml"


@dataclass(frozen=True)
class Figures:
    """What tests/rooms.toml says.

    Attributes:
        lines: by room.
        grown: the rooms that have grown, one after the other, each with what came.
    """

    lines: Mapping[str, int]
    grown: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, text: str) -> Figures:
        """As the file has them."""
        found = tomllib.loads(text)
        return cls(found["lines"], tuple((one["room"], one["what"]) for one in found.get("grown", ())))

    def text(self) -> str:
        """The file, which `python -m tests.house` writes."""
        lines = [f'"{room}" = {count}\n' for room, count in sorted(self.lines.items())]
        grown = [
            f"\n[[grown]]\nroom = {json.dumps(room)}\nwhat = {json.dumps(what)}\n"
            for room, what in self.grown
        ]
        return f"# Written by `python -m tests.house`.\n\n[lines]\n{''.join(lines)}{''.join(grown)}"

    def shrunk(self, lines: Mapping[str, int]) -> Figures:
        """The lower figures of rooms that have shrunk, and none of rooms that went."""
        left = {room: min(count, lines[room]) for room, count in self.lines.items() if room in lines}
        return Figures(left, self.grown)

    def after(self, room: str, what: str, lines: Mapping[str, int]) -> Figures:
        """The figures once a room has grown."""
        return Figures({**self.lines, room: lines[room]}, (*self.grown, (room, what)))

    def raised_since(self, before: Figures) -> list[str]:
        """The rooms whose figure is higher than it was, without a word about what came."""
        new = {room for room, _ in self.grown[len(before.grown) :]}
        return [
            room
            for room, count in self.lines.items()
            if count > before.lines.get(room, 0) and room not in new
        ]


def figures() -> Figures:
    """Those of this checkout."""
    return Figures.of(FIGURES.read_text("utf-8"))


def allowed(figure: int) -> int:
    """The lines of a room with this figure: small changes are no capability."""
    return figure + max(10, figure // 50)


def too_large(lines: Mapping[str, int], known: Figures) -> list[str]:
    """The rooms that have more lines than they may, and what to do."""
    return [
        f"{room}: {count:,} of {most:,}; `python -m tests.house --grew {room} 'what came'`"
        for room, count in lines.items()
        if count > allowed(most := known.lines.get(room, 0)) or not most
    ]


def too_high(lines: Mapping[str, int], known: Figures) -> list[str]:
    """The rooms whose figure must fall."""
    return [room for room, figure in known.lines.items() if figure > allowed(lines.get(room, 0))]
