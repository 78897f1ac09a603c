"""The ASGI application."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from rq_dlq.asyncio.broker import Broker as AsyncBroker
from rq_dlq.errors import (
    BrokerRefused,
    BrokerUnavailable,
    ConfigurationError,
    InvalidInput,
    MissingRights,
    RqDlqError,
)
from rq_dlq.values.durations import shown
from rq_dlq.values.masks import Masks
from rq_dlq.web import live
from rq_dlq.web.access import Access, User
from rq_dlq.web.guard import SAFE, RequestGuard
from rq_dlq.web.pages import (
    acts,
    group,
    keys,
    login,
    message,
    overview,
    policies,
    queue,
    redrives,
    schedules,
    workers,
)
from rq_dlq.web.site import Handler, Site

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp


PAGES: dict[str, Handler] = {
    "/": overview.overview,
    "/queue": queue.queue,
    "/group": group.group,
    "/key": keys.key,
    "/message": message.message,
    "/redrives": redrives.redrives,
    "/redrive": redrives.redrive,
    "/act": acts.ask,
    "/workers": workers.workers,
    "/policies": policies.policies,
    "/schedules": schedules.schedules,
    "/live": live.stream,
}
ACTS: dict[str, Handler] = {
    "/act/{verb}": acts.do,
    "/group/{verb}": group.steer,
    "/redrive/begin": redrives.begin,
    "/redrive/{verb}": redrives.steer,
    "/queue/{verb}": queue.steer,
    "/logout": login.logout,
}
AWAY = 503
STATUS: tuple[tuple[type[RqDlqError], int], ...] = (
    (MissingRights, 403),
    (BrokerUnavailable, AWAY),
    (BrokerRefused, AWAY),
    (InvalidInput, 400),
)


def app(
    broker: AsyncBroker,
    *,
    token: str | None = None,
    user: User | None = None,
    write: bool = False,
    mask: Iterable[str] = (),
    hosts: Collection[str] | None = None,
    secret: str | None = None,
) -> ASGIApp:
    """The pages of a broker, as an ASGI application to run on its own or to mount in another application.

    Args:
        broker: a broker of `rq_dlq.asyncio`; the application does not close it.
        token: opens the pages, when entered on the login page or sent as `Authorization: Bearer …`.
        user: in place of a token, if the host program handles the login: a function that takes the request
            and returns the name of the user, or None if the sender may not see the pages.
        write: True: dead letters can be redriven, edited and purged, groups muted, redrives managed, and
            queues paused and resumed; False: the pages are read-only.
        mask: words in the names of fields whose values are hidden, in addition to password, passwd, pwd,
            passphrase, token, secret, authorization, api_key, private_key and cookie.
        hosts: the host names under which the pages may be requested; None: any.
        secret: with `user`: what signs the forms; every process that serves the pages needs the same. None:
            a random one, for a single process.

    Raises:
        ConfigurationError: there is neither a token nor a user, or both, or the token is too short; or the
            broker is a blocking one.
    """
    given: object = broker
    if not isinstance(given, AsyncBroker):
        message = f"{shown(given)} is not a broker of rq_dlq.asyncio: pass rq_dlq.asyncio.Broker(…)"
        raise ConfigurationError(message)
    site = Site(broker, Access(token=token, user=user, write=write, secret=secret), Masks(mask))
    pages = [Route(path, _bound(site, page), methods=["GET"]) for path, page in PAGES.items()]
    acts = [Route(path, _bound(site, one), methods=["POST"]) for path, one in ACTS.items()]
    entrance = Route("/login", _bound(site, login.login), methods=["GET", "POST"])
    static = Mount("/static", StaticFiles(packages=[("rq_dlq.web", "static")]))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        yield
        await site.close()

    return Starlette(
        routes=[*pages, *acts, entrance, static],
        middleware=[Middleware(RequestGuard, site.access, hosts, partial(login.ask, site))],
        exception_handlers={
            HTTPException: partial(_refused, site),
            RqDlqError: partial(_failed, site),
        },
        lifespan=lifespan,
    )


def _bound(site: Site, handler: Handler) -> Any:
    async def endpoint(request: Request) -> Response:
        return await handler(site, request)

    return endpoint


async def _refused(site: Site, request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    detail = error.detail if isinstance(error, HTTPException) else ""
    answer = site.page(request, "error.html", status, detail=detail)
    if isinstance(error, HTTPException) and error.headers:
        answer.headers.update(error.headers)
    return answer


async def _failed(site: Site, request: Request, error: Exception) -> Response:
    status = next((status for kind, status in STATUS if isinstance(error, kind)), 500)
    if status == AWAY:  # only reads are repeated: the action of a form may have been carried out
        asked = request.query_params
        queue = asked.get("queue") or asked.get("name")
        acted = request.method not in SAFE
        return site.page(request, "failed.html", status, error=error, acted=acted, queue=queue)
    detail = site.masks.text(str(error))
    return site.page(request, "error.html", status, detail=detail)
