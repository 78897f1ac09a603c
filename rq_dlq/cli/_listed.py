"""The rows of `rq-dlq queue ls`: queues, the processes that maintain them, dependencies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rq_dlq._keys import QueueKeys
from rq_dlq.cli import _reports, _show
from rq_dlq.cli._context import UNREACHABLE, CommandFailed, Context
from rq_dlq.core.keyed import outages
from rq_dlq.core.processes import processes
from rq_dlq.core.queues.each import UnreachableQueue
from rq_dlq.core.steps import driving
from rq_dlq.core.steps.step import NodeUnavailable
from rq_dlq.values.readable import many

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rq_dlq.values.counts import QueueStats
    from rq_dlq.values.dependency import DependencyStats
    from rq_dlq.values.process import ProcessReport

UNTIL = _show.Column("until", "bold yellow", below=True)
UNREACHABLE_NODE = _show.Column("unreachable", "bold red", title="state", wrap=True, below=True)


def dependencies(context: Context) -> None:
    """List the dependencies that are down or paused."""
    found = context.broker._run(outages.everywhere(context.broker.settings.namespace))
    rows = [_reports.dependency_row(one) for one in found if not isinstance(one, UnreachableQueue)]
    context.output.rows(rows, _reports.DEPENDENCIES, "no dependency is down or paused")
    if len(rows) < len(found):
        raise CommandFailed(f"{many(len(found) - len(rows), 'queue')} cannot be read", UNREACHABLE)


def row(context: Context, found: QueueStats | UnreachableQueue) -> dict[str, Any]:
    """A queue with its counts, or why they cannot be read."""
    if isinstance(found, UnreachableQueue):
        return _show.unreachable_row(found)
    row = _show.queue_row(found)
    if found.blocked:
        keys = QueueKeys(context.broker.settings.namespace, found.name)
        row["oldest"] = oldest(found, context.broker._run(outages.of_queue(keys))[1])
    return row


def columns(rows: Sequence[_show.Row]) -> tuple[_show.Column, ...]:
    """The columns of queues; the ends of pauses and what cannot be reached have one only if there is any."""
    name, paused, *figures = _show.QUEUES
    until = (UNTIL,) if any(row.get("until") for row in rows) else ()
    unreachable = (UNREACHABLE_NODE,) if any("unreachable" in row for row in rows) else ()
    return (name, paused, *until, *figures, *unreachable)


def oldest(stats: QueueStats, dependencies: Iterable[DependencyStats]) -> float | None:
    """How long the oldest message has waited that is ready, or waits for a dependency; None: none does."""
    ages = (stats.oldest, *(one.oldest for one in dependencies))
    return max((age for age in ages if age is not None), default=None)


def maintainers(context: Context) -> list[ProcessReport]:
    """The processes that maintain the queues."""
    return context.broker._run(processes.maintainers(context.broker.settings.namespace))


def maintained_by(context: Context) -> str:
    """The same in words, or why they cannot be read."""
    reading = driving.unrepeated(processes.maintainers(context.broker.settings.namespace))
    try:
        return _reports.maintained_by(context.broker._run(reading))
    except NodeUnavailable as error:
        return f"the processes that maintain them cannot be read: {error}"
