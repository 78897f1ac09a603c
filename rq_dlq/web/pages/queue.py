"""One queue: its counts, what died, what waits, why nothing moves."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from rq_dlq.errors import RqDlqError
from rq_dlq.values.names import Address
from rq_dlq.web import live
from rq_dlq.web.site import act, asked, go_to, verb_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from rq_dlq.web.site import Site

PEEKED = 10  # messages
VERBS = ("pause", "resume")


async def queue(site: Site, request: Request) -> Response:
    """Show a queue; of the name of dead or expired messages, their queue, or the list of their queues."""
    name = asked(request, "name")
    if (meant := await site.meant(name)) != [Address(name)]:
        seen = await site.hub.now()
        if len(meant) > 1:
            return site.page(request, "shared.html", name=name, meant=meant, by_name=seen.by_name)
        return go_to(request, "queue", name=meant[0].family)
    found = site.broker.queue(name)
    values = live.queue(site, await site.hub.now(), request.query_params)
    points = msgspec.json.encode(site.hub.monitor.columns(found.name)).decode()
    settings = await found.settings()
    return site.page(
        request, "queue.html", points=points, peeked=await found.peek(PEEKED), settings=settings,
        set=[one for one in settings.sources if one.source != "default"], **values,
    )  # fmt: skip


@act
async def steer(site: Site, request: Request) -> Response:
    """Pause or resume a queue."""
    found, verb = await site.queue(request, "name"), verb_of(request, VERBS, "a queue")
    await getattr(found, verb)(by=site.by(request))
    with suppress(RqDlqError):  # it is done; the next page says that Redis is away
        await site.hub.now(within=0)
    return go_to(request, "queue", name=found.name)
