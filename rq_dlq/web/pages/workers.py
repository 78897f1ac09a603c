"""Who works, where, on which version, and what is held for how long."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from rq_dlq.web.site import Site


async def workers(site: Site, request: Request) -> Response:
    """Show the processes that work on queues, the one that holds a message longest first."""
    found = await site.broker.workers()
    found.sort(key=lambda one: (one.state != "silent", -(one.oldest or 0), one.process))
    return site.page(request, "workers.html", found=found)
