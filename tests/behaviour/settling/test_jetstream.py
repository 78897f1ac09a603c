"""When JetStream repeats a delivery, and when this queue does: the rows of `js_wait`, on a server.

The rows' milliseconds count from the delivery. Here a lapsed delivery waits for the lease first, then by the
policy, as ack_wait and backoff are two settings; what was nacked waits by the policy, or as it was told.
"""

from __future__ import annotations

from typing import Any

from rq_dlq import RedeliveryPolicy
from tests.behaviour.helpers import one
from tests.cases import load
from tests.conftest import Clock
from tests.tables import each_row_afresh

LEASE = 7_000
"""Milliseconds, where a row does not say: JetStream does not look at it when there is a backoff."""


async def comes_back_after(queue: Any, clock: Clock, ms: int) -> None:
    """Not before, and then it does."""
    if ms:
        clock.advance((ms - 1) / 1000)
        assert await queue.claim() == []
        clock.advance("1ms")
    (delivery,) = await queue.claim()
    assert delivery.redelivered


async def delivered(queue: Any, clock: Clock, times: int) -> Any:
    """The delivery of that number, after failures only."""
    await queue.send("x")
    for _ in range(times - 1):
        failed = await (await one(queue)).nack()
        clock.advance(failed.delay)
    delivery = await one(queue)
    assert delivery.delivery_count == times
    return delivery


@each_row_afresh("row", load("js_wait"))
async def test_wait(row: dict[str, Any], broker: Any, clock: Clock) -> None:
    backoff, lease = row.get("backoff", []), row.get("ack_wait", LEASE)
    policy = RedeliveryPolicy.jetstream(backoff=[ms / 1000 for ms in backoff])
    queue = broker.queue("a", redelivery=policy, lease=lease / 1000)
    delivery = await delivered(queue, clock, row["deliveries"])
    wait = row.get("delay", backoff[min(row["deliveries"], len(backoff)) - 1] if backoff else 0)
    if row["event"] == "timeout":
        clock.advance(lease / 1000)
        await queue.maintain()  # as whoever waits for messages does
        total, like_theirs = lease + wait, wait if backoff else lease
    else:
        settled = await delivery.nack(delay=row["delay"] / 1000 if "delay" in row else None)
        assert settled.delay == wait / 1000
        total = like_theirs = wait
    await comes_back_after(queue, clock, wait)
    if row["rq"].startswith("S"):
        assert like_theirs == row["expect"]
    else:
        assert row["rq"].startswith("D")
        assert total != row["expect"]


@each_row_afresh("deliveries", [1, 2, 3, 4])
async def test_a_lease_off_each_wait_gives_their_times_after_silence(
    deliveries: int, broker: Any, clock: Clock
) -> None:
    theirs, lease = [25, 100, 250], 20
    policy = RedeliveryPolicy.jetstream(backoff=[(wait - lease) / 1000 for wait in theirs])
    queue = broker.queue("a", redelivery=policy, lease=lease / 1000)
    await delivered(queue, clock, deliveries)
    began = clock.now
    clock.advance(lease / 1000)
    await queue.maintain()
    expected = theirs[min(deliveries, len(theirs)) - 1]
    await comes_back_after(queue, clock, expected - lease)
    assert clock.now - began == expected


async def test_max_deliver_counts_deliveries(broker: Any, clock: Clock) -> None:
    policy = RedeliveryPolicy.jetstream(max_deliver=3, backoff=["1s", "2s", "3s"])
    queue = broker.queue("a", redelivery=policy)
    delivery = await delivered(queue, clock, 3)
    assert (await delivery.nack()).outcome == "dead"


async def test_a_policy_without_delay_and_limit_is_warned_of(broker: Any, caplog: Any) -> None:
    for policy, warned in ((RedeliveryPolicy.jetstream(), True), (RedeliveryPolicy.nats_streaming(), False)):
        caplog.clear()
        await broker.queue("orders", redelivery=policy).send(1)
        assert ("no delay and no limit" in caplog.text) is warned


async def test_a_callback_that_fails_is_called_again_after_ack_wait(broker: Any, clock: Clock) -> None:
    policy = RedeliveryPolicy.nats_streaming(ack_wait="2s")
    queue = broker.queue("orders", redelivery=policy, lease="3s")
    await queue.send(1)
    for number in range(20):
        (delivery,) = await queue.claim()
        assert delivery.attempt == number + 1
        await delivery.nack("no")
        clock.advance("1.999s")
        assert await queue.claim() == []
        clock.advance("1ms")
