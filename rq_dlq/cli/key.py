"""`rq-dlq key …`: the keys of a queue's messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rq_dlq.cli import _show
from rq_dlq.cli._context import CliGroup, Context, pass_context
from rq_dlq.cli._options import by_option, queue_argument
from rq_dlq.cli.queues import used
from rq_dlq.policy.per_key import MOST_SEATS

if TYPE_CHECKING:
    from rq_dlq.values.key import KeyStats

KEYS = (
    _show.Column("key", "bold", wrap=True), _show.Column("blocked"), _show.Column("seats"),
    _show.Column("head"), _show.Column("held_by", wrap=True, below=True), _show.Column("limit", below=True),
    _show.Column("next_at"), _show.Column("paused", "bold yellow", below=True),
    _show.Column("until", below=True), _show.Column("paused_by", below=True),
)  # fmt: skip


@click.group(cls=CliGroup)
def key() -> None:
    """Show the keys by which a queue orders or limits messages, and limit a key.

    `rq-dlq msg ls QUEUE --where "key = 'K'"` lists the messages of a key.
    """


@key.command("ls")
@queue_argument
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="At most this many keys."
)
@click.option(
    "--exact", is_flag=True, help="Check all keys, not only those of a sample of 200 blocked messages."
)
@pass_context
def ls(context: Context, name: str, *, limit: int, exact: bool) -> None:
    """List the keys with the most blocked messages."""
    found = used(context, name).keys(limit, exact=exact)
    none = f"no message of {name} waits for others of its key"
    context.output.rows([_row(one) for one in found], KEYS, none)


@key.command("show")
@queue_argument
@click.argument("key_text", metavar="KEY")
@pass_context
def show(context: Context, name: str, key_text: str) -> None:
    """Show the blocked messages of KEY, the messages that hold its seats, and a pause."""
    context.output.record(_row(used(context, name).key(key_text).stats()))


@key.command("limit")
@queue_argument
@click.argument("key_text", metavar="KEY")
@click.argument("seats", metavar="[N]", type=click.IntRange(1, MOST_SEATS), required=False)
@click.option("--default", "as_others", is_flag=True, help="Remove the key's own limit.")
@by_option
@pass_context
def limit(
    context: Context, name: str, key_text: str, *, seats: int | None, as_others: bool, by: str | None
) -> None:
    """Allow at most N ready or leased messages of KEY, in place of the rule of QUEUE."""
    if (seats is None) != as_others:
        raise click.UsageError("pass N, or --default")
    changed = used(context, name).key(key_text).limit(seats, by=by)
    how = "by the rule" if seats is None else f"at most {seats} at a time"
    context.output.say(f"key {key_text} of {name}: {how}{'' if changed else ', as before'}")


def _row(found: KeyStats) -> dict[str, Any]:
    holders = (f"{name} ({consumer})" if consumer else name for name, consumer in found.held_by)
    return _show.attributes(found, *(column.key for column in KEYS)) | {"held_by": ", ".join(holders)}
