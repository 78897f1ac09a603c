"""The results of all mutants, by file."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from rich.table import Table

from tests.proofs.mutants.explained import is_explained
from tests.proofs.mutants.mutate import Mutant
from tests.proofs.mutants.results import Results

FATES = ("killed", "explained", "survived", "unsettled", "not tried")
HEADS = ("file", "mutants", *FATES, "killed of the tried")


def by_file(mutants: Sequence[Mutant], results: Results) -> Table:
    """A row a file, and the sums."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in HEADS:
        table.add_column(head, justify="left" if head == "file" else "right")
    of_file: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        of_file[mutant.file].append(mutant)
    for file, its in sorted(of_file.items()):
        table.add_row(file, *_cells(its, results))
    table.add_row("all", *_cells(mutants, results), style="bold")
    return table


def _cells(mutants: Sequence[Mutant], results: Results) -> list[str]:
    count = Counter(fate(mutant, results) for mutant in mutants)
    tried = len(mutants) - count["not tried"]
    rate = f"{count['killed'] / tried:.1%}" if tried else "-"
    return [str(len(mutants)), *(str(count[head]) for head in FATES), rate]


def fate(mutant: Mutant, results: Results) -> str:
    """What became of it, in a word of the table."""
    result = results.of(mutant)
    if result is None:
        return "not tried"
    return "explained" if result.outcome != "killed" and is_explained(mutant) else result.outcome
