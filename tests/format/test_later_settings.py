"""Settings that a later version brought: kept where they say more, refused where they decide."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rq_dlq import RedeliveryPolicy, UpgradeRequired
from tests.behaviour.helpers import AT_ONCE, after, bury, counts, one
from tests.conftest import Clock

SETTINGS, MAP = "rq:{a}:settings", "rq:policies"
LATER_KIND = '{"redelivery": {"arithmetic": "of tomorrow", "max_redeliveries": 0}}'


async def test_what_is_not_known_is_written_back(broker: Any, raw: Any) -> None:
    """By whoever declares something, or sets another policy."""
    await broker.queue("a", redelivery=AT_ONCE).send("x")
    declared = {"max_in_flight": 5, "mood": "good", "expiry": {"phase": 1}}
    entry = {"redelivery": {"max_redeliveries": 3, "jitter": "full"}, "shade": [1, {"b": 2}]}
    raw.hset(SETTINGS, mapping={"mood": "good", "declared": json.dumps(declared)})
    raw.hset(MAP, mapping={"a": json.dumps(entry), "#version": 1})
    await broker.queue("a").send("y")
    await broker.policies.set("#", outcomes=7)
    settings = await broker.queue("a").settings()
    assert (settings.max_in_flight, settings.redelivery.max_redeliveries, settings.outcomes) == (5, 3, 7)
    assert raw.hget(SETTINGS, "mood") == b"good"
    assert json.loads(raw.hget(SETTINGS, "declared")) == declared
    await broker.policies.put("a", (await broker.policies.read()).entries["a"])
    stored = json.loads(raw.hget(MAP, "a"))
    assert stored["shade"] == entry["shade"]
    assert stored["redelivery"]["jitter"] == "full"
    raw.hdel(SETTINGS, "mood")


async def test_a_dead_letter_that_no_policy_judges_is_kept(broker: Any, raw: Any) -> None:
    """Poisoned by whoever opened its queue before the policy was of a later version."""
    queue = broker.queue("a", redelivery=after("1s", most=0))
    await bury(queue, ["x"])
    letters = broker.queue("DLQ.a")
    held = await one(letters)
    known = raw.hget(SETTINGS, "redelivery")
    raw.hset(SETTINGS, "redelivery", LATER_KIND)
    assert (await held.poison("boom")).outcome == "kept"
    assert await counts(queue) == {"dead": 1}
    raw.hset(SETTINGS, "redelivery", known)
    await (await one(letters)).ack()


@pytest.mark.parametrize(
    "entry",
    [
        {"redelivery": {"arithmetic": "of tomorrow", "initial_delay": "when it rains"}},
        {"dead_letter": {"strategy": "recycling", "prefix": 5}},
    ],
)
async def test_a_kind_that_is_not_known_is_refused(entry: Any, broker: Any, raw: Any) -> None:
    """For the queues that it is for, by whoever opens one; the others go on."""
    raw.hset(MAP, mapping={"a": json.dumps(entry), "#version": 1})
    with pytest.raises(UpgradeRequired, match=r"the policy of 'a'.*needs a later version of rq_dlq: upgrade"):
        await broker.queue("a").send("x")
    assert not raw.exists("rq:{a}:messages")
    await broker.queue("b").send("x")
    assert await broker.policies.set("#", outcomes=7) == 1
    assert json.loads(raw.hget(MAP, "a")) == entry
    with pytest.raises(UpgradeRequired):
        await broker.queue("a").settings()
    pinned = {"redelivery": AT_ONCE, "dead_letter": {"strategy": "individual"}}
    assert await broker.policies.set("a", **pinned, pinned=True) == 1
    await broker.queue("a").send("x")


async def test_a_policy_that_is_not_known_judges_nothing(broker: Any, clock: Clock, raw: Any) -> None:
    """Neither a nack nor a lapse, of whoever opened the queue before; what it holds waits for who can."""
    queue = broker.queue("a", redelivery=after("1s", most=0), lease="1m")
    await queue.send_many(["x", "y"])
    held = [delivery for _ in range(2) for delivery in await queue.claim()]
    known = raw.hget(SETTINGS, "redelivery")
    raw.hset(SETTINGS, "redelivery", LATER_KIND)
    with pytest.raises(UpgradeRequired, match="the redelivery policy of this queue needs a later version"):
        await held[0].nack("boom")
    assert await counts(queue) == {"leased": 2}
    for _ in range(3):
        clock.advance("1m")
        assert (await queue.maintain())["swept"] == 0
        assert await queue.claim() == []
    assert await counts(queue) == {"leased": 2}
    await held[1].ack()
    raw.hset(SETTINGS, "redelivery", known)
    clock.advance("1m")
    await queue.maintain()
    assert [letter.reason for letter in await queue.dlq.browse()] == ["exhausted"]


async def test_what_is_not_spent_by_a_known_policy_is_handed_out(broker: Any, raw: Any) -> None:
    """A claim decides nothing that it does not know."""
    queue = broker.queue("a", redelivery=RedeliveryPolicy(delays=[0], max_redeliveries=5))
    await queue.send("x", id="m")
    await (await one(queue)).nack("boom")
    raw.hset(SETTINGS, "redelivery", LATER_KIND)
    assert (await one(queue)).id == "m"
