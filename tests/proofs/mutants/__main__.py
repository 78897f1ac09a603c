"""Does the suite see faults in the Lua? Each mutant is a module with one fault, and has to make a test fail.

make mutants, or

python -m tests.proofs.mutants claim deliver          # of these modules only
python -m tests.proofs.mutants --list claim           # what there is
python -m tests.proofs.mutants --mutant claim:12      # one, and what fails on it
python -m tests.proofs.mutants --known                # those that tests have killed before, on these tests
python -m tests.proofs.mutants --seed 7 --within 140  # as many as time allows, drawn by a seed

What was killed stays so for as long as its file is as it was; the others are tried again.
"""

from __future__ import annotations

import json
import random
import signal
import sys
from collections import Counter
from dataclasses import asdict

import click
import pytest
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.proofs.mutants.campaign import KEPT, Limits, core_sample, sample, try_them
from tests.proofs.mutants.collected import CORE, WHOLE, with_tests
from tests.proofs.mutants.explained import change, is_explained, outdated
from tests.proofs.mutants.mutate import Mutant, files, mutants
from tests.proofs.mutants.results import Result, Results, killers, note_killers
from tests.proofs.mutants.table import by_file, fate


@click.command()
@click.argument("names", nargs=-1)
@click.option("--mutant", help="This one only, as FILE:NUMBER.")
@click.option("--list", "listed", is_flag=True, help="Only say what there is.")
@click.option("--fresh", is_flag=True, help="Forget what former runs found.")
@click.option("--patience", default=90.0, show_default=True, help="Seconds for one mutant.")
@click.option("--seed", type=int, help="A sample, drawn by this, of those that are not explained.")
@click.option("--within", type=float, help="Seconds for the sample.")
@click.option("--known", is_flag=True, help="Those that a test has killed before: is each still killed?")
@click.option("--core", is_flag=True, help="A handful: a write left out in each file of the core.")
@click.option("--json", "as_json", is_flag=True, help="The results as JSON, a line each.")
def main(
    names: tuple[str, ...],
    mutant: str | None,
    seed: int | None,
    within: float | None,
    patience: float,
    *,
    listed: bool,
    fresh: bool,
    known: bool,
    core: bool,
    as_json: bool,
) -> None:
    """Try all mutants, or those of some files."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that servers and forks are ended, too
    every = [found for file in files() for found in mutants(file)]
    held = killers()
    chosen = [it for it in every if not names or it.file in names]
    if mutant is not None:
        chosen = [it for it in every if it.name == mutant]
    if known:
        chosen = [it for it in chosen if it.mark in held]
    if not chosen:
        message = "no such mutant: see --list"
        raise click.BadParameter(message)
    if listed:
        click.echo("\n".join(map(str, chosen)))
        return
    limits = Limits(mutant=patience)
    drawn = seed is not None
    results = Results(None if drawn or known or mutant else KEPT / "results.jsonl", fresh=fresh)
    if seed is not None and core:
        chosen, limits = core_sample(chosen, seed), Limits(mutant=60, observing=0)
    elif seed is not None:
        chosen = sample(chosen, seed)
        limits = Limits(mutant=patience, observing=(within or 140) * 0.25, whole=within or 140)
    todo = [it for it in chosen if (old := results.of(it)) is None or old.outcome != "killed"]
    if seed is None:  # in no order, so that a run that is broken off has seen a fair part of each file
        random.Random(0).shuffle(todo)
        # Those that are held are first, since they are quick; what is explained takes longest.
        todo.sort(key=lambda it: (results.of(it) is not None, is_explained(it), it.mark not in held))
    only = set(held.values()) if known else None
    found = _try(todo, results, limits, CORE if core else WHOLE, only)
    if not (drawn or known) and mutant is None:
        note_killers(every, results)
    if as_json:
        click.echo("\n".join(json.dumps(asdict(result)) for result in found))
        return
    sys.exit(_tell(every, chosen, results, drawn=drawn))


def _try(
    todo: list[Mutant], results: Results, limits: Limits, paths: tuple[str, ...], only: set[str] | None
) -> list[Result]:
    """Try them on the tests in these paths, or on those of these names among them."""
    columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn())
    found: list[Result] = []
    # Nothing is drawn by a thread: there must be none, as there are forks.
    with Progress(*columns, console=Console(stderr=True), auto_refresh=False) as progress:
        tasks = {name: progress.add_task(name, total=None) for name in ("tests", "mutants")}

        def say(what: str, done: int, of: int) -> None:
            progress.update(tasks[what], completed=done, total=of, refresh=True)

        def work(items: list[pytest.Item]) -> None:
            chosen = items if only is None else [item for item in items if item.nodeid in only]
            found.extend(try_them(chosen, todo, results, limits, say))

        if code := with_tests(work, paths):
            click.echo(f"the harness failed; pytest ended with {code!r}", err=True)
            sys.exit(code)
    return found


def _tell(every: list[Mutant], chosen: list[Mutant], results: Results, *, drawn: bool) -> int:
    """The table, what survived, and which explanation does not hold; the exit code."""
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    console.print(by_file(chosen, results))
    fates = Counter(fate(mutant, results) for mutant in chosen)
    for mutant in chosen:
        if fate(mutant, results) in {"survived", "unsettled"}:
            console.print(f"{fate(mutant, results)}: {mutant}", markup=False)
    wrong = [f"there is no such mutant any more: {gone}" for gone in outdated(every)]
    wrong += [
        f"explained, and killed after all: {change(it)}"
        for it in chosen
        if is_explained(it) and (result := results.of(it)) and result.outcome == "killed"
    ]
    for line in wrong:
        console.print(line, markup=False)
    return int(bool(wrong or fates["survived"] or (fates["unsettled"] and not drawn)))


if __name__ == "__main__":
    main()
