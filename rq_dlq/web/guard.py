"""Checks each request, and adds headers to each answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from rq_dlq.web.access import Access

LOCAL = frozenset({"localhost", "127.0.0.1", "[::1]"})
MOST_NAME = 253  # characters of a host name
SAFE = frozenset({"GET", "HEAD"})
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with no-referrer the origin of our own forms is null
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
OPEN = ("/static/", "/login")


class RequestGuard:
    """Accepts requests for this host, from our own pages, by senders who may see them.

    Args:
        hosts: the host names under which the page may be requested; None: any. On loopback, another name
            means that another site has pointed its name at this machine (DNS rebinding).
        login: answers senders who are not logged in.
    """

    def __init__(
        self,
        inner: ASGIApp,
        access: Access,
        hosts: Collection[str] | None,
        login: Callable[[Request], Awaitable[Response]],
    ) -> None:
        self._inner, self._access, self._hosts, self._login = inner, access, hosts, login

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or pass it on."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        request = Request(scope, receive)
        path = _path(scope)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers["cache-control"] = "max-age=3600" if path.startswith("/static/") else "no-store"
            await send(message)

        answer = self._inner if (refused := await self._refusal(request, path)) is None else refused
        await answer(scope, receive, with_headers)

    async def _refusal(self, request: Request, path: str) -> Response | None:
        host = request.headers.get("host", "")
        if self._hosts is not None and name_of(host) not in self._hosts:
            name = name_of(host)[:MOST_NAME]
            return _refuse(
                f"this page does not answer as {name!r}: `rq-dlq web --host NAME` adds a name", 400
            )
        if request.method not in SAFE:
            if request.method != "POST":
                return _refuse("only GET and POST are allowed here", 405)
            if not _is_ours(request, host):
                return _refuse("this form was sent from another site", 403)
        if path.startswith(OPEN):
            return None
        if (who := self._access.who(request)) is None:
            return await self._login(request)
        request.state.who = who
        return None


def _path(scope: Scope) -> str:
    """The path below the mount point."""
    path, root = str(scope["path"]), str(scope.get("root_path", "")).rstrip("/")
    return path.removeprefix(root) if path.startswith(f"{root}/") else path


def name_of(host: str) -> str:
    """The name of a host without its port."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()


def _is_ours(request: Request, host: str) -> bool:
    """Whether a browser sent this from one of our pages, or the sender is not a browser."""
    if request.headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
        return False
    if (origin := request.headers.get("origin")) is None:
        return True
    try:
        return urlsplit(origin).netloc.lower() == host.lower() != ""
    except ValueError:  # for example for http://[
        return False


def _refuse(why: str, status: int) -> Response:
    return PlainTextResponse(f"{why}\n", status)
