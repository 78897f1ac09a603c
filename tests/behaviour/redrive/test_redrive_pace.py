"""How many messages a step of a redrive brings back, and when the next may: by its rate and its canary."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from rq_dlq import RedriveCounts
from rq_dlq.core.redrive import calls as redrive_calls
from rq_dlq.core.redrive.calls import Stepped
from rq_dlq.core.redrive.redrives import STEP
from tests.behaviour.helpers import after, bury, claim_all, counts
from tests.behaviour.redrive.test_redrives import acked, failed
from tests.behaviour.stepping import alone
from tests.conftest import Clock

POLL = 500  # milliseconds between two looks at a canary


async def step(queue: Any, job: Any, limit: int = 20, grace: int = 10_000) -> Stepped:
    """One step of a driver; of maintenance where `grace` is 0."""
    call = redrive_calls.step_redrive(queue._core.keys, job.id, limit=limit, grace=grace)
    stepped = await queue._broker._run(alone(call))
    assert isinstance(stepped, Stepped)
    return stepped


@pytest.mark.parametrize("chosen", [{"all": True}, {"where": "body >= 0"}])
async def test_without_a_rate_it_goes_on_at_once(broker: Any, chosen: dict[str, Any]) -> None:
    queue = broker.queue("a")
    await bury(queue, range(50))
    job = await queue.dlq.redrive(**chosen, detach=True)
    assert await step(queue, job) == Stepped(20, 0)
    assert (await job.refresh()).counts == RedriveCounts(eligible=50, moved=20)
    await job.cancel()
    assert await step(queue, job) == Stepped(0, None)


async def test_it_ends_with_its_last_message(broker: Any) -> None:
    queue = broker.queue("a")
    dead = await bury(queue, range(3))
    job = await queue.dlq.redrive(ids=dead, detach=True)
    assert [await step(queue, job, limit=1) for _ in dead] == [Stepped(1, 0), Stepped(1, 0), Stepped(1, None)]
    assert (await job.refresh()).state == "done"


async def test_a_rate_below_one_a_second(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bury(queue, range(9))
    job = await queue.dlq.redrive(all=True, rate=0.5)
    assert await step(queue, job) == Stepped(1, 2_000)
    clock.advance("1999ms")
    assert await step(queue, job) == Stepped(0, 1)
    clock.advance("1ms")
    assert await step(queue, job) == Stepped(1, 2_000)


async def test_a_rate_is_kept_to_the_millisecond(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bury(queue, range(60))
    job = await queue.dlq.redrive(all=True, rate=1)
    assert await step(queue, job) == Stepped(1, 1_000)
    clock.advance("400ms")
    assert await step(queue, job) == Stepped(0, 600)
    clock.advance("1599ms")
    assert await step(queue, job) == Stepped(1, 1)
    await job.cancel()
    job = await queue.dlq.redrive(all=True, rate=9.995)
    clock.advance("1h")  # of which it makes good a second, and no more
    assert await step(queue, job) == Stepped(10, 1)


@pytest.mark.parametrize("rate", [10, 0.5, 0.1])
async def test_a_rate_after_a_step_back_of_the_clock(rate: float, broker: Any, clock: Clock) -> None:
    """I11: it does not wait for the clock to be where it was."""
    queue = broker.queue("a")
    await bury(queue, range(9))
    job = await queue.dlq.redrive(all=True, rate=rate)
    between = round(1_000 / rate)
    assert await step(queue, job) == Stepped(1, between)
    clock.set(clock.now - 60_000)
    assert await step(queue, job) == Stepped(1, between)
    assert await step(queue, job) == Stepped(0, between)
    clock.set(clock.now + 1)
    assert await step(queue, job) == Stepped(0, between - 1)


@pytest.mark.parametrize("terms", [{}, {"rate": 10}, {"canary": 1}])
async def test_maintenance_goes_on_after_a_step_back_of_the_clock(
    terms: dict[str, Any], broker: Any, clock: Clock
) -> None:
    """I11."""
    queue = broker.queue("a")
    await bury(queue, range(9))
    job = await queue.dlq.redrive(all=True, detach=True, **terms)
    await step(queue, job, limit=1)
    await acked(queue, 1)
    clock.set(clock.now - 3_600_000)
    assert (await queue.maintain())["redriven"] > 0


async def test_what_a_step_may_not_take_the_next_takes_at_once(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bury(queue, range(60))
    job = await queue.dlq.redrive(all=True, rate=100)
    clock.advance("1s")
    assert [await step(queue, job) for _ in range(3)] == [Stepped(20, 0), Stepped(20, 0), Stepped(20, None)]


async def test_a_canary_of_one(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(45))
    job = await queue.dlq.redrive(all=True, canary=1)
    assert await step(queue, job) == Stepped(1, 0)
    assert await step(queue, job) == Stepped(0, POLL)
    await acked(queue, 1)
    assert await step(queue, job) == Stepped(20, 0)
    assert await step(queue, job) == Stepped(20, 0)  # it has passed, once and for all
    assert await step(queue, job) == Stepped(4, None)


@pytest.mark.parametrize("purged", [False, True])
async def test_a_canary_of_several_steps(broker: Any, *, purged: bool) -> None:
    queue = broker.queue("a")
    await bury(queue, range(45))
    job = await queue.dlq.redrive(all=True, canary=21)
    assert await step(queue, job) == Stepped(20, 0)
    if purged:
        await queue.purge(all=True)
    assert await step(queue, job) == Stepped(1, 0)


async def test_a_canary_waits_for_its_first_message_too(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(9))
    job = await queue.dlq.redrive(all=True, canary=2)
    await step(queue, job)
    first, second = await queue.claim(2)
    await second.ack()
    assert await step(queue, job) == Stepped(0, POLL)
    await first.ack()
    assert await step(queue, job) == Stepped(7, None)


async def test_the_largest_canary_waits_for_its_first_message(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(1_000))
    await bury(queue, ["one more"])
    job = await queue.dlq.redrive(all=True, canary=1_000)
    assert await step(queue, job, limit=1_000) == Stepped(1_000, 0)
    first, *others = await claim_all(queue)
    await queue.ack(others)
    assert await step(queue, job) == Stepped(0, POLL)
    await first.ack()
    assert await step(queue, job) == Stepped(1, None)


async def test_a_canary_waits_for_its_first_message_however_many_did_not_come_back(broker: Any) -> None:
    queue = broker.queue("a")
    dead = [*await bury(queue, range(1_000)), *await bury(queue, range(502))]
    job = await queue.dlq.redrive(where="true", canary=500)
    assert await queue.dlq.purge(ids=dead[1:1_001]) == 1_000
    assert [(await step(queue, job, limit=1_000)).moved for _ in range(4)] == [1, 0, 497, 2]
    first, *others = await claim_all(queue, 500)
    assert first.id == dead[0]
    await queue.ack(others)
    for _ in range(3):
        assert await step(queue, job) == Stepped(0, POLL)
    await first.ack()
    assert await step(queue, job) == Stepped(0, POLL)  # it has seen a thousand of them
    assert await step(queue, job) == Stepped(2, None)


async def test_a_canary_whose_list_is_lost_is_over(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(3))
    job = await queue.dlq.redrive(where="true", canary=1)
    await step(queue, job)
    raw.delete(queue._core.keys.redrive(job.id))
    await acked(queue, 1)
    assert await step(queue, job) == Stepped(0, None)
    assert (await job.refresh()).state == "done"


async def test_after_a_resumption_it_is_judged_anew(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bury(queue, range(90))
    job = await queue.dlq.redrive(all=True, rate=100, min_success=0.8)
    clock.advance("1s")
    await step(queue, job)
    await acked(queue, 15)
    await failed(queue, 5)
    assert await step(queue, job) == Stepped(0, None)
    assert (await job.refresh()).state == "paused"
    await job.resume()
    clock.advance("1s")
    await step(queue, job)
    await acked(queue, 16)  # just enough
    await failed(queue, 4)
    assert await step(queue, job) == Stepped(20, 0)
    await failed(queue, 5)
    assert await step(queue, job) == Stepped(0, None)
    assert (await job.refresh()).state == "paused"


async def test_maintenance_leaves_a_redrive_to_its_driver_for_ten_seconds(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bury(queue, range(9))
    job = await queue.dlq.redrive(all=True, rate=1)
    assert (await queue.maintain())["redriven"] == 0
    clock.advance("9s")
    assert await step(queue, job, limit=1) == Stepped(1, 0)
    clock.advance("9s")
    assert (await queue.maintain())["redriven"] == 0
    clock.advance("1s")
    assert (await queue.maintain())["redriven"] == 2


async def test_maintenance_leaves_a_canary_to_its_driver_for_ten_seconds(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bury(queue, range(9))
    job = await queue.dlq.redrive(all=True, canary=5)
    await step(queue, job)
    clock.advance("9s")
    assert await step(queue, job) == Stepped(0, POLL)
    await acked(queue, 5)
    clock.advance("9s")
    assert (await queue.maintain())["redriven"] == 0
    clock.advance("1s")
    assert (await queue.maintain())["redriven"] == 4


async def test_a_redrive_that_was_resumed_is_driven_again(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bury(queue, range(9))
    job = await queue.dlq.redrive(all=True, detach=True)
    await (await job.pause()).resume()
    clock.advance("9s")
    assert await step(queue, job, grace=0) == Stepped(0, None)
    assert (await queue.maintain())["redriven"] == 0
    clock.advance("1s")
    assert (await queue.maintain())["redriven"] == 9


async def test_maintenance_counts_nothing_for_what_it_forgets(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bury(queue, range(3))
    job = await queue.dlq.redrive(all=True)
    clock.set(clock.now + 7 * 86_400_000 - 1)
    assert (await queue.maintain())["redriven"] == 0
    assert (await job.refresh()).state == "done"
    clock.advance("1ms")
    assert (await queue.maintain())["redriven"] == 0
    assert await queue.dlq.jobs() == []


async def test_nobody_steps_for_the_process_that_edits(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bury(queue, range(9))
    job = await queue.dlq.redrive(all=True, edit=str, canary=2)
    assert await step(queue, job) == Stepped(0, None)
    clock.advance("1h")
    assert (await queue.maintain())["redriven"] == 0
    assert ((await job.refresh()).state, await counts(queue)) == ("cancelled", {"dead": 9})


async def test_a_redrive_of_all_takes_what_was_there(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(3))
    job = await queue.dlq.redrive(all=True, detach=True)
    await bury(queue, range(2))  # in the same millisecond
    await job.wait()
    assert (job.counts, await counts(queue)) == (RedriveCounts(eligible=3, moved=3), {"ready": 3, "dead": 2})
    late = await queue.dlq.redrive(all=True, detach=True)
    await queue.dlq.redrive(all=True)
    await late.wait()
    assert (late.state, late.counts) == ("done", RedriveCounts(eligible=2, gone=2))


async def test_a_redrive_of_all_while_the_clock_steps_back(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bury(queue, range(3))
    job = await queue.dlq.redrive(all=True, detach=True)
    clock.set(clock.now - 1_000)
    await bury(queue, ["earlier"])
    await job.wait()
    assert job.counts == RedriveCounts(eligible=3, moved=4)


@pytest.mark.parametrize("terms", [{"all": True}, {"all": True, "ttl": "2h"}, {"where": "true"}])
async def test_after_a_step_back_of_the_clock_each_letter_comes_back_once(
    terms: dict[str, Any], broker: Any, clock: Clock
) -> None:
    """I11."""
    queue = broker.queue("a")
    await bury(queue, range(2))
    clock.advance("1h")
    await bury(queue, ["late"])
    clock.set(clock.now - 3_599_000)
    job = await queue.dlq.redrive(**terms, rate=1)
    for _ in range(9):
        await step(queue, job)
        await queue.poison(await queue.claim(9), "again")
        clock.advance("1s")
    assert ((await job.refresh()).state, job.counts) == ("done", RedriveCounts(eligible=3, moved=3, died=3))
    assert [letter.redriven for letter in await queue.dlq.browse()] == [1, 1, 1]
    assert (await queue.dlq.redrive(all=True)).counts.moved == 3  # but another redrive takes them


@pytest.mark.parametrize("failures", [1, 14])
async def test_while_the_clock_steps_back_each_letter_comes_back_once(
    failures: int, broker: Any, clock: Clock
) -> None:
    """I11."""
    queue = broker.queue("a", redelivery=after(0, most=failures - 1))
    await bury(queue, range(2))
    clock.advance("1h")
    await bury(queue, ["late"])
    job = await queue.dlq.redrive(all=True, rate=1)
    await step(queue, job)
    clock.set(clock.now - 1_800_000)
    for _ in range(9):
        for _ in range(failures):
            await queue.nack(await queue.claim(9), "again")
        await step(queue, job)
        clock.advance("1s")
    assert (await job.refresh()).counts == RedriveCounts(eligible=3, moved=3, died=3)


@pytest.mark.parametrize("edit", [None, lambda body: body])
async def test_a_wait_ends_though_there_is_more_to_do(
    edit: Any, broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = broker.queue("a")
    await bury(queue, range(100))
    job = await queue.dlq.redrive(all=True, canary=100, edit=edit)
    seconds = itertools.count()
    for colour in ("asyncio", "client"):
        monkeypatch.setattr(f"rq_dlq.{colour}.redrive.monotonic", lambda: next(seconds))
    await job.wait(within=2)
    assert job.state == "running"
    assert STEP <= job.counts.moved <= 4 * STEP
