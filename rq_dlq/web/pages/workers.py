"""The worker processes, with their hosts, versions and held messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from rq_dlq.web.site import Site


async def workers(site: Site, request: Request) -> Response:
    """Show the worker processes: first the silent ones, then those that have held a message the longest."""
    found = await site.broker.workers()
    found.sort(key=lambda one: (one.state != "silent", -(one.oldest or 0), one.process))
    return site.page(request, "workers.html", found=found)
