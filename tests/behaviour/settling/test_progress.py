"""How far a call is, as it says itself; and what became of a message that is not here any more."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq import InvalidInput, LeaseLost
from tests.behaviour.faults import lose_calls
from tests.behaviour.helpers import after, one
from tests.conftest import Clock
from tests.tables import each_row, each_row_afresh


async def test_explain_says_how_far_it_is(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("0s"))
    await queue.send("x", id="m")
    delivery = await one(queue)
    await delivery.progress(0.4, "rows read / 7 %")
    await delivery.progress(0.5, "too soon after that")
    clock.advance("5s")
    explained = await queue.explain("m")
    assert "; 40% done rows read / 7 %, 5s ago" in explained.why
    assert explained.message.progress_made.part == 0.4
    await delivery.progress(1)
    assert "100% done" in (await queue.explain("m")).why
    await delivery.extend()
    await delivery.nack()
    assert "done" not in (await queue.explain("m")).why
    await one(queue)
    assert "done" not in (await queue.explain("m")).why  # of another delivery


async def test_only_the_holder_says_it(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("0s"))
    await queue.send("x", id="m")
    late = await one(queue)
    clock.advance("31s")
    now = await one(queue)
    with pytest.raises(LeaseLost):
        await late.progress(0.9, "late")
    await now.progress(0.1)
    assert "10% done" in (await queue.explain("m")).why


async def test_a_server_that_does_not_answer_disturbs_no_call(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x")
    delivery = await one(queue)
    await delivery.progress(0)
    getattr(delivery, "inner", delivery)._told = 0.0
    await lose_calls(broker, "progress", 9)
    await delivery.progress(0.3)
    await delivery.ack()


@each_row("part, text", [(-0.1, ""), (1.1, ""), ("half", ""), (True, ""), (0.5, 7)])
async def test_nonsense_is_refused(part: Any, text: Any, broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x")
    delivery = await one(queue)
    for _ in range(2):  # also within the second in which no report is written
        with pytest.raises(InvalidInput, match="progress"):
            await delivery.progress(part, text)
        await delivery.progress(0.5)


@each_row_afresh("declared", [{"results": "1h"}, {"dedup_window": "1h"}, {"outcomes": 100}])
async def test_what_is_done_was_acked_at(declared: dict[str, Any], broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", **declared)
    await queue.send("x", id="m")
    await (await one(queue)).ack()
    explained = await queue.explain("m")
    assert (explained.place, explained.why, explained.message) == ("gone", "it was acked", None)
    assert explained.at is not None
    assert "outcomes" in declared or abs(explained.at.timestamp() * 1000 - clock.now) < 1_000


async def test_of_the_rest_there_is_no_trace(broker: Any) -> None:
    queue = broker.queue("a", outcomes=100)
    await queue.send("x", id="m")
    await queue.purge(all=True)
    assert (await queue.explain("m")).why == "it was purged"
    explained = await queue.explain("never")
    assert (explained.place, explained.at) == ("unknown", None)
    assert explained.why.startswith("no trace: it was never sent here, or it ended longer ago")
