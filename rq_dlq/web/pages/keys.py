"""One key: the first message that waits for it, and the messages that hold its seats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rq_dlq.web.pages.lanes import check_visible
from rq_dlq.web.site import Site, asked

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

HOLDERS = 10  # the most that the page explains


async def key(site: Site, request: Request) -> Response:
    """Show a key of a queue, whether messages have it or not."""
    queue, text = await site.queue(request), asked(request, "key")
    check_visible("key", text, site.masks)
    stats, settings = await queue.key(text).stats(), await queue.settings()
    head = await queue.explain(stats.head) if stats.head else None
    held = [(consumer, await queue.explain(holder)) for holder, consumer in stats.held_by[:HOLDERS]]
    now = (await site.hub.now()).at
    return site.page(
        request, "key.html", queue=queue, stats=stats, rule=settings.per_key, head=head, held=held, now=now
    )
