"""Queues that hand out only so many messages in a time."""

from __future__ import annotations

import random
from typing import Any

import pytest

from rq_dlq import PolicyError
from tests.behaviour.helpers import AT_ONCE, one
from tests.conftest import Clock
from tests.tables import each_row, each_row_afresh


async def test_in_no_window_more_than_the_rate_and_a_burst(broker: Any, clock: Clock) -> None:
    """K7: over all clients, whenever they ask and for how many; in the end the rate is used to the full."""
    draw, taken = random.Random(7), list[tuple[int, int]]()
    queue = broker.queue("a", rate="20/s")
    await queue.send_many(range(1_000))
    for _ in range(100):
        clock.advance(draw.choice([0, 1, 7, 40, 300, 1_500]))
        client = broker.queue("a", rate="20/s") if draw.random() < 0.5 else queue
        claimed = await client.claim(draw.choice([1, 3, 50]))
        taken += [(claimed[0]._lease.began, len(claimed))] if claimed else []
    for n, (since, _) in enumerate(taken):
        handed_out = 0
        for at, count in taken[n:]:
            handed_out += count
            assert handed_out <= 20 * (at - since) / 1_000 + 20
    await queue.claim(50)
    clock.advance(1_000)
    assert len(await queue.claim(50)) == 20


async def test_after_an_idle_hour_a_second_s_worth_comes_at_once(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", rate="10/s")
    await queue.send_many(range(99))
    assert len(await queue.claim(99)) == 10
    clock.advance(3_600_000)
    assert len(await queue.claim(99)) == 10
    assert await queue.claim(99) == []


async def test_a_slow_rate_hands_out_one_at_a_time(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", rate="2/10m")
    await queue.send_many(range(9))
    for wait in (0, 300_000, 300_000):
        clock.advance(wait)
        assert len(await queue.claim(9)) == 1
        clock.advance(0)
        assert await queue.claim(9) == []


@each_row("rate", ["7/h", "3/s", "100000/s", "1300/s"])
async def test_a_queue_with_a_rate_can_be_looked_at(broker: Any, rate: str) -> None:
    """The times of most rates are no whole milliseconds."""
    queue = broker.queue("a", rate=rate)
    await queue.send_many(range(9))
    deliveries = [*await queue.claim(1), *await queue.claim(1)]
    stats = await queue.stats()
    assert stats.leased == len(deliveries)
    assert not stats.totals.keys() & {"birth", "rate_until", "rate_spent"}
    await queue.release(deliveries)
    assert (await queue.stats()).leased == 0
    await queue.purge(all=True)


async def test_a_clock_that_steps_back_costs_one_burst_at_most(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", rate="5/s")
    await queue.send_many(range(99))
    assert len(await queue.claim(99)) == 5
    clock.set(clock.now - 3_600_000)
    assert len(await queue.claim(99)) == 5
    assert await queue.claim(99) == []
    clock.advance(1_000)
    assert len(await queue.claim(99)) == 5


async def test_a_retry_counts_and_a_release_does_not(broker: Any) -> None:
    queue = broker.queue("a", rate="1/h", redelivery=AT_ONCE)
    await queue.send_many(range(9))
    first = await one(queue)
    assert await queue.claim(9) == []
    await first.release()
    await (await one(queue)).nack()
    assert await queue.claim(9) == []


async def test_a_release_gives_back_as_many_as_it_took(broker: Any) -> None:
    queue = broker.queue("a", rate="5/s")
    await queue.send_many(range(9))
    held = await queue.claim(9)
    await queue.release(held[:2])
    assert (len(held), len(await queue.claim(9))) == (5, 2)


async def test_what_is_given_back_late_brings_no_second_burst(broker: Any, clock: Clock) -> None:
    """K7: as if what was given back had not been handed out; what came out since has used up the rate."""
    queue = broker.queue("a", rate="10/s")
    await queue.send_many(range(99))
    first = await queue.claim(10)
    clock.advance("500ms")
    second = await queue.claim(10)
    assert len(second) == 5
    await queue.release(first)
    third = await queue.claim(99)
    assert len(third) == 5
    clock.advance("1s")
    fourth = await queue.claim(99)
    assert len(fourth) == 10
    await queue.release(second + third)
    assert await queue.claim(99) == []
    await queue.release(fourth)
    assert len(await queue.claim(99)) == 10


async def test_dead_letters_and_other_queues_have_their_own(broker: Any) -> None:
    await broker.policies.set("a.#", rate="1/h")
    assert (await broker.queue("a.b").settings()).rate == "1/h"
    queue = broker.queue("a.b")
    sent = await queue.send_many(range(4))
    await queue.select(all=True).dead_letter()
    letters = await broker.queue("DLQ.a.b").claim(9)
    assert sorted(letter.id for letter in letters) == sorted(sent)
    for letter in letters:
        await letter.release()
    await queue.dlq.redrive(all=True)
    assert len(await queue.claim(9)) == 1
    assert await queue.claim(9) == []
    await broker.policies.set("a.#", rate=None)
    assert len(await queue.claim(9)) == 3


async def test_a_reset_of_the_totals_leaves_it(broker: Any) -> None:
    queue = broker.queue("a", rate="1/h")
    await queue.send_many(range(4))
    assert len(await queue.claim(9)) == 1
    await queue.reset()
    assert await queue.claim(9) == []
    assert "rate_until" not in (await queue.stats()).totals


async def test_explain_names_it(broker: Any) -> None:
    queue = broker.queue("a", rate="2/s")
    assert "delivers at most 2/s" in (await queue.explain(await queue.send("x"))).next


@each_row(
    "text",
    [
        "",
        "fast",
        "100",
        "0/s",
        "-1/s",
        "1.5/s",
        "1/0s",
        "1/w",
        "100/s ",
        0,
        -1,
        1.5,
        True,
        [],
        "9" * 8 + "/s",
    ],
)
def test_what_is_no_rate_is_refused(text: Any, sync_broker: Any) -> None:
    with pytest.raises(PolicyError, match=r'rate is .*"100/s" or "5/10m"'):
        sync_broker.queue("a", rate=text)


@each_row_afresh("count", [1, 7, 100])
async def test_it_goes_with_the_limit_in_flight(count: int, broker: Any) -> None:
    """The smaller one holds."""
    queue = broker.queue("a", rate="10/s", max_in_flight=count)
    await queue.send_many(range(50))
    assert len(await queue.claim(50)) == min(10, count)


async def test_a_dead_letter_that_is_given_back_gives_no_token_back(broker: Any) -> None:
    """It took none."""
    queue = broker.queue("a", rate="1/h")
    await queue.send_many(["x", "y"])
    await queue.poison(await queue.claim(9), "no")
    (letter,) = await broker.queue("DLQ.a").claim()
    await letter.release()
    assert await queue.claim(9) == []
