"""One queue: its counts, what died, what waits, why nothing moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rq_dlq.web import live

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from rq_dlq.web.site import Site

PEEKED = 10  # messages


async def queue(site: Site, request: Request) -> Response:
    """Show a queue."""
    found = await site.queue(request, "name")
    values = live.queue(site, await site.hub.now(), request.query_params)
    points = msgspec.json.encode(site.hub.history.columns(found.name)).decode()
    settings = await found.settings()
    return site.page(
        request, "queue.html", points=points, peeked=await found.peek(PEEKED), settings=settings,
        set=[one for one in settings.sources if one.source != "default"], **values,
    )  # fmt: skip
