"""Does each row of `make reliability` see the bugs that it claims to exclude? Each is planted in turn.

make sabotage, or

python -m tests.proofs.sabotage T5 T29c           # the bugs of these rows; T29c: of T29, on a cluster
python -m tests.proofs.sabotage --bug "any token" # those whose name has this in it
python -m tests.proofs.sabotage --list            # what there is
"""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Iterable, Sequence

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tests.proofs.reliability.row import CLUSTERED
from tests.proofs.reliability.rows import all_rows
from tests.proofs.sabotage.bugs import Bug, planted
from tests.proofs.sabotage.trial import Verdict, tried

SEED = 20_261_121
STYLES = {"holds": "green", "died": "green"}


@click.command()
@click.argument("names", nargs=-1)
@click.option("--bug", "part", default="", help="Only those whose name has this in it.")
@click.option("--list", "listed", is_flag=True, help="Only say what there is.")
@click.option("--seed", default=SEED, show_default=True, help="Of the rows.")
@click.option("--patience", default=300.0, show_default=True, help="Seconds for one run of a row.")
def main(names: tuple[str, ...], part: str, seed: int, patience: float, *, listed: bool) -> None:
    """Run the rows, each as it is and with each of its bugs."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the row that runs is ended, too
    bugs_of = planted()
    if unknown := [name for name in names if name not in all_rows()]:
        message = f"no bugs for {', '.join(unknown)}: there are some for {', '.join(all_rows())}"
        raise click.BadParameter(message)
    chosen = {
        row: bugs
        for row in names or bugs_of
        if (bugs := [bug for bug in bugs_of[row.removesuffix(CLUSTERED)].bugs if part in bug.name])
    }
    if listed:
        for row, bug in ((row, bug) for row, bugs in chosen.items() for bug in bugs):
            click.echo(f"{row}  {bug.language:6}  {bug.name}")
        return
    console = Console(stderr=True)
    verdicts = [
        verdict for row, bugs in chosen.items() for verdict in _tried(row, bugs, seed, patience, console)
    ]
    Console(width=None if sys.stdout.isatty() else 200, highlight=False).print(
        shown(verdicts), summary(verdicts)
    )
    sys.exit(not verdicts or not all(verdict.well for verdict in verdicts))


def _tried(row: str, bugs: Iterable[Bug], seed: int, patience: float, console: Console) -> list[Verdict]:
    """A row as it is, and with each bug; none where it cannot be run here."""
    if reason := all_rows()[row].missing():
        console.print(f"{row}: not run: {reason}", markup=False)
        return []
    verdicts: list[Verdict] = []
    for bug in (None, *bugs):
        verdicts.append(tried(row, bug, seed, patience))
        name = bug.name if bug else "as it is"
        told = f"{row}, {name}: {verdicts[-1].fate}, {verdicts[-1].seconds:.0f} s: {verdicts[-1].said}"
        console.print(told, markup=False, highlight=False)
    return verdicts


def shown(verdicts: Sequence[Verdict]) -> Table:
    """For a terminal."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("row", "bug", "in", "fate", "died of", "s"):
        table.add_column(head, justify="right" if head == "s" else "left")
    for verdict in verdicts:
        name, language = (verdict.bug.name, verdict.bug.language) if verdict.bug else ("none", "")
        fate = Text(verdict.fate, STYLES.get(verdict.fate, "bold red"))
        table.add_row(verdict.row, Text(name), language, fate, Text(verdict.said), f"{verdict.seconds:.0f}")
    return table


def summary(verdicts: Sequence[Verdict]) -> str:
    """In a sentence: how many bugs died, in what time."""
    fates = Counter(verdict.fate for verdict in verdicts if verdict.bug)
    minutes, seconds = divmod(round(sum(verdict.seconds for verdict in verdicts)), 60)
    told = ", ".join(f"{number} {fate}" for fate, number in fates.items())
    return f"{fates.total()} bugs in {minutes} min {seconds} s: {told}."


if __name__ == "__main__":
    main()
