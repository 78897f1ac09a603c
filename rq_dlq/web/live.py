"""The parts of pages that are updated automatically, and the stream of updates."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from rq_dlq.core.looking.monitor import ALL
from rq_dlq.core.looking.trouble import OLD, Trouble, troubles
from rq_dlq.errors import RqDlqError
from rq_dlq.policy.per_key import PerKey
from rq_dlq.web.shown import link
from rq_dlq.web.site import Site, missing, root_of

if TYPE_CHECKING:
    from starlette.requests import Request

    from rq_dlq.core.looking.overview import Overview, QueueOverview
    from rq_dlq.core.redrive.record import Redrive

MOST_ROWS = 50  # the most queues on a page; search finds the others
MOST_TROUBLES = 8
MOST_GROUPS = 25
Asked: TypeAlias = Mapping[str, str]
Values: TypeAlias = dict[str, Any]


def overview(site: Site, seen: Overview, asked: Asked) -> Values:
    """All queues: problems, rates, and the most interesting queues first; `calm`: nothing is wrong."""
    found = _troubles(site, seen, seen.queues)
    words = asked.get("q", "").lower()
    chosen = [queue for queue in seen.queues if words in queue.name.lower()]
    rates = site.hub.monitor.rates
    oldest = max((queue.oldest or 0 for queue in seen.queues), default=0)
    wrong = {one.queue: one.level for one in reversed(found) if one.level != "calm"}
    chosen.sort(key=lambda queue: _weight(queue, wrong), reverse=True)
    shown = chosen[:MOST_ROWS]
    return {
        "at": seen.at,
        "troubles": found[:MOST_TROUBLES],
        "calm": not wrong,
        "more_troubles": max(0, len(found) - MOST_TROUBLES),
        "all": rates(ALL),
        "ready": sum(queue.stats.ready for queue in seen.queues),
        "parked": sum(queue.parked for queue in seen.queues),
        "died": rates(ALL).died * 60,
        "oldest": oldest,
        "old": oldest > OLD,
        "rows": [(queue, rates(queue.name), wrong.get(queue.name, "")) for queue in shown],
        "hidden": len(chosen) - len(shown),
        "queues": len(seen.queues),
        "gaps": seen.gaps,
        "lost": [one for one in seen.unreachable if words in one.name.lower()][:MOST_ROWS],
        "words": words,
        "groups": _groups_found(site, seen, words) if words else [],
    }


def _troubles(site: Site, seen: Overview, queues: Sequence[QueueOverview]) -> list[Trouble]:
    dead = [queue.name for queue in queues if queue.stats.dead]
    return troubles(queues, seen.at, {name: site.hub.monitor.rates(name).died for name in dead})


def _weight(queue: QueueOverview, wrong: Mapping[str, str]) -> tuple[object, ...]:
    stats = queue.stats
    return (
        {"bad": 2, "warn": 1}.get(wrong.get(queue.name, ""), 0),
        bool(stats.dead),
        stats.leased + stats.ready,
        stats.waiting + stats.expired,
    )


def _groups_found(site: Site, seen: Overview, words: str) -> list[Any]:
    """Search the groups by their visible text, so that hidden text cannot be guessed."""

    def has_words(error: str) -> bool:
        return words in error.lower() and words in site.masks.text(error).lower()

    found = [
        (queue.name, group)
        for queue in seen.queues
        for group in queue.groups
        if has_words(group.error) or group.fingerprint.startswith(words)
    ]
    return found[:MOST_ROWS]


def queue(site: Site, seen: Overview, asked: Asked) -> Values:
    """One queue; `keys` is the text of its rule for keys."""
    found = _queue_of(seen, asked.get("name", ""))
    rates = site.hub.monitor.rates(found.name)
    return {
        "at": seen.at,
        "queue": found,
        "stats": found.stats,
        "rates": rates,
        "died": rates.died * 60,
        "troubles": _troubles(site, seen, [found]),
        "rows": [(found.name, group) for group in found.groups[:MOST_GROUPS]],
        "rule": PerKey.of(rule) if (rule := asked.get("keys")) else None,
        "blocked": max(0, found.stats.blocked - found.parked),
        "lanes": site.hub.lanes.get(found.name, []),
    }


def redrive(site: Site, seen: Overview, asked: Asked) -> Values:
    """One redrive and its progress."""
    del site
    found = _queue_of(seen, asked.get("queue", ""))
    for one in found.redrives:
        if one.id == asked.get("id"):
            return {"at": seen.at, "one": one, "verbs": verbs_of(one), "dead": _where_dead(found, one)}
    message = f"there is no redrive {asked.get('id', '')!r} of {found.name!r}: it ended more than a week ago"
    raise HTTPException(404, message)


def verbs_of(one: Redrive) -> tuple[str, ...]:
    """The possible actions on a redrive."""
    if one.state == "running":
        return ("pause", "cancel", "undo")
    if one.state == "paused":
        return ("resume", "cancel", "undo")
    counts = one.counts
    on_the_way = counts.moved - counts.acked - counts.died - counts.undone
    return ("undo",) if one.state in {"done", "cancelled"} and on_the_way > 0 else ()


def _where_dead(found: QueueOverview, one: Redrive) -> str:
    """The page of messages that died again: the redriven group, if it exists, or its queue."""
    for group in found.groups:
        if one.asked.chosen == f"group {group.fingerprint}":
            return link("group", queue=found.name, id=group.fingerprint)
    return link("queue", name=found.name)


def _queue_of(seen: Overview, name: str) -> QueueOverview:
    if (found := seen.by_name.get(name)) is None:
        raise missing(seen, name)
    return found


VIEWS: Mapping[str, Callable[[Site, Overview, Asked], Values]] = {
    "overview": overview,
    "queue": queue,
    "redrive": redrive,
}


async def stream(site: Site, request: Request) -> Response:
    """The changes of a page, as server-sent events: its new content, and the new points of its chart."""
    asked = dict(request.query_params)
    if (view := VIEWS.get(asked.pop("page", ""))) is None:
        raise HTTPException(404, "there is no such page")
    root, key = root_of(request), tuple(sorted(asked.items()))
    keyed = asked.get("name", "") if asked.get("keys") else ""
    PerKey.of(asked.get("keys") or "order")  # raises if it is not a rule

    def event() -> str:
        seen = site.hub.monitor
        if seen.overview is None:
            return _event(site.text("live/away.html", root))
        try:
            values = view(site, seen.overview, asked)
        except HTTPException as gone:
            return _event(site.text("live/gone.html", root, detail=gone.detail))
        html = site.text(f"live/{view.__name__}.html", root, points="[]", **values)
        point = msgspec.json.encode(seen.last(asked.get("name", ALL))).decode()
        return f"{_event(html)}event: point\ndata: {point}\n\n"

    async def events() -> AsyncGenerator[str]:
        async with site.hub.watching(keyed) as turn:
            last = ""
            while site.access.who(request):  # a stream ends with its session
                next_turn = turn()
                new = site.hub.rendered((view, root, key), event)
                yield ":\n\n" if new == last else new
                last = new
                await next_turn.wait()

    with suppress(RqDlqError):  # the stream shows it, and continues once Redis is back
        await site.hub.now()
    return StreamingResponse(events(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})


def _event(html: str) -> str:
    return "".join(f"data: {line}\n" for line in html.splitlines() if line.strip()) + "\n"
