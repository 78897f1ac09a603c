"""The page in the admin: who may see it, who may change something, and what other sites cannot send."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import pytest
from django.apps import apps
from django.test import AsyncRequestFactory, Client, override_settings

from rq_dlq import Broker, RedeliveryPolicy
from tests.tables import each_row

PAGE = "/admin/rq_dlq/queues/"
RIGHTS = {"nobody": (), "reader": ("view_queues",), "operator": ("view_queues", "change_queues")}


@pytest.fixture(scope="module")
def _users() -> None:
    from django.contrib.auth.models import Permission, User  # noqa: PLC0415 - there are no models before

    for name, rights in RIGHTS.items():
        user = User.objects.create_user(name, password="x", is_staff=True)  # noqa: S106
        user.user_permissions.set(Permission.objects.filter(codename__in=rights))
    User.objects.create_user("customer", password="x")  # noqa: S106
    User.objects.create_superuser("root", password="x")  # noqa: S106


@pytest.fixture
def letters(empty_socket: str, _users: None) -> Iterator[Broker]:
    """A broker with a dead letter, whose page the admin has."""
    url = f"unix://{empty_socket}"
    from rq_dlq.django import admin  # noqa: PLC0415 - it needs the settings

    admin._page.cache_clear()
    with override_settings(RQ_DLQ={"url": url}), Broker(url) as broker:
        queue = broker.queue("orders", redelivery=RedeliveryPolicy(max_redeliveries=0))
        queue.send({"total": 7}, id="order-1")
        queue.claim()[0].nack("no price")
        yield broker
    admin._page.cache_clear()


def of(name: str, **settings: Any) -> Client:
    client = Client(**settings)
    client.force_login(apps.get_model("auth", "User").objects.get(username=name))
    return client


def form_of(text: str) -> dict[str, str]:
    """The hidden fields of the first form with a mark."""
    (mark,) = {*re.findall(r'name="mark" value="([^"]+)"', text)}
    return {"mark": mark}


def test_who_is_not_logged_in_is_sent_to_the_login(letters: Broker) -> None:
    del letters
    for client in (Client(), of("customer")):
        answer = client.get(PAGE)
        assert (answer.status_code, answer["location"]) == (302, f"/admin/login/?next={PAGE}")
        assert client.post(f"{PAGE}queue/pause?name=orders").status_code == 302


@each_row("inner", ["", "queue?name=orders", "static/app.js", "live?page=overview", "login"])
def test_staff_without_the_permission_see_nothing(inner: str, letters: Broker) -> None:
    del letters
    assert of("nobody").get(PAGE + inner).status_code == 403


def test_the_page_is_in_the_index_of_the_admin(letters: Broker) -> None:
    del letters
    assert f'href="{PAGE}"' in of("reader").get("/admin/").content.decode()
    assert PAGE not in of("nobody").get("/admin/").content.decode()


def test_a_reader_sees_the_page(letters: Broker) -> None:
    del letters
    client = of("reader")
    text = client.get(PAGE).content.decode()
    assert f'href="{PAGE}queue?name=orders"' in text
    assert "no price" in client.get(f"{PAGE}queue?name=orders").content.decode()
    assert client.get(f"{PAGE}static/app.js")["content-type"].startswith("text/javascript")
    assert client.get(f"{PAGE}queue?name=none").status_code == 404
    assert "no price" in client.get(f"{PAGE}message?queue=orders&id=order-1&part=dead").content.decode()
    answer = client.get(PAGE)
    assert "default-src 'none'" in answer["content-security-policy"]
    assert answer["x-frame-options"] == "DENY"


def test_a_reader_changes_nothing(letters: Broker) -> None:
    answer = of("reader").post(f"{PAGE}queue/pause?name=orders", {"mark": "x"})
    assert (answer.status_code, "this page is read-only" in answer.content.decode()) == (403, True)
    assert not letters.queue("orders").stats().paused


def test_an_operator_changes_queues_under_their_name(letters: Broker) -> None:
    for name, verb, paused in (("operator", "pause", True), ("root", "resume", False)):
        client = of(name)
        form = form_of(client.get(f"{PAGE}queue?name=orders").content.decode())
        answer = client.post(f"{PAGE}queue/{verb}?name=orders", form)
        assert answer.status_code == 303
        assert answer["location"].startswith(f"{PAGE}queue?")
        assert letters.queue("orders").stats().paused is paused
        assert letters.audit(1)[0].by == f"web: {name}"


def test_a_form_of_another_site_or_user_is_refused(letters: Broker) -> None:
    client, other = of("operator", enforce_csrf_checks=True), of("root")
    form = form_of(client.get(f"{PAGE}queue?name=orders").content.decode())
    theirs = form_of(other.get(f"{PAGE}queue?name=orders").content.decode())
    for given, headers in (({}, {}), (theirs, {}), (form, {"origin": "https://evil.example"})):
        answer = client.post(f"{PAGE}queue/pause?name=orders", given, headers=headers)
        assert answer.status_code == 403
    assert not letters.queue("orders").stats().paused
    assert client.post(f"{PAGE}queue/pause?name=orders", form).status_code == 303


def test_a_form_is_good_for_every_process(letters: Broker) -> None:
    from rq_dlq.django import admin  # noqa: PLC0415

    client = of("operator")
    form = form_of(client.get(f"{PAGE}queue?name=orders").content.decode())
    admin._page.cache_clear()  # as in another one
    assert client.post(f"{PAGE}queue/pause?name=orders", form).status_code == 303
    assert letters.queue("orders").stats().paused


def test_wsgi_has_no_stream(letters: Broker) -> None:
    """A thread would be taken for as long as the page is open."""
    del letters
    assert of("reader").get(f"{PAGE}live?page=overview").status_code == 204


def test_asgi_streams_what_changes(letters: Broker) -> None:
    from rq_dlq.django import admin  # noqa: PLC0415

    request = AsyncRequestFactory().get(f"{PAGE}live?page=overview")
    request.user = apps.get_model("auth", "User").objects.get(username="reader")
    answer: Any = admin._page(write=False).answer(request, "live")
    assert answer["content-type"].startswith("text/event-stream")

    async def read() -> list[str]:
        parts: list[str] = []
        async with aclosing(aiter(answer)) as stream:
            async for part in stream:
                parts.append(part.decode())
                if len(parts) == 1:
                    await asyncio.to_thread(letters.queue("invoices").send, 1)
                if "invoices" in parts[-1]:
                    return parts
        return parts

    parts = asyncio.run(read())
    assert "orders" in parts[0]
    assert "invoices" in parts[-1]
