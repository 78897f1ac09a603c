"""`rq-dlq dlq …`: lists, groups, redrives, exports and removes dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from rq_dlq.cli import _completion, _show
from rq_dlq.cli._context import CliGroup, CommandFailed, Context, pass_context
from rq_dlq.cli._letters import all_found, bulk, check, group_of, letters_of, these
from rq_dlq.cli._options import (
    by_option,
    carry_out,
    confirm,
    end,
    queue_argument,
    until_then,
    where_option,
)
from rq_dlq.cli._show import Column
from rq_dlq.cli.exports import export, import_, reason_option, tail
from rq_dlq.cli.redrives import jobs, redrive
from rq_dlq.core.choosing.choice import is_group
from rq_dlq.values.changed import Changed
from rq_dlq.values.readable import many
from rq_dlq.values.visible import visible_entry

if TYPE_CHECKING:
    from datetime import datetime

LETTERS = (
    Column("id", "bold"), Column("died_at"), Column("attempt", title="tries"),
    Column("reason", "red"), Column("error", cut=True),
)  # fmt: skip
GROUPS = (
    Column("fingerprint", "bold cyan", "group"), Column("count"), Column("last_hour"),
    Column("trend", "bold yellow"), Column("reason", "red"), Column("last_seen"),
    Column("error", cut=True, below=True),
)  # fmt: skip
group_argument = click.argument("group", metavar="GROUP", shell_complete=_completion.groups)


@click.group(cls=CliGroup)
def dlq() -> None:
    """Read, redrive and remove dead letters.

    QUEUE is the queue they died in: `orders` and `DLQ.orders` mean the same. `EXP.orders` means its expired
    messages. A name that policies give to the dead letters of several queues means all of them.
    """


@dlq.command("ls")
@click.argument("name", metavar="[QUEUE]", required=False, shell_complete=_completion.queues)
@click.option(
    "--group",
    metavar="GROUP",
    shell_complete=_completion.groups,
    help="Only this kind of failure: a group from `groups`, or its first six digits.",
)
@reason_option
@where_option
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="At most this many dead letters."
)
@click.option("--newest", "order", flag_value="newest", default="oldest", help="Show the newest first.")
@pass_context
def ls(context: Context, /, name: str | None, *, group: str | None, limit: int, **conditions: Any) -> None:
    """List the dead letters of a queue.

    The oldest comes first. Without QUEUE it lists the queues that have dead letters.
    """
    if name is None:
        source = click.get_current_context().get_parameter_source
        if any(source(one) is not ParameterSource.DEFAULT for one in (*conditions, "group", "limit")):
            raise click.UsageError("these options need a QUEUE: without one, this lists the queues")
        broker = context.broker
        stats = [broker.queue(name).stats() for name in broker.queues()]
        rows = [_show.queue_row(counts) for counts in stats if counts.dead or counts.expired]
        context.output.rows(rows, _show.QUEUES, "there are no dead letters")
        return
    letters = letters_of(context, name)
    found = letters.browse(group=group_of(letters, group, name), limit=limit, **conditions)
    rows = [_show.letter_row(letter) for letter in found]
    such = "such " if group or any(conditions[one] for one in ("reason", "where")) else ""
    context.output.rows(rows, LETTERS, f"there are no {such}dead letters of {name}")


@dlq.command("groups")
@queue_argument
@pass_context
def groups(context: Context, name: str) -> None:
    """Group the dead letters of a queue by kind of failure.

    The largest group comes first. Its trend is new (it began within a day, and no message was taken out of it
    yet), growing (more than one died within the last hour, and more than twice as many as in an average hour
    of the day before) or regressed (it had been emptied, and messages died again). It has no trend five
    minutes after its last death, or while it is muted.
    """
    rows = [_show.group_row(group) for group in letters_of(context, name).groups()]
    context.output.rows(rows, GROUPS, f"there are no dead letters of {name}")


@dlq.command("show")
@queue_argument
@click.argument("which", metavar="GROUP|ID", shell_complete=_completion.groups_and_ids)
@pass_context
def show(context: Context, name: str, which: str) -> None:
    """Show one dead letter with its history, or a group.

    For a group it shows the versions and consumers of its newest ten dead letters, and the newest one with
    its history.
    """
    letters = letters_of(context, name)
    found = letters.browse(ids=[which])
    groups = letters.groups(group=which) if not found and is_group(which) else []
    if len(groups) > 1:  # six digits name all groups with this class of error and place in the code
        context.output.rows([_show.group_row(group) for group in groups], GROUPS, "")
        return
    for group in groups:
        context.output.record(_show.group_row(group))
        if context.output.format == "table":
            found = letters.browse(ids=[group.sample_id])
            context.output.tell("")
    if not found and not groups:
        raise CommandFailed(f"there is no dead letter {which} of {name}: `rq-dlq dlq ls {name}` lists them")
    for letter in found:
        context.output.message(_show.letter_row(letter), letter)
        if letter.cause.traceback and context.output.format == "table":
            context.output.tell(visible_entry(f"\n{letter.cause.traceback}"), "dim")


@dlq.command("purge")
@click.option(
    "--older-than", metavar="AGE", help='Only dead letters that died longer ago than this, such as "30d".'
)
@by_option
@bulk
def purge(context: Context, /, name: str, *, older_than: str | None, by: str | None, **chosen: Any) -> None:
    """Remove dead letters permanently."""
    check(chosen, ("--older-than", older_than))
    found = letters_of(context, name).select(chosen["where"], older_than=older_than, **these(chosen))
    if chosen["ids"]:
        done = found.purge(by=by)
        context.output.say(f"removed {many(done, 'dead letter')}")
    else:
        plan = found.purge(dry_run=True)
        confirm(f"Remove {many(plan.eligible, 'dead letter')} of {name} permanently", yes=chosen["yes"])
        done = Changed(carry_out(context, plan, "removed", "dead letter", by).changed, plan.leased)
    all_found(context, chosen, done)


@dlq.command("mute")
@queue_argument
@group_argument
@click.option(
    "--until",
    metavar="TIME",
    callback=end,
    help='When the mute ends: "4h", or 2027-01-31T08:00Z; by default at its next death.',
)
@by_option
@pass_context
def mute(context: Context, name: str, group: str, *, until: datetime | str | None, by: str | None) -> None:
    """Mute a group: `top`, the page and alerts do not report it as a problem.

    Its dead letters stay. Without --until the mute ends when another message of the group dies.
    """
    letters = letters_of(context, name)
    group_of(letters, group, name)
    letters.mute(group=group, until=until, by=by)
    ends = until_then(until) or " until its next death"
    context.output.say(f"group {group} of {name} is muted{ends}: `rq-dlq dlq unmute {name} {group}` ends it")


@dlq.command("unmute")
@queue_argument
@group_argument
@by_option
@pass_context
def unmute(context: Context, name: str, group: str, by: str | None) -> None:
    """Report a group as a problem again."""
    state = "is no longer muted" if letters_of(context, name).unmute(group=group, by=by) else "was not muted"
    context.output.say(f"group {group} of {name} {state}")


for command in (redrive, jobs, tail, export, import_):
    dlq.add_command(command)
