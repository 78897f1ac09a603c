"""`rq-dlq dlq redrive` and `rq-dlq dlq jobs`: bring dead letters back, at once or step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rq_dlq.cli import _show
from rq_dlq.cli._context import PART_WAY, Command, Context, Failure, pass_context
from rq_dlq.cli._letters import all_found, bulk, check, group_of, letters_of, these
from rq_dlq.cli._options import confirm, queue_argument
from rq_dlq.cli._progress import progress_bar
from rq_dlq.cli.queues import is_view

if TYPE_CHECKING:
    from rq_dlq.client.redrive import RedriveJob

VERBS = ("pause", "resume", "cancel", "undo")
JOBS = (
    _show.Column("job", "bold"), _show.Column("state"), _show.Column("eligible"), _show.Column("moved"),
    _show.Column("gone"), _show.Column("acked", "green"), _show.Column("died", "red"),
    _show.Column("undone"), _show.Column("by"), _show.Column("began"), _show.Column("chosen", cut=True),
    _show.Column("why", wrap=True),
)  # fmt: skip


@click.command("redrive", cls=Command)
@click.option("--group", metavar="GROUP", help="Those of this kind, as `groups` names it.")
@click.option("--limit", type=click.IntRange(1), help="At most so many.")
@click.option("--newest", "order", flag_value="newest", default="oldest", help="The newest first.")
@click.option("--canary", type=int, metavar="N", help="So many first; the others when these have succeeded.")
@click.option("--rate", type=float, metavar="N", help="So many a second.")
@click.option(
    "--min-success", type=float, metavar="PART", help="Pause where fewer are acked; with a canary 0.95."
)
@click.option("--by", metavar="NAME", help="Who does it, for the audit.")
@click.option("--detach", is_flag=True, help="Leave it to workers and maintenance.")
@click.option("--dry-run", is_flag=True, help="Count only.")
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
    """Bring dead letters back to their queue.

    They keep their ids and their histories, and get all their tries again.
    """
    chosen = {key: options.pop(key) for key in ("ids", "where", "everything", "yes")}
    check(chosen, ("--group", group))
    letters = letters_of(context, name)
    which: dict[str, Any] = {
        "where": chosen["where"],
        "group": group_of(letters, group, name),
        **these(chosen),
    }
    which |= {"limit": limit, "order": order, "all": which["all"] and limit is None}
    if dry_run:
        plan = letters.redrive(dry_run=True, **which)
        context.output.record(_show.attributes(plan, "eligible", "expired", "gone"))
        return
    if not chosen["ids"]:
        found = letters.select(**which).count()
        confirm(f"Bring {_show.many(found, 'dead letter')} of {name} back to the queue", yes=chosen["yes"])
    begun: dict[str, Any] = {**options, "detach": options["detach"] or not is_view(context, name)}
    job = letters.redrive(dry_run=False, **which, **begun)
    if options["detach"]:
        context.output.say(
            f"redrive {job.id} goes on by itself: `rq-dlq dlq jobs {name}` shows how far it is"
        )
    else:
        drive(context, name, job)
    all_found(chosen, job.counts.eligible)


def drive(context: Context, name: str, job: RedriveJob) -> None:
    """Drive a redrive to its end, and show how far it is.

    Raises:
        Failure: it paused; or Ctrl-C, which pauses it.
    """
    told = job.counts
    with progress_bar(context.output.stderr, "redriven") as advance:

        def progress(job: RedriveJob) -> None:
            nonlocal told
            advance(job.counts.moved, job.counts.eligible)
            if job.counts != told and context.output.format == "jsonl":
                told = job.counts
                context.output.record(row(job))

        try:
            job.wait(progress=progress)
        except KeyboardInterrupt:
            job.refresh()
            if job.state == "running":
                job.pause()
            raise Failure(_stopped(name, job, "stopped"), PART_WAY) from None
    if context.output.format == "json":
        context.output.record(row(job))
    if job.state == "paused":
        raise Failure(_stopped(name, job, job.why), PART_WAY)
    context.output.say(f"brought {_show.many(job.counts.moved, 'message')} back")


def _stopped(name: str, job: RedriveJob, why: str) -> str:
    counts = job.counts
    return (
        f"{why}: {counts.moved:,} of {counts.eligible:,} are back, and redrive {job.id} is {job.state}; "
        f"`rq-dlq dlq jobs {name} {job.id} resume` goes on, with `undo` what nobody has touched is dead again"
    )


@click.command("jobs", cls=Command)
@queue_argument
@click.argument("job_id", metavar="[ID]", required=False)
@click.argument("verb", metavar=f"[{'|'.join(VERBS)}]", type=click.Choice(VERBS), required=False)
@click.option("--by", metavar="NAME", help="Who does it, for the audit.")
@pass_context
def jobs(context: Context, name: str, *, job_id: str | None, verb: str | None, by: str | None) -> None:
    """List the redrives of a queue, or manage one.

    `resume` drives it until it is done. An undo takes back what nobody has claimed since.
    """
    letters = letters_of(context, name)
    if job_id is None:
        rows = [row(job) for job in letters.jobs()]
        context.output.rows(rows, JOBS, f"there are no redrives of {name} in the last week")
        return
    job = letters.job(job_id)
    if verb is None:
        context.output.record(row(job))
        return
    getattr(job, verb)(by=by)
    if verb == "resume":
        drive(context, name, job)
        return
    taken = f": {_show.many(job.counts.undone, 'message')} dead again" if verb == "undo" else ""
    context.output.say(f"redrive {job.id} is {job.state}{taken}")


def row(job: RedriveJob) -> dict[str, Any]:
    """A redrive."""
    counts = _show.attributes(job.counts, "eligible", "moved", "gone", "acked", "died", "undone")
    return {"job": job.id, "state": job.state, **counts} | _show.attributes(
        job, "by", "began", "chosen", "why"
    )
