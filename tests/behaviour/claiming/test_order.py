"""The order of delivery (I8): priority, then due time, then send order."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.behaviour.helpers import AT_ONCE, after, bodies, counts, ids, one
from tests.conftest import Clock


async def test_first_sent_first_claimed(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    for body in range(5):
        await queue.send(body)
        clock.advance("1s")
    assert await bodies(queue) == [0, 1, 2, 3, 4]


async def test_priority_goes_first(broker: Any) -> None:
    """I8."""
    queue = broker.queue("a")
    for priority in (3, 0, 9, 4, 7):
        await queue.send(priority, priority=priority)
    assert await bodies(queue) == [9, 7, 4, 3, 0]


async def test_due_time_goes_before_send_order(broker: Any, clock: Clock) -> None:
    """I8."""
    queue = broker.queue("a")
    await queue.send("third", delay="3s")
    await queue.send("first", delay="1s")
    await queue.send("second", delay="2s")
    clock.advance("3s")
    assert await bodies(queue) == ["first", "second", "third"]


async def test_three_thousand_at_one_time_keep_their_order(broker: Any) -> None:
    """I8: equal scores, and ids that sort otherwise."""
    queue = broker.queue("a")
    sent = await queue.send_many(range(3_000))
    claimed = [message_id for _ in range(3) for message_id in await ids(queue)]
    assert claimed == sent


async def test_ten_thousand_at_one_time_keep_their_order(async_broker: Any) -> None:
    """I8: more than fit into the numbers of one millisecond."""
    queue = async_broker.queue("a")
    await queue.send_many(range(10_000))
    claimed = [body for _ in range(10) for body in await bodies(queue)]
    assert claimed == list(range(10_000))


async def test_delayed_and_immediate_ties_go_by_send_order(broker: Any, clock: Clock) -> None:
    """I8: due in the same millisecond."""
    queue = broker.queue("a")
    await queue.send("sent first", delay="5s")
    clock.advance("2s")
    await queue.send("sent second", delay="3s")
    clock.advance("3s")
    await queue.send("sent third")
    assert await bodies(queue) == ["sent first", "sent second", "sent third"]


async def test_many_delayed_to_one_time_keep_their_order(broker: Any, clock: Clock) -> None:
    """I8."""
    queue = broker.queue("a")
    sent = await queue.send_many(range(600), delay="1s")
    clock.advance("1s")
    assert await ids(queue) == sent


async def test_priority_holds_among_the_delayed(broker: Any, clock: Clock) -> None:
    """I8."""
    queue = broker.queue("a")
    await queue.send("low, due first", delay="1s", priority=1)
    await queue.send("high, due last", delay="2s", priority=8)
    clock.advance("2s")
    assert await bodies(queue) == ["high, due last", "low, due first"]


@pytest.mark.parametrize("verb", ["release", "nack"])
async def test_given_back_without_delay_it_has_its_old_place(verb: str, broker: Any, clock: Clock) -> None:
    """I8: not at the head in the order of the calls, not at the tail."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send_many(range(6))
    clock.advance("1s")
    await queue.send("later")
    claimed = await queue.claim(4)
    random.Random(1).shuffle(claimed)
    for delivery in claimed:
        clock.advance("1s")
        await getattr(delivery, verb)()
    assert await bodies(queue) == [0, 1, 2, 3, 4, 5, "later"]


async def test_released_after_a_delay_it_has_its_old_place(broker: Any, clock: Clock) -> None:
    """I8: its due time was when the delay was over."""
    queue = broker.queue("a")
    await queue.send("delayed", delay="2s")
    await queue.send("before")
    clock.advance("2s")
    await queue.send("after it")
    before, delayed = await queue.claim(2)
    assert (before.body, delayed.body) == ("before", "delayed")
    await delayed.release()
    assert await bodies(queue) == ["delayed", "after it"]


async def test_redelivered_it_stands_by_its_new_due_time(broker: Any, clock: Clock) -> None:
    """I8."""
    queue = broker.queue("a", redelivery=after("10s"))
    await queue.send("failed")
    await (await one(queue)).nack()
    clock.advance("9s")
    await queue.send("sent before it was due")
    clock.advance("2s")
    await queue.send("sent after it was due")
    assert await bodies(queue) == ["sent before it was due", "failed", "sent after it was due"]


async def test_a_waiting_message_holds_up_nobody(broker: Any) -> None:
    """I8."""
    queue = broker.queue("a", redelivery=after("1h"))
    await queue.send("first", priority=9)
    await queue.send("second")
    await (await one(queue)).nack()
    assert await bodies(queue) == ["second"]


async def test_ids_do_not_matter_to_the_order(broker: Any) -> None:
    """I8: members of equal score sort by their bytes ("10" before "2")."""
    queue = broker.queue("a")
    names = ["10", "2", "z", "a", "\u00e4", "Z", "~", "0"]
    for name in names:
        await queue.send(name, id=name)
    assert await ids(queue) == names


async def test_peek_shows_the_order_and_touches_nothing(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(300))
    await queue.send("first", priority=9)
    assert [message.body for message in await queue.peek(300)] == ["first", *range(299)]
    assert [message.delivery_count for message in await queue.peek(1)] == [0]
    assert await counts(queue) == {"ready": 301}
