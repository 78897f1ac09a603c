"""The results as a table, for a terminal and for the page."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.table import Table
from rich.text import Text

from tests.proofs.reliability.row import Figures, Row

State = Literal["met", "not met", "broke off", "not run"]
STYLES = {"met": "green", "not met": "bold red", "broke off": "bold red", "not run": "yellow"}
COUNTS = ("trials", "acknowledged", "lost", "duplicated", "recovered", "early")
HEADS = ("", "fault", *COUNTS, "goal", "result", "seed", "s", "note")


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a row: `figures` where it ran to its end. `note`: or why it did not."""

    row: Row
    state: State
    figures: Figures | None
    seed: int
    seconds: float
    note: str

    def cells(self) -> list[str]:
        """As text."""
        counts = [getattr(self.figures, name, None) for name in COUNTS]
        numbers = ["-" if count is None else f"{count:,}" for count in counts]
        ran = self.state != "not run"
        rest = [self.state, str(self.seed) if ran else "", f"{self.seconds:.0f}" if ran else "", self.note]
        return [self.row.name, self.row.fault, *numbers, self.row.goal, *rest]


def shown(results: Sequence[Result]) -> Table:
    """For a terminal."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in HEADS:
        table.add_column(head, justify="right" if head in {*COUNTS, "seed", "s"} else "left")
    for result in results:
        cells = [
            Text(cell, STYLES[cell] if head == "result" else "")
            for head, cell in zip(HEADS, result.cells(), strict=True)
        ]
        table.add_row(*cells)
    return table


def summary(rows: Sequence[Sequence[str]]) -> str:
    """In a sentence: how many goals were met, in what time; rows as `Result.cells`."""
    states = Counter(row[HEADS.index("result")] for row in rows)
    minutes, seconds = divmod(sum(int(row[HEADS.index("s")] or 0) for row in rows), 60)
    told = ", ".join(f"{states[state]} {state}" for state in STYLES if states[state])
    return f"{len(rows)} rows in {minutes} min {seconds} s on {os.cpu_count()} cores: {told}."


def as_markdown(rows: Sequence[Sequence[str]]) -> str:
    """For the page; each row is repeated by `python -m tests.proofs.reliability NAME --seed SEED`."""
    rule = ["---:" if head in {*COUNTS, "seed", "s"} else "---" for head in HEADS]
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (HEADS, rule, *escaped))


def from_markdown(text: str) -> list[list[str]]:
    """The rows of such a table, wherever it stands in a text."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    rows = [re.split(r"(?<!\\) \| ", line.removeprefix("| ").removesuffix(" |")) for line in lines[2:]]
    return [[cell.replace("\\|", "|") for cell in row] for row in rows]
