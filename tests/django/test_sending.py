"""Sends in a transaction go after its commit; real transactions of SQLite and PostgreSQL."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from django.db import transaction
from django.test import TestCase

import rq_dlq.django
from rq_dlq import Broker, InvalidInput, InvalidMessage, Message
from rq_dlq.django.sending import Broker as ProjectBroker
from rq_dlq.doctor import examine
from tests.tables import each_row

NOWHERE = ProjectBroker("unix:///nowhere", patience="0s")


class Undo(Exception):  # noqa: N818 - it rolls back
    pass


@contextmanager
def undone(using: str) -> Generator[None]:
    """A transaction, or a savepoint in one, that is rolled back."""
    with suppress(Undo), transaction.atomic(using=using):
        yield
        raise Undo


def bodies(queue: Any) -> list[Any]:
    return [message.body for message in queue.peek(100)]


def test_a_send_in_a_transaction_goes_after_the_commit(project: ProjectBroker, database: str) -> None:
    orders = project.queue("orders")
    with transaction.atomic(using=database):
        sent = orders.send({"total": 7}, key="customer-1", headers={"a": "b"}, priority=9)
        assert sent.new is None
        assert bodies(orders) == []
    (message,) = orders.peek()
    assert (message.id, message.body) == (sent, {"total": 7})
    assert (message.key, message.headers, message.priority) == ("customer-1", {"a": "b"}, 9)


def test_outside_of_a_transaction_it_is_sent_at_once(project: ProjectBroker, database: str) -> None:
    del database
    assert project.queue("orders").send(1).new is True
    assert [sent.new for sent in project.queue("orders").send_many([2, 3])] == [True, True]
    assert bodies(project.queue("orders")) == [1, 2, 3]


def test_a_rollback_sends_nothing(project: ProjectBroker, database: str) -> None:
    orders = project.queue("orders")
    with undone(database):
        orders.send("undone")
    assert bodies(orders) == []


def test_a_savepoint_takes_its_sends_back(project: ProjectBroker, database: str) -> None:
    orders = project.queue("orders")
    with transaction.atomic(using=database):
        orders.send("outer")
        with undone(database):
            orders.send("undone")
        with transaction.atomic(using=database):
            orders.send("inner")
        assert bodies(orders) == []
    assert bodies(orders) == ["outer", "inner"]


def test_many_messages_with_options_of_their_own(project: ProjectBroker, database: str) -> None:
    orders = project.queue("orders")
    with transaction.atomic(using=database):
        sent = orders.send_many([Message("a", id="order-1"), "b", b"\x00raw"], key="all")
        assert [one.new for one in sent] == [None, None, None]
        assert bodies(orders) == []
    assert [(one.id, one.body, one.key) for one in orders.peek(9)] == [
        ("order-1", "a", "all"),
        (sent[1], "b", "all"),
        (sent[2], b"\x00raw", "all"),
    ]


def test_it_is_sent_as_it_was(project: ProjectBroker, database: str) -> None:
    body, raw = {"total": 7}, bytearray(b"abc")
    with transaction.atomic(using=database):
        project.queue("orders").send_many([body, raw])
        body["total"], raw[0] = 8, 0
    assert bodies(project.queue("orders")) == [{"total": 7}, b"abc"]


def test_on_commit_false_sends_at_once(project: ProjectBroker, database: str) -> None:
    orders = project.queue("orders")
    with undone(database):
        assert orders.send("at once", on_commit=False).new is True
        assert orders.send_many(["at once"], on_commit=False)[0].new is True
    assert bodies(orders) == ["at once", "at once"]


@pytest.mark.usefixtures("_postgres")
def test_another_database_is_awaited(project: ProjectBroker) -> None:
    orders = project.queue("orders")
    with transaction.atomic(using="postgres"):
        orders.send("not of the default")
        assert bodies(orders) == ["not of the default"], "a transaction of another database is none of ours"
        with transaction.atomic():
            sent = orders.send("of postgres", using="postgres")
        assert sent.new is None
        assert bodies(orders) == ["not of the default"], "the commit of another database is not awaited"
    assert bodies(orders) == ["not of the default", "of postgres"]


REFUSED = {
    "a body": lambda orders: orders.send({"at": object()}),
    "a priority": lambda orders: orders.send(1, priority=10),
    "an id": lambda orders: orders.send(1, id=""),
    "a delay": lambda orders: orders.send(1, delay="soon"),
    "one body for many": lambda orders: orders.send_many("abc"),
    "one of many": lambda orders: orders.send_many([1, object()]),
    "an answer before the commit": lambda orders: orders.send(1, on_duplicate="raise"),
    "dead letters": lambda orders: orders._broker.queue("DLQ.orders").send(1),
}


@each_row("what", REFUSED)
def test_what_is_wrong_is_refused_in_the_transaction(what: str, project: ProjectBroker) -> None:
    orders = project.queue("orders")
    with transaction.atomic(), pytest.raises(InvalidInput):
        REFUSED[what](orders)
    assert bodies(orders) == []


def test_a_task_awaits_the_commit(project: ProjectBroker, database: str) -> None:
    @project.task(queue="sums")
    def add(a: int, b: int = 0) -> int:
        return a + b

    with transaction.atomic(using=database):
        sent = add.options(result=True).send(1, b=2)
        many = add.send_many([(3,), {"a": 4}])
        at_once = add.options(on_commit=False).options(priority=9).send(5)
        assert [sent.new, *(one.new for one in many), at_once.new] == [None, None, None, True]
        with pytest.raises(InvalidMessage):
            add.send("not a number")  # type: ignore[arg-type]
        assert [one.id for one in project.queue("sums").peek(9)] == [at_once]
    assert {one.id for one in project.queue("sums").peek(9)} == {at_once, sent, *many}
    project.run(burst=True)
    assert sent.result() == 3
    assert add(1, 2) == 3


def test_the_result_of_a_message_that_went_after_the_commit(project: ProjectBroker) -> None:
    orders = project.queue("orders", results="1h")
    with transaction.atomic():
        sent = orders.send(1)
    orders.claim()[0].ack(result="done")
    assert sent.result() == "done"


def test_a_handler_sends_after_its_own_commit(project: ProjectBroker) -> None:
    first, second = project.queue("first"), project.queue("second")
    seen: list[Any] = []

    @first.handler
    def pass_on(body: int) -> None:
        with transaction.atomic():
            second.send(body)
            seen.append(bodies(second))

    first.send(1)
    project.run(burst=True)
    assert (seen, bodies(second)) == ([[]], [1])


def test_a_failure_after_the_commit_is_logged_counted_and_seen_by_the_doctor(
    empty_socket: str, caplog: pytest.LogCaptureFixture
) -> None:
    after: list[str] = []
    url = f"unix://{empty_socket}"
    with ProjectBroker(url, patience="0s") as broker:
        orders = broker.queue("orders")
        orders.send("first")
        there, broker._connections = broker._connections, NOWHERE._open(NOWHERE._retries)
        with caplog.at_level(logging.ERROR), transaction.atomic():
            sent = orders.send("lost")
            orders.send_many(["lost", "too"])
            transaction.on_commit(lambda: after.append("the others run"))
        assert after == ["the others run"]
        assert broker.unsent.count == 3
        assert "orders: 1 message was not sent after the commit" in caplog.text
        assert sent in caplog.text
        broker._connections = there
        with transaction.atomic():
            orders.send("back")
    with Broker(url) as other:
        assert bodies(other.queue("orders")) == ["first", "back"]
        (check,) = [check for check in examine(other) if check.name == "commits"]
        assert (check.state, check.found.partition(" lost ")[2].partition(",")[0]) == ("warn", "3 messages")
        assert other.workers() == []


def test_a_test_case_captures_them(project: ProjectBroker) -> None:
    """It is a transaction that is rolled back."""

    class Case(TestCase):
        def runTest(self) -> None:  # noqa: N802 - as unittest has it
            with self.captureOnCommitCallbacks(execute=True) as self.callbacks:
                self.sent = rq_dlq.django.broker.queue("orders").send("in a test")
                self.before = bodies(project.queue("orders"))

    Case.setUpClass()
    case = Case()
    case.debug()
    Case.tearDownClass()
    assert (case.sent.new, case.before, len(case.callbacks)) == (None, [], 1)
    assert bodies(project.queue("orders")) == ["in a test"]
