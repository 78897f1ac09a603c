"""Sends in async views, by Django's own ASGI application."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.core.asgi import get_asgi_application
from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.test import override_settings
from django.urls import path

from rq_dlq.django.sending import Broker
from rq_dlq.values.observer import Observer, Sending
from tests.django.test_backend import samples

__all__ = ["samples"]
WAIT = 20.0  # seconds, of a test that fails


class Slow(Observer):
    """A Redis that answers when it is told to."""

    def __init__(self) -> None:
        self.asked, self.answer = threading.Event(), threading.Event()
        self.in_time: list[bool] = []

    @contextmanager
    def sending(self, sending: Sending) -> Generator[None]:
        del sending
        self.asked.set()
        self.in_time.append(self.answer.wait(WAIT))
        yield


def views_of(samples: ModuleType, project: Broker) -> dict[str, Any]:
    """Each sends 7."""
    orders = project.queue("default")

    async def awaited(request: HttpRequest) -> JsonResponse:
        del request
        result = await samples.double.aenqueue(7)
        await result.arefresh()
        return JsonResponse({"status": result.status})

    async def in_a_transaction(request: HttpRequest) -> JsonResponse:
        del request

        def place() -> bool | None:
            with transaction.atomic():
                samples.double.enqueue(7)
                return orders.peek() == []

        return JsonResponse({"status": await sync_to_async(place)() and "READY"})

    async def of_a_queue(request: HttpRequest) -> JsonResponse:
        del request
        sent = await sync_to_async(orders.send)({"a": 7})
        return JsonResponse({"status": sent.new and "READY"})

    return {view.__name__: view for view in (awaited, in_a_transaction, of_a_queue)}


VIEWS = ["awaited", "in_a_transaction", "of_a_queue"]


@pytest.mark.parametrize("name", VIEWS)
def test_an_async_view_sends_beside_the_event_loop(name: str, samples: ModuleType, project: Broker) -> None:
    """While Redis does not answer, the loop serves others: one of them has it answer."""
    slow = project.observe(Slow())
    views = views_of(samples, project)
    urls = [path(each, view) for each, view in views.items()]

    async def other(request: HttpRequest) -> JsonResponse:
        del request
        slow.answer.set()
        return JsonResponse({"status": "served"})

    async def both() -> list[httpx.Response]:
        app: Any = get_asgi_application()
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://localhost"
        ) as client:
            sends = asyncio.create_task(client.get(f"/{name}"))
            await asyncio.to_thread(slow.asked.wait, WAIT)
            return [await client.get("/other"), await sends]

    module: Any = ModuleType("urls")
    module.urlpatterns = [*urls, path("other", other)]
    with override_settings(ROOT_URLCONF=module):
        answers = asyncio.run(both())
    assert [answer.json()["status"] for answer in answers] == ["served", "READY"]
    assert slow.in_time == [True]
    assert len(project.queue("default").peek()) == 1
