"""The rows as a table for a terminal, and as data (`results.py`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from tests.proofs.live_brokers.facts import GRAVITY, Facts, Verdict, cells, compare, shown
from tests.proofs.live_brokers.scenario import Scenario

STYLES: Mapping[Verdict, str] = {
    "same": "green",
    "better on purpose": "green",
    "differs": "yellow",
    "unexplained": "bold red",
}


@dataclass(frozen=True, slots=True)
class Row:
    """A scenario, and what was seen on both sides.

    Attributes:
        tries: how often it was run; the last one counts.
    """

    scenario: Scenario
    there: Facts
    here: Facts
    seconds: float
    tries: int = 1

    @property
    def explained(self) -> bool:
        """Whether both sides did the same, or something says why not."""
        return self.verdict != "unexplained"

    @property
    def verdict(self) -> Verdict:
        """Of the gravest fact."""
        return compare(self.there, self.here, self.scenario.reasons).verdict

    def why(self) -> str:
        """The reason of each fact that differs, one reason once."""
        by_reason: dict[str, list[str]] = {}
        for name, text in compare(self.there, self.here, self.scenario.reasons).why.items():
            by_reason.setdefault(text, []).append(name.replace("_", " "))
        return "; ".join(f"{', '.join(names)}: {text}" for text, names in by_reason.items())

    def as_data(self) -> dict[str, Any]:
        """For a file."""
        data: dict[str, Any] = {"scenario": self.scenario.name, "about": self.scenario.told}
        data |= {"there": cells(self.there), "here": cells(self.here), "verdict": self.verdict}
        return data | ({"why": self.why()} if self.why() else {})


@dataclass(frozen=True, slots=True)
class Part:
    """All rows beside one broker.

    Attributes:
        key: of its file of results.
        there: its name and version.
        here: ours.
    """

    key: str
    there: str
    here: str
    rows: Sequence[Row]

    def summary(self) -> str:
        """In a sentence."""
        told = counted(row.verdict for row in self.rows)
        again = sum(row.tries > 1 for row in self.rows)
        repeated = f" Rows that took more than one run: {again}." if again else ""
        return f"{len(self.rows)} scenarios beside {self.there}: {told}.{repeated}"

    def shown(self) -> Table:
        """For a terminal."""
        heads = ("scenario", self.there, self.here, "", "why")
        table = Table(*heads, header_style="bold", row_styles=["", "dim"])
        for row in self.rows:
            verdict = Text(row.verdict, STYLES[row.verdict])
            name = f"{row.scenario.name}\n{row.scenario.told}"
            table.add_row(name, shown(row.there), shown(row.here), verdict, row.why())
        return table

    def as_data(self) -> dict[str, Any]:
        """For a file."""
        return {"there": self.there, "here": self.here, "rows": [row.as_data() for row in self.rows]}


def counted(verdicts: Iterable[str]) -> str:
    """How many there are of each, as "37 same, 6 differs"."""
    counts = Counter(verdicts)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in GRAVITY if counts[verdict])
