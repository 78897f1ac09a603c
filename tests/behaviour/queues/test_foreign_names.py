"""Names that other brokers read more into than ours do."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from rq_dlq import InvalidName, PolicyError, RedeliveryPolicy
from tests.tables import each_row_afresh


@each_row_afresh(
    ("name", "answer"),
    [
        ("a,b", "a message goes to one queue"),
        ("DLA::DLQ.orders", "address::queue use only the queue"),
        ("DLQ.a::b", "address::queue use only the queue"),
        ("queue://orders", "without queue:// or topic://"),
        ("topic://prices", "for topics see docs/instead.md"),
        ("orders?consumer.exclusive=true", "options such as"),
    ],
)
async def test_they_are_refused_with_the_way_here(name: str, answer: str, broker: Any) -> None:
    """Each would be a new queue that nobody reads."""
    with pytest.raises(InvalidName) as told:
        broker.queue(name)
    assert answer in str(told.value)
    with pytest.raises(PolicyError, match=r"cannot name a queue|is not a pattern"):
        await broker.policies.set(name, redelivery=RedeliveryPolicy())
    assert await broker.queues() == []


@each_row_afresh("name", ["orders", "a:1", "a/b", "{shop}.a", "Consumers.VirtualTopic", "MyVirtualTopic.a"])
async def test_others_are_taken_without_a_word(name: str, broker: Any, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING):
        await broker.queue(name).send(1)
    assert "virtual topics" not in caplog.text


@each_row_afresh("name", ["VirtualTopic.prices", "Consumer.web.VirtualTopic.prices"])
async def test_a_virtual_topic_is_warned_of(name: str, broker: Any, caplog: Any) -> None:
    queue = broker.queue(name)
    caplog.clear()
    await queue.send(1)
    await queue.send(2)
    said = [record.message for record in caplog.records if "virtual topics" in record.message]
    assert said == [f"{name} is an ordinary queue: there are no virtual topics, see docs/instead.md"]


@each_row_afresh(
    ("name", "meant"),
    [
        ("/queue/orders", "orders"),
        ("jms.queue.shop.orders", "shop.orders"),
        ("arn:aws:sqs:eu-west-1:123456789012:orders", "orders"),
    ],
)
async def test_a_prefix_is_warned_of_where_it_makes_a_new_queue(
    name: str, meant: str, broker: Any, caplog: Any
) -> None:
    """Who has such a queue goes on with it, and hears nothing."""
    caplog.clear()
    await broker.queue(name).send(1)
    said = [record.message for record in caplog.records]
    assert said == [f"{name} is a new queue of just that name: did you mean {meant}?"]
    caplog.clear()
    again = broker.queue(name)
    await again.send(2)
    assert not caplog.records
    assert await broker.queues() == [name]
    assert [delivery.body for delivery in await again.claim(2)] == [1, 2]
    await again.delete(force=True)
    await again.send(3)
    assert [record.message for record in caplog.records] == said


@each_row_afresh("name", ["queue/orders", "a.jms.queue.b", "arn:aws:sqs:orders", "/queue", "jms.queue"])
async def test_other_prefixes_mean_nothing(name: str, broker: Any, caplog: Any) -> None:
    await broker.queue(name).send(1)
    assert "did you mean" not in caplog.text
