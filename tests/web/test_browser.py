"""The pages in a real browser: they fit, can be read, are live, and lead from an alert to its redrive.

$RQ_DLQ_PICTURES=docs/images has the pictures for the documents written there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import rq_dlq
from tests import servers
from tests.needs import lack, need

CONTRAST = Path(__file__).with_name("contrast.js").read_text(encoding="utf-8")
PICTURES = os.environ.get("RQ_DLQ_PICTURES")
WIDTHS, THEMES = (360, 768, 1280), ("light", "dark")
SOON = 30_000  # milliseconds


class PaymentServiceDownError(Exception):
    """It does not answer."""

    __module__ = "shop"


@dataclass
class Shop:
    """A server with an outage in it, and its page.

    Attributes:
        url: of the page.
    """

    redis: servers.Server
    broker: rq_dlq.Broker
    url: str

    def fail(self, count: int) -> None:
        """Let orders die."""
        policy = rq_dlq.RedeliveryPolicy(delays=[0], max_redeliveries=1)
        orders = self.broker.queue("orders", redelivery=policy)
        for number in range(count):
            body = {"number": number, "customer": {"name": "Anna", "password": "hunter2"}, "price": 9.5}
            orders.send(body, headers={"tenant": "acme"})
            for _ in range(2):
                (delivery,) = orders.claim(wait="5s")
                why = f"order {number}: no answer within {3000 + number} ms"
                delivery.nack(PaymentServiceDownError(why))

    @contextmanager
    def worker(self) -> Iterator[None]:
        """A consumer that acks what comes."""
        stop = threading.Event()

        def work() -> None:
            with rq_dlq.Broker(self.redis.url, version="2026.11.4") as broker:
                while not stop.is_set():
                    for delivery in broker.queue("orders").claim(10, wait="200ms"):
                        delivery.ack()

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    need("starlette", "web")
    servers.needed()
    port = servers.free_port()
    with (
        servers.Server(tmp_path_factory.mktemp("redis")) as redis,
        rq_dlq.Broker(redis.url, version="2026.11.3") as broker,
    ):
        shop = Shop(redis, broker, f"http://127.0.0.1:{port}")
        shop.fail(30)
        broker.queue("emails").send_many([{"to": "anna"}] * 12)
        broker.queue("thumbnails").send_many([{"n": n} for n in range(30)], delay="10m")
        broker.queue("webhooks.outgoing").send_many([{"n": n} for n in range(300)])
        broker.queue("webhooks.outgoing").pause()
        words = [sys.executable, "-m", "rq_dlq", "web", "--listen", f"127.0.0.1:{port}", "--url", redis.url]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as page:
            try:
                servers.wait_until(lambda: _answers(port))
                yield shop
            finally:
                page.terminate()


def _answers(port: int) -> bool:
    import httpx  # noqa: PLC0415 - the extra may be missing

    try:
        return httpx.get(f"http://127.0.0.1:{port}/static/icon.svg").status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    need("playwright", "dev")
    program = shutil.which("chromium")
    if program is None:
        lack("no chromium here: apt-get install chromium")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - it may be missing

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(chromium: Any, *, width: int = 1280, theme: str = "light", **options: Any) -> Iterator[Any]:
    """A page; what goes wrong on it fails the test."""
    size = {"width": width, "height": 800}
    context = chromium.new_context(viewport=size, color_scheme=theme, **options)
    page = context.new_page()
    page.set_default_timeout(SOON)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda line: wrong.append(line.text) if "Content Security" in line.text else None)
    yield page
    context.close()
    assert not wrong, wrong


def pages_of(shop: Shop) -> dict[str, str]:
    (group,) = shop.broker.queue("orders").dlq.groups()
    return {
        "overview": "/",
        "queue": "/queue?name=orders",
        "group": f"/group?queue=orders&id={group.fingerprint}&plan=1&canary=10",
        "message": f"/message?queue=orders&id={group.sample_id}",
        "redrives": "/redrives",
        "workers": "/workers",
        "policies": "/policies?queue=orders&messages=200",
        "schedules": "/schedules",
    }


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_pages_fit_and_can_be_read(shop: Shop, chromium: Any, width: int, theme: str) -> None:
    with opened(chromium, width=width, theme=theme) as page:
        for name, path in pages_of(shop).items():
            page.goto(shop.url + path)
            page.wait_for_selector("main h1", state="attached")
            sections = page.locator("main section, main .tiles, main .scroll")
            assert all(one.is_visible() for one in sections.all()), name
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
            assert page.evaluate(CONTRAST) == [], name
            if PICTURES and (width, theme) in {(1280, "light"), (1280, "dark")}:
                page.wait_for_timeout(3_000)  # for some points of the chart
                end = "" if theme == "light" else "-dark"
                page.screenshot(path=Path(PICTURES) / f"web-{name}{end}.png")


def test_the_keyboard(shop: Shop, chromium: Any) -> None:
    with opened(chromium) as page:
        page.goto(shop.url)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.name") == "q"
        page.keyboard.type("email")
        page.keyboard.press("Enter")
        page.wait_for_url("**/?q=email")
        page.keyboard.press("g")
        page.keyboard.press("r")
        page.wait_for_url("**/redrives")


def test_the_theme_is_remembered(shop: Shop, chromium: Any) -> None:
    with opened(chromium) as page:
        page.goto(shop.url)
        before = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        page.click("#theme")
        page.goto(f"{shop.url}/redrives")
        assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") != before


def test_without_javascript_it_can_be_read(shop: Shop, chromium: Any) -> None:
    with opened(chromium, java_script_enabled=False) as page:
        page.goto(shop.url)
        page.click("text=PaymentServiceDownError")
        page.click("text=Dry run")
        assert "would come back" in page.inner_text("#redrive")


def test_it_is_live_and_comes_back_after_redis_was_away(shop: Shop, chromium: Any) -> None:
    with opened(chromium) as page:
        page.goto(f"{shop.url}/queue?name=emails")
        page.focus("#live a, main a")
        shop.broker.queue("emails").send_many([{"to": "berta"}] * 5)
        page.wait_for_selector(".tile:has-text('ready') dd:has-text('17')")
        shop.redis.signal(19)  # it stands still
        try:
            page.wait_for_selector("text=Redis does not answer", timeout=60_000)
        finally:
            shop.redis.signal(18)
        page.wait_for_selector("text=Redis does not answer", state="detached", timeout=60_000)


def test_from_the_alert_to_the_redrive(shop: Shop, chromium: Any) -> None:
    with opened(chromium) as page, shop.worker():
        page.goto(shop.url)
        page.click(".troubles >> text=PaymentServiceDownError")
        page.wait_for_selector("text=The newest, as an example")
        page.click("text=Dry run")
        page.wait_for_selector("text=30 dead letters")
        page.click("text=Begin with the canary")
        page.wait_for_selector("text=All have come back.")
        page.wait_for_selector(".tile:has-text('acked') dd:has-text('30')")
        if PICTURES:
            page.screenshot(path=Path(PICTURES) / "web-redrive.png")
        page.goto(f"{shop.url}/redrives")
        assert "started" in page.inner_text("main")
