"""`rq-dlq dlq redrive` and `rq-dlq dlq jobs`: redrive dead letters, in one or several steps."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from rq_dlq.cli import _show
from rq_dlq.cli._completion import groups
from rq_dlq.cli._context import PART_WAY, CliCommand, CommandFailed, Context, pass_context
from rq_dlq.cli._edits import edit_of
from rq_dlq.cli._letters import all_found, bulk, check, group_of, letters_of, these
from rq_dlq.cli._options import by_option, confirm, queue_argument
from rq_dlq.cli._progress import progress_bar
from rq_dlq.cli.queues import is_view
from rq_dlq.client.choosing import dead_choice
from rq_dlq.client.selection import target_of
from rq_dlq.core.processes import processes
from rq_dlq.core.redrive.record import NUMBERS
from rq_dlq.core.redrive.terms import Terms
from rq_dlq.core.steps import driving
from rq_dlq.core.steps.step import NodeUnavailable
from rq_dlq.errors import InvalidInput, MissingRights
from rq_dlq.values.changed import Changed
from rq_dlq.values.readable import many, some

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq.client.dlq import DeadLetters
    from rq_dlq.client.plan import Plan
    from rq_dlq.client.redrive import RedriveJob
    from rq_dlq.core.changing.plans import Planned
    from rq_dlq.values.changed import Refusal

NAMED = 10  # the most refusals or queues that are named
VERBS = ("pause", "resume", "cancel", "undo")
JOBS = (
    _show.Column("id", "bold", "job"), _show.Column("state"), _show.Column("moved"),
    _show.Column("acked", "green"), _show.Column("died", "red"), _show.Column("began"),
    _show.Column("why", wrap=True),
)  # fmt: skip


@click.command("redrive", cls=CliCommand)
@click.option(
    "--group", metavar="GROUP", shell_complete=groups, help="Only this kind of failure, from `groups`."
)
@click.option("--limit", type=click.IntRange(1), help="At most this many dead letters.")
@click.option("--newest", "order", flag_value="newest", default="oldest", help="Redrive the newest first.")
@click.option(
    "--canary",
    type=int,
    metavar="N",
    help="Redrive this many first, the others when these have succeeded.",
)
@click.option("--rate", type=float, metavar="N", help="At most this many messages a second.")
@click.option(
    "--min-success", type=float, metavar="PART", help="Pause if a smaller part is acked; 0.95 with a canary."
)
@click.option("--to", metavar="QUEUE", help="Move them to this queue instead.")
@click.option("--create", is_flag=True, help="Create that queue if it does not exist.")
@click.option(
    "--edit",
    metavar="PATCH",
    help="Edit the bodies: a JSON patch, '[{\"op\": …}]', or a merge patch, '{\"name\": value}'; or a file.",
)
@click.option(
    "--ttl", metavar="SPAN|keep", help="Expire them after this time; keep: at their old expiry times."
)
@by_option
@click.option("--detach", is_flag=True, help="Leave the redrive to workers and maintenance.")
@click.option("--dry-run", is_flag=True, help="Only count the messages.")
@bulk
def redrive(
    context: Context,
    /,
    name: str,
    *,
    group: str | None,
    limit: int | None,
    order: Any,
    dry_run: bool,
    **options: Any,
) -> None:
    """Move dead letters back to their queue.

    They keep their ids and their histories, and get a fresh budget.

    With --edit, a message stays dead if the patch does not fit its body. If a redrive with --edit or --to is
    interrupted, repeat the command to do the rest.
    """
    chosen = {key: options.pop(key) for key in ("ids", "where", "everything", "yes")}
    check(chosen, ("--group", group))
    letters = letters_of(context, name)
    changes = _changes(context, options)
    which: dict[str, Any] = {
        "where": chosen["where"],
        "group": group_of(letters, group, name),
        **these(chosen),
    }
    which |= {"limit": limit, "order": order, "all": which["all"] and limit is None}
    if dry_run:
        _tell_plan(context, letters.redrive(dry_run=True, **which, **changes), keep=options["ttl"] == "keep")
        return
    plan = None
    if not chosen["ids"]:
        plan = letters.redrive(dry_run=True, **which, **{**options, **changes})
        _confirm(plan, name, options, yes=chosen["yes"])
    alone = bool(options["to"] or options["edit"])  # only this process can drive it
    begun: dict[str, Any] = {**options, **changes}
    begun["detach"] = options["detach"] or not (alone or is_view(context, name))
    job = _begun(letters, which, begun, None if plan is None else plan._planned)  # noqa: SLF001 - see `_begun`
    if options["detach"]:
        _say_detached(context, name, job)
    else:
        drive(context, name, job, alone=alone)
    all_found(context, chosen, Changed(job.counts.eligible, job.counts.leased))


def _confirm(plan: Plan[Any], name: str, options: dict[str, Any], *, yes: bool) -> None:
    """Ask whether to move the messages of a plan, unless that was answered with --yes."""
    where = f"to {options['to']}" if options["to"] else "back to the queue"
    what = ", with edited bodies" if options["edit"] else ""
    confirm(f"Move {many(plan.eligible, 'dead letter')} of {name} {where}{what}", yes=yes)


def _say_detached(context: Context, name: str, job: RedriveJob) -> None:
    """Tell the user of a redrive in the background, and if no reporting process would continue it."""
    _tell(context, job)
    context.output.say(
        f"redrive {job.id} continues in the background: `rq-dlq dlq jobs {name}` shows its progress"
    )
    with suppress(MissingRights, NodeUnavailable):  # then nothing is known about processes
        reports = context.broker._run(
            driving.unrepeated(processes.processes(context.broker.settings.namespace))
        )
        alive = [one for one in reports if one.state != "silent"]
        left = {part.family for part in job._parts}  # noqa: SLF001 - users do not need it
        left -= {queue for one in alive for queue in one.queues}
        if left and not any("redrives" in one.roles for one in alive):
            whose = some(sorted(left), NAMED)
            context.output.say(
                f"no worker of {whose} and no maintenance process for redrives is reporting: the redrive "
                "waits for one, such as `rq-dlq maintain`"
            )


def _begun(
    letters: DeadLetters[Any], which: dict[str, Any], terms: dict[str, Any], planned: Planned | None
) -> RedriveJob:
    """Begin a redrive without driving it; `drive` shows its progress, and may pause it."""
    conditions: Any = {name: which.pop(name) for name in ("ids", "group")}
    to = terms.pop("to")
    target = None if to is None else target_of(to, letters._broker)
    wanted = dead_choice(conditions, **which)
    wanted.check_bulk("redrive")
    wanted = wanted if planned is None else planned.choice
    return letters._begun(wanted, Terms(to=target, **terms), planned)  # noqa: SLF001 - `redrive` would wait


def _tell_plan(context: Context, plan: Plan[Any], *, keep: bool) -> None:
    """Show the plan of a redrive; with `keep`, messages past their time to live stay dead."""
    back = plan.eligible - plan.refused - keep * plan.expired
    numbers = _show.attributes(plan, "eligible", "expired", "gone", "refused", "leased")
    context.output.record({**numbers, "comes_back": back})
    if plan.expired:
        fate = "stay dead" if keep else "are redriven anyway; with --ttl keep they stay dead"
        context.output.say(f"expired: dead letters whose time to live has ended. They {fate}")
    _say_refused(context, plan.refusals)


def _changes(context: Context, options: dict[str, Any]) -> dict[str, Any]:
    """The changes to the messages, from the options.

    Raises:
        CommandFailed: the queue does not exist, or the edit is not valid.
    """
    to, edit = options["to"], options["edit"]
    if to and not options["create"] and to not in context.broker.queues():
        message = (
            f"there is no queue {to!r}: `rq-dlq queue ls` lists all that were ever used, --create creates it"
        )
        raise CommandFailed(message)
    return {
        **{name: options[name] for name in ("to", "create", "ttl")},
        "edit": None if edit is None else edit_of(edit),
    }


def drive(context: Context, name: str, job: RedriveJob, *, alone: bool = False) -> None:
    """Drive a redrive to its end, and show its progress.

    Args:
        alone: no other process can continue it, so it ends with this one.

    Raises:
        CommandFailed: it paused, some messages stay dead, or Ctrl-C paused it.
    """
    told: dict[str, Any] = {}
    with progress_bar(context.output.stderr, "redriven") as advance:

        def progress(job: RedriveJob) -> None:
            nonlocal told
            advance(job.counts.moved, job.counts.eligible)
            if context.output.format == "jsonl":
                told = _tell(context, job, told)

        try:
            job.wait(progress=progress)
        except KeyboardInterrupt:
            job.refresh()
            if job.state == "running":
                job.pause()
            how_far = _stopped(name, job, "stopped", alone=alone)
            _tell(context, job, told)
            raise CommandFailed(how_far, PART_WAY) from None
    how_far = _stopped(name, job, job.why, alone=alone) if job.state == "paused" else ""
    _tell(context, job, told)
    if how_far:
        raise CommandFailed(how_far, PART_WAY)
    how = f" ({job.how})" if job.how else ""
    done = job.carried_out
    context.output.say(
        "; ".join(
            [f"moved {many(job.counts.moved, 'message')} back{how}", *(done.differences if done else ())]
        )
    )
    if expired := job.counts.expired:
        stay = "stays dead: its" if expired == 1 else "stay dead: their"
        context.output.say(f"{many(expired, 'dead letter')} {stay} time to live has ended")
    if refused := job.counts.refused:
        _say_refused(context, job.refusals)
        stay = "stays" if refused == 1 else "stay"
        raise CommandFailed(f"{many(refused, 'dead letter')} could not be changed and {stay} dead")


def _say_refused(context: Context, refusals: Sequence[Refusal]) -> None:
    for refusal in refusals[:NAMED]:
        context.output.say(f"{refusal.id}: {refusal.why}")


def _stopped(name: str, job: RedriveJob, why: str, *, alone: bool) -> str:
    if alone and job.state == "paused":
        job.cancel()
    counts = job.counts
    how_far = (
        f"{why}: {counts.moved:,} of {counts.eligible:,} are back, and redrive {job.id} is {job.state}; "
    )
    resume = f"`rq-dlq dlq jobs {name} {job.id} resume` continues; `… undo` takes back unclaimed messages"
    return how_far + ("repeat the command for those that are still dead" if alone else resume)


@click.command("jobs", cls=CliCommand, short_help="List the redrives of a queue, show one, or manage it.")
@queue_argument
@click.argument("job_id", metavar="[ID]", required=False)
@click.argument("verb", metavar=f"[{'|'.join(VERBS)}]", type=click.Choice(VERBS), required=False)
@by_option
@pass_context
def jobs(context: Context, name: str, *, job_id: str | None, verb: str | None, by: str | None) -> None:
    """List the redrives of a queue, show one with all its counts, or manage it.

    `resume` drives it until it is done. `undo` takes back unclaimed messages.
    """
    letters = letters_of(context, name)
    if job_id is None:
        rows = [row(job) for job in letters.jobs()]
        if context.output.format == "table":
            rows = [one | {"moved": f"{one['moved']:,} of {one['eligible']:,}"} for one in rows]
        context.output.rows(rows, JOBS, f"there are no redrives of {name} in the last week")
        return
    try:
        job = letters.job(job_id)
    except InvalidInput:
        known = f"`rq-dlq dlq jobs {name}` lists those of the last seven days"
        raise CommandFailed(f"there is no redrive {job_id!r} of {name}: {known}") from None
    if verb is None:
        context.output.record(row(job))
        return
    if verb == "resume" and job.state == "done":
        raise CommandFailed(f"redrive {job.id} is already done: there is nothing to resume")
    try:
        getattr(job, verb)(by=by)
    except InvalidInput as error:  # the state of the redrive does not allow the verb
        raise CommandFailed(str(error), error=error) from None
    if verb == "resume":
        drive(context, name, job)
        if job.counts.leased:
            context.output.say(_show.left_leased(job.counts.leased))
        return
    _tell(context, job)
    taken = f": {many(job.counts.undone, 'message')} dead again" if verb == "undo" else ""
    context.output.say(f"redrive {job.id} is {job.state}{taken}")


def _tell(context: Context, job: RedriveJob, told: dict[str, Any] | None = None) -> dict[str, Any]:
    """Write a redrive for programs, unless that would repeat the row before; returns its row."""
    now = row(job)
    if now != told and context.output.format != "table":
        context.output.record(now)
    return now


def row(job: RedriveJob) -> dict[str, Any]:
    """A redrive."""
    counts = _show.attributes(job.counts, *NUMBERS)
    return {"id": job.id, "state": job.state, **counts} | _show.attributes(
        job, "by", "began", "chosen", "how", "why"
    )
