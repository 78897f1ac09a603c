"""The rows as a table: for a terminal, and for docs/migrating.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from tests.checkout import ROOT
from tests.proofs.live_brokers.facts import GRAVITY, Facts, Verdict, compare, shown
from tests.proofs.live_brokers.scenario import Scenario

PAGE = ROOT / "docs" / "migrating.md"
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

    def cells(self) -> list[str]:
        """As text."""
        compared = compare(self.there, self.here, self.scenario.reasons)
        by_reason: dict[str, list[str]] = {}
        for name, text in compared.why.items():
            by_reason.setdefault(text, []).append(name.replace("_", " "))
        why = "; ".join(f"{', '.join(names)}: {text}" for text, names in by_reason.items())
        return [self.scenario.told, shown(self.there), shown(self.here), compared.verdict, why]


@dataclass(frozen=True, slots=True)
class Part:
    """All rows beside one broker.

    Attributes:
        key: of its markers in the page.
        there: its name and version.
        here: ours.
    """

    key: str
    there: str
    here: str
    rows: Sequence[Row]

    @property
    def heads(self) -> list[str]:
        """Of the columns."""
        return ["scenario", self.there, self.here, "", "why"]

    def summary(self) -> str:
        """In a sentence."""
        verdicts = Counter(row.verdict for row in self.rows)
        told = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in GRAVITY if verdicts[verdict])
        again = sum(row.tries > 1 for row in self.rows)
        repeated = f" Rows that took more than one run: {again}." if again else ""
        return f"{len(self.rows)} scenarios beside {self.there}: {told}.{repeated}"

    def shown(self) -> Table:
        """For a terminal."""
        table = Table(*self.heads, header_style="bold", row_styles=["", "dim"])
        for row in self.rows:
            cells = row.cells()
            verdict = Text(row.verdict, STYLES[row.verdict])
            table.add_row(f"{row.scenario.name}\n{cells[0]}", *cells[1:3], verdict, cells[4])
        return table

    def as_markdown(self) -> str:
        """For the page."""
        lines = [self.heads, ["---"] * len(self.heads), *(row.cells() for row in self.rows)]
        escaped = ([cell.replace("|", "\\|") for cell in line] for line in lines)
        return "\n".join(f"| {' | '.join(cells)} |" for cells in escaped)


def markers(key: str) -> tuple[str, str]:
    """What is around a table in the page."""
    return f"<!-- beside {key} -->", f"<!-- end of beside {key} -->"


def with_table(text: str, part: Part) -> str:
    """The page with this table in the place of the one between its markers."""
    begin, end = markers(part.key)
    before, rest = text.split(begin)
    _, after = rest.split(end)
    return "\n".join((before + begin, "", part.summary(), "", part.as_markdown(), "", end + after))
