"""`rq-dlq queue …` and `rq-dlq peek`: show, pause, empty and delete queues."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from rq_dlq.cli import _listed, _reports, _show
from rq_dlq.cli._completion import queues as names
from rq_dlq.cli._context import UNREACHABLE, CliCommand, CliGroup, CommandFailed, Context, pass_context
from rq_dlq.cli._options import (
    all_option,
    by_option,
    carry_out,
    confirm,
    dependency_option,
    end,
    exactly_one,
    key_option,
    part_of,
    queue_argument,
    until_then,
    where_option,
    yes_option,
)
from rq_dlq.client.dependency import Dependency
from rq_dlq.core.choosing.choice import PLACES
from rq_dlq.core.keyed import outages
from rq_dlq.core.looking.outcomes import last_outcomes
from rq_dlq.core.queues import counts as queues_counts
from rq_dlq.core.queues.names import noted_name
from rq_dlq.core.queues.queue import only_live
from rq_dlq.core.schedules import calls as schedule_calls
from rq_dlq.core.steps.step import MOST
from rq_dlq.errors import MissingRights
from rq_dlq.values import outage
from rq_dlq.values.readable import many, why_still
from rq_dlq.values.visible import visible_line

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from rq_dlq.client.queue import Queue

OUTCOMES = (
    _show.Column("at"), _show.Column("event", "bold"), _show.Column("id"),
    _show.Column("attempt", title="try"), _show.Column("age"), _show.Column("delay"),
    _show.Column("reason", "red"), _show.Column("cause"), _show.Column("error_class", cut=True),
)  # fmt: skip


@click.group(cls=CliGroup)
def queue() -> None:
    """Show, pause, empty and delete queues."""


@queue.command("ls")
@click.option("--maintainers", is_flag=True, help="List the processes that maintain the queues instead.")
@click.option("--dependencies", is_flag=True, help="List dependencies that are down or paused instead.")
@pass_context
def ls(context: Context, *, maintainers: bool, dependencies: bool) -> None:
    """List the queues with their counts.

    The last line is the number of processes that maintain them; --maintainers lists these. A queue that is
    damaged, or whose cluster node does not answer, is listed as unreachable, and the exit code is 3.
    """
    if maintainers:
        table = context.output.format == "table"
        rows = [_reports.maintainer_row(one, table=table) for one in _listed.maintainers(context)]
        context.output.rows(rows, _reports.MAINTAINERS, _reports.NO_MAINTAINER)
        return
    if dependencies:
        _listed.dependencies(context)
        return
    broker = context.broker
    rows = [_listed.row(context, one) for one in broker._run(queues_counts.counts(broker.settings.namespace))]
    lost = [row for row in rows if "unreachable" in row]
    columns = _listed.columns(rows)
    if lost and context.output.format == "table":
        rows = [dict.fromkeys(column.key for column in columns) | row for row in rows]
    context.output.rows(rows, columns, "there are no queues yet: `rq-dlq send` creates one")
    if context.output.format == "table":
        with suppress(MissingRights):  # a user with rights on some queues may have none on processes
            context.output.say(_listed.maintained_by(context))
    if lost:
        raise CommandFailed(f"{len(lost):,} of {many(len(rows), 'queue')} cannot be read", UNREACHABLE)


@queue.command("show")
@click.argument("name", shell_complete=names)
@pass_context
def show(context: Context, name: str) -> None:
    """Show all counts of one queue.

    If messages wait and none is delivered, this gives the reason. Blocked messages are due, but wait for
    others of their key or for a dependency.
    """
    broker = context.broker
    if is_view(context, name):
        context.output.record(_show.queue_row(broker.queue(name).stats()))
        return
    queue = broker.queue(family_of(context, name))
    stats = queue.stats()
    at, found = broker._run(outages.of_queue(queue._core.keys))
    said = [line for one in found if (line := outage.line(one, at))]
    still = "" if said and not stats.ready else why_still(stats, at)  # the outage is why
    more = {"oldest": _listed.oldest(stats, found), "blocked": stats.blocked, "stands_still": still or None}
    context.output.record(_show.queue_row(stats) | more | {"outages": "\n".join(said) or None})
    if stats.blocked and not said and context.output.format == "table":
        context.output.say(
            f"{many(stats.blocked, 'message')} blocked: `rq-dlq key ls {stats.name}` lists their keys, "
            "`rq-dlq queue ls --dependencies` the dependencies that are down or paused"
        )


@queue.command("outcomes")
@click.argument("name", shell_complete=names)
@click.option(
    "--last", type=click.IntRange(1, MOST), default=20, show_default=True, help="At most this many outcomes."
)
@pass_context
def outcomes(context: Context, name: str, last: int) -> None:
    """List the last outcomes of a queue's messages.

    A queue keeps them if its setting `outcomes` is set.
    """
    core = used(context, name)._core
    found = context.broker._run(last_outcomes(core, last))
    none = f"{name} has no outcomes yet"
    if not found and context.broker.policies.explain(core.name).outcomes is None:
        none = f"{name} keeps no outcomes: `rq-dlq policy set {name} --outcomes 100000` keeps about 100,000"
    context.output.rows([asdict(outcome) for outcome in found], OUTCOMES, none)


@queue.command("pause")
@click.argument("name", shell_complete=names)
@key_option
@dependency_option
@click.option(
    "--until", metavar="TIME", callback=end, help='When the pause ends: "2h", or 2027-01-31T08:00+01:00.'
)
@by_option
@pass_context
def pause(
    context: Context,
    /,
    name: str,
    *,
    key_text: str | None,
    dependency: str | None,
    until: datetime | str | None,
    by: str | None,
) -> None:
    """Stop delivering messages of a queue until it is resumed.

    Messages can still be sent, acked and nacked, and they expire.
    """
    what, options, paused = part_of(used(context, name), key_text, dependency)
    state = "is paused" if paused.pause(until=until, by=by) else "was already paused"
    ends, sooner = until_then(until), " sooner" if until else ""
    context.output.say(f"{what} {state}{ends}: `rq-dlq queue resume {name}{options}` resumes it{sooner}")


@queue.command("resume")
@click.argument("name", shell_complete=names)
@key_option
@dependency_option
@by_option
@yes_option
@pass_context
def resume(
    context: Context,
    /,
    name: str,
    *,
    key_text: str | None,
    dependency: str | None,
    by: str | None,
    yes: bool,
) -> None:
    """Deliver the messages of a queue again.

    A dependency that is down is probed by itself, and there is nothing to do. This asks before it lets its
    messages in: their failures are charged from then on, so they die when their tries are used up.
    """
    what, options, paused = part_of(used(context, name), key_text, dependency)
    if isinstance(paused, Dependency) and (found := paused.stats()).condition in {"down", "testing"}:
        confirm(
            f"{what} is down, and is probed by itself. Let {many(found.waiting, 'message')} in, and charge "
            f"their failures (`rq-dlq queue probe {name}{options}` lets one in, uncharged)",
            yes=yes,
        )
        paused.resume(close=True, by=by)
        until = paused.stats().charged_until
        ends = f" until {until:%H:%M} UTC" if until else ""
        context.output.say(f"{what} is resumed: failures will be charged{ends}")
        return
    context.output.say(f"{what} {'is resumed' if paused.resume(by=by) else 'was not paused'}")


@queue.command("probe")
@click.argument("name", shell_complete=names)
@dependency_option
@by_option
@pass_context
def probe(context: Context, /, name: str, *, dependency: str | None, by: str | None) -> None:
    """Test a dependency now: let one message in that waits for it, also while it is paused.

    If it succeeds, a dependency that is down comes back. If it fails, the message is not charged.
    """
    if dependency is None:
        raise click.UsageError("add --dependency: name the one to test")
    tested = used(context, name).dependency(dependency)
    told = "one message is let in" if tested.probe(by=by) else "no message waits for it"
    context.output.say(f"{visible_line(dependency)} in {name}: {told}")


@queue.command("reset")
@click.argument("name", shell_complete=names)
@by_option
@pass_context
def reset(context: Context, name: str, by: str | None) -> None:
    """Reset the totals of a queue; the messages in it count as sent."""
    count = used(context, name).reset(by=by)
    context.output.say(f"the totals of {name} are reset; it has {many(count, 'message')}")


@queue.command("purge")
@click.argument("name", shell_complete=names)
@where_option
@all_option
@by_option
@yes_option
@pass_context
def purge(
    context: Context, name: str, *, where: str | None, everything: bool, by: str | None, yes: bool
) -> None:
    """Remove waiting messages of a queue permanently; leased ones stay."""
    if is_view(context, name) or context.broker.settings.naming.resolve(name).part != "live":
        raise CommandFailed(f"{name} has dead or expired messages: `rq-dlq dlq purge {name}` removes them")
    exactly_one("messages", ("--where", where), ("--all", everything))
    plan = context.broker.queue(family_of(context, name)).purge(where=where, all=everything, dry_run=True)
    confirm(f"Remove {many(plan.eligible, 'waiting message')} of {name} permanently", yes=yes)
    carry_out(context, plan, "removed", "message", by)
    if plan.leased:
        context.output.say(_show.left_leased(plan.leased))


@queue.command("rm")
@click.argument("name", shell_complete=names)
@click.option(
    "--force", is_flag=True, help="Delete it with its schedules and all its messages, even leased ones."
)
@by_option
@yes_option
@pass_context
def rm(context: Context, name: str, *, force: bool, by: str | None, yes: bool) -> None:
    """Delete an empty queue that has no schedules.

    Its name, totals, outcomes and declared settings are deleted. Entries of the map of policies stay. The
    next send creates the queue again.
    """
    found = used(context, name)
    stats, recurring = found.stats(), len(schedules_of(context, found))
    only_live(found._core, "delete")
    also = f" and {many(recurring, 'schedule')}" if recurring else ""
    if force:
        number = sum(getattr(stats, place) for place in PLACES)
        what = f"all its messages ({number:,} now)" if number else "its messages (none now)"
        confirm(f"Delete {name} with {what}{also} permanently", yes=yes)
    else:
        counts = [f"{count:,} {place}" for place in PLACES if (count := getattr(stats, place))]
        if held := counts + ([many(recurring, "schedule")] if recurring else []):
            raise CommandFailed(
                f"{name} was not deleted, since it is not empty: {', '.join(held)}. "
                f"`rq-dlq queue rm {name} --force` deletes it with all of these"
            )
    context.output.say(f"deleted {name}, with {many(found.delete(force=force, by=by), 'message')}{also}")


@click.command(cls=CliCommand)
@queue_argument
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="At most this many messages."
)
@pass_context
def peek(context: Context, name: str, limit: int) -> None:
    """Show the next messages of a queue, without claiming them."""
    rows = [_show.message_row(message) for message in used(context, name).peek(limit)]
    context.output.rows(rows, _show.MESSAGES, f"no message is ready in {name}")


def is_view(context: Context, name: str) -> bool:
    """Whether this is only the name of a shared dead-letter or expiry queue."""
    noted, also_queue = context.broker._run(noted_name(context.broker.queue(name)._core))
    return noted and not also_queue


def used(context: Context, name: str) -> Queue[Any]:
    """The queue of this name, if it was ever used or is a shared dead-letter or expiry queue.

    Raises:
        CommandFailed: there is no such queue.
    """
    if not is_view(context, name):
        family_of(context, name)
    return context.broker.queue(name)


def schedules_of(context: Context, queue: Queue[Any]) -> Collection[str]:
    """The names of a queue's schedules, including unreadable ones."""
    broker = context.broker
    return broker._run(broker._step(schedule_calls.records(queue._core.keys)))


def family_of(context: Context, name: str) -> str:
    """The queue that a name belongs to: it may also be the name of its dead-letter or expiry queue.

    Raises:
        CommandFailed: the queue was never used.
    """
    family = context.broker.settings.naming.resolve(name).family
    if family not in context.broker.queues():
        raise CommandFailed(f"there is no queue {family!r}: `rq-dlq queue ls` lists all that were ever used")
    return family
