"""`rq-dlq queue …` and `rq-dlq peek`: look at queues, hold them back, empty them."""

from __future__ import annotations

from dataclasses import asdict

import click

from rq_dlq import _calls, _work
from rq_dlq.cli import _show
from rq_dlq.cli._context import Command, Context, Failure, Group, confirm, pass_context, yes_option
from rq_dlq.cli._server import asked


@click.group(cls=Group)
def queue() -> None:
    """Look at queues, hold them back, empty them."""


@queue.command("ls")
@click.option("--maintainers", is_flag=True, help="List the processes that maintain the queues instead.")
@pass_context
def ls(context: Context, *, maintainers: bool) -> None:
    """List the queues with their counts, and say who maintains them."""
    broker = context.broker
    found = broker.run_steps(_work.maintainers(broker.settings.namespace))
    if maintainers:
        context.output.rows([_show.maintainer_row(one) for one in found], _show.MAINTAINERS, _show.NOBODY)
        return
    rows = [_show.queue_row(broker.queue(name).stats()) for name in broker.queues()]
    context.output.rows(rows, _show.QUEUES, "there are no queues yet: `rq-dlq send` makes one")
    if context.output.format == "table":
        context.output.say("\n".join(map(_show.maintained_by, found)) or _show.NOBODY)


@queue.command("show")
@click.argument("name")
@pass_context
def show(context: Context, name: str) -> None:
    """Show all counts of one queue."""
    shown = name if is_view(context, name) else home_of(context, name)
    context.output.record(_show.queue_row(context.broker.queue(shown).stats()))


@queue.command("outcomes")
@click.argument("name")
@click.option("--last", type=click.IntRange(1, _work.MOST), default=20, show_default=True)
@pass_context
def outcomes(context: Context, name: str, last: int) -> None:
    """Tell what became of the messages of a queue last, where its `outcomes` setting keeps that."""
    used(context, name)
    broker = context.broker
    found = broker.run_steps(_work.last_outcomes(broker.queue(name).work, last))
    none = f"{name} keeps no outcomes: `rq-dlq policy set {name} --outcomes 100000` has it keep about so many"
    context.output.rows([asdict(outcome) for outcome in found], _show.OUTCOMES, none)


@queue.command("pause")
@click.argument("name")
@pass_context
def pause(context: Context, name: str) -> None:
    """Hand out nothing of a queue until it is resumed; sending, settling and expiry go on."""
    used(context, name)
    new = context.broker.queue(name).pause()
    told = f"`rq-dlq queue resume {name}` hands out again"
    context.output.say(f"{name} is paused: {told}" if new else f"{name} was paused already: {told}")


@queue.command("resume")
@click.argument("name")
@pass_context
def resume(context: Context, name: str) -> None:
    """Hand out the messages of a queue again."""
    used(context, name)
    new = context.broker.queue(name).resume()
    context.output.say(f"{name} goes on" if new else f"{name} was not paused")


@queue.command("reset")
@click.argument("name")
@pass_context
def reset(context: Context, name: str) -> None:
    """Begin the totals of a queue anew; what is in it counts as sent."""
    used(context, name)
    count = context.broker.queue(name).reset()
    context.output.say(f"the totals of {name} begin anew, with {_show.many(count, 'message')} in it")


@queue.command("purge")
@click.argument("name")
@yes_option
@pass_context
def purge(context: Context, name: str, *, yes: bool) -> None:
    """Remove all that waits in a queue, for good; what is being worked on is left alone."""
    if is_view(context, name) or context.broker.settings.naming.resolve(name).part != "live":
        message = f"{name} is what died or expired in queues: `rq-dlq dlq purge {name}` removes it"
        raise Failure(message)
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
    used(context, name)
    messages = context.broker.queue(name).peek(limit)
    rows = [_show.message_row(message) for message in messages]
    context.output.rows(rows, _show.MESSAGES, f"nothing is ready in {name}")


def is_view(context: Context, name: str) -> bool:
    """Whether policies gave this name to what died or expired in other queues."""
    broker = context.broker
    broker.settings.naming.resolve(name)  # says what is wrong with a name that is none
    return bool(broker.run_steps(asked(_calls.is_alias(broker.settings.namespace, name))))


def used(context: Context, name: str) -> None:
    """Check that somebody used a queue, or that the name is one for what died in others.

    Raises:
        Failure: neither.
    """
    if not is_view(context, name):
        home_of(context, name)


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
