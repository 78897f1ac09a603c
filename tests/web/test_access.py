"""Who may look, who may act, and from where."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import rq_dlq
from rq_dlq.errors import ConfigurationError
from rq_dlq.web import access
from tests.tables import each_row
from tests.web.conftest import TOKEN, Browser, Open


async def test_a_token_is_asked_for_once(opened: Open, orders: Any) -> None:
    await orders.open()
    pages = opened(token=TOKEN, write=True)
    asked = await pages.get("/queue", name="orders")
    assert (asked.status_code, "Log in" in asked.text, "orders</h1>" in asked.text) == (401, True, False)
    wrong = await pages.client.post("/login", data={"token": "another", "next": ""})
    assert (wrong.status_code, "The token is wrong" in wrong.text) == (401, True)
    form = {"token": TOKEN, "name": "Anna", "next": "/queue?name=orders"}
    answer = await pages.client.post("/login", data=form)
    assert (answer.status_code, answer.headers["location"]) == (303, "/queue?name=orders")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert "Anna" in await pages.text("/queue", name="orders")
    assert (await pages.client.post("/logout")).status_code == 303
    assert (await pages.get("/")).status_code == 401


async def test_a_token_in_a_header(opened: Open) -> None:
    pages = opened(token=TOKEN)
    for header, status in ((f"Bearer {TOKEN}", 200), ("Bearer x", 401), (TOKEN, 401), ("", 401)):
        answer = await pages.client.get("/", headers={"authorization": header})
        assert answer.status_code == status, header


async def test_a_token_with_a_line_break(opened: Open) -> None:
    pages = opened(token=f" {TOKEN}\n")
    answer = await pages.client.post("/login", data={"token": TOKEN, "next": "/"})
    assert answer.status_code == 303
    assert (await pages.get("/")).status_code == 200


async def test_a_session_that_is_not_ours(opened: Open) -> None:
    pages = opened(token=TOKEN)
    login = await pages.client.post("/login", data={"token": TOKEN})
    ours = login.headers["set-cookie"].partition("=")[2].partition(";")[0]
    content, _, signature = ours.partition(".")
    for cookie in ("", ".", "x.y", f"{content}.", f"x{content}.{signature}", f"WyJhIiw5ZTk5XQ==.{signature}"):
        pages.client.cookies.clear()
        answer = await pages.client.get("/", headers={"cookie": f"rq_dlq_web={cookie}"})
        assert answer.status_code == 401, cookie
    other = opened(token=f"{TOKEN}-another")
    assert (await other.client.get("/", headers={"cookie": f"rq_dlq_web={ours}"})).status_code == 401


async def test_a_session_ends_after_its_time(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = opened(token=TOKEN)
    await pages.client.post("/login", data={"token": TOKEN})
    ends = access._now() + access.SESSION
    for late, status in ((-60, 200), (60, 401)):
        monkeypatch.setattr(access, "_now", lambda late=late: ends + late)
        assert (await pages.get("/")).status_code == status


async def test_a_session_that_was_left_opens_nothing_more(opened: Open) -> None:
    """Nor does a copy of its cookie; a session beside it goes on."""
    pages = opened(token=TOKEN)
    copies = []
    for _ in range(2):
        await pages.client.post("/login", data={"token": TOKEN, "name": "anna"})
        copies.append(pages.client.cookies["rq_dlq_web"])
    await pages.client.post("/logout")
    pages.client.cookies.clear()
    answers = [await pages.client.get("/", headers={"cookie": f"rq_dlq_web={copy}"}) for copy in copies]
    assert [answer.status_code for answer in answers] == [200, 401]


@each_row("end", ["logout", "time"])
async def test_an_open_stream_ends_with_its_session(end: str, opened: Open, orders: Any) -> None:
    await orders.open()
    pages = opened(token=TOKEN)
    await pages.client.post("/login", data={"token": TOKEN})
    cookie = f"rq_dlq_web={pages.client.cookies['rq_dlq_web']}".encode()
    scope = {
        "type": "http", "method": "GET", "path": "/live", "raw_path": b"/live", "root_path": "",
        "query_string": b"page=overview", "headers": [(b"cookie", cookie), (b"host", b"localhost")],
        "asgi": {"version": "3.0", "spec_version": "2.4"},
    }  # fmt: skip
    began, forever = asyncio.Event(), asyncio.Event()

    async def send(message: Any) -> None:
        if message.get("body"):
            began.set()

    stream = asyncio.create_task(pages.app(scope, forever.wait, send))
    await asyncio.wait_for(began.wait(), 30)
    with pytest.MonkeyPatch.context() as patch:
        if end == "logout":
            await pages.client.post("/logout")
        else:
            ends = access._now() + access.SESSION
            patch.setattr(access, "_now", lambda: ends + 60)
        await asyncio.wait_for(stream, 30)


async def test_a_bearer_s_token_is_checked_where_it_stands_for_a_mark(opened: Open, orders: Any) -> None:
    await orders.open()
    pages = opened(token=TOKEN, write=True)
    await pages.client.post("/login", data={"token": TOKEN})
    for header, status in (("Bearer x", 403), (f"Bearer {TOKEN}", 303)):
        headers = {"authorization": header}
        answer = await pages.client.post("/queue/pause?name=orders", headers=headers)
        assert answer.status_code == status, header


def test_a_blocking_broker_is_refused() -> None:
    web = pytest.importorskip("rq_dlq.web", reason="no web extra here: pip install -e '.[web]'")
    with rq_dlq.Broker("redis://h") as broker, pytest.raises(ConfigurationError, match=r"rq_dlq\.asyncio"):
        web.app(broker, token=TOKEN)


@each_row(
    "after",
    ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "\t//x", ""],
)
async def test_a_login_leads_to_pages_of_ours(opened: Open, after: str) -> None:
    answer = await opened(token=TOKEN).client.post("/login", data={"token": TOKEN, "next": after})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


async def test_forms_of_other_sites_are_refused(opened: Open, orders: Any) -> None:
    await orders.open()
    pages = opened()
    mark = await pages.mark()
    for headers in (
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://["},
        {"origin": "http://localhost:81"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ):
        answer = await pages.client.post("/redrive/begin?queue=orders", data={"mark": mark}, headers=headers)
        assert answer.status_code == 403, headers
    for form in ({}, {"mark": ""}, {"mark": "x"}, {"mark": mark[:-1]}):
        assert (await pages.client.post("/redrive/begin?queue=orders", data=form)).status_code == 403


async def test_only_a_form_acts(pages: Browser) -> None:
    for path in ("/redrive/begin", "/redrive/pause", "/redrive/undo", "/logout"):
        assert (await pages.get(path)).status_code == 405, path
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert (await pages.client.request(method, "/redrive/begin")).status_code == 405, method


async def test_another_name_for_this_host(opened: Open) -> None:
    from rq_dlq.web.guard import LOCAL  # noqa: PLC0415 - the extra may be missing

    pages = opened(hosts=LOCAL)
    for host, status in (
        ("localhost:8080", 200),
        ("127.0.0.1", 200),
        ("[::1]:8080", 200),
        ("evil.example", 400),
        ("localhost.evil.example:8080", 400),
        ("", 400),
    ):
        assert (await pages.client.get("/", headers={"host": host})).status_code == status, host
    refusal = (await pages.client.get("/", headers={"host": "evil.example"})).text
    assert refusal == "this page does not answer as 'evil.example': `rq-dlq web --host NAME` adds a name\n"


async def test_the_headers_of_each_answer(opened: Open) -> None:
    pages = opened(token=TOKEN)
    for path in ("/", "/login", "/static/app.js", "/static/nope", "/nowhere"):
        headers = (await pages.get(path)).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == ("max-age=3600" if "static" in path else "no-store"), path


@each_row(
    "path",
    ["../__init__.py", "..%2f__init__.py", "%2e%2e/site.py", "..\\site.py", "vendor/../../site.py",
     "%2fetc%2fpasswd", "....//site.py", "vendor%00", "//etc/passwd", "..%252fsite.py"],
)  # fmt: skip
async def test_static_files_and_no_others(pages: Browser, path: str) -> None:
    assert (await pages.get(f"/static/{path}")).status_code == 404


async def test_under_a_prefix(opened: Open, orders: Any) -> None:
    import httpx  # noqa: PLC0415 - the extra may be missing
    from starlette.applications import Starlette  # noqa: PLC0415
    from starlette.routing import Mount  # noqa: PLC0415

    await orders.open()
    pages = opened(token=TOKEN, write=True)
    outer = Starlette(routes=[Mount("/admin/queues", pages.app)])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(outer), base_url="http://host") as client:
        form = {"token": TOKEN, "next": "/admin/queues/queue?name=orders"}
        answer = await client.post("/admin/queues/login", data=form)
        assert answer.headers["location"] == "/admin/queues/queue?name=orders"
        assert "Path=/admin/queues" in answer.headers["set-cookie"]
        page = await client.get(answer.headers["location"])
        assert page.status_code == 200
        links = [part.partition('"')[0] for part in page.text.split('href="')[1:]]
        assert all(link.startswith(("/admin/queues/", "#")) for link in links), links
        assert (await client.get("/admin/queues/static/app.js")).status_code == 200


def test_nobody_gets_in_by_an_oversight(opened: Open) -> None:
    for options in (
        {"token": None, "user": None},
        {"token": TOKEN, "user": lambda _: "x"},
        {"token": "short"},
    ):
        with pytest.raises(ConfigurationError):
            opened(**options)


async def test_whom_the_host_does_not_know(opened: Open) -> None:
    pages = opened(user=lambda request: request.headers.get("x-user"))
    assert (await pages.get("/")).status_code == 401
    answer = await pages.client.get("/", headers={"x-user": "berta"})
    assert "berta" in answer.text
