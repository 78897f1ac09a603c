"""All queues: the problems, and since when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rq_dlq.core.looking.monitor import ALL
from rq_dlq.web import live

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from rq_dlq.web.site import Site


async def overview(site: Site, request: Request) -> Response:
    """Show all queues, or the ones found by a search."""
    values = live.overview(site, await site.hub.now(), request.query_params)
    points = msgspec.json.encode(site.hub.monitor.columns(ALL)).decode()
    return site.page(request, "overview.html", points=points, **values)
