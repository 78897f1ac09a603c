"""A worker closes connections to databases that are broken or too old, before and after each call."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections, transaction

from rq_dlq.django.sending import Broker
from tests.django.conftest import POSTGRES


def kept(database: str) -> Any:
    """The connection of this thread, if it is open."""
    return connections[database].connection


def use(database: str) -> Any:
    with connections[database].cursor() as cursor:
        cursor.execute("SELECT 1")
    return kept(database)


def test_it_is_closed_after_each_call(project: Broker, database: str) -> None:
    """CONN_MAX_AGE is 0, as by default."""
    before: list[Any] = []
    queue = project.queue("orders")

    @queue.handler
    def handle(body: int) -> None:
        del body
        before.append(kept(database))
        use(database)

    queue.send_many([1, 2])
    project.run(burst=True)
    assert before == [None, None]


def test_it_is_kept_as_long_as_the_settings_say(
    project: Broker, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.databases[database], "CONN_MAX_AGE", None)
    before: list[Any] = []
    queue = project.queue("orders")

    @queue.handler
    def handle(body: int) -> None:
        before.append(kept(database))
        before.append(use(database))
        if body == 2:
            connections[database].close()  # before its thread ends

    queue.send_many([1, 2])
    project.run(burst=True)
    assert before[0] is None
    assert before[1] is before[2] is before[3] is not None


@pytest.mark.usefixtures("_postgres")
def test_a_broken_one_is_replaced_before_the_next_call(
    project: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Django does it: by CONN_HEALTH_CHECKS, which looks once after each time that old ones are closed."""
    monkeypatch.setitem(connections.databases[POSTGRES], "CONN_MAX_AGE", None)
    monkeypatch.setitem(connections.databases[POSTGRES], "CONN_HEALTH_CHECKS", True)
    done: list[int] = []
    queue = project.queue("orders")

    @queue.handler
    def handle(body: int) -> None:
        use(POSTGRES)
        done.append(body)
        connections[POSTGRES].connection.close()  # as a server does that restarts

    queue.send_many([1, 2, 3])
    project.run(burst=True)
    assert done == [1, 2, 3]


def test_an_async_handler_has_them_closed_in_the_thread_of_its_database(
    project: Broker, database: str
) -> None:
    before: list[Any] = []
    queue = project.queue("orders")

    @queue.handler
    async def handle(body: int) -> None:
        del body
        before.append(await sync_to_async(kept)(database))
        await sync_to_async(use)(database)

    queue.send_many([1, 2])
    project.run(burst=True)
    assert before == [None, None]


def test_a_transaction_in_a_with_block_of_a_delivery_goes_on(project: Broker, database: str) -> None:
    queue = project.queue("orders")
    queue.send(1)
    with transaction.atomic(using=database):
        before = use(database)
        for delivery in queue.claim():
            with delivery:
                pass
        assert use(database) is before
