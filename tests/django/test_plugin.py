"""The pytest plugin in a Django project: its broker uses the server of the test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.db import transaction

from rq_dlq import django as integration
from rq_dlq.testing import TestBroker


@pytest.fixture
def _unmade() -> Iterator[None]:
    """A project whose broker is not made yet."""
    app = apps.get_app_config("rq_dlq")
    app.__dict__.pop("broker", None)
    yield
    app.__dict__.pop("broker", None)


@pytest.mark.usefixtures("_unmade")
def test_a_send_of_a_view_is_drained(rq_dlq: TestBroker) -> None:
    orders, done = integration.broker.queue("orders"), list[Any]()

    @orders.handler
    def charge(body: int) -> None:
        done.append(body)

    with transaction.atomic():
        sent = orders.send(7, delay="1m")
        assert orders.stats().scheduled == 0
    assert sent.new is None
    assert rq_dlq.drain(orders)["acked"] == 0
    rq_dlq.advance("1m")
    assert rq_dlq.drain(orders)["acked"] == 1
    assert done == [7]
