"""Key presses in `rq-dlq top`."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from rq_dlq.cli.top.tables import SORTS, Look

SEQUENCE = re.compile(r"\x1b[\[O][0-9;]*[~A-Za-z]")  # the sequence of a special key
ESCAPE, ENTER, ERASE = "\x1b", "\r\n", "\x7f\b"


@dataclass
class Controls:
    """The choices that the user makes with keys.

    Attributes:
        typing: a filter is being typed.
        quit: the user wants to leave.
    """

    look: Look
    typing: bool = False
    quit: bool = False

    def press(self, typed: str) -> None:
        """Handle the keys typed since the last call; arrows and other special keys are ignored."""
        for key in SEQUENCE.sub("", typed):
            if key == ESCAPE:
                self.look, self.typing = replace(self.look, filter=""), False
            elif self.typing:
                self._type(key)
            elif key in "qQ":
                self.quit = True
            elif key == "s":
                names = [*SORTS]
                after = names[(names.index(self.look.sort) + 1) % len(names)]
                self.look = replace(self.look, sort=after)
            elif key == "/":
                self.typing = True

    def _type(self, key: str) -> None:
        if key in ENTER:
            self.typing = False
        elif key in ERASE:
            self.look = replace(self.look, filter=self.look.filter[:-1])
        elif key.isprintable():
            self.look = replace(self.look, filter=self.look.filter + key)

    def __str__(self) -> str:
        if self.typing:
            return f"filter: {self.look.filter}_   Enter keeps it, Esc clears it"
        filtered = f": {self.look.filter}, Esc clears it" if self.look.filter else ""
        return f"q quit   s sort: {self.look.sort}   / filter{filtered}"
