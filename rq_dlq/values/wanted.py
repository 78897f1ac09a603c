"""The parts of a message to fetch, so that bodies are read only if they are needed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

_RECORDS = ("no", "head", "whole")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Parts of a message; `|` joins them.

    Attributes:
        record: "head" is the server's part, times and flags; "whole" includes headers and body.
        state: the state of the message, and its counts.
        history: its events.
    """

    record: Literal["whole", "head", "no"] = "whole"
    state: bool = True
    history: bool = True

    def __or__(self, other: Wanted) -> Wanted:
        more = _RECORDS.index(self.record) >= _RECORDS.index(other.record)
        record = self.record if more else other.record
        return Wanted(record, self.state or other.state, self.history or other.history)


NOTHING = Wanted("no", state=False, history=False)
HEAD = Wanted("head", state=False, history=False)
RECORD = Wanted("whole", state=False, history=False)
STATE = Wanted("no", state=True, history=False)
STORY = Wanted("no", state=True, history=True)
ALL = Wanted()


def together(parts: Iterable[Wanted]) -> Wanted:
    """The union of these parts."""
    wanted = NOTHING
    for part in parts:
        wanted |= part
    return wanted
