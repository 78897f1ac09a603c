"""One queue: its counts, its dead and waiting messages, and why it is stuck."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rq_dlq.core.choosing.choice import PLACES
from rq_dlq.core.gathers import reading
from rq_dlq.values.names import Address
from rq_dlq.web import live
from rq_dlq.web.pages.lanes import FormLane
from rq_dlq.web.site import act, asked, go_to, verb_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from rq_dlq.asyncio.queue import Queue
    from rq_dlq.values.gathered import GatherStatus
    from rq_dlq.web.site import Site

PEEKED = 10  # messages
GATHERS = 10  # the oldest ones
COUNTED, ROWS = 10_000, 20  # how many messages are counted by a header, how many values are shown
VERBS = ("pause", "resume")


async def queue(site: Site, request: Request) -> Response:
    """Show a queue; for the name of a dead-letter or expiry queue, go to its queue, or list its queues."""
    name = asked(request, "name")
    if (meant := await site.meant(name)) != [Address(name)]:
        seen = await site.hub.now()
        if len(meant) > 1:
            return site.page(request, "shared.html", name=name, meant=meant, by_name=seen.by_name)
        return go_to(request, "queue", name=meant[0].family)
    found = site.queue_named(name)
    settings = await found.settings()
    rule = str(settings.per_key or "")
    if rule:
        await site.hub.list_keys(name)
    values = live.queue(site, await site.hub.now(), {"name": name, "keys": rule})
    points = msgspec.json.encode(site.hub.monitor.columns(found.name)).decode()
    return site.page(
        request, "queue.html", points=points, peeked=await found.peek(PEEKED), settings=settings,
        gathers=await _gathers(found, values),
        set=[one for one in settings.sources if one.source != "default"],
        **await _counted(found, request.query_params), **values,
    )  # fmt: skip


async def _gathers(queue: Queue[Any], values: Mapping[str, Any]) -> list[GatherStatus]:
    """The oldest gathers whose message waits here; none is read where none is counted."""
    if not values["queue"].stats.gathers:
        return []
    return await queue._run(reading.statuses_of(queue._core.keys, GATHERS))


async def _counted(queue: Queue[Any], given: Mapping[str, str]) -> dict[str, Any]:
    """Count the first messages in a state by a header, or by their keys."""
    header, places = given.get("count_by", "").strip(), given.get("place", "")
    if not header:
        return {"counted": None, "header": "", "place": places}
    wanted: Any = [places] if places in PLACES else ["ready", "scheduled"]
    found = await queue.select(places=wanted, limit=COUNTED + 1).count_by(header)
    return {
        "counted": [*found.items()][:ROWS], "header": header, "place": places, "values": len(found),
        "looked": min(COUNTED, sum(found.values())), "more": sum(found.values()) > COUNTED,
    }  # fmt: skip


@act
async def steer(site: Site, request: Request) -> Response:
    """Pause or resume a queue, or its messages with a key or a dependency; probe a dependency."""
    form, found = await request.form(), await site.queue(request, "name")
    lane = FormLane.of_form(form, site.masks)
    of_dependency = lane is not None and lane.of == "dependency"
    verb = verb_of(request, (*VERBS, "probe") if of_dependency else VERBS, "a queue")
    how = {"close": True} if of_dependency and form.get("close") else {}
    await getattr(lane.among(found) if lane else found, verb)(by=site.by(request), **how)
    return go_to(request, "queue", name=found.name)
