"""The common code of all pages: the broker, the hub, access control, and rendering."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from rq_dlq.core.queues.names import shown
from rq_dlq.errors import InvalidInput, RqDlqError
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
        """The reader of Redis."""
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
        """Stop reading, and leave redrives to workers and maintenance."""
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
        """The queue named in a request.

        Raises:
            HTTPException: it does not exist, or cannot be reached.
        """
        name = asked(request, key)
        if (meant := await self.meant(name)) != [Address(name)]:
            whose = ", ".join(dict.fromkeys(one.family for one in meant))
            message = f"{name!r} is not a queue, but the name of dead or expired messages: those of {whose}"
            raise HTTPException(404, message)
        return self.queue_named(name)

    def queue_named(self, name: str) -> Queue[Any]:
        """A queue for a page: conditions on its messages, and counts, see only the visible text."""
        found = self.broker.queue(name)
        found._core.masks = self.masks
        return found

    async def meant(self, name: str) -> list[Address]:
        """The queue with this name, or the queues whose dead-letter or expiry queue has it.

        Raises:
            HTTPException: there is none, or it cannot be reached.
            InvalidName: it is not a valid queue name.
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
        """The operator's name, for the audit."""
        who = str(request.state.who)
        return who if who.startswith("web") else f"web: {who}"


READ_ONLY = "this page is read-only: it was started without --write"
Handler: TypeAlias = Callable[[Site, Request], Awaitable[Response]]


def act(handler: Handler) -> Handler:
    """Wrap the handler of a form: it runs only if changes are allowed and the form is from our own page.

    The next page shows what it has changed.
    """

    async def checked(site: Site, request: Request) -> Response:
        if not site.access.write:
            raise HTTPException(403, READ_ONLY)
        form = await request.form(max_files=0, max_fields=50)
        if not site.access.is_marked(request, form.get("mark")):
            raise HTTPException(403, "the form is not from this page, or too old: reload the page")
        answer = await handler(site, request)
        with suppress(RqDlqError):  # it is done; the next page shows that Redis is down
            await site.hub.now(within=0)
        return answer

    return checked


def missing(seen: Overview, name: str) -> HTTPException:
    """The error for a queue that is not in the reading."""
    for lost in seen.unreachable:
        if lost.name == name:
            return HTTPException(503, f"{name} is {lost.why}")
    return HTTPException(404, f"there is no queue {name!r}: it was never used, or it was deleted")


def root_of(request: Request) -> str:
    """The path where the pages are mounted, without a slash at the end."""
    return quote(str(request.scope.get("root_path", "")).rstrip("/"))


def go_to(request: Request, page: str, **given: object) -> Response:
    """Redirect to another page, such as the result of an action."""
    return RedirectResponse(f"{root_of(request)}/{link(page, **given)}", 303)


def asked(request: Request, name: str) -> str:
    """An argument of a page.

    Raises:
        HTTPException: it is missing.
    """
    if not (value := request.query_params.get(name, "")):
        raise HTTPException(400, f"{name}=… is missing in the address")
    return value


def verb_of(request: Request, verbs: Collection[str], what: str) -> str:
    """The action in the address.

    Raises:
        HTTPException: it is not one of these actions.
    """
    verb = str(request.path_params["verb"])
    if verb not in verbs:
        raise HTTPException(404, f"the actions of {what} are {', '.join(verbs)}")
    return verb


def number_of(given: Mapping[str, Any], name: str, kind: type[int | float]) -> Any:
    """A number in a form or an address; None: it is empty.

    Raises:
        InvalidInput: it is not a number.
    """
    text = str(given.get(name) or "").strip()
    if not text:
        return None
    try:
        return kind(text)
    except ValueError:
        message = f"{name.replace('_', ' ')} {text[:50]!r} is not a number"
        raise InvalidInput(message) from None
