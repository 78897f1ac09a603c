"""The schedules."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from rq_dlq.web.site import Site


async def schedules(site: Site, request: Request) -> Response:
    """Show the schedules, the next one first."""
    found = await site.broker.schedules()
    found.sort(key=lambda one: (one.next_at.timestamp() if one.next_at else inf, one.queue, one.name))
    return site.page(request, "schedules.html", found=found, now=(await site.hub.now()).at)
