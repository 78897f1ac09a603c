"""The login with the token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import RedirectResponse, Response

from rq_dlq.web.access import COOKIE, SESSION
from rq_dlq.web.site import Site, root_of

if TYPE_CHECKING:
    from starlette.requests import Request


async def ask(site: Site, request: Request) -> Response:
    """The page for senders who are not logged in."""
    if not site.access.token:
        detail = "log in at the host of this page first"
        return site.page(request, "error.html", 401, detail=detail)
    url = request.url
    after = f"{url.path}?{url.query}".removesuffix("?")
    if url.path.endswith("/login"):
        after = request.query_params.get("next", "")
    return site.page(request, "login.html", 401, next=after, wrong=False)


async def login(site: Site, request: Request) -> Response:
    """Check the token, and start a session."""
    if request.method != "POST" or not site.access.token:
        return await ask(site, request)
    form = await request.form(max_files=0, max_fields=10)
    after = str(form.get("next", ""))
    if not site.access.opens(str(form.get("token", "")).strip()):
        return site.page(request, "login.html", 401, next=after, wrong=True)
    response = RedirectResponse(_own(after, request), 303)
    response.set_cookie(
        COOKIE, site.access.session(str(form.get("name", ""))), max_age=SESSION, path=root_of(request) or "/",
        secure=request.url.scheme == "https", httponly=True, samesite="strict",
    )  # fmt: skip
    return response


async def logout(site: Site, request: Request) -> Response:
    """End the session, and delete its cookie."""
    site.access.end(request)
    response = RedirectResponse(f"{root_of(request)}/login", 303)
    response.delete_cookie(COOKIE, path=root_of(request) or "/", httponly=True, samesite="strict")
    return response


def _own(after: str, request: Request) -> str:
    """The page after the login, which must be one of ours."""
    root = root_of(request)
    plain = after.startswith(f"{root}/") and not after.startswith(("//", f"{root}//")) and "\\" not in after
    return after if plain else f"{root}/"
