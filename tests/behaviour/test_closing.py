"""What a broker gives back when it is closed."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq.core.batches import by_hand
from tests.behaviour.faults import connections_of, lose_calls, told_of
from tests.behaviour.helpers import counts, one
from tests.conftest import Clock
from tests.variants import both_colours

pytestmark = both_colours("`close` is in the files `own.py`")


async def test_what_was_claimed_by_hand_is_ready_again(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(5))
    done, kept = await queue.claim(2)
    await done.ack()
    rest = await queue.claim(2)
    await broker.close()
    assert await counts(queue) == {"ready": 4}
    assert [delivery.body for delivery in await queue.claim(9)] == [1, 2, 3, 4], "at their old places"
    assert [delivery.outcome for delivery in (kept, *rest)] == [None] * 3


async def test_a_claim_that_another_has_by_now_stays_his(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send("x")
    late = await one(queue, lease="1s")
    clock.advance("2s")
    await queue.maintain()
    clock.advance("10s")
    assert (await one(queue)).redelivered  # nobody keeps it, so that the broker knows of the late one alone
    await broker.close()
    assert late.outcome is None
    assert await counts(queue) == {"leased": 1}


async def test_nothing_to_give_back_asks_nothing(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x")
    assert await queue.claim(5)
    sent = told_of(await connections_of(broker))
    await broker.close()
    assert sent == []
    assert await counts(queue) == {"leased": 1}


async def test_in_an_outage_it_is_closed_all_the_same(broker: Any, caplog: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x")
    kept = await one(queue)
    await lose_calls(broker, "release", 99)
    await broker.close()
    assert "cannot release" in caplog.text
    assert kept.outcome is None
    assert await counts(queue) == {"leased": 1}


async def test_a_forked_child_leaves_the_claims_to_its_parent(
    broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = broker.queue("a")
    await queue.send_many(["parent's", "child's"])
    parents = await one(queue)
    monkeypatch.setattr(by_hand, "this_process", lambda: 0)  # from here on it is the child
    await broker.close()
    assert await counts(queue) == {"ready": 1, "leased": 1}
    childs = await one(queue)
    await broker.close()
    assert await counts(queue) == {"ready": 1, "leased": 1}
    assert (parents.body, childs.body) == ("parent's", "child's")
