"""How things look: as tables for people, as JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rq_dlq.values.readable import body_of, span
from rq_dlq.values.visible import visible, visible_json, visible_line

if TYPE_CHECKING:
    from rq_dlq.values.counts import ErrorGroup, QueueStats
    from rq_dlq.values.message import DeadLetter, Received
    from rq_dlq.values.overview import UnreachableQueue

UNKNOWN_WIDTH = 1_000  # columns where the output is not a terminal: nothing is cut off in a file
MOST_OF_A_CELL = 300  # characters of a cell that a table shows
ANY_WIDTH = 100_000  # columns, more than a table has
INDENT = 4  # columns, of what is below a row
WHOLE = ("id", "job", "group")  # what a person copies: never cut, however narrow the terminal
SPANS = ("oldest", "next_due", "delay", "ago", "age", "up")  # seconds
NESTED = ("totals", "headers", "sums", "versions", "consumers")  # shown line by line
Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """One column of a table: a key of its rows, and how it is shown.

    Attributes:
        key: of a row.
        style: of its cells.
        title: the heading; empty: the key.
        cut: keep a cell on one line, and cut off what does not fit into the terminal.
        wrap: a cell may have several lines.
        below: a cell stands below its row, where the table is too wide for the terminal. The columns that
            are not below do not wrap.
    """

    key: str
    style: str = ""
    title: str = ""
    cut: bool = False
    wrap: bool = False
    below: bool = False

    def cell(self, row: Row) -> Text:
        """The cell of a row."""
        value = row[self.key]
        shown = (
            f"{value.astimezone():%m-%d %H:%M:%S}"
            if isinstance(value, datetime)
            else text_of(self.key, value)
        )
        if len(shown) > MOST_OF_A_CELL:
            shown = f"{shown[:MOST_OF_A_CELL]}…"
        style = "dim" if value in (0, None) else self.style
        shown = visible(shown) if self.wrap else visible_line(shown)
        return Text(shown, style, no_wrap=not self.wrap, overflow=None if self.wrap else "ellipsis")


def text_of(key: str, value: Any) -> str:
    """A value as people read it."""
    if value is None:
        return "-"
    if key in SPANS:
        return span(value)
    if isinstance(value, datetime):
        return f"{value.astimezone():%Y-%m-%d %H:%M:%S}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else as_json(value)


def as_json(value: Any) -> str:
    """A value as JSON, in one line."""
    return visible_json(msgspec.json.encode(value).decode())


QUEUES = (
    Column("name", "bold", wrap=True), Column("paused", "bold yellow"), Column("ready"), Column("scheduled"),
    Column("leased"), Column("dead", "red"), Column("expired", "yellow"), Column("oldest"),
    Column("next_due"),
)  # fmt: skip
MESSAGES = (
    Column("id", "bold"), Column("enqueued_at"), Column("delivery_count", title="tries"),
    Column("priority"), Column("body", cut=True),
)  # fmt: skip
LETTERS = (
    Column("id", "bold"), Column("died_at"), Column("delivery_count", title="tries"),
    Column("reason", "red"), Column("error", cut=True),
)  # fmt: skip
GROUPS = (
    Column("group", "bold cyan"), Column("count"), Column("last_hour"), Column("trend", "bold yellow"),
    Column("reason", "red"), Column("last_seen"), Column("error", cut=True, below=True),
)  # fmt: skip
HISTORY = (
    Column("delivery", title="try"), Column("event", "bold"), Column("at"), Column("delay"),
    Column("consumer"), Column("error", wrap=True),
)  # fmt: skip
SCHEDULES = (
    Column("queue", wrap=True), Column("name", "bold", wrap=True), Column("rule", wrap=True),
    Column("missed"), Column("next_at"), Column("last_at"), Column("paused", "bold yellow"),
    Column("declared"),
)  # fmt: skip
OUTCOMES = (
    Column("at"), Column("event", "bold"), Column("id"), Column("attempt", title="try"), Column("age"),
    Column("delay"), Column("reason", "red"), Column("cause"), Column("error_class", cut=True),
)  # fmt: skip


def attributes(thing: object, *names: str) -> dict[str, Any]:
    """Some attributes, by their names."""
    return {name: getattr(thing, name) for name in names}


def queue_row(stats: QueueStats) -> dict[str, Any]:
    """A queue's counts."""
    return attributes(stats, *(column.key for column in QUEUES)) | {"totals": dict(stats.totals)}


def unreachable_row(queue: UnreachableQueue) -> dict[str, Any]:
    """A queue that cannot be read."""
    return {"name": queue.name, "unreachable": queue.why, "error": queue.error}


def message_row(message: Received[Any]) -> dict[str, Any]:
    """A message, with its body as far as it can be decoded."""
    names = ("id", "queue", "priority", "enqueued_at", "expires_at", "delivery_count", "charged")
    return attributes(message, *names) | {"headers": dict(message.headers), "body": body_of(message)}


def letter_row(letter: DeadLetter[Any]) -> dict[str, Any]:
    """A dead letter."""
    row = message_row(letter) | attributes(letter, "reason", "died_at", "redriven")
    return row | {"group": letter.fingerprint, "error": str(letter.cause)}


def history_rows(message: Received[Any]) -> list[dict[str, Any]]:
    """The history of a message."""
    return [
        attributes(event, "event", "at", "delivery", "delay", "consumer")
        | {"error": str(event.cause), "traceback": event.cause.traceback}
        for event in message.history
    ]


def group_row(group: ErrorGroup) -> dict[str, Any]:
    """Dead letters of one kind."""
    names = ("reason", "error", "count", "last_hour", "first_seen", "last_seen", "sample_id")
    row = {"group": group.fingerprint} | attributes(group, *names) | {"trend": ", ".join(group.trends)}
    return row | {"versions": dict(group.versions), "consumers": dict(group.consumers)}


def table_of(rows: Sequence[Row], columns: Sequence[Column], space: int = 2) -> Table:
    """Rows as a table without a frame; numbers are right-aligned, with so much space between columns."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, space, 0, 0))
    for column in columns:
        number = any(isinstance(row[column.key], int | float) for row in rows)
        table.add_column(
            column.title or column.key.replace("_", " "),
            justify="right" if number else "left",
            no_wrap=not (column.wrap or column.cut),  # columns that may wrap or be cut get narrower first
            overflow="fold" if column.wrap else "ellipsis",
            min_width=max(column.cell(row).cell_len for row in rows) if column.key in WHOLE else None,
        )
    for row in rows:
        table.add_row(*(column.cell(row) for column in columns))
    return table


@dataclass
class Output:
    """Where data and messages for people go, and in which format.

    Attributes:
        format: table, json or jsonl.
        stdout: for data.
        stderr: for messages for people.
    """

    format: str = "table"
    stdout: Console = field(default_factory=lambda: Output.console(stderr=False))
    stderr: Console = field(default_factory=lambda: Output.console(stderr=True))

    @staticmethod
    def console(*, stderr: bool, no_color: bool | None = None) -> Console:
        """A console that cuts nothing off where the output is not a terminal."""
        console = Console(stderr=stderr, highlight=False, no_color=no_color)
        if not console.is_terminal:
            console.width = UNKNOWN_WIDTH
        return console

    def plain(self) -> None:
        """Use no colours."""
        self.stdout = self.console(stderr=False, no_color=True)
        self.stderr = self.console(stderr=True, no_color=True)

    def rows(self, rows: Sequence[Row], columns: Sequence[Column], none: str) -> None:
        """Write rows; in place of an empty table, print `none` for the user."""
        if self.format == "jsonl":
            for row in rows:
                self._write(as_json(row))
        elif self.format == "json":
            self._write(msgspec.json.format(as_json(rows)))
        elif rows:
            self._table(rows, columns)
        else:
            self.say(none)

    def _table(self, rows: Sequence[Row], columns: Sequence[Column]) -> None:
        """Write a table; where it is too wide, its columns are closer, or some come below the rows."""
        table, closer = table_of(rows, columns), table_of(rows, columns, space=1)
        below = [column for column in columns if column.below]
        if not below or self._fits(table) or self._fits(closer):
            self.stdout.print(table if self._fits(table) else closer)
        else:
            self._table_with(below, rows, [column for column in columns if not column.below])

    def _table_with(self, below: Sequence[Column], rows: Sequence[Row], columns: Sequence[Column]) -> None:
        """Write a table, and below each of its rows the cells of more columns."""
        heading, *lines = self.stdout.render_lines(table_of(rows, columns, space=1), pad=False)
        self.stdout.print(Text.assemble(*((part.text, part.style or "") for part in heading)))
        for line, row in zip(lines, rows, strict=True):
            shown = Text.assemble(*((part.text, part.style or "") for part in line))
            cells = [cell for column in below for cell in self._indented(column, row)]
            self.stdout.print(shown, *cells, sep="\n", no_wrap=True, overflow="ellipsis")

    def _indented(self, column: Column, row: Row) -> list[Text]:
        """The lines of a cell below its row; none if it is empty."""
        cell = column.cell(row)
        lines = cell.wrap(self.stdout, self.stdout.width - INDENT) if column.wrap else [cell]
        return [Text(" " * INDENT).append_text(line) for line in lines if line]

    def _fits(self, table: Table) -> bool:
        """Whether no cell is broken or cut off."""
        wide = self.stdout.options.update(max_width=ANY_WIDTH)
        return self.stdout.measure(table, options=wide).maximum <= self.stdout.width

    def record(self, row: Row) -> None:
        """Write one thing with all its fields."""
        if self.format != "table":
            text = as_json(row)
            self._write(text if self.format == "jsonl" else msgspec.json.format(text))
            return
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True, style="dim")
        table.add_column(overflow="fold")
        for name, value in row.items():
            inner: Mapping[str, Any] = {"": value}
            if isinstance(value, dict) and name in NESTED:
                inner = cast("dict[str, Any]", value)
            for key, part in inner.items():
                title = f"{name} {key}".strip().replace("_", " ")
                table.add_row(Text(visible(title)), Text(visible(text_of(name, part))))
        self.stdout.print(table)

    def message(self, row: Row, message: Received[Any]) -> None:
        """Write a message with its history."""
        history = history_rows(message)
        if self.format != "table":
            self.record({**row, "history": history})
            return
        self.record(row)
        if history:
            self.stdout.print()
        self.rows(history, HISTORY, "it has no history")

    def either(self, text: str, row: Row) -> None:
        """Write the text for people, or the same as a record for programs."""
        if self.format == "table":
            self.tell(text)
        else:
            self.record(row)

    def say(self, text: str) -> None:
        """Print a message for the user, on stderr."""
        self.stderr.print(visible(text), markup=False, soft_wrap=True)

    def tell(self, text: str, style: str = "") -> None:
        """Write text for people to stdout, unchanged."""
        self.stdout.print(visible(text), markup=False, style=style or None, soft_wrap=True)

    def _write(self, text: str) -> None:
        self.stdout.out(text, highlight=False)
