"""`rq-dlq audit`: what operators did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rq_dlq.cli import _show
from rq_dlq.cli._completion import queues
from rq_dlq.cli._context import CliCommand, Context, pass_context
from rq_dlq.core.redrive.record import NUMBERS

if TYPE_CHECKING:
    from rq_dlq.core.looking.audit_record import AuditRecord

RECORDS = (
    _show.Column("at"), _show.Column("who", "bold", wrap=True), _show.Column("did", "cyan"),
    _show.Column("queue", below=True), _show.Column("number", below=True),
    _show.Column("which", wrap=True, below=True),
)  # fmt: skip


@click.command("audit", cls=CliCommand)
@click.argument("name", metavar="[QUEUE]", required=False, shell_complete=queues)
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="At most this many records."
)
@pass_context
def audit(context: Context, name: str | None, *, limit: int) -> None:
    """List what operators did to messages, queues, schedules and policies, the newest first.

    A record names the operator (the given name or user@host, and the ACL user of Redis), and the number of
    messages. Each queue keeps about its last thousand records.
    """
    table = context.output.format == "table"
    found = context.broker.audit(limit, queue=name)
    rows = [_shown(one) if table else row(one) for one in found]
    context.output.rows(rows, RECORDS, "there are no records of " + (name or "any queue"))


def _shown(record: AuditRecord) -> dict[str, Any]:
    number = record.counts.moved if record.job else record.number
    cells = _show.attributes(record, "at", "who", "which") | {"did": record.what}
    job = f"redrive {record.job}: " if record.job else ""
    return cells | {"queue": record.queue or None, "number": number, "which": job + cells["which"]}


def row(record: AuditRecord) -> dict[str, Any]:
    """A record, for programs."""
    names = ("at", "queue", "did", "by", "user", "number", "chosen", "how", "job")
    counts = _show.attributes(record.counts, *NUMBERS) if record.job else {}
    return _show.attributes(record, *names) | counts
