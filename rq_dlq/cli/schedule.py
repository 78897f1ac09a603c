"""`rq-dlq schedule …`: recurring sends."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, get_args

import click
import msgspec

from rq_dlq.cli import _show
from rq_dlq.cli._completion import queues
from rq_dlq.cli._context import CliGroup, CommandFailed, Context, pass_context
from rq_dlq.cli._options import by_option, exactly_one, pairs, queue_argument, time
from rq_dlq.cli.queues import schedules_of, used
from rq_dlq.core.schedules.schedule import USUAL_ZONE, Missed
from rq_dlq.values.codec import DEFAULT_PRIORITY, NO_JSON

if TYPE_CHECKING:
    from datetime import datetime

    from rq_dlq.client.queue import Queue

SCHEDULES = (
    _show.Column("queue", wrap=True), _show.Column("name", "bold"),
    _show.Column("rule", wrap=True, below=True), _show.Column("missed", below=True), _show.Column("next_at"),
    _show.Column("last_at", below=True), _show.Column("paused", "bold yellow", below=True),
    _show.Column("declared", below=True),
)  # fmt: skip
schedule_argument = click.argument("schedule_name", metavar="NAME")


@click.group(cls=CliGroup)
def schedule() -> None:
    """Send messages repeatedly, by cron or at intervals."""


@schedule.command("ls")
@click.argument("name", metavar="[QUEUE]", required=False, shell_complete=queues)
@pass_context
def ls(context: Context, name: str | None) -> None:
    """List schedules, with the next tick and the last message of each."""
    if name is not None:
        used(context, name)
    found = [one for one in context.broker.schedules() if name in {None, one.queue}]
    whose = "there are" if name is None else f"{name} has"
    none = f"{whose} no schedules: `rq-dlq schedule add` adds one, @broker.task(every=…) declares one"
    context.output.rows([asdict(one) for one in found], SCHEDULES, none)


def _json(ctx: click.Context, param: click.Parameter, text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except NO_JSON as error:
        raise click.BadParameter(f"{text!r} is not JSON: {error}", ctx, param) from None


@schedule.command("add")
@queue_argument
@schedule_argument
@click.argument("body", callback=_json, default="{}")
@click.option("--cron", metavar="EXPR", help='Such as "0 7 * * mon-fri": minute, hour, day, month, weekday.')
@click.option("--every", metavar="SPAN", help='An interval: "30s", "1h30m".')
@click.option(
    "--timezone",
    default=USUAL_ZONE,
    show_default=True,
    help="The time zone of --cron, such as Europe/Berlin.",
)
@click.option(
    "--missed",
    type=click.Choice(get_args(Missed)),
    default="last",
    show_default=True,
    help="For ticks that passed while no process could send: send the last one, late; all; or none.",
)
@click.option("--ttl", metavar="SPAN", help="Expire messages that are still waiting after this time.")
@click.option(
    "--expires-at",
    metavar="TIME",
    callback=time,
    help="Expire messages that are still waiting at this time, and send none from then on.",
)
@click.option(
    "--priority",
    type=click.IntRange(0, 9),
    default=DEFAULT_PRIORITY,
    show_default=True,
    help="0 last, 9 first.",
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="K=V",
    callback=pairs,
    help="A header of each message; may be repeated. `task=NAME` calls a task.",
)
@click.option("--key", help="The key of each message.")
@click.option("--dependency", help="The dependency of each message.")
@by_option
@pass_context
def add(
    context: Context,
    name: str,
    schedule_name: str,
    body: object,
    *,
    cron: str | None,
    every: str | None,
    timezone: str,
    missed: Missed,
    ttl: str | None,
    priority: int,
    headers: dict[str, str],
    key: str | None,
    dependency: str | None,
    expires_at: datetime | None,
    by: str | None,
) -> None:
    """Send BODY, a JSON value, repeatedly.

    An existing schedule with this name is replaced.
    """
    exactly_one("when it sends", ("--cron", cron), ("--every", every))
    added = context.broker.queue(name).schedule(
        schedule_name,
        body,
        cron=cron,
        every=every,
        timezone=timezone,
        missed=missed,
        ttl=ttl,
        priority=priority,
        headers=headers,
        key=key,
        dependency=dependency,
        expires_at=expires_at,
        by=by,
    )
    when = "is paused"
    if added.next_at is not None:
        when = f"sends next at {_show.text_of('next_at', added.next_at)}"
    context.output.say(f"schedule {schedule_name} of {name} {when}")


@schedule.command("rm")
@queue_argument
@schedule_argument
@by_option
@pass_context
def rm(context: Context, name: str, schedule_name: str, by: str | None) -> None:
    """Remove a schedule; sent messages stay. A schedule of a task returns with its next worker."""
    _queue_of(context, name, schedule_name).unschedule(schedule_name, by=by)
    context.output.say(f"removed schedule {schedule_name} of {name}")


@schedule.command("pause")
@queue_argument
@schedule_argument
@by_option
@pass_context
def pause(context: Context, name: str, schedule_name: str, by: str | None) -> None:
    """Pause a schedule until it is resumed."""
    changed = _queue_of(context, name, schedule_name).pause_schedule(schedule_name, by=by)
    state = "is paused" if changed else "was already paused"
    again = f"`rq-dlq schedule resume {name} {schedule_name}` resumes it"
    context.output.say(f"schedule {schedule_name} of {name} {state}: {again}")


@schedule.command("resume")
@queue_argument
@schedule_argument
@by_option
@pass_context
def resume(context: Context, name: str, schedule_name: str, by: str | None) -> None:
    """Resume a schedule, starting with its next tick."""
    changed = _queue_of(context, name, schedule_name).resume_schedule(schedule_name, by=by)
    state = "is resumed" if changed else "was not paused"
    context.output.say(f"schedule {schedule_name} of {name} {state}")


def _queue_of(context: Context, name: str, schedule_name: str) -> Queue[Any]:
    """The queue, if it has a schedule with this name.

    Raises:
        CommandFailed: it has no such schedule.
    """
    queue = used(context, name)
    if schedule_name not in schedules_of(context, queue):
        raise CommandFailed(
            f"{name} has no schedule {schedule_name!r}: `rq-dlq schedule ls {name}` lists them"
        )
    return queue
