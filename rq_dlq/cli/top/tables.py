"""The tables of `rq-dlq top`: their columns and rows.

A column that other tables show `below` is left out if it does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rq_dlq.cli._reports import worker_row
from rq_dlq.cli._show import Column, Row, attributes, group_row, queue_row
from rq_dlq.core.queues.who import name_of

if TYPE_CHECKING:
    from rq_dlq.core.looking.monitor import Rates
    from rq_dlq.core.looking.overview import QueueOverview
    from rq_dlq.core.looking.trouble import Trouble
    from rq_dlq.values.process import ProcessReport

FEW = 10  # rates below it have two significant digits
WIDE = 100  # from this width of the terminal, tables have more columns
SHORT = 6  # digits of a group, which other commands also accept
_SINCE, _OLDEST = Column("since", below=True), Column("oldest", below=True)
_ERROR, _QUEUE = Column("error", cut=True), Column("queue", cut=True)
_COUNTS = (
    Column("name", "bold", title="queue", cut=True), Column("ready"), Column("scheduled", below=True),
    Column("leased", below=True), Column("dead", "red"),
)  # fmt: skip
_RATES = (Column("dead/min", "bold red"), Column("sent/s", below=True), Column("acked/s", below=True))
_FAILED = Column("failed/s", "yellow", below=True)
_GROUP = (
    Column("fingerprint", "bold cyan", "group"),
    _QUEUE,
    Column("trend", "bold yellow", below=True),
    Column("count"),
)
_TROUBLE = (Column("queue", "bold red", cut=True), Column("what", title="what is wrong", cut=True))
TROUBLES, WIDE_TROUBLES = (*_TROUBLE, _SINCE), (*_TROUBLE, Column("detail", title="", cut=True), _SINCE)
QUEUES = (*_COUNTS, *_RATES, _OLDEST)
WIDE_QUEUES = (*_COUNTS, Column("expired", "yellow", below=True), *_RATES, _FAILED, _OLDEST)
GROUPS = (*_GROUP, _SINCE, _ERROR)
WIDE_GROUPS = (*_GROUP, Column("last_hour", below=True), _SINCE, _ERROR)
REDRIVES = (
    Column("redrive", "bold"), _QUEUE, Column("state"), Column("done", title="%"),
    Column("moved", below=True), Column("eligible", title="of", below=True),
    Column("acked", "green", below=True), Column("died", "red"), Column("by", cut=True, below=True),
)  # fmt: skip
WORKERS = (
    Column("process", "bold", title="worker", cut=True), Column("state"), Column("held"), _OLDEST,
    Column("done", below=True), Column("failed", "red", below=True), Column("queues", cut=True, below=True),
)  # fmt: skip
WIDE_WORKERS = (*WORKERS, Column("version", below=True), Column("up", below=True))
SORTS: Mapping[str, Callable[[Row], Any]] = {
    "trouble": lambda row: (row["place"], -row["dead"], -row["ready"]),
    "dead": lambda row: -row["dead"],
    "ready": lambda row: -row["ready"],
    "name": lambda _: 0,  # in the order of the reading
}


@dataclass(frozen=True, slots=True)
class Look:
    """The user's view.

    Attributes:
        sort: the order of the queues, one of SORTS.
        filter: show only queues whose names contain this.
    """

    sort: str = "trouble"
    filter: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A table, with more columns if they fit."""

    rows: Sequence[Row]
    columns: Sequence[Column]
    wide: Sequence[Column] = ()


def figure(value: float) -> float:
    """A rate, rounded for display."""
    return float(f"{value:.2g}") if 0 < value < FEW else round(value)


def trouble_table(wrong: Iterable[Trouble], at: datetime) -> Section:
    """The problems."""
    rows = [attributes(one, "queue", "what", "detail") | {"since": _since(one.since, at)} for one in wrong]
    return Section(rows, TROUBLES, WIDE_TROUBLES)


def queue_table(
    queues: Sequence[QueueOverview], rates: Mapping[str, Rates], wrong: Sequence[Trouble], sort: str
) -> Section:
    """The queues with their counts and rates, in an order of SORTS."""
    places = {trouble.queue: place for place, trouble in reversed([*enumerate(wrong)])}
    rows: list[Row] = []
    for queue in queues:
        own = rates[queue.name]
        row = {f"{name}/s": figure(getattr(own, name)) for name in ("sent", "acked", "failed")}
        row |= {"dead/min": figure(60 * own.died), "place": places.get(queue.name, len(wrong))}
        rows.append(queue_row(queue.stats) | row | {"oldest": queue.oldest})
    return Section(sorted(rows, key=SORTS[sort]), QUEUES, WIDE_QUEUES)


def group_table(queues: Iterable[QueueOverview], at: datetime) -> Section:
    """The groups that are new, growing or regressed; those with the most deaths in the last hour first."""
    found = [(queue.name, group) for queue in queues for group in queue.groups if group.trends]
    found.sort(key=lambda each: (-each[1].last_hour, -each[1].count))
    rows = [
        group_row(group)
        | {"queue": name, "fingerprint": group.fingerprint[:SHORT], "since": _since(group.first_seen, at)}
        for name, group in found
    ]
    return Section(rows, GROUPS, WIDE_GROUPS)


def redrive_table(queues: Iterable[QueueOverview]) -> Section:
    """The running and paused redrives."""
    rows: list[Row] = []
    for queue in queues:
        for redrive in queue.redrives:
            if redrive.state in {"running", "paused"}:
                counts = redrive.counts
                row = attributes(counts, "eligible", "moved", "acked", "died")
                row |= {"redrive": redrive.id, "queue": queue.name, "state": redrive.state}
                row["done"] = 100 * (counts.moved + counts.gone + counts.leased) // max(1, counts.eligible)
                rows.append(row | {"by": name_of(redrive.asked.by)})
    return Section(rows, REDRIVES)


def worker_table(workers: Iterable[ProcessReport]) -> Section:
    """The worker processes, the silent ones first."""
    found = sorted(workers, key=lambda worker: worker.state != "silent")
    return Section([worker_row(worker, table=True) for worker in found], WORKERS, WIDE_WORKERS)


def _since(moment: datetime | None, at: datetime) -> str | None:
    """The time (UTC), with its date if that is not today."""
    if moment is None:
        return None
    moment, at = moment.astimezone(UTC), at.astimezone(UTC)
    return f"{moment:%H:%M:%SZ}" if moment.date() == at.date() else f"{moment:%m-%d %H:%MZ}"
