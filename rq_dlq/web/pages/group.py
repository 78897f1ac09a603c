"""One group of dead letters: the story of a sample, the dead letters, and the redrives of the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException

from rq_dlq.core.choosing.choice import is_group
from rq_dlq.errors import InvalidInput
from rq_dlq.web import plans
from rq_dlq.web.site import Site, act, asked, go_to, number_of, verb_of
from rq_dlq.web.story import story_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from rq_dlq.asyncio.queue import Queue
    from rq_dlq.values.counts import ErrorGroup

LETTERS, MOST_PAGES = 20, 25
VERBS = ("mute", "unmute")
CANARY = 10  # the default size of a canary


async def group(site: Site, request: Request) -> Response:
    """Show a group; with `plan`, also the plan of its redrive."""
    queue, mark = await site.queue(request), asked(request, "id")
    found = await group_of(queue, mark)
    number = min(max(number_of(request.query_params, "letters", int) or 1, 1), MOST_PAGES)
    letters = await queue.dlq.browse(group=mark, limit=LETTERS * number + 1, order="newest")
    sample = await queue.explain(found.sample_id)
    seen = await site.hub.now()
    redrives = [one for one in seen.by_name[queue.name].redrives if one.state in {"running", "paused"}]
    return site.page(
        request, "group.html", queue=queue, group=found, sample=sample, now=seen.at,
        story=story_of(sample, seen.at), letters=letters[LETTERS * (number - 1) : LETTERS * number],
        number=number, following=len(letters) > LETTERS * number and number < MOST_PAGES,
        last=number == MOST_PAGES, redrives=redrives, canary=min(CANARY, found.count),
        given=request.query_params, **await _planned(site, queue, mark, request.query_params),
    )  # fmt: skip


@act
async def steer(site: Site, request: Request) -> Response:
    """Mute or unmute a group."""
    queue, verb, mark = await site.queue(request), verb_of(request, VERBS, "a group"), asked(request, "id")
    form = await request.form()
    if verb == "mute":
        await group_of(queue, mark)
        await queue.dlq.mute(group=mark, until=str(form.get("until") or "") or None, by=site.by(request))
    else:
        await queue.dlq.unmute(group=mark, by=site.by(request))
    return go_to(request, "group", queue=queue.name, id=mark)


async def group_of(queue: Queue[Any], mark: str) -> ErrorGroup:
    """The group with a fingerprint.

    Raises:
        HTTPException: the group does not exist, or has no dead letters any more.
    """
    groups = await queue.dlq.groups(group=mark) if is_group(mark) else []
    for found in groups:
        if found.fingerprint == mark:
            return found
    gone = (
        f"there is no group {mark!r} of {queue.name!r} (any more): its dead letters were redriven or removed"
    )
    raise HTTPException(404, gone)


def terms_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The terms of a redrive in a form."""
    success = number_of(given, "min_success", float)
    return {
        "canary": number_of(given, "canary", int) or None,
        "rate": number_of(given, "rate", float),
        "min_success": None if success is None else success / 100,
    }


async def _planned(site: Site, queue: Queue[Any], mark: str, given: Mapping[str, Any]) -> dict[str, Any]:
    if "plan" not in given:
        return {"plan": None, "terms": None, "wrong": ""}
    try:
        terms = terms_of(given)
        plan = await queue.dlq.redrive(group=mark, dry_run=True, **terms)
    except InvalidInput as error:  # shown in the form, for the user to correct
        return {"plan": None, "terms": None, "wrong": str(error)}
    if terms["canary"]:
        terms["canary"] = min(terms["canary"], plan.eligible) or None
    text = plans.written(site.access, queue, "redrive", plan, {"group": mark}, terms=terms)
    return {"plan": plan, "terms": terms, "wrong": "", "plan_text": text}
