"""Shows the figures: a table with bars, JSON, a picture."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from pathlib import Path

    from rq_dlq.cli._show import Output
    from rq_dlq.cli.bench.figures import Figure

BAR = 20  # characters
WIDTH = 110  # of a picture


def watched(output: Output, figures: Iterable[Figure]) -> list[Figure]:
    """All figures; on a terminal the newest is shown while the next is measured."""
    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    found: list[Figure] = []
    shown = output.stderr.is_terminal
    with Progress(*columns, console=output.stderr, transient=True, disable=not shown) as progress:
        task = progress.add_task("the server itself", total=None)
        for figure in figures:
            found.append(figure)
            progress.update(task, description=f"{figure.name}: {with_unit(figure)}")
    return found


def show(output: Output, figures: list[Figure], svg: Path | None) -> None:
    """Write them, and the picture where one is wanted."""
    if output.format == "table":
        output.stdout.print(table(figures))
    else:
        for_programs = [asdict(figure) | {"share": figure.share} for figure in figures]
        output.rows(for_programs, (), "")
    if svg is not None:
        console = Console(record=True, width=WIDTH, file=io.StringIO())
        console.print(table(figures))
        svg.write_text(console.export_svg(title="rq-dlq bench"))
        output.say(f"wrote {svg}")


def with_unit(figure: Figure, value: float | None = None) -> str:
    """A value with its unit."""
    number = figure.value if value is None else value
    digits = 2 if figure.unit in {"ms", "times"} else 0
    space = "" if figure.unit == "/s" else " "
    return f"{number:,.{digits}f}{space}{figure.unit}"


def table(figures: list[Figure]) -> Table:
    """The figures, each beside its limit."""
    shown = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    shown.add_column("")
    shown.add_column("here", justify="right")
    shown.add_column("limit", justify="right")
    shown.add_column("of it")
    shown.add_column("the limit is", style="dim")
    for figure in figures:
        limit = "" if figure.limit is None else with_unit(figure, figure.limit)
        shown.add_row(figure.name, with_unit(figure), limit, _bar(figure.share), figure.limit_is)
    return shown


def _bar(share: float | None) -> Text:
    if share is None:
        return Text("")
    full = round(min(share, 1) * BAR)
    return Text.assemble(("█" * full, "cyan"), ("░" * (BAR - full), "dim"), f" {share:4.0%}")
