"""Redrives as jobs: gradual, judged by what becomes of the messages, driven by whoever is there, undone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rq_dlq import (
    BrokerUnavailable,
    DiscardingDeadLetterStrategy,
    ExpiryPolicy,
    InvalidInput,
    RedriveCounts,
)
from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.redrive import calls as redrive_calls
from rq_dlq.core.sending.restore import restore
from tests.behaviour.faults import connections_of, lose_replies, told_of
from tests.behaviour.helpers import after, bury, counts, ids
from tests.behaviour.stepping import alone
from tests.conftest import Clock
from tests.tables import each_row_afresh

WEEK = "7d"


def numbers(plan: Any) -> tuple[int, int, int, int, int]:
    """What the plan of a redrive counts."""
    return plan.eligible, plan.expired, plan.gone, plan.refused, plan.leased


async def acked(queue: Any, count: int) -> None:
    """A consumer succeeds."""
    deliveries = await queue.claim(count)
    assert len(deliveries) == count
    await queue.ack(deliveries)


async def failed(queue: Any, count: int) -> None:
    """A consumer fails."""
    deliveries = await queue.claim(count)
    assert len(deliveries) == count
    await queue.poison(deliveries, "again")


async def step(queue: Any, job: Any) -> Any:
    """One step of a driver, without its waits."""
    core = queue._core
    await queue._broker._run(alone(redrive_calls.step_redrive(core.keys, job.id, limit=20, grace=10_000)))
    return await job.refresh()


async def test_without_canary_and_rate_all_are_back(broker: Any) -> None:
    queue = broker.queue("a")
    dead = await bury(queue, range(90))
    job = await queue.dlq.redrive(all=True)
    assert (job.state, job.counts.moved) == ("done", 90)
    assert job.counts == RedriveCounts(eligible=90, moved=90)
    assert await ids(queue) == dead


async def test_what_becomes_of_them_counts(broker: Any) -> None:
    queue = broker.queue("a")
    dead = await bury(queue, range(6))
    job = await queue.dlq.redrive(ids=[*dead[:5], "unknown"])
    await acked(queue, 2)
    await failed(queue, 1)
    assert (await job.refresh()).counts == RedriveCounts(eligible=5, moved=5, gone=1, acked=2, died=1)
    await queue.dlq.redrive(all=True)  # what died again is another job's now
    await acked(queue, 4)
    assert (await job.refresh()).counts == RedriveCounts(eligible=5, moved=5, gone=1, acked=4, died=1)


@each_row_afresh("how", ["ack_all", "commit", "batch", "nack"])
async def test_each_way_to_an_end_counts(broker: Any, how: str) -> None:
    queue = broker.queue("a", redelivery=after(0, most=0))
    await bury(queue, range(2))
    job = await queue.dlq.redrive(all=True)
    if how == "nack":
        await queue.nack(await queue.claim(2), "again")
        assert (await job.refresh()).counts.died == 2
        return
    if how == "batch":
        (first, *_) = await queue.claim(2)
        await queue._broker._run(alone(batch_calls.ack_claim(queue._core.keys, first.token)))
    else:
        async with queue.session() as session:
            await session.claim(2)
            if how == "commit":
                await session.send(broker.queue("b"), "x")
    assert (await job.refresh()).counts.acked == 2


async def test_a_dry_run_counts_and_changes_nothing(broker: Any, clock: Clock, raw: Any) -> None:
    queue = broker.queue("a")
    dead = await bury(queue, range(3))
    await queue.send("mortal", id="m", ttl="1h")
    await failed(queue, 1)
    before = sorted(raw.keys())
    assert numbers(await queue.dlq.redrive(all=True, dry_run=True)) == (4, 0, 0, 0, 0)
    assert numbers(await queue.dlq.redrive(ids=[dead[0], "no", "none"], dry_run=True)) == (1, 0, 2, 0, 0)
    clock.advance("1h")
    assert numbers(await queue.dlq.redrive(ids=["m"], dry_run=True)) == (1, 1, 0, 0, 0)
    assert (await counts(queue), sorted(raw.keys())) == ({"dead": 4}, before)


def lasting(raw: Any) -> list[bytes]:
    """All keys but the tokens that wake, which expire after 5 s."""
    return sorted(key for key in raw.scan_iter() if not key.endswith(b":wake"))


@each_row_afresh("how", ["ids", "where", "all", "edit"])
async def test_what_is_in_work_is_left_and_counted(how: str, broker: Any) -> None:
    """As it begins, and when its turn comes. Released, it stays dead; only all=True has yet to come to it."""
    queue, letters = broker.queue("a"), broker.queue("DLQ.a")
    dead = await bury(queue, range(6))
    first = await letters.claim(2)
    choices: dict[str, dict[str, Any]] = {
        "ids": {"ids": [*dead, "no"]}, "where": {"where": "body >= 0"}, "all": {"all": True},
        "edit": {"ids": [*dead, "no"]},
    }  # fmt: skip
    which = choices[how]
    if how == "edit":
        which["edit"] = lambda body: body
    gone = 1 if "ids" in which else 0
    assert numbers(await queue.dlq.redrive(dry_run=True, **which)) == (4, 0, gone, 0, 2)
    job = await queue.dlq.redrive(**which, canary=1_000)
    assert job.counts == RedriveCounts(eligible=4, gone=gone, leased=2)
    second = await letters.claim(1)
    if how == "ids":  # one of them has been redriven meanwhile, and is in work as other messages are
        await queue.dlq.redrive(ids=dead[3:4])
        await queue.claim()
    await letters.release(first)
    await job.wait(0)
    await letters.release(second)
    await job.wait()
    expected = {
        "ids": RedriveCounts(eligible=4, moved=2, gone=2, leased=3),
        "where": RedriveCounts(eligible=4, moved=3, leased=3),
        "all": RedriveCounts(eligible=4, moved=5, leased=2),
        "edit": RedriveCounts(eligible=4, moved=3, gone=1, leased=3),
    }[how]
    assert (job.counts, (await broker.audit(1))[0].counts) == (expected, expected)


async def test_nothing_but_what_is_in_work(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(2))
    await broker.queue("DLQ.a").claim(2)
    before = lasting(raw)
    job = await queue.dlq.redrive(where="body >= 0")
    assert (job.state, job.counts) == ("done", RedriveCounts(leased=2))
    assert lasting(raw) == before


async def test_a_redrive_of_nothing_leaves_nothing(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x")
    before = lasting(raw)
    for chosen in ({"all": True}, {"ids": ["gone"]}, {"where": "id = 'gone'"}):
        job = await queue.dlq.redrive(**chosen)
        assert (job.state, job.counts.moved, job.counts.eligible) == ("done", 0, 0)
        await job.refresh()
    assert job.counts.gone == 0
    assert (await queue.dlq.redrive(ids=["gone"])).counts.gone == 1
    assert lasting(raw) == before


@pytest.mark.parametrize("chosen", [{"all": True}, {"where": "body >= 0"}])
async def test_a_canary_comes_first_and_the_others_when_it_succeeds(
    broker: Any, chosen: dict[str, Any]
) -> None:
    queue = broker.queue("a")
    await bury(queue, range(30))
    job = await queue.dlq.redrive(canary=10, **chosen)
    assert (job.state, await counts(queue)) == ("running", {"dead": 30})
    await job.wait(0)
    assert (job.state, await counts(queue)) == ("running", {"ready": 10, "dead": 20})
    await acked(queue, 9)
    await job.wait(0)
    assert await counts(queue) == {"ready": 1, "dead": 20}  # one has not come to an end
    await acked(queue, 1)
    await job.wait()
    assert (job.state, await counts(queue)) == ("done", {"ready": 20})


async def test_a_canary_that_fails_pauses_it(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(30))
    job = await queue.dlq.redrive(all=True, canary=10, min_success=0.8)
    await job.wait(0)
    await acked(queue, 7)
    await failed(queue, 3)
    await job.wait()
    assert job.state == "paused"
    assert job.why == "7 of 10 messages that ended were acked, and min_success requires 80 %"
    await job.wait()
    assert await counts(queue) == {"dead": 23}
    await job.resume()  # the cause was mended
    await job.wait()
    assert (job.state, job.counts.moved) == ("done", 30)
    assert await counts(queue) == {"ready": 20, "dead": 3}  # what died again stays


async def test_a_canary_of_one_is_a_canary(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(3))
    job = await queue.dlq.redrive(all=True, canary=1, min_success=0.5)
    await job.wait(0)
    await failed(queue, 1)
    await job.wait()
    assert job.state == "paused"
    assert (await broker.audit())[0].by == "its canary"


@each_row_afresh("canary", [1, 10])
async def test_a_redrive_that_waits_for_its_canary_is_resumed_without_it(broker: Any, canary: int) -> None:
    queue = broker.queue("a")
    await bury(queue, range(30))
    job = await queue.dlq.redrive(all=True, canary=canary)
    await job.wait(0)
    assert await counts(queue) == {"ready": canary, "dead": 30 - canary}
    await job.resume()
    await job.resume()  # again
    await job.wait(9)
    assert (job.state, await counts(queue)) == ("done", {"ready": 30})
    assert [record.did for record in await broker.audit()][::-1] == ["started", "resumed", "done"]


async def test_a_canary_that_is_just_enough(broker: Any) -> None:
    """A hundred times 0.55 is a little more than 55 where a computer multiplies."""
    queue = broker.queue("a")
    await bury(queue, range(110))
    job = await queue.dlq.redrive(all=True, canary=100, min_success=0.55)
    for _ in range(5):
        await step(queue, job)
    await acked(queue, 55)
    await failed(queue, 45)
    assert (await step(queue, job)).state == "done"


async def test_a_canary_that_others_removed_does_not_hold_it_up(broker: Any) -> None:
    queue = broker.queue("a")
    dead = await bury(queue, range(9))
    job = await queue.dlq.redrive(all=True, canary=3)
    await job.wait(0)
    await queue.select(ids=dead[:1]).purge()
    await acked(queue, 2)
    await job.wait()
    assert (job.state, job.counts.acked) == ("done", 2)


async def test_a_canary_of_which_nothing_was_acked_pauses_it(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(9))
    job = await queue.dlq.redrive(all=True, canary=3)
    await job.wait(0)
    await queue.purge(all=True)
    await job.wait()
    assert (job.state, job.counts.moved) == ("paused", 3)


@each_row_afresh("how", ["nack", "poison", "lapse", "ttl", "claim after the ttl", "by hand"])
async def test_a_canary_sees_deaths_that_are_discarded(broker: Any, clock: Clock, how: str) -> None:
    queue = broker.queue("a", redelivery=after(0, most=0), expiry=ExpiryPolicy(discard=True), lease="30s")
    await bury(queue, range(9))
    await broker.policies.set("a", dead_letter=DiscardingDeadLetterStrategy())
    job = await queue.dlq.redrive(all=True, canary=3, ttl="1h" if "ttl" in how else None)
    await job.wait(0)
    await acked(queue, 1)
    if how == "by hand":
        await queue.select(places=["ready"]).dead_letter("of no use")
    elif "ttl" in how:
        clock.advance("1h")
        await (queue.claim() if "claim" in how else queue.maintain())
    else:
        deliveries = await queue.claim(2)
        if how == "lapse":
            clock.advance("30s")
            await queue.maintain()
        else:
            await getattr(queue, how)(deliveries, "again")
    await job.wait(0)
    assert (job.state, job.counts.acked, job.counts.died) == ("paused", 1, 2)
    assert await counts(queue) == {"dead": 6}


async def test_the_rate_is_the_servers(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bury(queue, range(50))
    job = await queue.dlq.redrive(all=True, rate=10)
    for expected in (1, 1, 1):  # two drivers do not double it
        assert (await step(queue, job)).counts.moved == expected
    clock.advance("500ms")
    assert (await step(queue, job)).counts.moved == 6
    clock.advance("10m")  # what was not used for longer than a second is lost
    assert (await step(queue, job)).counts.moved == 17
    await queue.maintain()
    assert (await job.refresh()).counts.moved == 17


async def test_a_rate_is_judged_all_along(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bury(queue, range(60))
    job = await queue.dlq.redrive(all=True, rate=20, min_success=0.9)
    await step(queue, job)
    clock.advance("1s")
    await step(queue, job)
    await acked(queue, 17)
    await failed(queue, 2)
    clock.advance("1s")
    assert (await step(queue, job)).state == "running"  # too few to tell
    await failed(queue, 1)
    clock.advance("1s")
    assert (await step(queue, job)).state == "paused"
    await job.resume()
    assert (await step(queue, job)).state == "running"


async def test_a_killed_driver_is_replaced(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bury(queue, range(60))
    job = await queue.dlq.redrive(where="body >= 0", rate=1000)
    clock.advance("5ms")
    await step(queue, job)  # it dies here
    assert job.counts.moved == 6
    clock.advance("9s")
    assert (await queue.maintain())["redriven"] == 0  # it might be alive
    clock.advance("1s")
    assert (await queue.maintain())["redriven"] == 54
    assert (await job.refresh()).state == "done"
    assert len(set(await ids(queue))) == 60


async def test_detached_it_is_driven_by_maintenance(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(45))
    job = await queue.dlq.redrive(all=True, detach=True)
    assert (job.state, job.counts.moved) == ("running", 0)
    await queue.maintain()
    assert (await job.refresh()).state == "done"
    assert await counts(queue) == {"ready": 45}


async def test_pause_resume_cancel(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(9))
    job = await queue.dlq.redrive(all=True, detach=True)
    await job.pause(by="anna")
    assert (job.state, job.why) == ("paused", "anna paused it")
    await job.pause()  # again
    await queue.maintain()
    await job.wait()
    assert await counts(queue) == {"dead": 9}
    await job.resume()
    await job.cancel()
    await job.wait()
    assert (job.state, await counts(queue)) == ("cancelled", {"dead": 9})
    for verb in (job.pause, job.resume):
        with pytest.raises(InvalidInput, match="it is cancelled"):
            await verb()


async def test_what_is_done_cannot_be_resumed(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(3))
    job = await queue.dlq.redrive(all=True)
    with pytest.raises(InvalidInput, match=f"cannot resume redrive {job.id}: it is done"):
        await job.resume()


async def test_undo_takes_back_what_nobody_touched(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    dead = await bury(queue, range(50), "out of stock")
    letters = await queue.dlq.browse(limit=None)
    clock.advance("1h")
    job = await queue.dlq.redrive(all=True)
    await acked(queue, 1)
    (claimed, released) = await queue.claim(2)
    await released.release()
    clock.advance("1h")
    await job.undo(by="ben")
    assert (job.state, job.counts.undone) == ("undone", 47)
    assert await counts(queue) == {"ready": 1, "leased": 1, "dead": 47}
    again = await queue.dlq.browse(limit=None)
    known = {letter.id: letter for letter in letters}
    for letter in again:
        before = known[letter.id]
        assert (letter.died_at, letter.fingerprint) == (before.died_at, before.fingerprint)
        assert (letter.reason, letter.charged, letter.redriven) == (before.reason, before.charged, 1)
        assert [event.event for event in letter.history] == ["poisoned", "redriven", "undone"]
        assert letter.history[-1].consumer == "ben"
    await job.undo()  # again
    assert job.counts.undone == 47
    await claimed.ack()
    assert (await queue.dlq.redrive(ids=dead[10:])).counts.moved == 40


async def test_undo_of_what_expired(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send("x", ttl="1s")
    clock.advance("1s")
    await queue.maintain()
    job = await queue.expired.redrive(all=True)
    assert await counts(queue) == {"ready": 1}
    await job.undo()
    assert await counts(queue) == {"expired": 1}
    assert (await queue.expired.browse())[0].reason == "expired"


async def test_two_at_once_each_message_once(broker: Any) -> None:
    queue = broker.queue("a")
    dead = await bury(queue, range(40))
    first = await queue.dlq.redrive(where="body >= 0", detach=True)
    second = await queue.dlq.redrive(where="body >= 0", detach=True)
    third = await queue.dlq.redrive(all=True, detach=True)
    jobs = [first, second, third]
    for job in jobs:
        await step(queue, job)
    for job in jobs:
        await job.wait()
    assert [job.state for job in jobs] == ["done"] * 3
    assert sum(job.counts.moved for job in jobs) == 40
    assert [job.counts.moved + job.counts.gone for job in jobs] == [40] * 3
    claimed = await queue.claim(100)
    assert sorted(delivery.id for delivery in claimed) == sorted(dead)
    assert {delivery.redriven for delivery in claimed} == {1}


@each_row_afresh("way", ["all", "ids"])
@each_row_afresh("back", ["undo", "import"])
async def test_what_is_dead_again_with_an_old_time_is_left_alone(
    way: str, back: str, broker: Any, clock: Clock
) -> None:
    """It stands among those that a redrive under way has still to take, but was not there when that began."""
    queue = broker.queue("a")
    old = await bury(queue, range(40))
    rows = (await queue._broker._run(alone(page_calls.browse(queue._core.keys, ids=old)))).rows()
    clock.advance("1s")
    first = await queue.dlq.redrive(all=True)
    new = await bury_last(queue, 10)
    chosen: dict[str, Any] = {"all": True} if way == "all" else {"ids": [*new, *old]}
    second = await queue.dlq.redrive(**chosen, rate=1)
    if back == "undo":
        assert (await first.undo()).counts.undone == 40
    else:
        await acked(queue, 40)
        assert await queue._broker._run(restore(queue._core, rows)) == []
    for _ in range(60):
        clock.advance("1s")
        await step(queue, second)
    found = (await second.refresh()).counts
    assert (second.state, found.moved, found.eligible) == ("done", 10, 10)
    assert await counts(queue) == {"dead": 40, "ready": 10}
    assert (await queue.dlq.redrive(all=True)).counts.moved == 40, "a later one takes them"


@pytest.mark.parametrize("way", ["listed", "edited"])
def test_what_was_undone_in_the_middle_of_a_redrive_that_lists_it_stays_dead(
    way: str, sync_broker: Any, clock: Clock, raw: Any
) -> None:
    """It is read after the undo, so that nothing but its number tells that it was back in between."""
    del raw
    queue = sync_broker.queue("a")
    queue.send_many(range(30))
    queue.poison(queue.claim(30), "x")
    clock.advance("1s")
    dead = [letter.id for letter in queue.dlq.browse(limit=None)]
    undone: list[int] = []

    def undo_the_last() -> None:
        if not undone:
            job = queue.dlq.redrive(ids=dead[-1:])
            job.undo()
            undone.append(job.counts.undone)

    def edit(body: int) -> int:
        undo_the_last()
        return body

    if way == "edited":
        job = queue.dlq.redrive(ids=dead, edit=edit)
    else:
        job = queue.dlq.redrive(ids=dead, rate=1, detach=True)
        undo_the_last()
        for _ in range(60):
            clock.advance("1s")
            queue.maintain()
    assert undone == [1]
    found = job.refresh()
    assert (found.state, found.counts.moved, found.counts.gone) == ("done", 29, 1)
    assert [letter.id for letter in queue.dlq.browse(limit=None)] == dead[-1:]


async def bury_last(queue: Any, count: int) -> list[str]:
    """Send messages and poison them, behind others that are ready; their ids."""
    sent: list[str] = await queue.send_many(range(count), priority=9)
    await queue.poison(await queue.claim(count), "told so")
    return sent


async def test_what_dies_again_meanwhile_stays_dead(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    dead = await bury(queue, range(2))
    slow = await queue.dlq.redrive(ids=dead, detach=True)
    clock.advance("1s")
    await queue.dlq.redrive(ids=dead)
    await failed(queue, 2)
    await slow.wait()
    assert (slow.counts.moved, slow.counts.gone) == (0, 2)
    assert await counts(queue) == {"dead": 2}


DAMAGES: list[dict[str, Any]] = [
    *({name: None} for name in ("part", "chosen", "by", "user", "cause", "rate", "canary", "min_success")),
    *({name: "x"} for name in ("rate", "canary", "min_success", "ttl")),
    *({name: 0} for name in ("part", "chosen", "by", "user", "cause", "to", "how")),
]


@each_row_afresh("damage", [*DAMAGES, "eligible", "moved", "next", "ended", "last_score"])
async def test_a_damaged_redrive_holds_up_no_other(
    damage: dict[str, Any] | str, broker: Any, raw: Any
) -> None:
    queue = broker.queue("a")
    dead = await bury(queue, range(2))
    job = await queue.dlq.redrive(ids=dead[:1], detach=True)
    other = await queue.dlq.redrive(ids=dead[1:], detach=True)
    if isinstance(damage, str):
        raw.hset("rq:{a}:redrives", f"{job.id} {damage}", "x")
    else:
        asked = json.loads(raw.hget("rq:{a}:redrives", job.id)) | damage
        rest = {name: value for name, value in asked.items() if value is not None}
        raw.hset("rq:{a}:redrives", job.id, json.dumps(rest))
    raw.zadd("rq:{a}:redriving", {job.id: 0})
    await queue.maintain()
    assert not raw.hexists("rq:{a}:redrives", job.id)
    assert [one.id for one in await queue.dlq.jobs()] == [other.id]
    assert (await other.refresh()).state == "done"
    assert await ids(queue) == dead[1:]
    for verb in (job.pause, job.undo):
        with pytest.raises(InvalidInput, match="there is no redrive"):
            await verb()


async def test_a_lost_connection_half_way(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(1_000))
    lost = await lose_replies(broker, "step_redrive", 100)
    with pytest.raises(BrokerUnavailable):
        await queue.dlq.redrive(where="body >= 0")
    lost.left = 0
    (job,) = await queue.dlq.jobs()
    assert 0 < job.counts.moved < 1_000
    await job.wait()
    assert (job.state, job.counts.moved, await counts(queue)) == ("done", 1_000, {"ready": 1_000})


@pytest.mark.parametrize("verb", ["start_redrive", "steer_redrive", "undo_redrive"])
async def test_a_lost_reply_changes_nothing(broker: Any, verb: str) -> None:
    """I12."""
    queue = broker.queue("a")
    await bury(queue, range(30))
    await lose_replies(broker, verb)
    job = await queue.dlq.redrive(where="body >= 0", detach=True)
    await (await job.pause()).resume()
    await job.wait()
    assert job.counts == RedriveCounts(eligible=30, moved=30)
    await job.undo()
    assert (job.counts.undone, await counts(queue)) == (30, {"dead": 30})
    assert len(await queue.dlq.jobs()) == 1


async def test_the_audit_keeps_about_a_thousand_notes(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(2))
    job = await queue.dlq.redrive(limit=1, detach=True)
    for _ in range(70):
        await (await job.pause()).resume()
    assert len(await broker.audit(500)) == 141
    note = raw.xrange("rq:{a}:audit", count=1)[0][1]
    with raw.pipeline(transaction=False) as many:
        for _ in range(1_500):
            many.xadd("rq:{a}:audit", note)
        many.execute()
    await job.pause()
    assert 1_000 <= raw.xlen("rq:{a}:audit") < 1_200
    await job.cancel()


async def test_the_audit_tells_who_did_what(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(9))
    job = await queue.dlq.redrive(where="body < 5", limit=3, order="newest", by="anna", detach=True)
    await job.pause(by="ben")
    await job.resume(by="ben")
    await job.wait()
    records = await broker.audit()
    assert [(record.did, record.by) for record in reversed(records)] == [
        ("started", "anna"), ("paused", "ben"), ("resumed", "ben"), ("done", "anna"),
    ]  # fmt: skip
    assert {(one.queue, one.job, one.user) for one in records} == {("a", job.id, "default")}
    assert {one.chosen for one in records} == {"where body < 5, limit 3, newest first"}
    assert records[0].counts == RedriveCounts(eligible=3, moved=3)
    assert await broker.audit(1) == records[:1]
    (message, *_) = await queue.peek()
    assert (message.history[-1].event, message.history[-1].consumer) == ("redriven", "anna")
    assert str(message.history[-1].cause) == f"redrive {job.id}"


async def test_jobs_are_found_by_their_ids(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(3))
    job = await queue.dlq.redrive(all=True, by="anna")
    (listed,) = await queue.dlq.jobs()
    again = await queue.dlq.job(job.id)
    for one in (listed, again):
        assert (one.id, one.state, one.counts) == (job.id, "done", job.counts)
        assert (one.by, one.chosen) == ("anna", "all")
    with pytest.raises(InvalidInput, match="there is no redrive 'nope' of 'a'"):
        await queue.dlq.job("nope")


async def test_one_job_is_read_alone(broker: Any) -> None:
    """However many the queue remembers."""
    queue = broker.queue("a")
    dead = await bury(queue, range(20))
    jobs = [await queue.dlq.redrive(ids=[one]) for one in dead]
    connections = await connections_of(broker)
    asked = told_of(connections)
    assert (await queue.dlq.job(jobs[3].id)).id == jobs[3].id
    assert sum(command[0] == b"HMGET" for command in asked) == 1


async def test_a_group_that_vanished(broker: Any, raw: Any) -> None:
    """Others brought its letters back between two looks: nothing is done, and nothing is left behind."""
    queue = broker.queue("a")
    await bury(queue, range(3))
    (group,) = await queue.dlq.groups()
    await queue.dlq.redrive(all=True)
    before = lasting(raw)
    assert numbers(await queue.dlq.redrive(group=group, dry_run=True)) == (0, 0, 0, 0, 0)
    job = await queue.dlq.redrive(group=group)
    assert (job.state, job.counts) == ("done", RedriveCounts())
    assert lasting(raw) == before


async def test_a_job_is_forgotten_after_a_week(broker: Any, clock: Clock, raw: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(3))
    job = await queue.dlq.redrive(all=True)
    clock.advance(WEEK)
    await queue.maintain()
    assert await queue.dlq.jobs() == []
    assert not raw.exists(queue._core.keys["redrives"], queue._core.keys["redriving"])
    for verb in (job.refresh, job.pause, job.undo):
        with pytest.raises(InvalidInput, match="there is no redrive"):
            await verb()
    await acked(queue, 3)
    assert not raw.exists(queue._core.keys["redrives"])


async def test_a_queue_remembers_a_hundred(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    dead = await bury(queue, range(103))
    running = await queue.dlq.redrive(ids=dead[:1], detach=True)
    jobs: list[Any] = []
    for one in dead[1:101]:
        clock.advance("1ms")
        jobs.append(await queue.dlq.redrive(ids=[one]))
    kept = {job.id for job in await queue.dlq.jobs()}
    assert len(kept) == 100
    assert {running.id, *(job.id for job in jobs[1:])} == kept


async def test_too_many_at_once_are_refused(broker: Any) -> None:
    queue = broker.queue("a")
    dead = await bury(queue, range(101))
    for one in dead[:100]:
        await queue.dlq.redrive(ids=[one], detach=True)
    with pytest.raises(InvalidInput, match="a hundred running redrives"):
        await queue.dlq.redrive(ids=dead[100:])
    await (await queue.dlq.jobs())[0].cancel()
    assert (await queue.dlq.redrive(ids=dead[100:])).counts.moved == 1


@each_row_afresh(
    "wrong, why",
    [
        ({"rate": 0}, "rate 0"),
        ({"rate": True}, "rate True"),
        ({"rate": float("nan")}, "rate nan"),
        ({"canary": 0}, "canary 0"),
        ({"canary": 1_001}, "1 to 1,000"),
        ({"canary": 5, "min_success": 1.5}, "min_success 1.5"),
        ({"min_success": 0.9}, "needs a canary or a rate"),
        ({"by": ""}, "by ''"),
    ],
)
async def test_wrong_terms_are_refused(broker: Any, wrong: dict[str, Any], why: str) -> None:
    queue = broker.queue("a")
    await bury(queue, ["x"])
    with pytest.raises(InvalidInput, match=why):
        await queue.dlq.redrive(all=True, **wrong)
    assert await counts(queue) == {"dead": 1}


async def test_a_deleted_queue_has_no_redrives(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(3))
    job = await queue.dlq.redrive(all=True, canary=1)
    await queue.delete(force=True)
    for verb in (job.refresh, job.wait, job.cancel, job.undo):
        with pytest.raises(InvalidInput, match="there is no redrive"):
            await verb()
    await queue.maintain()
    assert await queue.dlq.jobs() == []
