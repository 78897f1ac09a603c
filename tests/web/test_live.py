"""The stream of a page, and the one reader behind all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rq_dlq._redis.errors import START
from rq_dlq.errors import BrokerRefused, BrokerUnavailable
from tests.web.conftest import Browser, die, until


@asynccontextmanager
async def stream(pages: Browser, query: str) -> AsyncIterator[asyncio.Queue[str]]:
    """The events of a page as they come."""
    events: asyncio.Queue[str] = asyncio.Queue()
    gone = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if text := message.get("body", b"").decode():
            await events.put(text)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "path": "/live",
        "raw_path": b"/live", "root_path": "", "scheme": "http", "query_string": query.encode(),
        "headers": [(b"host", b"localhost")], "server": ("localhost", 80), "client": ("localhost", 1),
    }  # fmt: skip
    task = asyncio.create_task(pages.app(scope, receive, send))
    try:
        yield events
    finally:
        gone.set()
        await task


async def told(events: asyncio.Queue[str], words: str) -> str:
    """The next event that has these words."""
    async with asyncio.timeout(30):
        while words not in (text := await events.get()):
            pass
    return text


async def test_a_page_is_live(pages: Browser, orders: Any, clock: Any) -> None:
    await orders.open()
    async with stream(pages, "page=queue&name=orders") as events:
        first = await told(events, "No dead letters")
        assert "event: point" in first
        await die(orders, 1)
        clock.advance("6s")  # groups are read anew
        assert "no answer from payments" in await told(events, "exhausted")


async def test_many_pages_have_one_reader(
    pages: Browser, async_broker: Any, orders: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await die(orders, 1)
    looks = 0
    look = async_broker.overview

    async def counted(before: Any = None) -> Any:
        nonlocal looks
        looks += 1
        return await look(before)

    monkeypatch.setattr(async_broker, "overview", counted)
    async with stream(pages, "page=overview") as one, stream(pages, "page=overview") as two:
        others = [stream(pages, "page=overview") for _ in range(20)]
        opened = [await other.__aenter__() for other in others]
        for events in (one, two, *opened):
            for _ in range(2):
                async with asyncio.timeout(30):
                    await events.get()
        for other in others:
            await other.__aexit__(None, None, None)
    assert looks <= 6


async def test_redis_goes_away_and_comes_back(
    pages: Browser, async_broker: Any, orders: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await orders.open()
    async with stream(pages, "page=overview") as events:
        await told(events, "All is well")
        with monkeypatch.context() as away:

            async def fail(before: Any = None) -> Any:
                del before
                raise BrokerUnavailable("redis://anna:hunter2@host does not answer")

            away.setattr(async_broker, "overview", fail)
            text = await told(events, "Redis does not answer")
            assert "hunter2" not in text
            answer = await pages.get("/queue", name="orders")
            assert answer.status_code == 503
            assert 'http-equiv="refresh"' in answer.text
            assert "hunter2" not in answer.text
        async with asyncio.timeout(30):
            while "Redis does not answer" in (text := await events.get()) or "All is well" not in text:
                pass


async def test_pages_that_wait_for_one_look_fail_with_it(
    pages: Browser, async_broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = list[Any]()
    go_on = asyncio.Event()

    async def hang(before: Any = None) -> Any:
        looks.append(before)
        await go_on.wait()
        raise BrokerUnavailable("no answer in time")

    monkeypatch.setattr(async_broker, "overview", hang)
    asked = [asyncio.create_task(pages.get("/")) for _ in range(6)]
    await until(lambda: asyncio.sleep(0.1, looks))
    go_on.set()
    assert {(await answer).status_code for answer in asked} == {503}
    assert len(looks) <= 2  # that of the reader itself, which may have begun before, and one for all


async def test_a_form_while_redis_is_away(
    pages: Browser, orders: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing repeats it by itself, and the page says where to look."""
    await orders.send(1)
    mark = await pages.mark()
    for error, heading, known in (
        (BrokerUnavailable(f"cannot reach redis://host (refused): {START}"), "Redis does not answer", False),
        (BrokerRefused("the server refused: no"), "Redis refuses", True),
    ):

        async def fail(*_: Any, error: Exception = error, **__: Any) -> Any:
            raise error

        for method in ("post", "get"):
            with monkeypatch.context() as away:
                away.setattr(type(orders), "pause", fail)
                away.setattr(type(orders), "settings", fail)
                form: dict[str, Any] = {"data": {"mark": mark}} if method == "post" else {}
                path = "/queue/pause?name=orders" if method == "post" else "/queue?name=orders"
                answer = await pages.client.request(method, path, **form)
            assert answer.status_code == 503
            assert f"<h1>{heading}</h1>" in answer.text
            assert "embedded server" not in answer.text
            assert ('http-equiv="refresh"' in answer.text) == (method == "get")
            assert ("tries again by itself" in answer.text) == (method == "get")
            unknown = "unknown whether the change was made" in answer.text
            assert unknown == (method == "post" and not known)
            assert ('href="/queue?name=orders">To the queue' in answer.text) == (method == "post")


async def test_a_refusal_is_not_called_silence(
    pages: Browser, async_broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(before: Any = None) -> Any:
        del before
        raise BrokerRefused("the server refused: no")

    monkeypatch.setattr(async_broker, "overview", fail)
    async with stream(pages, "page=overview") as events:
        assert "Redis does not answer" not in await told(events, "Redis refuses")


async def test_a_stream_of_what_is_gone_says_so(pages: Browser) -> None:
    async with stream(pages, "page=queue&name=nope") as events:
        assert "there is no queue" in await told(events, "nope")
    assert (await pages.get("/live", page="nope")).status_code == 404


async def test_an_unexpected_error_does_not_end_it(
    async_broker: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reader = pytest.importorskip("rq_dlq.web.hub").Hub(async_broker)
    look, failed = async_broker.overview, list[Any]()

    async def fail_first(before: Any = None) -> Any:
        if not failed:
            failed.append(before)
            raise ValueError("what nobody thought of")
        return await look(before)

    monkeypatch.setattr(async_broker, "overview", fail_first)
    async with reader.watching() as turn, asyncio.timeout(10):
        await turn().wait()
        reader._wanted.set()
        await turn().wait()
    await reader.close()
    assert reader.monitor.overview is not None
    assert "what nobody thought of" in caplog.text


async def test_it_stops_looking_at_any_moment(async_broker: Any) -> None:
    """Also in the turn of the event loop in which a page is opened."""
    hub = pytest.importorskip("rq_dlq.web.hub")
    for turns in range(60):
        reader = hub.Hub(async_broker)
        async with reader.watching(), asyncio.timeout(30):
            for _ in range(turns):
                await asyncio.sleep(0)
            reader._wanted.set()
            await reader.close()
