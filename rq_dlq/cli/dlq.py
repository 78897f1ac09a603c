"""`rq-dlq dlq …`: dead letters, listed, grouped, brought back, removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rq_dlq._work.choice import REASONS
from rq_dlq.cli import _show
from rq_dlq.cli._context import Context, Failure, Group, confirm, pass_context, where_option, yes_option
from rq_dlq.cli.queues import home_of, is_view
from rq_dlq.client.dlq import DeadLetters

if TYPE_CHECKING:
    from rq_dlq.values.counts import ErrorGroup

ids_option = click.option("--id", "ids", multiple=True, metavar="ID", help="The id of one; may be repeated.")
queue_argument = click.argument("name", metavar="QUEUE")


@click.group(cls=Group)
def dlq() -> None:
    """Look at dead letters, bring them back, remove them.

    QUEUE is the queue they died in: `orders` and `DLQ.orders` mean the same. `EXP.orders` means what expired.
    A name that policies give to the dead letters of several queues means all of them.
    """


@dlq.command("ls")
@click.argument("name", metavar="[QUEUE]", required=False)
@click.option("--group", metavar="GROUP", help="Only those of this kind, as `groups` names it.")
@click.option("--reason", type=click.Choice(REASONS))
@where_option
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True)
@click.option("--newest", "order", flag_value="newest", default="oldest", help="The newest first.")
@pass_context
def ls(context: Context, /, name: str | None, *, group: str | None, limit: int, **conditions: Any) -> None:
    """List the dead letters of a queue, the oldest first; without QUEUE the queues that have any."""
    if name is None:
        broker = context.broker
        stats = [broker.queue(name).stats() for name in broker.queues()]
        rows = [_show.queue_row(counts) for counts in stats if counts.dead or counts.expired]
        context.output.rows(rows, _show.QUEUES, "there are no dead letters")
        return
    letters = _letters(context, name)
    found = letters.browse(group=_group(letters, group, name), limit=limit, **conditions)
    rows = [_show.letter_row(letter) for letter in found]
    context.output.rows(rows, _show.LETTERS, f"there are no such dead letters of {name}")


@dlq.command("groups")
@queue_argument
@pass_context
def groups(context: Context, name: str) -> None:
    """Group the dead letters of a queue by what went wrong, the largest group first."""
    rows = [_show.group_row(group) for group in _letters(context, name).groups()]
    context.output.rows(rows, _show.GROUPS, f"there are no dead letters of {name}")


@dlq.command("show")
@queue_argument
@click.argument("message_id", metavar="ID")
@pass_context
def show(context: Context, name: str, message_id: str) -> None:
    """Show one dead letter with its history."""
    letters = _letters(context, name).browse(ids=[message_id])
    if not letters:
        message = f"there is no dead letter {message_id} of {name}: `rq-dlq dlq ls {name}` lists them"
        raise Failure(message)
    row = _show.letter_row(letters[0])
    history = _show.history_rows(letters[0])
    if context.output.format != "table":
        context.output.record(row | {"history": history})
        return
    context.output.record(row)
    context.output.stdout.print()
    context.output.rows(history, _show.HISTORY, "it has no history")
    if tail := letters[0].cause.traceback:
        context.output.tell(f"\n{tail}", "dim")


@dlq.command("redrive")
@queue_argument
@click.option("--group", metavar="GROUP", help="Those of this kind, as `groups` names it.")
@ids_option
@where_option
@click.option("--all", "everything", is_flag=True, help="All of them.")
@yes_option
@pass_context
def redrive(
    context: Context,
    name: str,
    *,
    group: str | None,
    ids: tuple[str, ...],
    where: str | None,
    everything: bool,
    yes: bool,
) -> None:
    """Bring dead letters back to their queue: the same id, a fresh budget, the history kept."""
    _exactly_one(("--group", group), ("--id", ids), ("--where", where), ("--all", everything))
    letters = _letters(context, name)
    kind = _group(letters, group, name)
    chosen = letters.select(where, group=kind, ids=ids or None)
    if not ids:
        confirm(f"Bring {_show.many(chosen.count(), 'dead letter')} of {name} back to the queue", yes=yes)
    done = chosen.redrive()
    context.output.say(f"brought {_show.many(done, 'message')} back")
    _all_found(done, ids)


@dlq.command("purge")
@queue_argument
@click.option("--older-than", metavar="AGE", help='Those that died longer ago than, say, "30d".')
@ids_option
@where_option
@click.option("--all", "everything", is_flag=True, help="All of them.")
@yes_option
@pass_context
def purge(
    context: Context,
    name: str,
    *,
    older_than: str | None,
    ids: tuple[str, ...],
    where: str | None,
    everything: bool,
    yes: bool,
) -> None:
    """Remove dead letters for good."""
    _exactly_one(("--older-than", older_than), ("--id", ids), ("--where", where), ("--all", everything))
    chosen = _letters(context, name).select(where, older_than=older_than, ids=ids or None)
    if not ids:
        confirm(f"Remove {_show.many(chosen.count(), 'dead letter')} of {name} for good", yes=yes)
    done = chosen.purge()
    context.output.say(f"removed {_show.many(done, 'dead letter')}")
    _all_found(done, ids)


def _letters(context: Context, name: str) -> DeadLetters[Any]:
    if is_view(context, name):
        return DeadLetters(context.broker.queue(name)._core, context.broker)
    queue = context.broker.queue(home_of(context, name))
    part = context.broker.settings.naming.resolve(name).part
    return queue.expired if part == "expired" else queue.dlq


def _group(letters: DeadLetters[Any], given: str | None, name: str) -> ErrorGroup | None:
    """The group of this fingerprint."""
    if given is None:
        return None
    known = {group.fingerprint: group for group in letters.groups()}
    if given not in known:
        message = f"there is no group {given!r}: `rq-dlq dlq groups {name}` lists them, by all twelve digits"
        raise Failure(message)
    return known[given]


def _exactly_one(*options: tuple[str, object]) -> None:
    given = [name for name, value in options if value]
    if len(given) != 1:
        names = ", ".join(name for name, _ in options)
        message = f"choose dead letters with exactly one of {names}"
        raise click.UsageError(message)


def _all_found(done: int, ids: tuple[str, ...]) -> None:
    if ids and done < len(set(ids)):
        message = f"{len(set(ids)) - done} of the ids are not dead letters of this queue"
        raise Failure(message)
