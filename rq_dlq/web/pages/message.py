"""One message: its story, its body and its headers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

from rq_dlq.web import plans
from rq_dlq.web.site import Site, asked
from rq_dlq.web.story import body_text, headers_of, story_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


async def message(site: Site, request: Request) -> Response:
    """Show a message, in any state."""
    queue, wanted = await site.queue(request), asked(request, "id")
    explained = await queue.explain(wanted)
    if (found := explained.message) is None:
        gone = f"there is no message {wanted!r} in {queue.name!r}: {explained.why}"
        raise HTTPException(404, gone)
    plan_text = ""
    if site.access.write and explained.place == "dead":  # its form redrives this death, and no later one
        plan = await queue.dlq.redrive(ids=[wanted], dry_run=True)
        plan_text = plans.written(site.access, queue, "redrive", plan, {"ids": [wanted]})
    now = (await site.hub.now()).at
    return site.page(
        request, "message.html", queue=queue, explained=explained, found=found, now=now,
        story=story_of(explained, now), body=body_text(found, site.masks), size=len(found.data),
        headers=headers_of(found, site.masks), plan_text=plan_text,
    )  # fmt: skip
