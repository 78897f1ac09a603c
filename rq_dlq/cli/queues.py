"""`rq-dlq queue …` and `rq-dlq peek`: look at queues, empty them."""

from __future__ import annotations

import click

from rq_dlq.cli import _show
from rq_dlq.cli._context import Command, Context, Failure, Group, confirm, pass_context, yes_option


@click.group(cls=Group)
def queue() -> None:
    """Look at queues, empty them."""


@queue.command("ls")
@pass_context
def ls(context: Context) -> None:
    """List the queues with their counts."""
    broker = context.broker
    rows = [_show.queue_row(broker.queue(name).stats()) for name in broker.queues()]
    context.output.rows(rows, _show.QUEUES, "there are no queues yet: `rq-dlq send` makes one")


@queue.command("show")
@click.argument("name")
@pass_context
def show(context: Context, name: str) -> None:
    """Show all counts of one queue."""
    context.output.record(_show.queue_row(context.broker.queue(home_of(context, name)).stats()))


@queue.command("purge")
@click.argument("name")
@yes_option
@pass_context
def purge(context: Context, name: str, *, yes: bool) -> None:
    """Remove all that waits in a queue, for good; what is being worked on is left alone."""
    found = context.broker.queue(home_of(context, name))
    confirm(
        f"Remove {_show.many(found.stats().waiting, 'waiting message')} of {found.name} for good", yes=yes
    )
    context.output.say(f"removed {_show.many(found.purge(), 'message')}")


@click.command(cls=Command)
@click.argument("name", metavar="QUEUE")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True)
@pass_context
def peek(context: Context, name: str, limit: int) -> None:
    """Look at the next messages of a queue, without claiming them."""
    home_of(context, name)
    messages = context.broker.queue(name).peek(limit)
    rows = [_show.message_row(message) for message in messages]
    context.output.rows(rows, _show.MESSAGES, f"nothing is ready in {name}")


def home_of(context: Context, name: str) -> str:
    """The queue that a name, perhaps of its dead letters, belongs to.

    Raises:
        Failure: nobody ever used it.
    """
    home = context.broker.settings.naming.resolve(name).home
    if home not in context.broker.queues():
        message = f"there is no queue {home!r}: `rq-dlq queue ls` lists those that were ever used"
        raise Failure(message)
    return home
