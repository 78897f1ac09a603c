"""Short words for what the behaviour tests do over and over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rq_dlq import Message, RedeliveryPolicy
from rq_dlq.values.durations import Duration
from tests.conftest import Clock

AT_ONCE = RedeliveryPolicy(delays=[0], max_redeliveries=None)
"""Redelivered without a wait, for ever."""
STATES = ["ready", "scheduled", "leased", "dead", "expired"]


def after(*delays: Duration, most: int | None = None) -> RedeliveryPolicy:
    """Exactly these waits, the last one repeated; at most so many redeliveries."""
    return RedeliveryPolicy(delays=delays, max_redeliveries=most)


def waits(*delays: int, most: int | None = 9) -> dict[str, Any]:
    """Redelivery of an entry of the map: exactly these waits, in seconds."""
    return {"delays": list(delays), "max_redeliveries": most, "collision_avoidance": 0}


async def keyed(broker: Any, rule: Any, *names: str, **given: Any) -> Any:
    """A queue with these messages; the first letter is the key."""
    queue = broker.queue("a", per_key=rule, **given)
    await queue.send_many([Message(name, id=name, key=name[0]) for name in names])
    return queue


async def one(queue: Any, **options: Any) -> Any:
    """Claim, and get exactly one delivery."""
    (delivery,) = await queue.claim(**options)
    return delivery


async def bodies(queue: Any, count: int = 1_000) -> list[Any]:
    """Claim, and look at the bodies."""
    return [delivery.body for delivery in await queue.claim(count)]


async def claim_all(queue: Any, count: int = 1_000) -> list[Any]:
    """Claim so many, or all that there are; of those that are not fresh a claim takes a part."""
    found: list[Any] = []
    while len(found) < count and (part := await queue.claim(count - len(found))):
        found += part
    return found


async def ids(queue: Any, count: int = 1_000) -> list[str]:
    """Claim, and look at the ids."""
    return [delivery.id for delivery in await claim_all(queue, count)]


async def counts(queue: Any) -> dict[str, int]:
    """How many messages are in each state; those that are not empty."""
    stats = await queue.stats()
    return {state: n for state in STATES if (n := getattr(stats, state))}


async def bring_to(state: str, queue: Any, clock: Clock, message_id: str = "m") -> str:
    """Send a message and bring it to a state; its id."""
    if state == "scheduled":
        await queue.send("body", id=message_id, delay="1h")
    elif state == "expired":
        await queue.send("body", id=message_id, ttl="1s")
        clock.advance("1s")
        assert await queue.claim() == []
    else:
        await queue.send("body", id=message_id)
    if state in {"leased", "dead"}:
        delivery = await one(queue)
        if state == "dead":
            await delivery.poison("told so")
    assert await counts(queue) == {state: 1}
    return message_id


async def fail(queue: Any, times: int, clock: Clock, *, step: Duration = "1h") -> list[int]:
    """A handler that always fails, called up to so many times: the delivery counts that it saw."""
    seen: list[int] = []
    for _ in range(times):
        clock.advance(step)
        for delivery in await queue.claim(1_000):
            seen.append(delivery.delivery_count)
            await delivery.nack("always fails")
    return seen


async def bury(queue: Any, messages: Sequence[Any], error: Any = "told so") -> list[str]:
    """Send messages and poison them; their ids."""
    sent: list[str] = await queue.send_many(messages)
    await queue.poison(await queue.claim(len(sent)), error)
    return sent


async def wait_of(queue: Any) -> float | None:
    """How long a message that fails once waits; None: it is dead."""
    message_id = await queue.send("x")
    claimed = {delivery.id: delivery for delivery in await queue.claim(1_000)}
    settlement = await claimed[message_id].nack("boom")
    return None if settlement.outcome == "dead" else settlement.delay
