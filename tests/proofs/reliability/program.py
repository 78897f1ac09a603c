"""Runs rows one after the other, and writes down what came of them."""

from __future__ import annotations

import logging
import platform
import secrets
import subprocess
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import pytest
import redis
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tests.proofs.reliability.row import Row, Run, Scale
from tests.proofs.reliability.table import Result, State, as_markdown, from_markdown, summary
from tests.servers import binary, needed

PAGE = Path(__file__).parents[3] / "docs" / "reliability.md"
BEGIN, END = "<!-- table -->", "<!-- end of table -->"


def run_rows(rows: Sequence[Row], scale: Scale, seed: int | None) -> list[Result]:
    """Run them, and show how far they have come."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(20),
        TimeElapsedColumn(),
        TextColumn("{task.fields[what]}", markup=False),
    )
    results: list[Result] = []
    log = logging.getLogger("rq_dlq")
    log.addHandler(logging.NullHandler())  # it warns of what a row does on purpose
    log.propagate = False
    with Progress(*columns, console=Console(stderr=True)) as progress:
        for row in rows:
            task = progress.add_task(f"{row.name} {row.fault}", total=None, what="")
            results.append(
                run_row(row, scale, secrets.randbelow(1 << 31) if seed is None else seed, progress, task)
            )
            progress.update(task, total=1, completed=1, what=results[-1].state)
            if not progress.console.is_terminal:  # which shows it meanwhile
                progress.console.print(f"{row.name}: {results[-1].state}, {results[-1].seconds:.0f} s")
    return results


def run_row(row: Row, scale: Scale, seed: int, progress: Progress, task: object) -> Result:
    """Run one; what ends it by an error is at least not met. Some find out only here that they cannot run."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rq-dlq-", ignore_cleanup_errors=True) as directory:
        try:
            if reason := row.missing():
                return Result(row, "not run", None, seed, 0.0, reason)
            figures = row.run(Run(scale, seed, Path(directory), progress, task, row.clustered))  # type: ignore[arg-type]
        except pytest.skip.Exception as lacking:
            return Result(row, "not run", None, seed, 0.0, str(lacking).partition("\n")[0])
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - the other rows are to run, too
            progress.console.print(traceback.format_exc(), markup=False)
            said = f"{type(error).__name__}: {error}".partition("\n")[0]
            return Result(row, "broke off", None, seed, time.monotonic() - began, said)
    state: State = "met" if figures.met and figures.trials else "not met"
    return Result(row, state, figures, seed, time.monotonic() - began, figures.note)


def failed(results: Sequence[Result]) -> bool:
    """Whether a goal was missed; or nothing was tried, though there is something to try."""
    states = {result.state for result in results if not result.row.unbuilt}
    return not states <= {"met", "not run"} or states == {"not run"}


def write_page(results: Sequence[Result], *, whole: bool, page: Path = PAGE) -> None:
    """Put the results into the table of the page, and say on what it was made.

    Args:
        whole: no other row is left there.
    """
    before, rest = page.read_text().split(BEGIN)
    table, after = rest.split(END)
    rows = {} if whole else {row[0]: row for row in from_markdown(table)}
    rows |= {result.row.name: result.cells() for result in results}
    server = server_version() if binary() else "no Redis"
    made_on = f"{server}, redis-py {redis.__version__}, Python {platform.python_version()}"
    lines = (f"{made_on}. {summary([*rows.values()])}", "", as_markdown([*rows.values()]))
    text = "\n".join((BEGIN, "", *lines, "", END))
    page.write_text(before + text + after)


def server_version() -> str:
    """Of the server that the rows start; where there is none the row is skipped."""
    told = subprocess.run([needed(), "--version"], capture_output=True, text=True, check=False)
    return " ".join(("Redis", *(word[2:] for word in told.stdout.split() if word.startswith("v="))))
