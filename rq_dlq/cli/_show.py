"""Output as tables for people, and as JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec
from rich.table import Table
from rich.text import Text

from rq_dlq.cli._console import SafeConsole
from rq_dlq.values.readable import body_of, many, span, utc, utc_short
from rq_dlq.values.visible import visible, visible_entry, visible_json, visible_line

if TYPE_CHECKING:
    from rich.console import Console

    from rq_dlq.core.queues.each import UnreachableQueue
    from rq_dlq.values.counts import ErrorGroup, QueueStats
    from rq_dlq.values.message import DeadLetter, Received

UNKNOWN_WIDTH = 1_000  # columns if the output is not a terminal: a file is not truncated
MOST_OF_A_CELL = 300  # the most characters of a cell that a table shows
INDENT = 4  # columns, for the lines below a row
WHOLE = ("id", "fingerprint")  # never truncated, since users copy them
SPANS = ("oldest", "next_due", "delay", "ago", "age", "up")  # seconds
NESTED = ("totals", "headers", "sums", "versions", "consumers")  # each entry is shown on a line
Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """One column of a table: a key of its rows, and its format.

    Attributes:
        key: the key of a row.
        style: the style of its cells.
        title: the heading; empty: the key.
        cut: keep a cell on one line, truncated to the terminal.
        wrap: a cell may have several lines.
        breaks: line breaks of the text stay; otherwise they are escaped, so that a row looks like one row.
        below: if the table is too wide for the terminal, the cell may move below its row: text alone, a
            number with its heading; 0 and empty text are left out. The last columns move first. Of the
            columns that remain, only the first may wrap: its long text is shown above the row.
    """

    key: str
    style: str = ""
    title: str = ""
    cut: bool = False
    wrap: bool = False
    breaks: bool = False
    below: bool = False

    @property
    def heading(self) -> str:
        """The heading of the column."""
        return self.title or self.key.replace("_", " ")

    def width(self, rows: Sequence[Row]) -> int:
        """The width at which no cell is broken or truncated."""
        return max(len(self.heading), *(self.cell(row).cell_len for row in rows))

    def cell(self, row: Row) -> Text:
        """The cell of a row."""
        value = row[self.key]
        shown = utc_short(value) if isinstance(value, datetime) else text_of(self.key, value)
        if len(shown) > MOST_OF_A_CELL:
            shown = f"{shown[:MOST_OF_A_CELL]}…"
        style = "dim" if value in (0, None) else self.style
        shown = visible(shown) if self.breaks else visible_line(shown)
        return Text(shown, style, no_wrap=not self.wrap, overflow=None if self.wrap else "ellipsis")


def text_of(key: str, value: Any) -> str:
    """A value as readable text."""
    if value is None:
        return "-"
    if key in SPANS:
        return span(value)
    if isinstance(value, datetime):
        return utc(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else as_json(value)


def as_json(value: Any) -> str:
    """A value as JSON, in one line."""
    return visible_json(msgspec.json.encode(value).decode())


QUEUES = (
    Column("name", "bold", wrap=True), Column("paused", "bold yellow", below=True), Column("ready"),
    Column("scheduled", below=True), Column("leased", below=True), Column("dead", "red"),
    Column("expired", "yellow", below=True), Column("oldest", below=True), Column("next_due", below=True),
)  # fmt: skip
MESSAGES = (
    Column("id", "bold"), Column("enqueued_at"), Column("attempt", title="tries"),
    Column("priority"), Column("body", cut=True),
)  # fmt: skip
HISTORY = (
    Column("delivery", title="try"), Column("event", "bold"), Column("at"), Column("delay"),
    Column("consumer"), Column("error", wrap=True, breaks=True),
)  # fmt: skip


def attributes(thing: object, *names: str) -> dict[str, Any]:
    """Some attributes, by name."""
    return {name: getattr(thing, name) for name in names}


def queue_row(stats: QueueStats) -> dict[str, Any]:
    """A queue's counts."""
    counts = attributes(stats, "name", "paused", "until", *(column.key for column in QUEUES))
    return counts | {"totals": dict(stats.totals)}


def unreachable_row(queue: UnreachableQueue) -> dict[str, Any]:
    """A queue that cannot be read."""
    return {"name": queue.name, "unreachable": queue.why, "error": queue.error}


def message_row(message: Received[Any]) -> dict[str, Any]:
    """A message, with its body if that can be decoded."""
    names = ("id", "queue", "priority", "enqueued_at", "expires_at", "attempt", "delivery_count", "charged")
    more = {"headers": dict(message.headers), "body": body_of(message)}
    return attributes(message, *names, "key", "dependency") | more


def letter_row(letter: DeadLetter[Any]) -> dict[str, Any]:
    """A dead letter."""
    row = message_row(letter) | attributes(letter, "reason", "died_at", "redriven")
    return row | {"fingerprint": letter.fingerprint, "error": str(letter.cause)}


def history_rows(message: Received[Any]) -> list[dict[str, Any]]:
    """The history of a message."""
    names = ("event", "at", "delivery", "delay", "consumer")
    causes = ({"error": str(event.cause), "traceback": event.cause.traceback} for event in message.history)
    return [attributes(event, *names) | cause for event, cause in zip(message.history, causes, strict=True)]


def group_row(group: ErrorGroup) -> dict[str, Any]:
    """Dead letters of one kind."""
    names = ("fingerprint", "reason", "error", "count", "last_hour", "first_seen", "last_seen", "sample_id")
    trend = "muted" if group.muted else ", ".join(group.trends)
    row = attributes(group, *names) | {"trend": trend}
    return row | {"versions": dict(group.versions), "consumers": dict(group.consumers)}


def left_leased(number: int) -> str:
    """A sentence about messages that a verb did not change, since they are being processed."""
    return f"being processed, and left as they are: {many(number, 'message')}"


def table_of(rows: Sequence[Row], columns: Sequence[Column], space: int = 2) -> Table:
    """Rows as a table without a frame, with this space between columns; numbers are right-aligned."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, space, 0, 0))
    for column in columns:
        number = any(isinstance(row[column.key], int | float) for row in rows)
        table.add_column(
            column.heading,
            justify="right" if number else "left",
            no_wrap=not (column.wrap or column.cut),  # columns that may wrap or be cut get narrower first
            overflow="fold" if column.wrap else "ellipsis",
            min_width=column.width(rows) if column.key in WHOLE else None,
        )
    for row in rows:
        table.add_row(*(column.cell(row) for column in columns))
    return table


def beside(columns: Sequence[Column], widths: Sequence[int], room: int) -> list[Column]:
    """The columns that fit; those that may be shown below are dropped, the last ones first."""
    left = dict(zip(columns, widths, strict=True))
    for column in reversed(columns):
        if column.below and sum(left.values()) > room:
            del left[column]
    return [*left]


@dataclass
class Output:
    """The output for data and for messages to the user, and its format.

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
        """A console that does not truncate if the output is not a terminal."""
        console = SafeConsole(stderr=stderr, highlight=False, no_color=no_color)
        if not console.is_terminal:
            console.width = UNKNOWN_WIDTH
        return console

    def plain(self) -> None:
        """Use no colours."""
        self.stdout = self.console(stderr=False, no_color=True)
        self.stderr = self.console(stderr=True, no_color=True)

    def rows(self, rows: Sequence[Row], columns: Sequence[Column], none: str) -> None:
        """Write rows; instead of an empty table, print `none` for the user."""
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
        """Write a table; if it is too wide, its columns move closer, then some are shown below the rows."""
        room, widths = self.stdout.width, [column.width(rows) for column in columns]
        space = 2 if sum(widths) + 2 * (len(widths) - 1) <= room else 1
        there = beside(columns, [width + space for width in widths], room + space)
        if len(there) == len(columns):
            self.stdout.print(table_of(rows, columns, space))
        else:
            self._table_with([column for column in columns if column not in there], rows, there)

    def _table_with(self, below: Sequence[Column], rows: Sequence[Row], columns: Sequence[Column]) -> None:
        """Write a table, with the cells of more columns below each row."""
        first, *others = columns
        room = self.stdout.width - sum(column.width(rows) + 1 for column in others)
        above = [first.wrap and first.cell(row).cell_len > room for row in rows]
        shorter = [{**row, first.key: ""} if long else row for row, long in zip(rows, above, strict=True)]
        unbroken = [replace(first, wrap=False, cut=first.wrap), *others]
        heading, *lines = self.stdout.render_lines(table_of(shorter, unbroken, space=1), pad=False)
        self.stdout.print(Text.assemble(*((part.text, part.style or "") for part in heading)))
        for line, row, long in zip(lines, rows, above, strict=True):
            if long:
                self.stdout.print(first.cell(row), overflow="fold")
            shown = Text.assemble(*((part.text, part.style or "") for part in line))
            self.stdout.print(shown, *self._below(below, row), sep="\n", no_wrap=True, overflow="ellipsis")

    def _below(self, columns: Sequence[Column], row: Row) -> list[Text]:
        """The lines below a row: each text, then the figures."""
        said = [column for column in columns if row[column.key]]
        texts = [column.cell(row) for column in said if column.cut or column.wrap]
        figures = [column for column in said if not (column.cut or column.wrap)]
        texts.append(Text(", ").join(Text.assemble(f"{one.heading} ", one.cell(row)) for one in figures))
        width = self.stdout.width - INDENT
        return [Text(" " * INDENT) + line for text in texts for line in text.wrap(self.stdout, width) if line]

    def record(self, row: Row) -> None:
        """Write one record with all its fields."""
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
                table.add_row(Text(visible_line(title)), Text(visible(text_of(name, part))))
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
        """Write text for people, or a record for programs."""
        if self.format == "table":
            self.tell(text)
        else:
            self.record(row)

    def say(self, text: str) -> None:
        """Print a message for the user, on stderr; its further lines are indented."""
        self.stderr.print(visible_entry(text), markup=False, soft_wrap=True)

    def tell(self, text: str, style: str = "") -> None:
        """Write text for people to stdout. Its lines are ours; of others' text use `visible_entry`."""
        self.stdout.print(visible(text), markup=False, style=style or None, soft_wrap=True)

    def _write(self, text: str) -> None:
        self.stdout.out(text, highlight=False)
