"""A dead letter under two names: one letter, not a copy for each."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq import IndividualDeadLetterStrategy, LeaseLost, PolicyError, SharedDeadLetterStrategy
from tests.behaviour.helpers import bodies, bury, counts, one
from tests.conftest import Clock
from tests.tables import each_row_afresh


async def fill(broker: Any, **more: Any) -> None:
    await broker.policies.set("#", dead_letter_aliases="DLQ", **more)
    for name in ("orders", "bills"):
        await bury(broker.queue(name), [f"{name} 1", f"{name} 2"])


async def test_each_letter_is_under_both_names(broker: Any) -> None:
    await fill(broker)
    both = await broker.queue("DLQ").dlq.browse()
    assert sorted(letter.body for letter in both) == ["bills 1", "bills 2", "orders 1", "orders 2"]
    assert [letter.body for letter in await broker.queue("orders").dlq.browse()] == ["orders 1", "orders 2"]


@each_row_afresh(("by", "other"), [("DLQ", "DLQ.orders"), ("DLQ.orders", "DLQ")])
@each_row_afresh("verb", ["ack", "nack", "release"])
async def test_who_claims_it_by_one_name_holds_it_by_both(
    by: str, other: str, verb: str, broker: Any
) -> None:
    await broker.policies.set("orders", dead_letter_aliases=["DLQ", "Lost"])
    await bury(broker.queue("orders"), ["x"])
    delivery = await one(broker.queue(by))
    assert (delivery.body, delivery.original_queue, delivery.queue) == ("x", "orders", by)
    for name in (other, "Lost"):
        assert await broker.queue(name).claim() == []
    await getattr(delivery, verb)()
    if verb == "ack":
        assert await counts(broker.queue("orders")) == {}
        assert await broker.queue(other).claim() == []
        with pytest.raises(LeaseLost):
            await delivery.ack()
    else:
        assert await counts(broker.queue("orders")) == {"dead": 1}


@each_row_afresh(
    "strategy", [IndividualDeadLetterStrategy(prefix="X."), SharedDeadLetterStrategy("Lost"), None]
)
async def test_beside_each_strategy(strategy: Any, broker: Any) -> None:
    await fill(broker, **({} if strategy is None else {"dead_letter": strategy}))
    letters = broker.queue("DLQ")
    held = await letters.claim(9)
    assert sorted(delivery.body for delivery in held) == ["bills 1", "bills 2", "orders 1", "orders 2"]
    assert all(await letters.ack(held))
    for name in ("orders", "bills"):
        assert await counts(broker.queue(name)) == {}


async def test_a_name_that_is_given_no_more_shows_nothing(broker: Any) -> None:
    await fill(broker)
    await broker.policies.set("bills", dead_letter_aliases=None)
    assert sorted(await bodies(broker.queue("DLQ"), 9)) == ["orders 1", "orders 2"]
    await broker.policies.remove("#")
    assert await broker.queue("DLQ").claim() == []
    assert await counts(broker.queue("bills")) == {"dead": 2}


async def test_what_cannot_be_an_alias(broker: Any) -> None:
    with pytest.raises(PolicyError, match="cannot be its own"):
        await broker.policies.set("orders", dead_letter_aliases="orders")
    for wrong in ("a,b", ["a b"], 7, [7]):
        with pytest.raises(PolicyError, match="dead_letter_aliases"):
            await broker.policies.set("#", dead_letter_aliases=wrong)


async def test_a_program_declares_them(broker: Any) -> None:
    queue = broker.queue("orders", dead_letter_aliases=["DLQ"])
    await bury(queue, ["x"])
    assert await bodies(broker.queue("DLQ")) == ["x"]
    assert (await queue.settings()).dead_letter_aliases == "DLQ"


async def test_an_expired_message_is_under_both_names(broker: Any, clock: Clock) -> None:
    await broker.policies.set("#", expiry_aliases="ExpiryQueue", dead_letter_aliases="DLQ")
    orders, letters = broker.queue("orders"), broker.queue("ExpiryQueue")
    await orders.send_many(["x", "y", "z"], ttl="1s")
    clock.advance("2s")
    await orders.maintain()
    assert (await orders.settings()).expiry_aliases == "ExpiryQueue"
    assert [letter.body for letter in await letters.expired.browse()] == ["x", "y", "z"]
    assert await counts(letters) == {"expired": 3}
    delivery = await one(letters)
    assert (delivery.original_queue, delivery.queue) == ("orders", "ExpiryQueue")
    others = await broker.queue("EXP.orders").claim(9)
    assert [other.body for other in others] == ["y", "z"]
    await delivery.ack()
    assert all(await broker.queue("EXP.orders").ack(others))
    assert await counts(orders) == {}
    assert await broker.queue("DLQ").claim() == []


async def test_a_loop_over_what_has_expired_hands_out_each_at_once(broker: Any, clock: Clock) -> None:
    """Their time to live is over for good: the rest of a claim is not given back for it."""
    await broker.policies.set("#", expiry_aliases="ExpiryQueue")
    await broker.queue("orders").send_many(["x", "y", "z"], ttl="1s")
    clock.advance("2s")
    await broker.queue("orders").maintain()
    found = []
    async for delivery in broker.queue("ExpiryQueue").consume(3):
        found.append((delivery.body, delivery.delivery_count))
        await delivery.ack()
    assert found == [("x", 1), ("y", 1), ("z", 1)]
