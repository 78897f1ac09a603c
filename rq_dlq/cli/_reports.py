"""Columns and rows for reports of processes and for states of dependencies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rq_dlq.cli._show import Column, attributes, text_of
from rq_dlq.values.readable import UPKEEP, upkeep

if TYPE_CHECKING:
    from rq_dlq.values.dependency import DependencyStats
    from rq_dlq.values.process import ProcessReport

MAINTAINERS = (
    Column("process", "bold", wrap=True), Column("started_at", title="since"), Column("ago", title="seen"),
    Column("longest", title="longest ms"), Column("upkeep", title="messages", wrap=True, below=True),
    Column("roles", wrap=True, below=True),
)  # fmt: skip
WORKERS = (
    Column("process", "bold", wrap=True), Column("state"), Column("queues", wrap=True, below=True),
    Column("held"), Column("oldest"), Column("done", below=True), Column("failed", "red", below=True),
    Column("version", below=True), Column("up", below=True),
)  # fmt: skip
DEPENDENCIES = (
    Column("dependency", "bold", wrap=True), Column("queue", cut=True),
    Column("condition", "bold red", title="state"), Column("waiting"), Column("behind", below=True),
    Column("oldest", below=True), Column("since"), Column("next_probe", below=True),
    Column("until", below=True), Column("error", title="newest error", below=True),
)  # fmt: skip
NO_MAINTAINER = "no maintenance process (`rq-dlq maintain`): workers and claiming clients do its work"


def maintainer_row(maintainer: ProcessReport, *, table: bool) -> dict[str, Any]:
    """The row of a maintenance process; in a table, its counts are text."""
    counts = attributes(maintainer, *UPKEEP)
    names = ("process", "started_at", "seen_at", "ago", "longest", "rq_dlq_version")
    row = attributes(maintainer, *names) | counts | {"roles": ",".join(maintainer.roles)}
    return row | {"roles": ", ".join(maintainer.roles), "upkeep": upkeep(counts)} if table else row


def maintained_by(maintainers: list[ProcessReport]) -> str:
    """The processes that maintain the queues, one per line."""
    lines = (
        f"maintained by {one.process} ({', '.join(one.roles)}), seen {text_of('ago', one.ago)} ago"
        for one in maintainers
    )
    return "\n".join(lines) or NO_MAINTAINER


def worker_row(worker: ProcessReport, *, table: bool) -> dict[str, Any]:
    """The row of a worker process; in a table, its queues have the form of `--queue`."""
    names = ("process", "state", "queues", "held", "oldest", "done", "failed", "version", "rq_dlq_version")
    row = attributes(worker, *names, "started_at", "seen_at", "ago")
    if not table:
        return row
    silent = worker.state == "silent"
    return row | {
        "state": f"silent {text_of('ago', worker.ago)}" if silent else worker.state,
        "queues": " ".join(f"{name}:{one.concurrency}" for name, one in worker.queues.items()),
        "up": worker.up,
    }


def dependency_row(found: DependencyStats) -> dict[str, Any]:
    """The state of a dependency of a queue."""
    names = ("open", "paused", "ended", "charged_until", "died", "dead")
    hangs = [hanging._asdict() for hanging in found.hangs]
    return attributes(found, *(column.key for column in DEPENDENCIES), *names) | {"hangs": hangs}
