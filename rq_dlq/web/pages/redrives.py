"""Redrives: begin, watch and manage them; and the audit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException

from rq_dlq.core.redrive.terms import Terms
from rq_dlq.errors import RqDlqError
from rq_dlq.values.readable import many
from rq_dlq.web import live, plans
from rq_dlq.web.site import Site, act, asked, go_to, verb_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from rq_dlq.asyncio.queue import Queue
    from rq_dlq.asyncio.redrive import RedriveJob

AUDIT = 100  # entries
NONE_LEFT = "none of these messages is dead any more: they were redriven or removed in the meantime"
VERBS = ("pause", "resume", "cancel", "undo")


async def redrives(site: Site, request: Request) -> Response:
    """Show the redrives of the last week, and the audit."""
    seen = await site.hub.now()
    found = [one for queue in seen.queues for one in queue.redrives]
    found.sort(key=lambda one: one.asked.at, reverse=True)
    audit = await site.broker.audit(AUDIT)
    return site.page(request, "redrives.html", found=found[:AUDIT], audit=audit, now=seen.at)


async def redrive(site: Site, request: Request) -> Response:
    """Show a redrive and its progress."""
    queue = await site.queue(request)
    try:
        values = live.redrive(site, await site.hub.now(), request.query_params)
    except HTTPException:  # the redrive may have just begun
        values = live.redrive(site, await site.hub.now(within=0), request.query_params)
    return site.page(request, "redrive.html", queue=queue, **values)


@act
async def begin(site: Site, request: Request) -> Response:
    """Begin a redrive of a group, or of one message."""
    queue, form = await site.queue(request), await request.form()
    plan = plans.read(site.access, queue, "redrive", form.get("plan"))
    planned, letters = plan.planned(queue.name), queue.dlq
    given: dict[str, Any] = {**plan.terms, "by": site.by(request), "detach": True}
    job = await letters._begun(planned.choice, Terms(**given), planned)  # noqa: SLF001 - it would be driven
    return begun(site, request, queue, job)


def begun(site: Site, request: Request, queue: Queue[Any], job: RedriveJob) -> Response:
    """Drive a redrive that has begun, and go to its page.

    Raises:
        HTTPException: it has no messages.
    """
    if not job.counts.eligible:
        leased = job.counts.leased
        why = f"nothing was redriven: {many(leased, 'dead letter')} being processed" if leased else NONE_LEFT
        raise HTTPException(409, why)
    drive(site, job)
    return go_to(request, "redrive", queue=queue.name, id=job.id)


@act
async def steer(site: Site, request: Request) -> Response:
    """Pause, resume, cancel or undo a redrive."""
    queue, verb = await site.queue(request), verb_of(request, VERBS, "a redrive")
    job = await queue.dlq.job(asked(request, "id"))
    await getattr(job, verb)(by=site.by(request))
    if verb == "resume":
        drive(site, job)
    return go_to(request, "redrive", queue=queue.name, id=job.id)


def drive(site: Site, job: RedriveJob) -> None:
    """Drive a redrive in the background; if this process ends, workers and maintenance continue it."""

    async def go_on() -> None:
        try:
            await job.wait()
        except RqDlqError:  # Redis is down; other processes continue the redrive
            return

    task = asyncio.create_task(go_on())
    site.tasks.add(task)
    task.add_done_callback(site.tasks.discard)
