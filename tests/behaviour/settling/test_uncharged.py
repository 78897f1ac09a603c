"""Failures that are not charged end by no budget: each in a row waits longer, and what is wrong is told."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from rq_dlq import Breaker, KnownId, Message, PerKey, Redeliver, RedeliveryPolicy
from rq_dlq.core.settling.settle import settle_by_error
from rq_dlq.doctor.queues import uncharged
from tests.behaviour.helpers import AT_ONCE, after, one
from tests.conftest import Clock
from tests.tables import each_row_afresh

GROWING = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]  # seconds


async def failed(queue: Any, error: Exception) -> Any:
    """The next message, which fails so; its settlement."""
    held = await one(queue)
    (settlement,) = await queue._run(settle_by_error(queue._core, [held._held], error))
    return settlement


@each_row_afresh(
    ("policy", "error"),
    [
        (after("0s"), Redeliver(charge=False)),
        (after("0s"), Redeliver(after=0, charge=False)),
        (after("0s"), Redeliver(after="200ms", charge=False)),
        (after("0s"), KnownId("refused", charge=False)),
        (after("500ms", "9s"), Redeliver(charge=False)),
        (RedeliveryPolicy(initial_delay=1, multiplier=3, collision_avoidance=0), Redeliver(charge=False)),
    ],
)
async def test_each_in_a_row_waits_longer(
    policy: RedeliveryPolicy, error: Exception, broker: Any, clock: Clock
) -> None:
    queue, waits = broker.queue("a", redelivery=policy), list[float]()
    await queue.send("x", id="m")
    for seconds in GROWING:
        waits.append((await failed(queue, error)).delay)
        assert await queue.claim() == []
        clock.advance(seconds)
    assert waits == GROWING
    assert (await one(queue)).charged == 0


@each_row_afresh(
    ("policy", "wait"),
    [(after("1h"), 3600.0), (RedeliveryPolicy.artemis(redelivery_delay=5_000), 5.0)],
)
async def test_a_longer_delay_of_the_policy_stays(policy: RedeliveryPolicy, wait: float, broker: Any) -> None:
    queue = broker.queue("a", redelivery=policy)
    await queue.send("x")
    assert (await failed(queue, Redeliver(charge=False))).delay == wait


async def test_a_second_or_more_that_was_asked_for_stays(broker: Any, clock: Clock) -> None:
    """However often; and it counts: one that asks for less waits as long as its place in the row says."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x")
    for _ in range(3):
        assert (await failed(queue, Redeliver(after="1s", charge=False))).delay == 1.0
        clock.advance("1s")
    assert (await failed(queue, Redeliver(charge=False))).delay == 8.0


async def test_a_charge_begins_the_row_anew(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("3s", most=9))
    await queue.send("x")
    for _ in range(3):
        await failed(queue, Redeliver(charge=False))
        clock.advance("10m")
    assert (await failed(queue, ValueError("no"))).delay == 3.0
    clock.advance("3s")
    held = await one(queue)
    assert (await held.nack("busy", delay=0, charge=False)).delay == 1.0


async def test_a_redrive_begins_the_row_anew(broker: Any, clock: Clock) -> None:
    """And the charges that it takes back do not count as uncharged failures."""
    queue = broker.queue("a", redelivery=after("0s", most=1))
    await queue.send("x", id="m")
    for _ in range(2):
        await failed(queue, Redeliver(charge=False))
        clock.advance("2s")
    await failed(queue, ValueError("no"))
    await failed(queue, ValueError("no"))
    await queue.dlq.redrive(all=True)
    assert (await failed(queue, Redeliver(charge=False))).delay == 1.0


@each_row_afresh("rule", [PerKey(order=True), PerKey(limit=1)])
async def test_with_keys_too(rule: PerKey, broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", per_key=rule, redelivery=after("0s"))
    await queue.send("x", key="k")
    for seconds in (1, 2, 4):
        assert (await failed(queue, Redeliver(charge=False))).delay == seconds
        assert await queue.claim() == []
        clock.advance(seconds)


async def test_an_open_breaker_delays_nothing(broker: Any) -> None:
    """Its gate decides when the message is tried again."""
    queue = broker.queue("a", redelivery=AT_ONCE, breaker=Breaker(distinct=2, within="30s", share=0.5))
    for n in range(4):
        await queue.send(n, id=f"m{n}", dependency="payments")
    delays = [(await held.nack("down")).delay for held in await queue.claim(4)]
    assert delays == [0.0] * 4


async def test_lapses_and_releases_stay_as_they_are(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x")
    await failed(queue, Redeliver(charge=False))
    clock.advance("1s")
    await (await one(queue)).release()
    assert (await one(queue)).attempt == 3


@pytest.mark.parametrize("backend", ["real"], indirect=True)
async def test_many_that_fail_together_come_back_apart(broker: Any) -> None:
    """As far as the policy spreads its delays."""
    queue = broker.queue("a", redelivery=RedeliveryPolicy(collision_avoidance=0.5))
    await queue.send_many(range(50))
    delays = {s.delay for s in await queue.nack(await queue.claim(50), "busy", delay=0, charge=False)}
    assert len(delays) > 40
    assert 0.5 <= min(delays) < 0.7
    assert 1.3 < max(delays) <= 1.5


async def test_who_holds_the_id_of_a_chain_is_told(broker: Any, clock: Clock) -> None:
    """A dead letter has it, so the ack is refused for ever: `explain` and the doctor say so."""
    orders, mails = broker.queue("orders"), broker.queue("mails", redelivery=after("1s", most=0))
    await mails.send("x", id="mail-7")
    await (await one(mails)).nack("no address")
    await orders.send("x", id="order-7")
    for _ in range(5):
        with suppress(KnownId):
            async with await one(orders) as delivery:
                await delivery.ack(send=[(mails, Message("x", id="mail-7"))])
        clock.advance("10m")
        await orders.maintain()
    told = str(await orders.explain("order-7"))
    assert "rq_dlq.errors.KnownId: mail-7 in 'mails'" in told
    assert "it failed 5 times in a row without a charge: a dead letter of 'mails' has the id mail-7" in told
    assert "`rq-dlq dlq redrive mails --id mail-7` redrives it" in told
    with suppress(KnownId):
        async with await one(orders) as delivery:
            await delivery.ack(send=[(mails, Message("x", id="mail-7"))])
    check = await broker._run(uncharged(broker.settings))
    assert check.state == "warn"
    assert "orders: order-7 failed 6 times in a row without a charge" in check.found
    assert "a dead letter of 'mails' has the id mail-7" in check.found
    await mails.dlq.purge(all=True)
    clock.advance("10m")
    async with await one(orders) as delivery:
        await delivery.ack(send=[(mails, Message("x", id="mail-7"))])
    assert (await broker._run(uncharged(broker.settings))).state == "ok"


async def test_explain_names_the_error_of_a_failed_message(broker: Any) -> None:
    queue = broker.queue("a", redelivery=after("1h"))
    await queue.send("x", id="m")
    await failed(queue, ValueError("no total"))
    assert (await queue.explain("m")).why == "its attempt 1 was nacked (ValueError: no total)"
