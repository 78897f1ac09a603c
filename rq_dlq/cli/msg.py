"""`rq-dlq msg …`: lists, shows and manages messages, by their ids or by a condition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from rq_dlq.cli import _completion as completion
from rq_dlq.cli import _show
from rq_dlq.cli._context import CliGroup, CommandFailed, Context, pass_context
from rq_dlq.cli._options import (
    all_option,
    by_option,
    carry_out,
    confirm,
    exactly_one,
    queue_argument,
    tell_left,
    where_option,
    yes_option,
)
from rq_dlq.cli._show import Column
from rq_dlq.cli.queues import is_view, used
from rq_dlq.cli.results import result
from rq_dlq.client.selection import Selection
from rq_dlq.core.changing.by_chunks import WAITING
from rq_dlq.core.changing.changing import TAKES
from rq_dlq.core.choosing.choice import PLACES
from rq_dlq.filters._facts import FIELDS
from rq_dlq.policy import DiscardingDeadLetterStrategy
from rq_dlq.values.message import DeadLetter
from rq_dlq.values.readable import many
from rq_dlq.values.visible import visible_entry

if TYPE_CHECKING:
    from rq_dlq.client.plan import Plan
    from rq_dlq.values.changed import CarriedOut, Changed

MESSAGES = (Column("id", "bold"), Column("place", "cyan"), *_show.MESSAGES[1:])
COUNTS = (Column("value", "bold"), Column("count"))
ABSENT = "(without it)"
EXPLAINED = ("place", "why", "next", "at", "birth")
Found: TypeAlias = Selection[Any]

to_option = click.option("--to", required=True, metavar="QUEUE", help="An existing queue.")


def place_option(places: Sequence[str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The option for the states of messages."""
    states = click.Choice(places)
    text = "Only messages in this state; may be repeated."
    return click.option("--place", "places", multiple=True, type=states, help=text)


@click.group(cls=CliGroup)
def msg() -> None:
    """Read and manage messages, by their ids or by a condition.

    QUEUE may be a dead-letter or expiry queue. Without --place a command applies to messages that wait for
    delivery: the ready and scheduled ones of `orders`. Leased messages can be listed and shown, and
    cancelled.
    """


@msg.command("ls")
@queue_argument
@where_option
@place_option(PLACES)
@click.option(
    "--count-by",
    metavar="HEADER",
    help="Count the messages by this header, or by `key` or `dependency`, instead of listing them.",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    help="At most this many messages; by default 20, and all for --count-by.",
)
@pass_context
def ls(
    context: Context,
    name: str,
    *,
    where: str | None,
    places: tuple[Any, ...],
    count_by: str | None,
    limit: int | None,
) -> None:
    """List the messages of QUEUE, without claiming them."""
    queue = used(context, name)
    if count_by is not None:
        counts = queue.select(where, places=places or None, limit=limit).count_by(count_by)
        if counts.keys() == {None} and count_by in FIELDS.keys() - {"key", "dependency"}:
            raise CommandFailed(
                f"{count_by!r} is a field, not a header, and --count-by takes headers: use another name"
            )
        table = context.output.format == "table"
        counted = [
            {"value": ABSENT if value is None and table else value, "count": count}
            for value, count in counts.items()
        ]
        context.output.rows(counted, COUNTS, f"there are no such messages in {name}")
        return
    most = limit or 20
    rows: list[dict[str, Any]] = []
    for place in _places(context, name, places):
        at = None if place is None else [place]
        found = queue.select(where, places=at, limit=most - len(rows)).browse()
        rows += [{**_show.message_row(message), "place": place or message.part} for message in found]
    context.output.rows(rows, MESSAGES, f"there are no such messages in {name}")


@msg.command("show")
@queue_argument
@click.argument("message_id", metavar="ID", shell_complete=completion.ids)
@pass_context
def show(context: Context, name: str, message_id: str) -> None:
    """Show one message of QUEUE, in any state, with its history."""
    explained = used(context, name).explain(message_id)
    message = explained.message
    if message is None:
        text = f"there is no message {message_id} in {name}: `rq-dlq msg ls {name}` lists waiting messages"
        raise CommandFailed(text)
    row = _show.letter_row(message) if isinstance(message, DeadLetter) else _show.message_row(message)
    context.output.message(row | _show.attributes(explained, *EXPLAINED), message)


@msg.command("explain")
@queue_argument
@click.argument("message_id", metavar="ID", shell_complete=completion.ids)
@pass_context
def explain(context: Context, name: str, message_id: str) -> None:
    """Explain where a message is and what happens next.

    If it is waiting, this gives the reason.
    """
    explained = used(context, name).explain(message_id)
    context.output.either(visible_entry(str(explained)), _show.attributes(explained, "id", *EXPLAINED))


def bulk(takes: Sequence[str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the arguments of a verb that changes messages in these states, by their ids or by a condition."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        for option in (
            yes_option,
            by_option,
            click.option(
                "--limit",
                type=click.IntRange(1),
                help="At most this many messages, the first in their order.",
            ),
            place_option(takes),
            all_option,
            where_option,
            click.argument("ids", nargs=-1, metavar="[ID]...", shell_complete=completion.ids),
            queue_argument,
        ):
            function = option(function)
        return pass_context(function)

    return decorate


msg.add_command(result)


@msg.command("cancel", short_help="Cancel messages, even those being processed.")
@bulk(WAITING)
def cancel(context: Context, /, name: str, **chosen: Any) -> None:
    """Cancel messages; by id even those that a worker is processing.

    The worker is notified within a second, and the result of its call is ignored. With a condition, waiting
    messages are removed permanently, or those of a dead-letter or expiry queue.
    """
    ids = list(dict.fromkeys(chosen["ids"]))
    if ids and not (chosen["where"] or chosen["everything"] or is_view(context, name)):
        queue = used(context, name)
        found = {message_id: queue.cancel(message_id, by=chosen["by"]) for message_id in ids}
        stay = [f"{message_id} is {word}" for message_id, word in found.items() if word != "cancelled"]
        context.output.say(f"cancelled {many(len(ids) - len(stay), 'message')}")
        if stay:
            raise CommandFailed(f"{', '.join(stay)}: not changed")
        return
    _change(context, name, chosen, Found.purge, what="Remove {} of {} permanently", done="removed")


@msg.command("move")
@bulk(TAKES["transfer"])
@to_option
def move(context: Context, /, name: str, *, to: str, **chosen: Any) -> None:
    """Move messages to another queue.

    They keep their ids and their histories.
    """
    used(context, to)
    what, known = f"Move {{}} of {{}} to {to}", f"{to} already has the id or is full, or "
    _change(context, name, chosen, Found.move, to, what=what, done="moved", known=known)


@msg.command("copy")
@bulk(TAKES["transfer"])
@to_option
def copy(context: Context, /, name: str, *, to: str, **chosen: Any) -> None:
    """Copy messages to another queue.

    The copies have the same ids; their counts begin at 0.
    """
    used(context, to)
    what, known = f"Copy {{}} of {{}} to {to}", f"{to} already has the id or is full, or "
    _change(context, name, chosen, Found.copy, to, what=what, done="copied", known=known)


@msg.command("dead-letter")
@bulk(TAKES["dead_letter"])
@click.option(
    "--reason",
    default="sent to the dead-letter queue by an operator",
    help="The text to record as the error.",
)
def dead_letter(context: Context, /, name: str, *, reason: str, **chosen: Any) -> None:
    """Send waiting messages to the dead-letter queue."""
    what, done = "Send {} of {} to the dead-letter queue", "sent to the dead-letter queue:"
    if isinstance(context.broker.policies.explain(name).dead_letter, DiscardingDeadLetterStrategy):
        what, done = "Drop {} of {}, by its discarding strategy", "dropped by the discarding strategy:"
    _change(context, name, chosen, Found.dead_letter, reason, what=what, done=done)


@msg.command("expire")
@bulk(TAKES["expire"])
def expire(context: Context, /, name: str, **chosen: Any) -> None:
    """Expire waiting messages now, whatever their time to live."""
    _change(context, name, chosen, Found.expire, takes=WAITING, what="Expire {} of {}", done="expired")


@msg.command("deliver-now")
@bulk(TAKES["deliver_now"])
def deliver_now(context: Context, /, name: str, **chosen: Any) -> None:
    """Make scheduled messages ready now.

    They stay before messages that were sent after them.
    """
    takes, what = TAKES["deliver_now"], "Deliver {} of {} now"
    _change(context, name, chosen, Found.deliver_now, takes=takes, what=what, done="made ready:")


@msg.command("prioritize")
@bulk(TAKES["prioritize"])
@click.option("--priority", type=click.IntRange(0, 9), required=True, help="0 last, 9 first.")
def prioritize(context: Context, /, name: str, *, priority: int, **chosen: Any) -> None:
    """Change the priority of waiting messages."""
    what, done = f"Give {{}} of {{}} priority {priority}", f"priority {priority} given to"
    _change(context, name, chosen, Found.prioritize, priority, takes=WAITING, what=what, done=done)


def _change(
    context: Context,
    name: str,
    chosen: dict[str, Any],
    verb: Callable[..., Any],
    *given: object,
    what: str,
    done: str,
    takes: Sequence[Any] = (),
    known: str = "",
) -> None:
    """Run a verb on the chosen messages: those named by their ids, or a plan, after a confirmation.

    Args:
        takes: the default of --place, for a verb that refuses a queue without these states.
        known: an additional reason why some messages may stay.
    """
    ids, where = chosen["ids"], chosen["where"]
    exactly_one("messages", ("ID…", ids), ("--where", where), ("--all", chosen["everything"]))
    named = list(dict.fromkeys(ids)) or None
    select = partial(
        used(context, name).select, where, ids=named, limit=chosen["limit"], all=chosen["everything"]
    )
    places = chosen["places"]
    if takes and not places:
        places = (*takes, "leased")  # leased messages are only counted
    found = select(places=places or None)
    if not ids:
        plan: Plan[CarriedOut] = verb(found, *given, dry_run=True)
        confirm(what.format(many(plan.eligible, "message"), name), yes=chosen["yes"])
        carry_out(context, plan, done, "message", chosen["by"])
        if plan.leased:
            context.output.say(_show.left_leased(plan.leased))
        return
    changed: Changed = verb(found, *given, by=chosen["by"])
    context.output.say(f"{done} {many(changed, 'message')}")
    left = [_show.left_leased(changed.leased)] if changed.leased else []
    missing = len(set(ids)) - changed - changed.leased
    if missing > 0 and not chosen["limit"]:
        left.append(
            f"{many(missing, 'id')} could not be changed: {known}"
            f"no such message is waiting in {name}; `rq-dlq msg explain {name} ID` shows where it is"
        )
    tell_left(context, left, named=True)


def _places(context: Context, name: str, given: Sequence[Any]) -> Sequence[Any]:
    """The states to list, one after another; None: the default, for a dead-letter or expiry queue."""
    if given:
        return given
    live = context.broker.settings.naming.resolve(name).part == "live" and not is_view(context, name)
    return ("ready", "scheduled") if live else (None,)
