"""The pages of a broker with a moved clock, on a real server: the fake one has its tests by verb."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from html import unescape
from typing import Any

import httpx
import pytest
import pytest_asyncio

from rq_dlq import RedeliveryPolicy
from tests.behaviour.helpers import one

TOKEN = "a-token-that-nobody-guesses"  # noqa: S105 - of the tests
ONCE = RedeliveryPolicy(max_redeliveries=0)


@dataclass
class Browser:
    """Asks for pages, and sends their forms.

    Attributes:
        app: what answers.
        client: keeps cookies.
    """

    app: Any
    client: httpx.AsyncClient

    async def get(self, path: str, **given: Any) -> httpx.Response:
        return await self.client.get(path, params=given or None)

    async def text(self, path: str, **given: Any) -> str:
        """A page as a reader sees it."""
        answer = await self.get(path, **given)
        assert answer.status_code == 200, answer.text
        return unescape(answer.text)

    async def mark(self) -> str:
        """What the forms of this browser have to bring along."""
        page = (await self.get("/")).text
        return page.partition('name="mark" value="')[2].partition('"')[0]

    async def post(self, path: str, query: dict[str, str] | None = None, **form: Any) -> httpx.Response:
        """Send a form, as a page has it."""
        return await self.client.post(path, params=query, data={"mark": await self.mark(), **form})


Open = Callable[..., Browser]


@pytest.fixture(params=["real"])
def backend(request: pytest.FixtureRequest) -> str:
    """Only the real server."""
    return str(request.param)


@pytest_asyncio.fixture
async def opened(async_broker: Any) -> AsyncIterator[Open]:
    """Makes browsers in front of the pages of the broker."""
    web = pytest.importorskip("rq_dlq.web", reason="no web extra here: pip install -e '.[web]'")
    made: list[tuple[Any, httpx.AsyncClient]] = []

    def opened(**options: Any) -> Browser:
        if "token" not in options:
            options = {"user": lambda _: "anna", "write": True, **options}
        app = web.app(async_broker, **options)
        transport = httpx.ASGITransport(app, raise_app_exceptions=True)
        client = httpx.AsyncClient(transport=transport, base_url="http://localhost")
        made.append((app, client))
        return Browser(app, client)

    yield opened
    for app, client in made:
        await client.aclose()
        async with app.router.lifespan_context(app):
            pass  # on leaving it the hub stops


@pytest.fixture
def pages(opened: Open) -> Browser:
    """A browser of somebody who may act."""
    return opened()


@pytest.fixture
def orders(async_broker: Any) -> Any:
    """A queue whose messages die at their first failure."""
    return async_broker.queue("orders", redelivery=ONCE)


async def until(condition: Callable[[], Awaitable[object]], limit: float = 30) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(limit):
        while not await condition():  # noqa: ASYNC110 - of a server's state there is no event
            await asyncio.sleep(0.05)


async def die(queue: Any, *bodies: Any, error: str = "no answer from payments", **options: Any) -> list[str]:
    """Send messages and have them die; their ids."""
    sent = []
    for body in bodies:
        sent.append(await queue.send(body, **options))
        await (await one(queue)).nack(ValueError(error))
    return sent
