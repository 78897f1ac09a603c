"""Prints the result of a run: the tables, and what the rules do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from rich.table import Table
from rich.text import Text

from rq_dlq.spark.pipeline.manifest import Kind
from rq_dlq.spark.pipeline.tables import kind_of
from rq_dlq.values.durations import human
from rq_dlq.values.visible import visible

if TYPE_CHECKING:
    from rich.console import Console

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
    for name in ("redriven" if settings.apply else "would be redriven", "quarantined"):
        table.add_column(name, justify="right")
    redriven = Counter(one.rule for one in summary.plan.redrives)
    for name, quarantined in summary.plan.quarantined.items():
        table.add_row(Text(name), f"{redriven[name]:,}", f"{quarantined:,}")
    return table
