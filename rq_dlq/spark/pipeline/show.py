"""Shows a run in a terminal: a line for each step while it lasts, then the tables."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from rq_dlq.spark.pipeline.ledger import QUARANTINE, REDRIVE
from rq_dlq.spark.pipeline.manifest import Kind
from rq_dlq.spark.pipeline.stages import Stage, Stages
from rq_dlq.spark.pipeline.tables import kind_of
from rq_dlq.values.durations import human
from rq_dlq.values.visible import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Task, TaskID

    from rq_dlq.spark.pipeline.run import Summary
    from rq_dlq.spark.pipeline.settings import PipelineSettings
    from rq_dlq.spark.pipeline.tables import Rows

MOST_ROWS: Final = 20
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "poison": (
        "queue", "fingerprint", "reason", "count", "share", "dead_now", "first_seen", "last_seen",
        "attempts_p50", "wasted_attempts", "error",
    ),
    "queues": (
        "queue", "succeeded", "redelivered", "died", "expired", "redelivery_ratio", "expiry_ratio",
        "success_ms_p50", "success_ms_p99", "waiting", "dead",
    ),
    "collisions": ("queue", "redeliveries", "colliding", "score", "largest", "largest_at"),
    "what_if": (
        "queue", "policy", "messages", "lost", "undecided", "attempts", "attempts_spared", "wait_seconds",
        "policy_wait_seconds",
    ),
}  # fmt: skip
TITLES: Final = {
    "poison": "Dead letters by kind",
    "queues": "Queues",
    "collisions": "Redeliveries in the same 100 ms",
    "what_if": "What other policies would have done",
}
TEXTS: Final = ("", "queue", "fingerprint", "reason", "error", "policy")
SHARES: Final = ("share", "redelivery_ratio", "expiry_ratio", "score")
SPANS: Final = {"success_ms_p50": 1, "success_ms_p99": 1, "wait_seconds": 1000, "policy_wait_seconds": 1000}
"""Columns with durations: the milliseconds in their unit."""


class _Bar(BarColumn):
    """A bar for the steps with a known total."""

    def render(self, task: Task) -> Any:
        return super().render(task) if task.fields["counted"] else Text("")


class _Count(MofNCompleteColumn):
    def render(self, task: Task) -> Text:
        return super().render(task) if task.fields["counted"] else Text("")


class _Shown(Stage):
    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def expect(self, total: int) -> None:
        self._progress.update(self._task, total=total, counted=True)

    def advance(self, count: int) -> None:
        self._progress.advance(self._task, count)

    def say(self, text: str) -> None:
        self._progress.update(self._task, now=text)


class ShownStages(Stages):
    """The steps of a run as progress lines."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    @staticmethod
    def progress(console: Console) -> Progress:
        """The progress display."""
        return Progress(
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.description}"),
            _Bar(bar_width=20),
            _Count(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[now]}", style="dim", markup=False),
            console=console,
        )

    @contextmanager
    def stage(self, name: str) -> Generator[Stage]:
        """Show one step as a line."""
        task = self._progress.add_task(name, total=None, now="", counted=False)
        yield _Shown(self._progress, task)
        total = self._progress.tasks[self._progress.task_ids.index(task)].total or 1
        self._progress.update(task, total=total, completed=total)


def show(console: Console, summary: Summary, settings: PipelineSettings) -> None:
    """Print the result of a run."""
    new = set(summary.new_kinds) if summary.run > 1 else set[Kind]()
    for name, rows in summary.tables.items():
        if rows:
            console.print()
            console.print(_table(TITLES[name], COLUMNS[name], rows, new))
    if settings.rules:
        console.print()
        console.print(_plan(summary, settings))
        if not settings.apply:
            console.print("Nothing was redriven: add --apply to do it.", style="yellow")


def _table(title: str, columns: tuple[str, ...], rows: Rows, new: set[Kind]) -> Table:
    table = _frame(title)
    marked = "error" in columns
    for name in ("", *columns) if marked else columns:
        justify: Literal["left", "right"] = "left" if name in TEXTS else "right"
        table.add_column(name.replace("_", " "), justify=justify, no_wrap=True, overflow="ellipsis")
    for row in rows[:MOST_ROWS]:
        cells = [_cell(row, name) for name in columns]
        if marked:
            cells.insert(0, Text("new" if kind_of(row) in new else "", "bold red"))
        table.add_row(*cells)
    if len(rows) > MOST_ROWS:
        table.caption = f"and {len(rows) - MOST_ROWS} more"
    return table


def _frame(title: str) -> Table:
    return Table(
        title=title,
        title_style="bold",
        title_justify="left",
        header_style="dim",
        box=None,
        padding=(0, 2, 0, 0),
    )


def _cell(row: Mapping[str, Any], name: str) -> Text:
    if name == "error":
        return Text(visible(": ".join(filter(None, (row["error_class"], row["error_message"])))))
    return Text("-", "dim") if row[name] is None else Text(visible(_text(name, row[name])))


def _text(name: str, value: Any) -> str:
    if name in SHARES:
        return f"{value:.1%}"
    if name in SPANS:
        ms = round(value * SPANS[name])
        return human(ms if ms < 10_000 else round(ms / 1_000) * 1_000)  # noqa: PLR2004 - ten seconds
    if isinstance(value, datetime):
        return f"{value:%m-%d %H:%M:%S}"
    if isinstance(value, str):
        return value
    return f"{value:,g}" if isinstance(value, float) else f"{value:,}"


def _plan(summary: Summary, settings: PipelineSettings) -> Table:
    table = _frame("Rules")
    table.add_column("rule", overflow="fold")
    for name in ("redriven" if settings.apply else "would be redriven", "quarantined", "quarantined before"):
        table.add_column(name, justify="right")
    for rule in settings.rules:
        counts = (summary.plan.count(action, rule.name) for action in (REDRIVE, QUARANTINE))
        before = summary.plan.quarantined.get(rule.name, 0)
        table.add_row(Text(rule.name), *(f"{count:,}" for count in (*counts, before)))
    return table
