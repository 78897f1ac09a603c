"""The page for operators, in the admin."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from functools import cache
from typing import Any, TypeVar

from django.conf import settings
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.urls import URLPattern, path, re_path
from django.views.decorators.csrf import csrf_exempt

from rq_dlq.asyncio import Broker
from rq_dlq.django.models import Queues
from rq_dlq.django.setting import of_broker

T = TypeVar("T")
END: dict[str, Any] = {"type": "end"}


class PageApp:
    """The page as an ASGI application, in an event loop of its own: it reads Redis between two requests.

    Args:
        write: changes are allowed.
    """

    def __init__(self, *, write: bool) -> None:
        from rq_dlq.web import app  # noqa: PLC0415 - without the extra, the rest of the admin goes on

        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="rq-dlq page", daemon=True).start()
        self._app = app(
            Broker(settings=of_broker()),
            user=lambda request: str(request.scope["rq_dlq.user"]),
            write=write,
            secret=settings.SECRET_KEY,
        )

    def answer(self, request: HttpRequest, inner: str) -> HttpResponseBase:
        """Answer a request; one for changes as they come is answered bit by bit."""
        sent: asyncio.Queue[Any] = asyncio.Queue()
        running = asyncio.run_coroutine_threadsafe(self._run(request, inner, sent), self._loop)
        if (start := self._now(sent.get())) is END:
            running.result()  # raises its error
        kept = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
        if kept.get("content-type", "").startswith("text/event-stream"):

            async def changes() -> AsyncIterator[bytes]:
                try:
                    while (message := await self._there(sent.get())) is not END:
                        yield message["body"]
                finally:
                    running.cancel()

            return StreamingHttpResponse(changes(), status=start["status"], headers=kept)
        body = b""
        while (message := self._now(sent.get())) is not END:
            body += message.get("body", b"")
        return HttpResponse(body, status=start["status"], headers=kept)

    async def _run(self, request: HttpRequest, inner: str, sent: asyncio.Queue[Any]) -> None:
        bodies = [{"type": "http.request", "body": request.body}]

        async def receive() -> dict[str, Any]:
            return bodies.pop() if bodies else await asyncio.get_running_loop().create_future()

        try:
            await self._app(_scope(request, inner), receive, sent.put)
        finally:
            sent.put_nowait(END)

    def _now(self, step: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(step, self._loop).result()

    async def _there(self, step: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(step, self._loop))


_page = cache(PageApp)  # one for those who may change something, and one for the others


def _scope(request: HttpRequest, inner: str) -> dict[str, Any]:
    return {
        "type": "http",
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": request.path,
        "root_path": request.path.removesuffix(inner).rstrip("/"),
        "query_string": request.META.get("QUERY_STRING", "").encode(),
        "headers": [(k.lower().encode(), v.encode("latin-1")) for k, v in request.headers.items()],
        "rq_dlq.user": request.user.get_username(),
    }


@admin.register(Queues)
class QueuesAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # has none when it runs
    """The page, in the place of a list of rows: for staff who may view queues, or view and change them."""

    def get_urls(self) -> list[URLPattern]:
        """All paths below are those of the page."""
        view = self.admin_site.admin_view(self.page)
        first = path("", view, {"inner": ""}, name="rq_dlq_queues_changelist")  # the index links to it
        return [first, re_path("^(?P<inner>.+)$", view)]

    @csrf_exempt  # the forms have a mark of their own, signed for the user
    def page(self, request: HttpRequest, inner: str) -> HttpResponseBase:
        """Answer for the page."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if inner == "live" and not isinstance(request, ASGIRequest):
            return HttpResponse(status=204)  # it would keep a thread of WSGI for as long as the page is open
        return _page(write=self.has_change_permission(request)).answer(request, inner)
