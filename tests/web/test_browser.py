"""The pages in a real browser: they fit, can be read, are live, and lead from an alert to its redrive.

$RQ_DLQ_PICTURES=docs/images has the pictures for the documents written there.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import rq_dlq
from tests import servers
from tests.needs import need, needs
from tests.web.browser import launched, opened, serving

pytestmark = needs("chromium")

CONTRAST = Path(__file__).with_name("contrast.js").read_text(encoding="utf-8")
PICTURES = os.environ.get("RQ_DLQ_PICTURES")
ODD_KEY = "<b>" + "ü" * 98
WIDTHS, THEMES = (360, 768, 1280), ("light", "dark")
COLOURED = (360, 1280)
"""Widths on either side of the one where the style sheet changes: colours are the same beyond."""


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
    with (
        servers.Server(tmp_path_factory.mktemp("redis")) as redis,
        rq_dlq.Broker(redis.url, version="2026.11.3") as broker,
        serving(redis.url) as url,
    ):
        shop = Shop(redis, broker, url)
        shop.fail(30)
        broker.queue("emails").send_many([{"to": "anna"}] * 12)
        broker.queue("thumbnails").send_many([{"n": n} for n in range(30)], delay="10m")
        broker.queue("webhooks.outgoing").send_many([{"n": n} for n in range(300)])
        broker.queue("webhooks.outgoing").pause()
        invoices = broker.queue("invoices", per_key=rq_dlq.PerKey(order=True))
        for key in (ODD_KEY, *(f"customer-{n}" for n in range(30))):
            invoices.send_many([{"n": n} for n in range(3)], key=key)
        invoices.key(ODD_KEY).pause()
        yield shop


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def window(chromium: Any) -> Iterator[Any]:
    with opened(chromium, reduced_motion="reduce") as page:
        yield page


@pytest.fixture
def page(window: Any) -> Iterator[Any]:
    """The same for all tests that need no other one: to open one costs more than what they do with it."""
    window.emulate_media(color_scheme="light")
    yield window
    window.evaluate("localStorage.clear()")
    window.goto("about:blank")


def pages_of(shop: Shop) -> dict[str, str]:
    (group,) = shop.broker.queue("orders").dlq.groups()
    return {
        "overview": "/",
        "queue": "/queue?name=orders",
        "group": f"/group?queue=orders&id={group.fingerprint}&plan=1&canary=10",
        "message": f"/message?queue=orders&id={group.sample_id}",
        "edit": f"/act?verb=edit&queue=orders&id={group.sample_id}",
        "counted": "/queue?name=orders&count_by=tenant&place=dead",
        "keys": "/queue?name=invoices",
        "key": f"/key?queue=invoices&key={quote(ODD_KEY)}",
        "redrives": "/redrives",
        "workers": "/workers",
        "policies": "/policies?queue=orders&messages=200",
        "schedules": "/schedules",
    }


def test_pages_fit_and_can_be_read(shop: Shop, page: Any) -> None:
    for name, path in pages_of(shop).items():
        page.goto(shop.url + path)
        page.wait_for_selector("main h1", state="attached")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            sections = page.locator("main section, main .tiles, main .scroll")
            assert all(one.is_visible() for one in sections.all()), (name, width)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (name, width)
            for theme in THEMES if width in COLOURED else ():
                page.emulate_media(color_scheme=theme)
                assert page.evaluate(CONTRAST) == [], (name, width, theme)
                if PICTURES and width == 1280:
                    page.wait_for_timeout(3_000)  # for some points of the chart
                    end = "" if theme == "light" else "-dark"
                    page.screenshot(path=Path(PICTURES) / f"web-{name}{end}.png")


def test_the_keyboard(shop: Shop, page: Any) -> None:
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


def test_the_theme_is_remembered(shop: Shop, page: Any) -> None:
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
        assert "would be redriven" in page.inner_text("#redrive")


def test_it_is_live_and_comes_back_after_redis_was_away(shop: Shop, page: Any) -> None:
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


def test_it_is_live_also_where_a_script_comes_late(shop: Shop, chromium: Any) -> None:
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)

    with opened(chromium) as page:
        page.route("**/hx-sse.min.js*", hold)
        page.goto(shop.url, wait_until="commit")
        servers.wait_until(lambda: page.evaluate("'htmx' in window"))
        page.evaluate("new Promise((done) => setTimeout(done))")  # what htmx does at once is done
        with page.expect_request("**/live?*"):
            held[0].continue_()


def test_each_act_asks_once(shop: Shop, page: Any) -> None:
    """A purge of ticked rows, an edit by a condition, one letter that is edited, a pause and a resume."""
    parcels = shop.broker.queue("parcels", redelivery=rq_dlq.RedeliveryPolicy(max_redeliveries=0))
    parcels.send_many([{"n": n, "city": "Ulm", "token": f"secret{n}"} for n in range(6)])
    parcels.poison(parcels.claim(6), "no such street")
    (group,) = parcels.dlq.groups()
    page.goto(f"{shop.url}/group?queue=parcels&id={group.fingerprint}")
    for box in page.get_by_role("checkbox").all()[:2]:
        box.check()
    page.locator("form:has(table) >> text=Purge …").click()
    page.wait_for_selector("text=2 dead letters will be removed permanently")
    page.click("text=Purge 2")
    page.wait_for_selector("[role=status]:has-text('2 removed.')")
    page.click("main >> a:text-is('Audit')")
    page.wait_for_selector("#audit")
    assert "purged" in page.inner_text("main")
    assert parcels.stats().dead == 4

    page.goto(f"{shop.url}/queue?name=parcels")
    page.fill("input[name=where]", "body.n < 3")
    page.click("text=Edit …")
    page.fill("textarea", '{"city": "Bonn"}')
    page.click("text=Dry run")
    page.wait_for_selector("text=will be redriven, edited")
    page.click("text=Edit and redrive 3")
    page.wait_for_selector("text=3 of 3")
    assert {message.body["city"] for message in parcels.peek()} == {"Bonn"}

    (letter,) = parcels.dlq.browse()
    page.goto(f"{shop.url}/message?queue=parcels&id={letter.id}")
    page.click("text=Edit …")
    shown = page.input_value("textarea")
    assert "secret3" not in shown
    page.fill("textarea", shown.replace("Ulm", "Kiel"))
    page.click("text=Dry run")
    page.click("text=Edit and redrive 1")
    page.wait_for_selector("text=1 of 1")
    last = [message.body for message in parcels.peek()][-1]
    assert last == {"n": letter.body["n"], "city": "Kiel", "token": letter.body["token"]}

    page.goto(f"{shop.url}/queue?name=parcels")
    page.click("text=Pause")
    page.wait_for_selector("text=4 messages will wait until it is resumed")
    page.click("text=Pause parcels")
    page.wait_for_selector("text=paused until it is resumed, 4 waiting")
    page.click("a:text-is('Resume')")
    page.click("text=Resume parcels")
    page.wait_for_selector("a:text-is('Pause')")
    did = [record.did for record in shop.broker.audit(queue="parcels")]
    assert did == ["resumed", "paused", "done", "started", "done", "started", "purged"]
    parcels.delete(force=True)


def test_from_the_alert_to_the_redrive(shop: Shop, page: Any) -> None:
    with shop.worker():
        page.goto(shop.url)
        page.click(".troubles >> text=PaymentServiceDownError")
        page.wait_for_selector("text=Newest message, as an example")
        page.click("text=Dry run")
        page.wait_for_selector("text=30 dead letters")
        page.click("text=Begin with the canary")
        page.wait_for_selector("text=All have come back.")
        page.wait_for_selector(".tile:has-text('acked') dd:has-text('30')")
        if PICTURES:
            page.screenshot(path=Path(PICTURES) / "web-redrive.png")
        page.goto(f"{shop.url}/redrives")
        assert "started" in page.inner_text("main")
