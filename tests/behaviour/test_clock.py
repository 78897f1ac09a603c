"""The server's clock steps back or forth, and nothing is lost and no one hangs (I11)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.behaviour.helpers import AT_ONCE, after, bodies, bury, counts, one
from tests.conftest import Clock
from tests.tables import each_row_afresh

HOUR = 3_600_000
STEPS = pytest.mark.parametrize("step", [-HOUR, HOUR], ids=["back", "forth"])


@STEPS
async def test_around_send(step: int, broker: Any, clock: Clock) -> None:
    """I11."""
    queue = broker.queue("a")
    await queue.send("before")
    clock.set(clock.now + step)
    await queue.send("after")
    assert sorted(await bodies(queue)) == ["after", "before"]


@STEPS
async def test_births_stay_in_order(step: int, broker: Any, clock: Clock) -> None:
    """I8: a clock that steps back gives no two messages one place."""
    queue = broker.queue("a")
    sent = []
    for _ in range(4):
        sent += await queue.send_many(range(3))
        clock.set(clock.now + step)
    claimed = await queue.claim(100)
    assert sorted(delivery.id for delivery in claimed) == sorted(sent)
    if step > 0:
        assert [delivery.id for delivery in claimed] == sent


@STEPS
@each_row_afresh("verb", ["ack", "nack", "poison", "release", "extend"])
async def test_around_settling(verb: str, step: int, broker: Any, clock: Clock) -> None:
    """I11: the lease is judged when someone sweeps, so the holder's word counts until then."""
    queue = broker.queue("a", redelivery=after("5s"))
    await queue.send("x")
    delivery = await one(queue)
    clock.set(clock.now + step)
    await getattr(delivery, verb)()
    clock.set(clock.now - step)
    clock.advance("2h")
    stats = await queue.stats()
    assert stats.totals.get("acked", 0) + stats.dead + stats.scheduled + stats.ready + stats.leased == 1
    if verb in {"nack", "release"}:
        assert await bodies(queue) == ["x"]


@pytest.mark.parametrize("verb", ["release", "nack"])
async def test_given_back_after_a_step_back_it_is_due_now(verb: str, broker: Any, clock: Clock) -> None:
    """I11: it does not wait for the clock to be where it was."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x")
    delivery = await one(queue)
    clock.set(clock.now - HOUR)
    await getattr(delivery, verb)()
    assert await bodies(queue) == ["x"]


async def test_a_lapse_after_a_step_forth_is_a_lapse(broker: Any, clock: Clock) -> None:
    """I11."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send_many(range(3))
    await queue.claim(3)
    clock.set(clock.now + HOUR)
    assert await bodies(queue) == [0, 1, 2]


async def test_leases_frozen_by_a_step_back_still_end(broker: Any, clock: Clock) -> None:
    """I11."""
    queue = broker.queue("a", redelivery=AT_ONCE, lease="30s")
    await queue.send("x")
    await one(queue)
    clock.set(clock.now - HOUR)
    assert await queue.claim() == []
    clock.advance("1h30s")
    assert await bodies(queue) == ["x"]


@STEPS
async def test_around_a_delay(step: int, broker: Any, clock: Clock) -> None:
    """I11."""
    queue = broker.queue("a")
    await queue.send("x", delay="10s")
    clock.set(clock.now + step)
    await queue.maintain()
    clock.set(clock.now - step)
    clock.advance("10s")
    assert await bodies(queue) == ["x"]


async def test_promoted_and_then_the_clock_steps_back(broker: Any, clock: Clock) -> None:
    """I11: what is ready stays ready, and is not lost."""
    queue = broker.queue("a")
    await queue.send("x", delay="10s")
    clock.advance("10s")
    await queue.maintain()
    assert await counts(queue) == {"ready": 1}
    clock.set(clock.now - HOUR)
    claimed = await bodies(queue)
    clock.set(clock.now + HOUR)
    assert claimed + await bodies(queue) == ["x"]


@STEPS
async def test_around_a_redrive(step: int, broker: Any, clock: Clock) -> None:
    """I11."""
    queue = broker.queue("a")
    dead = await bury(queue, range(3))
    clock.set(clock.now + step)
    assert (await queue.dlq.redrive(ids=dead)).counts.moved == 3
    clock.set(clock.now - step)
    clock.advance("2h")
    assert sorted(await bodies(queue)) == [0, 1, 2]


async def test_redrive_of_all_after_a_step_back(broker: Any, clock: Clock) -> None:
    """I11: letters that died in what is now the future are letters, too."""
    queue = broker.queue("a")
    await bury(queue, range(3))
    clock.set(clock.now - HOUR)
    assert (await queue.dlq.redrive(all=True)).counts.moved == 3
    assert await bodies(queue) == [0, 1, 2]


@STEPS
async def test_around_an_expiry(step: int, broker: Any, clock: Clock) -> None:
    """I11, I7: expired once, whatever the clock says later."""
    queue = broker.queue("a")
    await queue.send("x", ttl="10s")
    clock.advance("10s")
    await queue.maintain()
    clock.set(clock.now + step)
    await queue.maintain()
    assert await queue.claim() == []
    assert await counts(queue) == {"expired": 1}


@STEPS
async def test_around_a_claim(step: int, broker: Any, clock: Clock) -> None:
    """I11."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send_many(range(4))
    for _ in range(4):
        async with await one(queue):
            clock.set(clock.now + step)
    assert (await queue.stats()).totals["acked"] == 4


async def test_a_delay_that_ends_where_the_clock_was_is_not_shorter(broker: Any, clock: Clock) -> None:
    """I5: its birth is after the births before the step back, in the millisecond when it is due."""
    queue = broker.queue("a")
    await queue.send("before")
    clock.set(clock.now - 1_000)
    await queue.send("late", delay="1s")
    clock.advance("999ms")
    assert await bodies(queue) == ["before"]
    clock.advance("2ms")
    assert await bodies(queue) == ["late"]
