"""Handlers that ack by themselves, and send with it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import rq_dlq
from rq_dlq import BrokerUnavailable, KnownId, Message
from rq_dlq.worker import Worker
from tests.behaviour.faults import lose
from tests.behaviour.helpers import AT_ONCE
from tests.tables import each_row


def register(queue: Any, colour: str, links: Callable[[int], list[Any]], **options: Any) -> None:
    """A handler that acks with what follows from its body, and a result."""

    def plain(body: int, delivery: Any) -> str:
        delivery.ack(send=links(body), result=body + 1)
        return "not this"

    async def awaiting(body: int, delivery: Any) -> str:
        await delivery.ack(send=links(body), result=body + 1)
        return "not this"

    queue.handler(**options)(plain if colour == "def" else awaiting)


@each_row(("colour", "ack_each"), [("def", False), ("def", True), ("async def", False), ("async def", True)])
def test_a_handler_sends_with_its_ack(colour: str, ack_each: bool, broker: rq_dlq.Broker) -> None:
    row = f"{colour[:3]}.{ack_each}"
    orders, mails = broker.queue(f"orders.{row}", results="1h"), broker.queue(f"mails.{row}")
    register(orders, colour, lambda body: [(mails, body)], concurrency=3, ack_each=ack_each)
    sent = orders.send_many(range(20))
    worker = Worker(broker, queues={orders.name: None}, until="empty")
    worker.run()
    assert worker.tally.counts["acked"] == 20  # beside busy loops some may be given back before
    assert sorted(mail.body for mail in mails.claim(99)) == [*range(20)]
    assert [orders.result(message) for message in sent] == [*range(1, 21)]


def test_a_known_id_is_no_failure_of_the_message(broker: rq_dlq.Broker) -> None:
    """It comes back uncharged, unless the handler says that it is done: then it acks without it."""
    orders, mails = broker.queue("orders", redelivery=AT_ONCE), broker.queue("mails")
    mails.send("before", id="mail-7")
    seen = list[int]()

    @orders.handler
    def handle(body: int, delivery: rq_dlq.Delivery[int]) -> None:
        seen.append(delivery.charged)
        try:
            delivery.ack(send=[(mails, "new"), (mails, Message("again", id=f"mail-{body}"))])
        except KnownId:
            if delivery.attempt < 2:
                raise
            delivery.ack()

    orders.send(7)
    worker = Worker(broker, until="drained")  # it waits for a second: failures without a charge do
    worker.run()
    assert (seen, worker.tally.counts) == ([0, 0], {"redelivered": 1, "acked": 1})
    assert [mail.body for mail in mails.claim(9)] == ["before"]


@each_row("arrives", [True, False])
def test_a_handler_may_pass_over_an_unknown_outcome(
    arrives: bool, broker: rq_dlq.Broker, caplog: Any
) -> None:
    """The message is not acked alone: what it was to send would be lost."""
    orders, mails = broker.queue(f"orders.{arrives}", redelivery=AT_ONCE), broker.queue(f"mails.{arrives}")
    mails.open()
    lose(broker._connections, "commit", 3, arrives=arrives)

    @orders.handler
    def handle(body: int, delivery: rq_dlq.Delivery[int]) -> None:
        with suppress(BrokerUnavailable):
            delivery.ack(send=[(mails, body)])

    orders.send(7)
    Worker(broker, queues={orders.name: None}, until="empty").run()
    totals = orders.stats().totals
    assert (totals["acked"], totals.get("nacked", 0)) == (1, 0 if arrives else 1)
    assert [mail.body for mail in mails.claim(9)] == [7]
    if not arrives:
        assert "passed over an ack whose outcome is unknown" in caplog.text
