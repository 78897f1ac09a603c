"""`rq-dlq gather …`: messages that wait for the ends of others."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from rq_dlq.cli import _show
from rq_dlq.cli._completion import queues
from rq_dlq.cli._context import CliGroup, CommandFailed, Context, pass_context
from rq_dlq.cli._options import queue_argument
from rq_dlq.cli.queues import used
from rq_dlq.core.gathers import reading

if TYPE_CHECKING:
    from rq_dlq.values.gathered import GatherStatus

GATHERS = (
    _show.Column("queue", wrap=True), _show.Column("id", "bold"), _show.Column("state"), _show.Column("open"),
    _show.Column("children"), _show.Column("opened_at"), _show.Column("until", below=True),
    _show.Column("ends", below=True), _show.Column("first_open", below=True),
)  # fmt: skip
CHILDREN = (
    _show.Column("queue", wrap=True), _show.Column("id", "bold"), _show.Column("end"),
)  # fmt: skip


@click.group(cls=CliGroup)
def gather() -> None:
    """Show gathers: messages that wait until others have ended."""


@gather.command("ls")
@click.argument("name", metavar="[QUEUE]", required=False, shell_complete=queues)
@pass_context
def ls(context: Context, name: str | None) -> None:
    """List the gathers whose message waits, the oldest first."""
    if name is not None:
        used(context, name)
    found = context.broker.gathers(queue=name)
    whose = "there are" if name is None else f"{name} has"
    none = f"{whose} no gathers that wait: `broker.gather(then=…)` opens one"
    context.output.rows([_row(one) for one in found], GATHERS, none)


@gather.command("show")
@queue_argument
@click.argument("message_id", metavar="ID")
@click.option("--open", "only_open", is_flag=True, help="Only the children that have not ended.")
@pass_context
def show(context: Context, name: str, message_id: str, *, only_open: bool) -> None:
    """Show a gather: QUEUE and ID are those of the message that waits."""
    core = used(context, name)._core
    status = context.broker._run(reading.status_of(core.keys, message_id))
    if status is None:
        raise CommandFailed(
            f"{name} has no gather {message_id}: its message is gone, or was never sent as one"
        )
    context.output.say(f"{message_id} in {name} is {status.state}: {reading.said(status)}")
    children = context.broker._run(reading.children_of(core.keys, message_id))
    rows = [
        {"queue": one.queue, "id": one.id, "end": one.end or "open"}
        for one in children
        if not only_open or one.end is None
    ]
    context.output.rows(rows, CHILDREN, "it has no children")


def _row(status: GatherStatus) -> dict[str, Any]:
    ends = ", ".join(f"{count:,} {end}" for end, count in sorted(status.ends.items()))
    row = {**asdict(status), "ends": ends or None, "first_open": ", ".join(status.oldest) or None}
    del row["oldest"]  # elsewhere a column of this name is a time
    return row
