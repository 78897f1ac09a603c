"""When exactly a message expires, and in which order due messages come: `expired_at`, `artemis_due_order`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.behaviour.helpers import after, bodies, counts, one
from tests.cases import load
from tests.conftest import Clock
from tests.tables import each_row_afresh


@each_row_afresh("row", load("expired_at"))
async def test_expired(row: dict[str, Any], broker: Any, clock: Clock) -> None:
    """Waiting, claimed or failed: it is over at the millisecond of its deadline, not after it."""
    ttl, now = row["expires_at"] / 1000, row["now"] / 1000
    for name in ("swept", "claimed", "failed"):
        await broker.queue(name, redelivery=after(0)).send("x", ttl=ttl)
    delivery = await one(broker.queue("failed"))
    clock.advance(now)
    await broker.queue("swept").maintain()
    claimed = await broker.queue("claimed").claim()
    failed = (await delivery.nack()).outcome
    expired = [
        await counts(broker.queue("swept")) == {"expired": 1},
        claimed == [],
        failed == "expired",
    ]
    wanted = row["expect"] if row["rq"] == "S" else row["rq"].startswith("D: true")
    assert expired == [wanted] * 3
    assert (wanted == row["expect"]) is (row["rq"] == "S")


@pytest.mark.parametrize("row", load("artemis_due_order"), ids=lambda row: row["id"])
async def test_due_order(row: dict[str, Any], broker: Any, clock: Clock) -> None:
    """A head is one that failed, a tail one sent for later; of equal ones the first sent is first."""
    queue = broker.queue("a")
    for number, due, kind in row["add"]:
        if kind == "tail":
            await queue.send(number, delay=due / 1000)
        else:
            await queue.send(number)
            await (await one(queue)).nack(delay=due / 1000)
    clock.advance("1s")
    order = await bodies(queue)
    by_sequence = [number for number, *_ in sorted(row["add"], key=lambda added: added[1])]  # a stable sort
    assert order == by_sequence
    if row["rq"] == "S":
        assert order == row["expect"]
    else:
        assert row["rq"].startswith("D: equal due time -> original sequence order")
        assert order != row["expect"]
