"""Gathers are looked at from time to time: what nobody noted is found then."""

from __future__ import annotations

from typing import Any

from rq_dlq.core.gathers import calls
from tests.behaviour.stepping import alone
from tests.conftest import Clock


async def look(queue: Any, then: Any, gather: str, **options: Any) -> bool | None:
    """Whether a look finds more to carry now; None: it is not time to look."""
    call = calls.carry_gather(queue._core.keys, then._core.keys, gather, seed=0.0, **options)
    found: bool | None = await queue._broker._run(alone(call))
    return found


async def test_claims_do_not_look_any_more_for_a_share_that_is_gone(broker: Any, raw: Any) -> None:
    """The call that removed it was cut off before its last write."""
    render = broker.queue("render")
    await render.open()
    raw.zadd("rq:{render}:gathers", {"@x/reports": 0})
    raw.hset("rq:{render}:settings", "gathering", 1)
    await render.claim()
    assert not raw.exists("rq:{render}:gathers")
    assert not raw.hexists("rq:{render}:settings", "gathering")


async def test_a_then_whose_time_is_over_waits_for_nobody(broker: Any, clock: Clock) -> None:
    """The counts say so before anybody claims it; it keeps its children until it is acked."""
    render, reports = broker.queue("render"), broker.queue("reports")
    async with broker.gather(then=(reports, "then"), within="1h") as gather:
        await gather.send(render, "x", id="child")
    assert (await reports.stats()).gathers == 1
    clock.advance("1h")
    assert await look(reports, reports, calls.own(gather.id)) is False
    assert await look(reports, reports, calls.own(gather.id)) is None
    assert (await reports.stats()).gathers == 0
    (then,) = await reports.claim()
    assert {name: child.end for name, child in (await then.gathered).items()} == {"child": None}


async def test_a_look_that_finds_all_children_open_is_over(broker: Any, clock: Clock) -> None:
    render, reports = broker.queue("render"), broker.queue("reports")
    async with broker.gather(then=(reports, "then")) as gather:
        for name in ("a", "b"):
            await gather.send(render, "x", id=name)
    share = calls.share(gather.id, "reports")
    assert await look(render, reports, share) is None
    clock.advance("10s")
    assert await look(render, reports, share) is False
    clock.advance("10s")
    assert await look(render, reports, share) is False


async def test_a_look_that_came_to_its_limit_goes_on_at_once(broker: Any, raw: Any, clock: Clock) -> None:
    """Its children are gone without a note: a restored part of the queue lacks them."""
    render, reports = broker.queue("render"), broker.queue("reports")
    async with broker.gather(then=(reports, "then")) as gather:
        for name in ("a", "b", "c"):
            await gather.send(render, "x", id=name)
    raw.delete(*(f"rq:{{render}}:{key}" for key in ("messages", "states", "ready", "counters")))
    clock.advance("10s")
    share, looks = calls.share(gather.id, "reports"), 1
    while await look(render, reports, share, limit=1):
        looks += 1
    assert looks > 3
    (then,) = await reports.claim()
    assert {name: child.end for name, child in (await then.gathered).items()} == dict.fromkeys("abc", "gone")
