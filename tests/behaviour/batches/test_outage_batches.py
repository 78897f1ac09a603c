"""Batches, as Spark takes them, while a dependency is down, and when it is back."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq.core.batches import batches
from rq_dlq.core.batches.batches import ClaimedBatch
from tests.behaviour.helpers import after
from tests.behaviour.keyed.test_hanging import BREAKER
from tests.behaviour.keyed.test_outages import fall, shop, some, state, taken
from tests.conftest import Clock

LEASE = 15 * 60_000


async def down(broker: Any, count: int) -> Any:
    """A queue whose dependency is down, and whose messages are parked; those that failed stay away."""
    queue = await shop(broker, *some("p", count), breaker=BREAKER, redelivery=after(24 * 3600, most=9))
    await fall(queue)
    assert await taken(queue) == []
    return queue


async def take(broker: Any, queue: Any, name: str, limit: int) -> ClaimedBatch:
    """What a trigger takes."""
    batch: ClaimedBatch = await broker._run(batches.claim_batch(queue._core, name, limit=limit, lease=LEASE))
    return batch


async def ack(broker: Any, queue: Any, batch: ClaimedBatch) -> None:
    keys = queue._core.keys
    assert await broker._run(batches.ack_batch(keys, batch.tokens, batch.messages)) == batch.messages


async def triggers(broker: Any, queue: Any, limit: int) -> list[tuple[int, int]]:
    """How many messages each trigger takes, and how many more have a pass by then."""
    taken: list[tuple[int, int]] = []
    while (batch := await take(broker, queue, f"q.{len(taken)}", limit)).messages:
        taken.append((batch.messages, (await queue.stats()).ready))
        await ack(broker, queue, batch)
    return taken


@pytest.mark.parametrize("claim", [500, 20])
async def test_what_is_let_in_doubles_with_each_batch(
    claim: int, broker: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many claims it has."""
    monkeypatch.setattr(batches, "CLAIM", claim)
    queue = await down(broker, 300)
    clock.advance("1s")
    sizes = [messages for messages, _ in await triggers(broker, queue, 1_000)]
    assert sizes[0] in {2, 3}  # the probe: any message may also be the first
    assert sizes[:-1] == [sizes[0] * 2**n for n in range(len(sizes) - 1)]
    assert not (await state(queue)).open
    assert (await queue.stats()).scheduled == 2  # those that failed before it opened


async def test_no_more_are_let_in_than_twice_the_last_batch(broker: Any, clock: Clock) -> None:
    """So others do not wait behind a flood."""
    queue = await down(broker, 400)
    clock.advance("1s")
    taken = await triggers(broker, queue, 50)
    assert [messages for messages, _ in taken[-4:-1]] == [50, 50, 50]
    assert max(messages + ready for messages, ready in taken) == 100


@pytest.mark.parametrize("acked", [0, 3])
async def test_a_batch_of_a_dead_driver_is_one_call_that_hangs(
    acked: int, broker: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next message comes after twice `longest_probe`, long before the end of the lease."""
    monkeypatch.setattr(batches, "CLAIM", 7)
    queue = await down(broker, 200)
    clock.advance("1s")
    for number in range(acked):
        await ack(broker, queue, await take(broker, queue, f"q.{number}", 100))
    held = await take(broker, queue, "q.9", 100)
    assert held.messages in ({16, 24} if acked else {2, 3})
    clock.advance("30s")
    assert (await take(broker, queue, "r.1", 100)).messages == 0
    assert len((await state(queue)).hangs) == 1
    clock.advance("29s")
    assert (await take(broker, queue, "r.2", 100)).messages == 0
    clock.advance("1s")
    probe = await take(broker, queue, "r.3", 100)
    assert probe.messages == 1
    await ack(broker, queue, probe)
    assert (await take(broker, queue, "r.4", 100)).messages == 2
    await ack(broker, queue, held)  # it was only slow
    assert (await state(queue)).hangs == ()
