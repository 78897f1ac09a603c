"""The picture of `rq-dlq top`: problems first, then queues, groups, redrives and workers."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from rq_dlq.cli._show import beside, table_of, text_of
from rq_dlq.cli.top.tables import (
    WIDE,
    Look,
    Section,
    figure,
    group_table,
    queue_table,
    redrive_table,
    trouble_table,
    worker_table,
)
from rq_dlq.core.looking.monitor import Rates
from rq_dlq.core.looking.trouble import LEVELS, Trouble, troubles
from rq_dlq.values.outage import Level  # noqa: TC001 - of a name at run time
from rq_dlq.values.readable import many
from rq_dlq.values.visible import visible_line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from rq_dlq.cli.top.reading import TopReading
    from rq_dlq.core.looking.overview import QueueOverview

HIGH = 30  # from this many lines, blank lines separate the tables
NAME = 20  # the fewest columns for a name, or for a text that may be truncated
MOST_OUTAGES = 3  # above all else; the others are in the table of what is wrong
STYLES: Mapping[Level, str] = {"bad": "bold red", "warn": "yellow", "calm": "green"}
COUNTS = ("ready", "scheduled", "leased", "dead", "expired")


def picture(reading: TopReading, look: Look, width: int, height: int = sys.maxsize) -> Group:
    """The whole picture, with at most this many lines."""
    at, rates = reading.overview.at, reading.rates
    queues = [queue for queue in reading.overview.queues if look.filter in queue.name]
    wrong = troubles(queues, at, {name: own.died for name, own in rates.items()})
    sections = [
        trouble_table([one for one in wrong if one not in _told_first(wrong)], at),
        queue_table(queues, rates, wrong, look.sort),
        group_table(queues, at),
        redrive_table(queues),
        worker_table(reading.workers),
    ]
    sections = [section for section in sections if section.rows]
    parts: list[RenderableType] = [*_head(reading, look, queues, wrong), *_sums(queues, reading)]
    apart = [""] if height >= HIGH else []
    room = height - len(parts) - len([*apart, "title"]) * len(sections)
    for section, lines in zip(sections, _shares([len(one.rows) for one in sections], room), strict=True):
        if lines:
            parts += [*apart, *_lines(section, lines, width)]
    return Group(*parts)


def _head(
    reading: TopReading, look: Look, queues: Sequence[QueueOverview], wrong: Sequence[Trouble]
) -> Iterator[Text]:
    at = f"{reading.overview.at.astimezone(UTC):%H:%M:%S} UTC"
    yield _line(f"rq-dlq top  {at}  {reading.where}", "dim")
    if reading.failure:
        away = text_of("ago", reading.away)
        yield _line(f"NO ANSWER for {away}, last reading at {at}: {reading.failure}", "bold red")
    for gap in reading.gaps:
        yield _line(gap, "bold red")
    for outage in _told_first(wrong):
        yield _line(outage.line, STYLES[outage.level])
    if not reading.overview.queues and not reading.overview.unreachable:
        yield _line("there are no queues yet", "green")
        return
    of = many(len(queues), "queue") + (f" with {look.filter!r} in the name" if look.filter else "")
    of += " that can be read" if reading.overview.unreachable else ""
    levels = {trouble.queue: trouble.level for trouble in reversed(wrong)}  # the worst level of each queue
    bad, warned, _ = (sum(level == one for level in levels.values()) for one in LEVELS)
    undecided = sum(trouble.kind == "undecided" for trouble in wrong)
    noted = f"; {warned:,} worth a look" if warned else ""
    noted += f"; {undecided:,} with dead letters that wait for a decision" if undecided else ""
    if bad:
        yield _line(f"TROUBLE in {bad:,} of {of}{noted}", "bold red")
    else:
        yield _line(f"no trouble in {of}{noted}", "yellow" if warned else "green")


def _told_first(wrong: Iterable[Trouble]) -> list[Trouble]:
    """The outages that are told above all else, each in a line."""
    return [one for one in wrong if one.kind == "outage"][:MOST_OUTAGES]


def _sums(queues: Sequence[QueueOverview], reading: TopReading) -> Iterator[Text]:
    sums = {name: sum(getattr(queue.stats, name) for queue in queues) for name in COUNTS}
    yield _line("  ".join(f"{name} {count:,}" for name, count in sums.items()))
    if not (seconds := round(reading.seconds)):
        yield _line("rates appear with the next reading", "dim")
        return
    own = [reading.rates[queue.name] for queue in queues]
    rates = Rates(*(sum(column) for column in zip(Rates(), *own, strict=True)))
    yield _line(
        f"sent {figure(rates.sent):,}/s  acked {figure(rates.acked):,}/s  failed {figure(rates.failed):,}/s  "
        f"dead {figure(60 * rates.died):,}/min  over {text_of('ago', seconds)}"
    )


def _lines(section: Section, lines: int, width: int) -> Iterator[RenderableType]:
    """The lines and columns of a table that fit."""
    most = max(NAME, width // 4)
    rows = [
        {**row, **{key: _short(row[key], most) for key in ("name", "queue") if key in row}}
        for row in section.rows[: lines if lines >= len(section.rows) else lines - 1]
    ]
    wide = width >= WIDE
    columns, space = section.wide if wide and section.wide else section.columns, 2 if wide else 1
    needed = [min(column.width(rows), NAME if column.cut else width) + space for column in columns]
    yield table_of(rows, beside(columns, needed, width + space), space)
    if len(rows) < len(section.rows):
        yield _line(f"… and {len(section.rows) - len(rows):,} more", "dim")


def _shares(wanted: Sequence[int], room: int) -> list[int]:
    """The lines of each table: an equal share, or fewer if it needs fewer."""
    given = [0] * len(wanted)
    for done, place in enumerate(sorted(range(len(wanted)), key=wanted.__getitem__)):
        given[place] = min(wanted[place], max(0, room - sum(given)) // (len(wanted) - done))
    return given


def _short(name: str, most: int) -> str:
    """A name shortened in the middle, to leave room for other columns."""
    return name if len(name) <= most else f"{name[: most // 2]}…{name[most // 2 + 1 - most :]}"


def _line(text: str, style: str = "") -> Text:
    return Text(visible_line(text), style, no_wrap=True, overflow="ellipsis")
