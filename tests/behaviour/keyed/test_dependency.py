"""A message may say what its work needs to succeed, and keeps that for life."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq import InvalidMessage, Message, PerKey, RedeliveryPolicy
from tests.conftest import Clock
from tests.tables import each_row


def bill(user_id: int) -> None:
    """A task."""


async def test_every_way_to_send_has_a_dependency(broker: Any, clock: Clock, caplog: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x", dependency="payments")
    await queue.send_many([1, Message(2, dependency="own")], dependency="all", key="k")
    async with queue.session() as session:
        await session.send(queue, b"raw", dependency="in a session")
    await queue.schedule("tick", "s", every="1m", dependency="each tick")
    clock.advance("1m")
    await queue.maintain()
    claimed = await queue.claim(9)
    said = [one.dependency for one in claimed]
    assert said == ["payments", "all", "own", "in a session", "each tick"]
    assert [one.key for one in claimed] == [None, "k", "k", None, None]
    task = broker.task(queue="t", key="one", dependency=lambda user_id: f"shard-{user_id}")(bill)
    await task.send(7)
    await task.options(dependency="other").send(user_id=7)
    await broker.task(queue="t", name="plain", dependency="payments")(bill).send(8)
    sent = await broker.queue("t").claim(9)
    assert [(one.key, one.dependency) for one in sent] == [
        ("one", "shard-7"), ("one", "other"), (None, "payments"),
    ]  # fmt: skip
    with pytest.raises(InvalidMessage, match="the function of its dependency failed"):
        await broker.task(queue="t", name="bad", dependency=lambda user_id: user_id["x"])(bill).send(8)
    warned = [one.message for one in caplog.records if "ignores the dependencies" in one.message]
    assert [text.split(" ")[0] for text in warned] == ["a", "t"]  # once each


async def test_it_is_kept_for_life(broker: Any, clock: Clock) -> None:
    """Also of a long record, whose state has its lane, and beside a key."""
    queue = broker.queue("a", redelivery=RedeliveryPolicy(max_redeliveries=1), per_key=PerKey(limit=2))
    for n, body in enumerate(("short", "x" * 3_000)):
        await queue.send(body, id=f"m{n}", key="k" * (n + 1), dependency="payments", ttl="1h")
        await queue.send(body, id=f"n{n}", dependency="payments")
    for _ in range(2):
        await queue.nack(await queue.claim(9), "no")
        clock.advance("5s")
    assert (await queue.stats()).dead == 4
    await queue.dlq.select(where="dependency = 'payments'").redrive()
    assert await queue.select(where="dependency = 'payments' AND key IS NULL").move("b", create=True) == 2
    moved = await broker.queue("b").claim(9)
    assert [(one.id, one.key, one.dependency) for one in moved] == [
        ("n0", None, "payments"), ("n1", None, "payments"),
    ]  # fmt: skip
    assert await queue.select(all=True).count_by("dependency") == {"payments": 2}
    assert [(one.id, one.key) for one in await queue.claim(9)] == [("m0", "k"), ("m1", "kk")]


@each_row("dependency", ["", 1, b"x", "x" * 201, "\ud800"])
async def test_a_dependency_is_a_short_text(dependency: Any, broker: Any) -> None:
    with pytest.raises(InvalidMessage, match="use text of 1 to 200 bytes\n"):
        await broker.queue("a").send("x", dependency=dependency)
