"""Actions of operators: purge, redrive or edit dead letters, cancel a message, pause or resume a queue.

Each action has a confirmation page with the number of affected messages. It applies to ticked rows, to the
messages that meet a condition, to one message, or to a queue. `OF_LETTERS` and `OF_QUEUES` list the actions;
each action on a queue has a sentence with the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException

from rq_dlq.client.choosing import dead_choice
from rq_dlq.core.changing import changing
from rq_dlq.core.changing.changing import TAKES
from rq_dlq.core.changing.plans import carry_out
from rq_dlq.core.redrive.edits import exposes, merging, read_json, rewriting
from rq_dlq.core.redrive.terms import Terms
from rq_dlq.errors import InvalidInput, UnprocessableMessage
from rq_dlq.values.codec import Codec
from rq_dlq.values.masks import MOST
from rq_dlq.values.readable import many
from rq_dlq.values.sent import sent_with
from rq_dlq.values.visible import visible, visible_json
from rq_dlq.web import plans
from rq_dlq.web.pages.lanes import FormLane
from rq_dlq.web.pages.redrives import begun
from rq_dlq.web.site import READ_ONLY, Site, act, asked, go_to, number_of, verb_of
from rq_dlq.web.story import body_text

if TYPE_CHECKING:
    from starlette.datastructures import FormData, QueryParams
    from starlette.requests import Request
    from starlette.responses import Response

    from rq_dlq.asyncio.plan import Plan
    from rq_dlq.asyncio.queue import Queue
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.values.counts import QueueStats
    from rq_dlq.values.masks import Masks

    Given = QueryParams | FormData

OF_LETTERS = {"redrive": "Redrive", "edit": "Edit and redrive", "purge": "Purge"}
OF_QUEUES: Mapping[str, Callable[[QueueStats], str]] = {
    "pause": lambda stats: (
        f"{many(stats.waiting, 'message')} will wait until it is resumed, and so will new messages. "
        f"{many(stats.leased, 'message')} being processed may finish."
    ),
    "resume": lambda stats: f"{many(stats.waiting, 'message')} will be delivered as they are due.",
}
OF_DEPENDENCIES = (*OF_QUEUES, "probe")
CANCEL = "cancel"  # cancels one waiting or leased message
QUOTED = re.compile(r"""'(?:[^']|'')*'""")  # texts in a condition
NAMES = re.compile(r"[\w.$\"-]+")
CHANGES = "{}"  # the initial text for editing several messages


@dataclass(frozen=True, slots=True)
class Chosen:
    """The dead letters that a form chooses: all its conditions must be met.

    Attributes:
        ids: the ticked messages, or the message of the page.
        where: a condition, as the user wrote it.
        group: the fingerprint of a group.
    """

    ids: Sequence[str]
    where: str
    group: str

    @classmethod
    def of(cls, given: Given, masks: Masks) -> Chosen:
        """Read a form.

        Raises:
            HTTPException: it chooses no messages, or names a hidden field, whose value it cannot see.
        """
        ids = [str(one) for one in given.getlist("id") if one]
        where = visible(str(given.get("where") or "").strip())  # as shown on the page
        found = cls(ids, where, str(given.get("group") or ""))
        if not (found.ids or found.where or found.group):
            raise HTTPException(400, "no messages are chosen: tick messages, or enter a condition")
        if hidden := [name for name in NAMES.findall(QUOTED.sub("''", found.where)) if masks.hides(name)]:
            raise HTTPException(400, f"{hidden[0]} is hidden on this page, so conditions cannot use it")
        return found

    @property
    def conditions(self) -> dict[str, Any]:
        """The conditions, as arguments for methods of `queue.dlq`."""
        return {"ids": list(self.ids) or None, "where": self.where or None, "group": self.group or None}


async def ask(site: Site, request: Request) -> Response:
    """Show the effect of an action, and ask for confirmation."""
    if not site.access.write:
        raise HTTPException(403, READ_ONLY)
    queue, verb = await site.queue(request), asked(request, "verb")
    lane = FormLane.of_form(request.query_params, site.masks)
    if verb in (OF_DEPENDENCIES if lane and lane.of == "dependency" else OF_QUEUES):
        effect = await lane.effect(queue, verb) if lane else OF_QUEUES[verb](await queue.stats())
        close = bool(lane and await lane.down(queue, verb))
        return site.page(
            request, "act.html", queue=queue, verb=verb, title="Close" if close else verb.capitalize(),
            of_queue=True, lane=lane, close=close, effect=effect, wrong="",
        )  # fmt: skip
    if verb == CANCEL:
        explained = await queue.explain(asked(request, "id"))
        return site.page(
            request, "act.html", queue=queue, verb=verb, title="Cancel", of_queue=False, wrong="",
            explained=explained,
        )  # fmt: skip
    if verb not in OF_LETTERS:
        raise HTTPException(404, f"the actions are {', '.join((*OF_LETTERS, *OF_QUEUES, CANCEL))}")
    chosen = Chosen.of(request.query_params, site.masks)
    text = await _text_to_edit(site, queue, chosen) if verb == "edit" else ""
    return await _asked(site, request, queue, verb, chosen, text=text)


@act
async def do(site: Site, request: Request) -> Response:
    """Carry out an action. An edit first shows its effect."""
    verb = verb_of(request, (*OF_LETTERS, CANCEL), "an act")
    queue, form = await site.queue(request), await request.form()
    if verb == CANCEL:
        shown = sent_with(str(form.get("id") or ""), number_of(form, "birth", int) or 0)
        became = await queue.cancel(shown, by=site.by(request))
        if became != "cancelled":
            raise HTTPException(409, f"it was not cancelled, since it is now {became}")
        return go_to(request, "redrives#audit")
    text = visible_json(str(form.get("edit") or "").replace("\r\n", "\n"))  # browsers send \r\n
    if verb == "edit" and "plan" not in form:
        return await _asked(site, request, queue, verb, Chosen.of(form, site.masks), text=text, tried=True)
    plan = plans.read(site.access, queue, verb, form.get("plan"), edit=text if verb == "edit" else "")
    planned, letters = plan.planned(queue.name), queue.dlq
    if verb == "purge":
        doing = partial(changing.purge, letters._core, by=site.by(request))
        done = await site.broker._run(carry_out(letters._core, planned, doing, TAKES["purge"]))
        return site.page(request, "done.html", queue=queue, title=OF_LETTERS[verb], done=done)
    terms = Terms(by=site.by(request), detach=verb == "redrive")
    if verb == "edit":
        chosen = Chosen(plan.ids or (), plan.where or "", plan.group or "")
        terms = replace(terms, edit=await _edit_of(site, queue, chosen, text))
    job = await letters._begun(planned.choice, terms, planned)  # noqa: SLF001 - `redrive` would wait for it
    return begun(site, request, queue, job)


async def _asked(
    site: Site,
    request: Request,
    queue: Queue[Any],
    verb: str,
    chosen: Chosen,
    *,
    text: str = "",
    tried: bool = False,
) -> Response:
    """The confirmation page. After a trial of an edit, it shows the changed messages."""
    plan: Plan[Any] | None = None
    wrong, conditions = "", chosen.conditions
    try:
        if verb == "purge":
            plan = await queue.dlq.select(**conditions).purge(dry_run=True)
        else:
            edit = await _edit_of(site, queue, chosen, text) if tried else None
            plan = await queue.dlq.redrive(**conditions, dry_run=True, edit=edit)
    except InvalidInput as error:  # shown in the form, for the user to correct
        wrong = str(error)
    return site.page(
        request, "act.html", queue=queue, verb=verb, title=OF_LETTERS[verb], of_queue=False, chosen=chosen,
        words=dead_choice({"group": chosen.group or None}).in_words if chosen.group else "", plan=plan,
        text=text, tried=tried and not wrong, wrong=wrong, one=len(chosen.ids) == 1, effect="",
        plan_text=plan and plans.written(site.access, queue, verb, plan, conditions, edit=text),
    )  # fmt: skip


async def _text_to_edit(site: Site, queue: Queue[Any], chosen: Chosen) -> str:
    """The body of one message, without its secrets; for several messages, an empty patch."""
    if len(chosen.ids) != 1:
        return CHANGES
    letters = await queue.dlq.browse(ids=chosen.ids, limit=1)
    text = visible_json(body_text(letters[0], site.masks)) if letters else CHANGES
    if len(text) >= MOST:
        raise HTTPException(400, "the body is too long for this page: `rq-dlq dlq redrive --edit` edits it")
    return text


async def _edit_of(site: Site, queue: Queue[Any], chosen: Chosen, text: str) -> Callable[[Any], Any]:
    """The edit in a form. Its result must fit the type of the queue, if that is known.

    Raises:
        InvalidInput: the text is not JSON, or not a patch.
    """
    edited = read_json(text, "the body" if len(chosen.ids) == 1 else "the patch")
    if len(chosen.ids) == 1:
        before = read_json(await _text_to_edit(site, queue, chosen), "the present body")
        change = rewriting(before, edited)
    elif isinstance(edited, dict):
        change = merging(edited)
    else:
        raise InvalidInput("a patch is a JSON object: the fields that change; null removes one")
    codec = _codec_of(site, queue)
    any_json: Codec[Any] = Codec(Any, site.broker.settings.max_message_bytes)

    def checked(body: Any) -> Any:
        new = change(body)
        if exposes(body, new, site.masks):
            raise InvalidInput("a value that is hidden here would be visible: its field must stay as it is")
        if codec is not None:
            try:
                codec.decode(any_json.encode(new), raw=False)
            except UnprocessableMessage as error:
                raise InvalidInput(str(error)) from None
        return new

    return checked


def _codec_of(site: Site, queue: Queue[Any]) -> Codec[Any] | None:
    """The codec for the type of the handler that this program has for the queue; None: it is unknown."""
    for handler in site.broker._handlers:
        core: QueueState[Any] = handler.queue._core
        if core.name == queue.name and core.codec.type is not Any:
            return core.codec
    return None
