"""What all pages share: the broker, the hub, who may act, and how a page is made."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from rq_dlq.core.queues.views import shown
from rq_dlq.errors import InvalidInput
from rq_dlq.values.cached import cached_property
from rq_dlq.values.names import Address
from rq_dlq.web.hub import Hub
from rq_dlq.web.shown import link, templates

if TYPE_CHECKING:
    from rq_dlq.asyncio.broker import Broker
    from rq_dlq.asyncio.queue import Queue
    from rq_dlq.core.looking.overview import Overview
    from rq_dlq.values.masks import Masks
    from rq_dlq.web.access import Access


@dataclass(frozen=True)
class Site:
    """The pages of one broker.

    Attributes:
        tasks: redrives that this process drives.
    """

    broker: Broker
    access: Access
    masks: Masks
    tasks: set[asyncio.Task[Any]] = field(default_factory=set["asyncio.Task[Any]"])

    @cached_property
    def hub(self) -> Hub:
        """The reader."""
        return Hub(self.broker)

    @cached_property
    def _templates(self) -> Any:
        shared: dict[str, object] = {
            "server": self.broker.url,
            "namespace": self.broker.settings.namespace,
            "write": self.access.write,
            "has_login": self.access.token is not None,
            "masks": self.masks,
        }
        return templates(shared)

    async def close(self) -> None:
        """Stop looking, and leave redrives to workers and maintenance."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.hub.close()

    def text(self, template: str, root: str, **values: Any) -> str:
        """A template with its values, as HTML."""
        return str(
            self._templates.get_template(template).render(
                root=root, failure=self.hub.monitor.failure, **values
            )
        )

    def page(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        """A page."""
        who = getattr(request.state, "who", None)
        text = self.text(
            template, root_of(request), **values, who=who, status=status, mark=self.access.mark(request),
            path=request.url.path.removeprefix(root_of(request)), q=request.query_params.get("q", ""),
        )  # fmt: skip
        return HTMLResponse(text, status)

    async def queue(self, request: Request, key: str = "queue") -> Queue[Any]:
        """The queue that a request names.

        Raises:
            HTTPException: there is none of this name, or it cannot be reached.
        """
        name = asked(request, key)
        if (meant := await self.meant(name)) != [Address(name)]:
            whose = ", ".join(dict.fromkeys(one.family for one in meant))
            message = f"{name!r} is not a queue, but the name of dead or expired messages: those of {whose}"
            raise HTTPException(404, message)
        return self.broker.queue(name)

    async def meant(self, name: str) -> list[Address]:
        """The queue of this name, or the queues whose dead or expired messages have it.

        Raises:
            HTTPException: there are none, or it cannot be reached.
            InvalidName: this cannot be a queue's name.
        """
        if name in (await self.hub.now()).by_name:
            return [Address(name)]
        seen = await self.hub.now(within=0)
        if name in seen.by_name:
            return [Address(name)]
        found = await self.broker._run(shown(self.broker.queue(name)._core, [*seen.by_name]))
        if not found:
            raise missing(seen, name)
        return found

    def by(self, request: Request) -> str:
        """Who acts, for the audit."""
        who = str(request.state.who)
        return who if who.startswith("web") else f"web: {who}"


READ_ONLY = "this page is read-only: it was started without --write"
Handler: TypeAlias = Callable[[Site, Request], Awaitable[Response]]


def act(handler: Handler) -> Handler:
    """A handler of a form: it comes only to those who may act, and from our own page."""

    async def checked(site: Site, request: Request) -> Response:
        if not site.access.write:
            raise HTTPException(403, READ_ONLY)
        form = await request.form(max_files=0, max_fields=50)
        if not site.access.is_marked(request, form.get("mark")):
            raise HTTPException(403, "the form is not from this page, or too old: load the page anew")
        return await handler(site, request)

    return checked


def missing(seen: Overview, name: str) -> HTTPException:
    """What to raise for a queue that is not among those that were read."""
    for lost in seen.unreachable:
        if lost.name == name:
            return HTTPException(503, f"{name} is {lost.why}")
    return HTTPException(404, f"there is no queue {name!r}: it was never used, or it was deleted")


def root_of(request: Request) -> str:
    """Where the pages are mounted, without a slash at the end."""
    return quote(str(request.scope.get("root_path", "")).rstrip("/"))


def go_to(request: Request, page: str, **given: object) -> Response:
    """Lead on to another page, such as the one that shows what came of an act."""
    return RedirectResponse(f"{root_of(request)}/{link(page, **given)}", 303)


def asked(request: Request, name: str) -> str:
    """An argument of a page.

    Raises:
        HTTPException: it is missing.
    """
    if not (value := request.query_params.get(name, "")):
        raise HTTPException(400, f"the address lacks {name}=…")
    return value


def verb_of(request: Request, verbs: Collection[str], what: str) -> str:
    """What the address asks to be done.

    Raises:
        HTTPException: it is none of these verbs.
    """
    verb = str(request.path_params["verb"])
    if verb not in verbs:
        raise HTTPException(404, f"{what} knows {', '.join(verbs)}")
    return verb


def number_of(given: Mapping[str, Any], name: str, kind: type[int | float]) -> Any:
    """A number in a form or an address; None: it is empty.

    Raises:
        InvalidInput: it is no number.
    """
    text = str(given.get(name) or "").strip()
    if not text:
        return None
    try:
        return kind(text)
    except ValueError:
        message = f"{name.replace('_', ' ')} {text[:50]!r} is not a number"
        raise InvalidInput(message) from None
