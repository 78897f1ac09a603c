"""Shows the figures as a table with bars or as JSON, and as a picture."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from rq_dlq.cli._show import Column, table_of

if TYPE_CHECKING:
    from pathlib import Path

    from rq_dlq.cli._show import Output, Row
    from rq_dlq.cli.bench.figures import Figure

LEAST, BAR = 5, 20  # characters
SPACE = 2  # between two columns
WIDTH = 120  # columns of a picture
FIGURES = (
    Column("figure", wrap=True), Column("here"), Column("limit"), Column("share", "cyan", title="of it"),
    Column("limit_is", "dim", title="the limit is", wrap=True, below=True),
)  # fmt: skip


def watched(output: Output, figures: Iterable[Figure]) -> list[Figure]:
    """All figures. On a terminal, the newest is shown while the next is measured."""
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
    """Write the figures, and the picture if a file is given."""
    if output.format == "table":
        output.rows(rows_of(figures, output.stdout.width), FIGURES, "")
    else:
        for_programs = [asdict(figure) | {"share": figure.share} for figure in figures]
        output.rows(for_programs, (), "")
    if svg is not None:
        console = Console(record=True, width=WIDTH, file=io.StringIO())
        console.print(table_of(rows_of(figures, WIDTH), FIGURES))
        svg.write_text(console.export_svg(title="rq-dlq bench"))
        output.say(f"wrote {svg}")


def with_unit(figure: Figure, value: float | None = None) -> str:
    """A value with its unit."""
    number = figure.value if value is None else value
    digits = 2 if figure.unit in {"ms", "times"} else 0
    space = "" if figure.unit == "/s" else " "
    return f"{number:,.{digits}f}{space}{figure.unit}"


def rows_of(figures: list[Figure], width: int) -> list[Row]:
    """The figures with their limits, and bars if they fit."""
    here = [with_unit(figure) for figure in figures]
    limits = ["" if figure.limit is None else with_unit(figure, figure.limit) for figure in figures]
    longest = max(len(figure.name) for figure in figures), max(map(len, here)), max(map(len, limits))
    bar = max(LEAST, min(BAR, width - sum(longest) - len(" 100%") - 3 * SPACE))
    return [
        {
            "figure": figure.name,
            "here": value.rjust(longest[1]),
            "limit": limit.rjust(longest[2]),
            "share": _bar(figure.share, bar),
            "limit_is": figure.limit_is,
        }
        for figure, value, limit in zip(figures, here, limits, strict=True)
    ]


def _bar(share: float | None, length: int) -> str:
    if share is None:
        return ""
    full = round(min(share, 1) * length)
    return f"{'█' * full}{'░' * (length - full)} {share:4.0%}"
