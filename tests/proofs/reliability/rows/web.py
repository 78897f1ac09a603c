"""T26: the web page, asked by those who may not, and full of what somebody hostile stored."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any
from unittest import mock
from urllib.parse import quote

import rq_dlq
import rq_dlq.asyncio
from tests.proofs.reliability.row import Figures, Row, Run, no_redis
from tests.servers import Server

TOKEN = "a token that nobody guesses"  # noqa: S105 - of the row
SECRET = "hunter2-4711"  # noqa: S105 - what no page may show
SCRIPTS = (
    "<script>alert({})</script>", '"><img src=x onerror=alert({})>', "'><svg/onload=alert({})>",
    "</title><script>alert({})</script>", "</textarea><iframe src=javascript:alert({})>",
    "{{{{7*{}}}}}", "javascript:alert({})", '" autofocus onfocus=alert({}) x="', "</pre><a href=data:,{}>",
    "&lt;script&gt;alert({})&lt;/script&gt;",
)  # fmt: skip
"""Each is stored five times: as an id, a header, a body, an error, and the name of who redrove."""
TAG = re.compile(r"<(?:script|img|svg|iframe|a href=data)[^>]*(?:alert|data:,)", re.IGNORECASE)
HANDLER = re.compile(r"<[^>\"']*(?:\"[^\"]*\"[^>\"']*|'[^']*'[^>\"']*)*\son\w+\s*=", re.IGNORECASE)
STOLEN = ("../site.py", "..%2fsite.py", "%2e%2e/%2e%2e/etc/passwd", "..%5csite.py", "%2fetc%2fpasswd")
Client = Any


class Found:
    """What was tried, and what was wrong."""

    def __init__(self) -> None:
        self.tried = 0
        self.wrong: list[str] = []

    def check(self, what: str, *, good: bool) -> None:
        """Count a trial."""
        self.tried += 1
        if not good:
            self.wrong.append(what)


def store(broker: rq_dlq.Broker) -> None:
    """Let messages die whose every text is hostile, and that have secrets; names of queues are refused."""
    queue = broker.queue("a", redelivery=rq_dlq.RedeliveryPolicy(max_redeliveries=0))
    for number, script in enumerate(SCRIPTS):
        text = script.format(number)
        body = {"text": text, "password": SECRET, text: {"api-key": SECRET}}
        for name in (text, f"{text} again"):
            queue.send(body, id=name, headers={"authorization": SECRET, f"x-{number}": text})
            (delivery,) = queue.claim()
            delivery.nack(ValueError(f"{text} failed with password={SECRET} at redis://me:{SECRET}@host"))
        queue.dlq.redrive(ids=[f"{text} again"], by=text)


def addresses(broker: rq_dlq.Broker) -> Iterator[str]:
    """All pages on which a stored text is, and some that are asked for one."""
    yield from ("/", "/queue?name=a", "/redrives", "/workers", "/policies", "/schedules")
    for group in broker.queue("a").dlq.groups():
        yield f"/group?queue=a&id={group.fingerprint}&plan=1"
    for number, script in enumerate(SCRIPTS):
        text = quote(script.format(number), safe="")
        yield from (f"/message?queue=a&id={text}{end}" for end in ("", "%20again", "%20gone"))
        yield from (
            f"{page}={text}" for page in ("/?q", "/queue?name", "/group?queue=a&id", "/redrive?queue")
        )
        yield f"/group?queue=a&id=abcdef&letters={text}"
        yield from (f"/act?queue=a&verb=purge&{name}={text}" for name in ("id", "where", "group"))
        yield f"/act?queue=a&verb=edit&id={text}"
        yield f"/act?queue=a&verb={text}&id=b"
        yield f"/queue?name=a&count_by={text}&place=dead"
        yield f"/{text}"


async def strangers(client: Client, found: Found) -> None:
    """Who has no token sees nothing and does nothing."""
    for path in ("/", "/queue?name=a", "/redrives", "/live?page=overview"):
        for header in ({}, {"authorization": "Bearer wrong"}, {"cookie": "rq_dlq_web=W10=.0"}):
            answer = await client.get(path, headers=header)
            found.check(f"{path} without the token: {answer.status_code}", good=answer.status_code == 401)
    answer = await client.post("/redrive/begin?queue=a", data={"group": "abcdef"})
    found.check(f"a redrive without the token: {answer.status_code}", good=answer.status_code == 401)
    answer = await client.post("/login", data={"token": f"{TOKEN}x"})
    found.check(f"a wrong token: {answer.status_code}", good=answer.status_code == 401)
    for path in STOLEN:
        answer = await client.get(f"/static/{path}")
        found.check(f"/static/{path}: {answer.status_code}", good=answer.status_code in {401, 404})


async def forged(client: Client, found: Found) -> None:
    """Somebody who has logged in opens a page of another site."""
    redrives = (f"/redrive/{verb}?queue=a&id=b" for verb in ("begin", "pause", "resume", "cancel", "undo"))
    groups = (f"/group/{verb}?queue=a&id=lapsed" for verb in ("mute", "unmute"))
    letters = (f"/act/{verb}?queue=a" for verb in ("purge", "redrive", "edit"))
    for path in (*redrives, *groups, *letters, "/queue/pause?name=a", "/queue/resume?name=a"):
        answer = await client.get(path)
        found.check(f"GET {path}: {answer.status_code}", good=answer.status_code == 405)
        page = (await client.get("/")).text
        mark = page.partition('name="mark" value="')[2].partition('"')[0]
        for given, headers in (
            ({}, {}),
            ({"mark": "0" * 64}, {}),
            ({"mark": mark}, {"origin": "https://evil.example"}),
            ({"mark": mark}, {"origin": "null"}),
            ({"mark": mark}, {"sec-fetch-site": "cross-site"}),
        ):
            answer = await client.post(path, data=given, headers=headers)
            found.check(f"a forged POST {path}: {answer.status_code}", good=answer.status_code == 403)


async def stored(client: Client, found: Found, broker: rq_dlq.Broker) -> None:
    """Every page is inert, and shows no secret."""
    for path in addresses(broker):
        answer = await client.get(path)
        text, headers = answer.text, answer.headers
        found.check(f"a script on {path}", good=not (TAG.search(text) or HANDLER.search(text)))
        found.check(f"a secret on {path}", good=SECRET not in text and TOKEN not in text)
        policy = headers.get("content-security-policy", "")
        strict = "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
        found.check(f"the policy of {path}: {policy}", good=strict)
        found.check(f"{path}: {answer.status_code}", good=answer.status_code in {200, 400, 404})


async def ended(client: Client, found: Found) -> None:
    """A session is over at its time, or at the logout."""
    from rq_dlq.web import access  # noqa: PLC0415 - only where the extra is installed

    for late, status in ((-60, 200), (60, 401)):
        then = datetime.now(UTC).timestamp() + access.SESSION + late
        with mock.patch.object(access, "_now", return_value=then):
            answer = await client.get("/")
        found.check(
            f"a session {late} s after its end: {answer.status_code}", good=answer.status_code == status
        )
    copy = {"cookie": f"{access.COOKIE}={client.cookies[access.COOKIE]}"}
    await client.post("/logout")
    for headers in ({}, copy):
        answer = await client.get("/", headers=headers)
        what = f"a session{' of a copied cookie' if headers else ''} after the logout"
        found.check(f"{what}: {answer.status_code}", good=answer.status_code == 401)


async def _in_turn(url: str, broker: rq_dlq.Broker, found: Found) -> None:
    import httpx  # noqa: PLC0415 - only where the extra is installed

    from rq_dlq.web import app  # noqa: PLC0415

    async with rq_dlq.asyncio.Broker(url) as awaiting:
        pages: Any = app(awaiting, token=TOKEN, write=True)
        transport = httpx.ASGITransport(pages)
        steps: tuple[Callable[[Client], Awaitable[None]], ...] = (
            lambda client: strangers(client, found),
            lambda client: _logged_in(client, found, broker),
        )
        async with pages.router.lifespan_context(pages):
            for step in steps:
                async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                    await step(client)


async def _logged_in(client: Client, found: Found, broker: rq_dlq.Broker) -> None:
    answer = await client.post("/login", data={"token": TOKEN, "name": "<script>alert(1)</script>"})
    found.check(f"the token: {answer.status_code}", good=answer.status_code == 303)
    await forged(client, found)
    await stored(client, found, broker)
    await ended(client, found)


def run(run: Run) -> Figures:
    """Store, and ask."""
    found = Found()
    with Server(run.directory) as server, rq_dlq.Broker(server.url) as broker:
        store(broker)
        asyncio.run(_in_turn(server.url, broker, found))
    wrong = sorted(set(found.wrong))
    note = "; ".join(wrong[:3]) if wrong else f"{len(SCRIPTS) * 5} stored texts, inert on every page"
    return Figures(trials=found.tried, met=not wrong, note=note)


def missing() -> str:
    """Why it cannot be run here."""
    if find_spec("starlette") is None or find_spec("httpx") is None:
        return "the extra `web` is not installed"
    return no_redis()


ROWS = (
    Row(
        "T26",
        "web: no token, wrong token, cross-site POST, redrive by GET, stored XSS x 50, traversal, secrets",
        "401, 403, 405, escaped, CSP, masked: all",
        run,
        missing=missing,
    ),
)
