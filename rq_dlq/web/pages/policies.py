"""Policies: the entries, the waits, and a simulated outage."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from rq_dlq.web.site import Site, number_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from rq_dlq.policy import RedeliveryPolicy

MESSAGES, MOST, OUTAGE = 1_000, 10_000, "5m"
ROWS = 30  # redeliveries


async def policies(site: Site, request: Request) -> Response:
    """Show the entries of the map; for a queue, also its waits and a simulated outage."""
    given = request.query_params
    stored = await site.broker.policies.read()
    name = given.get("queue", "")
    values: dict[str, Any] = {"settings": None}
    if name:
        settings = await site.broker.policies.explain(name)
        preview = settings.redelivery.preview(ROWS)
        values = {"settings": settings, "preview": preview, **await _simulated(settings.redelivery, given)}
    seen = await site.hub.now()
    queues = sorted({*seen.by_name, *(queue.name for queue in seen.unreachable)})
    entries = sorted(stored.entries.items())
    return site.page(
        request, "policies.html", entries=entries, unreadable=stored.unreadable, name=name, queues=queues,
        messages=given.get("messages") or MESSAGES, outage=given.get("outage") or OUTAGE,
        rate=given.get("rate", ""), **values,
    )  # fmt: skip


async def _simulated(policy: RedeliveryPolicy, given: Mapping[str, str]) -> dict[str, Any]:
    messages = min(number_of(given, "messages", int) or MESSAGES, MOST)
    outage, rate = given.get("outage") or OUTAGE, number_of(given, "rate", float)
    play = partial(policy.simulate, messages, outage, rate)
    simulated = await asyncio.to_thread(play)  # it may take seconds
    most = max((row.failed + row.done for row in simulated.rows), default=0)
    return {"simulated": simulated, "most": max(most, 1), "lines": str(simulated).partition("\n\nredel")[0]}
