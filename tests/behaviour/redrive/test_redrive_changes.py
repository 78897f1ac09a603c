"""Redrives that change the messages: another body, another queue, a time to live."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import Any

import pytest

from rq_dlq import (
    BrokerUnavailable,
    InvalidDuration,
    InvalidInput,
    Message,
    RedriveCounts,
    Refusal,
    SharedDeadLetterStrategy,
)
from rq_dlq.core.redrive import calls as redrive_calls
from rq_dlq.core.redrive import offers as redrive_offers
from rq_dlq.core.redrive import redrives
from rq_dlq.core.redrive.offers import drive_offered
from rq_dlq.core.steps.step import Deadline
from tests.audit import audit
from tests.behaviour.faults import lose_replies
from tests.behaviour.helpers import after, bodies, bury, counts, ids, one
from tests.behaviour.redrive.test_redrives import numbers
from tests.behaviour.stepping import drive
from tests.conftest import Clock
from tests.contents import contents
from tests.tables import each_row_afresh


@dataclass
class Order:
    number: int
    total: float = 0.0


def even_doubled(body: Any) -> Any:
    """An edit that refuses odd numbers."""
    if body % 2:
        message = f"{body} is odd"
        raise ValueError(message)
    return body * 2


async def two(broker: Any, **options: Any) -> tuple[Any, Any]:
    """A queue, and another one that exists."""
    queue, other = broker.queue("a", **options), broker.queue("b", **options)
    await other.open()
    return queue, other


# edit


async def test_an_edited_message_keeps_the_rest(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send({"total": "9"}, id="m", headers={"tenant": "a"}, priority=7)
    await (await one(queue)).poison("a text")
    (letter,) = await queue.dlq.browse()
    clock.advance("1h")
    job = await queue.dlq.redrive(all=True, edit=lambda body: {"total": int(body["total"])}, by="anna")
    assert (job.state, job.how, job.counts) == ("done", "edited", RedriveCounts(eligible=1, moved=1))
    delivery = await one(queue)
    assert (delivery.id, delivery.body, delivery.headers) == ("m", {"total": 9}, {"tenant": "a"})
    assert (delivery.priority, delivery.enqueued_at) == (7, letter.enqueued_at)
    assert (delivery.delivery_count, delivery.charged, delivery.redriven) == (2, 0, 1)
    *story, event = delivery.history
    assert tuple(story) == letter.history
    assert (event.event, event.consumer) == ("redriven", "anna")
    assert event.cause.message == f"redrive {job.id} (edited)"
    done, began = await broker.audit()
    assert [(one.did, one.by, one.how) for one in (began, done)] == [
        ("started", "anna", "edited"),
        ("done", "anna", "edited"),
    ]


async def test_what_the_edit_refuses_stays_dead(broker: Any) -> None:
    queue = broker.queue("a")
    dead = await bury(queue, range(50))
    before = await queue.dlq.browse(limit=None)
    job = await queue.dlq.redrive(all=True, edit=even_doubled)
    assert job.counts == RedriveCounts(eligible=50, moved=25, refused=25)
    assert [refusal.id for refusal in job.refusals] == dead[1::2]
    assert job.refusals[0].why == "ValueError: 1 is odd"
    after_it = await queue.dlq.browse(limit=None)
    assert [(one.id, one.body, one.history) for one in after_it] == [
        (one.id, one.body, one.history) for one in before[1::2]
    ]
    assert [delivery.body for delivery in await queue.claim(50)] == [4 * n for n in range(25)]


@each_row_afresh(
    "edit, why",
    [
        (lambda body: None, "the edit returned nothing"),  # noqa: ARG005
        (lambda body: object(), "cannot be encoded as JSON"),  # noqa: ARG005
        (lambda body: {"number": "one"}, "does not fit the queue's type Order"),  # noqa: ARG005
        (lambda body: Order(body.number, float("nan")), "a number that JSON cannot represent"),
        (lambda body: body.nothing, "AttributeError: 'Order' object has no attribute 'nothing'"),
    ],
)
async def test_a_body_that_cannot_be_sent_is_refused(edit: Any, why: str, broker: Any, raw: Any) -> None:
    queue = broker.queue("a", type=Order)
    await bury(queue, [Order(1)])
    job = await queue.dlq.redrive(all=True, edit=edit)
    assert (job.state, job.counts) == ("done", RedriveCounts(eligible=1, refused=1))
    assert why in job.refusals[0].why
    assert await counts(queue) == {"dead": 1}
    audit(raw, "a")


async def test_a_body_that_is_too_long_is_refused(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, ["short"])
    job = await queue.dlq.redrive(all=True, edit=lambda body: body * 2_000_000)
    assert (job.counts.refused, "over the limit" in job.refusals[0].why) == (1, True)


async def test_a_body_that_does_not_decode_is_refused_and_the_others_come_back(broker: Any) -> None:
    queue = broker.queue("a", type=Order)
    await bury(broker.queue("a"), [{"number": 1}, "no order", {"number": 2}])
    job = await queue.dlq.redrive(all=True, edit=lambda body: body)
    assert job.counts == RedriveCounts(eligible=3, moved=2, refused=1)
    assert "cannot be decoded as Order" in job.refusals[0].why
    again = await broker.queue("a").dlq.redrive(all=True, edit=lambda _: {"number": 3})
    assert (again.counts.moved, len(await queue.claim(9))) == (1, 3)


async def test_bytes_become_json_and_json_bytes(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, [b"1", 1], "boom")
    await queue.dlq.redrive(all=True, edit=lambda body: 2 if isinstance(body, bytes) else b"3")
    assert [delivery.body for delivery in await queue.claim(9)] == [2, b"3"]


async def test_a_long_body_becomes_short_and_long_again(broker: Any, raw: Any) -> None:
    """The state has the head of a long record."""
    queue = broker.queue("a")
    dead = await bury(queue, ["x" * 5_000, "y"])
    await queue.dlq.redrive(all=True, edit=lambda body: "short" if len(body) > 1 else "z" * 5_000)
    audit(raw, "a")
    assert [b" head=" in raw.hget("rq:{a}:states", id) for id in dead] == [False, True]
    claimed = await queue.claim(9)
    assert [delivery.body for delivery in claimed] == ["short", "z" * 5_000]
    await queue.poison(claimed, "again")
    assert len(await queue.dlq.browse()) == 2
    audit(raw, "a")


async def test_a_refusal_is_told_once(broker: Any) -> None:
    """Though what was not taken yet is edited again by the next wait."""
    queue = broker.queue("a")
    dead = await bury(queue, [2, 1, 3, 4])
    job = await queue.dlq.redrive(all=True, edit=even_doubled, canary=1)
    await job.wait(0)
    await queue.ack(await queue.claim(1))
    await job.wait()
    assert [refusal.id for refusal in job.refusals] == dead[1:3]
    assert job.counts == RedriveCounts(eligible=4, moved=2, refused=2, acked=1)


async def test_a_dry_run_tries_the_edit(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    dead = await bury(queue, range(4))
    before = contents(raw)
    plan = await queue.dlq.redrive(all=True, edit=even_doubled, dry_run=True)
    assert numbers(plan) == (4, 0, 0, 2, 0)
    assert [refusal.id for refusal in plan.refusals] == dead[1::2]
    assert contents(raw) == before


async def test_edited_step_by_step(broker: Any) -> None:
    """With a canary, judged by what becomes of the messages."""
    queue = broker.queue("a")
    await bury(queue, range(30))
    edited: list[int] = []

    def edit(body: int) -> int:
        edited.append(body)
        return body + 100

    job = await queue.dlq.redrive(all=True, edit=edit, canary=3)
    await job.wait(0)
    assert (job.state, await counts(queue)) == ("running", {"ready": 3, "dead": 27})
    await queue.ack(await queue.claim(3))
    await job.wait()
    assert (job.state, job.counts) == ("done", RedriveCounts(eligible=30, moved=30, acked=3))
    assert [*dict.fromkeys(edited)] == [*range(30)]
    assert [delivery.body for delivery in await queue.claim(30)] == [*range(103, 130)]


async def test_a_canary_that_fails_pauses_it(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(9))
    job = await queue.dlq.redrive(all=True, edit=lambda body: body, canary=3)
    await job.wait(0)
    await queue.poison(await queue.claim(3), "still wrong")
    await job.wait()
    assert (job.state, await counts(queue)) == ("paused", {"dead": 9})
    await job.resume()
    await job.wait()
    assert (job.state, job.counts.moved) == ("done", 9)


async def test_what_died_again_since_it_was_read_stays_dead(broker: Any, raw: Any) -> None:
    """Also in the same millisecond: an edit is of the letter that was read."""
    queue = broker.queue("a")
    (dead,) = await bury(queue, [1])

    async def meanwhile() -> None:
        await queue.dlq.redrive(ids=[dead])
        await queue.poison(await queue.claim(), "again")

    def edit(body: int) -> int:
        return body + 1

    job = await queue.dlq.redrive(all=True, edit=edit, canary=1_000)
    core = queue._core
    state = raw.hget(core.keys["states"], dead).decode().split()
    record = raw.hget(core.keys["messages"], dead)
    await meanwhile()
    offers = [redrive_calls.Offer(dead, f"{state[2]}/0", record)]
    call = redrive_calls.offer_redrive(
        core.keys, core.keys, job.id, position=0, grace=0, opening="", offers=offers
    )
    moved = await queue._broker._run(alone(call))
    assert (moved.moved, moved.position) == (0, 1)
    assert (await job.refresh()).counts == RedriveCounts(eligible=1, gone=1)
    assert await counts(queue) == {"dead": 1}


def alone(step: Any) -> Any:
    return (yield step)


async def test_two_edits_at_once_each_message_once(broker: Any) -> None:
    queue = broker.queue("a")
    dead = await bury(queue, range(60))
    jobs = [await queue.dlq.redrive(all=True, edit=lambda body: body + 100, canary=1_000) for _ in "xy"]
    for job in jobs:
        await job.wait(0)
    for job in jobs:
        await job.wait()
    assert [job.state for job in jobs] == ["done", "done"]
    assert [job.counts.moved + job.counts.gone for job in jobs] == [60, 60]
    claimed = await queue.claim(100)
    assert sorted(delivery.id for delivery in claimed) == sorted(dead)
    assert sorted(delivery.body for delivery in claimed) == [*range(100, 160)]


@pytest.mark.parametrize("to", [None, "b"])
async def test_a_connection_lost_half_way_doubles_nothing(to: str | None, broker: Any, raw: Any) -> None:
    queue, other = await two(broker)
    await bury(queue, range(100))
    lost = await lose_replies(broker, "offer_redrive", 0)

    def edit(body: int) -> int:
        lost.left = 100 if body == 50 else lost.left
        return body + 1_000

    with pytest.raises(BrokerUnavailable):
        await queue.dlq.redrive(all=True, edit=edit, to=to)
    lost.left = 0
    (job,) = await queue.dlq.jobs()
    assert (job.state, job.counts.moved) == ("cancelled", 60)
    assert sum(audit(raw, name).total() for name in "ab") == 100
    again = await queue.dlq.redrive(all=True, edit=lambda body: body + 1_000, to=to)
    assert job.counts.moved + again.counts.moved == 100
    claimed = await (other if to else queue).claim(200)
    assert sorted(delivery.body for delivery in claimed) == [*range(1_000, 1_100)]


@pytest.mark.parametrize("to", [None, "b"])
async def test_a_lost_reply_changes_nothing(to: str | None, broker: Any) -> None:
    """I12."""
    queue, other = await two(broker)
    await bury(queue, range(50))
    await lose_replies(broker, "offer_redrive", 2)
    job = await queue.dlq.redrive(all=True, edit=lambda body: body + 1, to=to)
    assert job.counts == RedriveCounts(eligible=50, moved=50)
    assert sorted(one.body for one in await (other if to else queue).claim(99)) == [*range(1, 51)]


async def test_only_the_caller_can_go_on_with_it(broker: Any, clock: Clock) -> None:
    """Maintenance would not edit: it ends the redrive, and what is dead stays dead."""
    queue = broker.queue("a")
    await bury(queue, range(9))
    begun = await queue.dlq.redrive(all=True, edit=lambda body: -body, canary=2)
    await begun.wait(0)
    (job,) = await queue.dlq.jobs()
    for verb in (job.wait, job.resume):
        with pytest.raises(InvalidInput, match="only the process that began redrive"):
            await verb()
    with pytest.raises(InvalidInput, match=r"cannot undo redrive .*changed its messages \(edited\)"):
        await begun.undo()
    clock.advance("9m")
    await queue.maintain()
    assert (await job.refresh()).state == "running"
    clock.advance("1m")
    await queue.maintain()
    assert (await job.refresh()).state == "cancelled"
    assert "did not continue it" in job.why
    await begun.wait()
    await job.wait()
    assert (begun.state, await counts(queue)) == ("cancelled", {"ready": 2, "dead": 7})


class Interrupted(BaseException):
    """As Ctrl-C, which the loop of a test would not survive."""


async def test_an_edit_that_is_interrupted_ends_the_redrive(broker: Any) -> None:
    """Nobody else can go on with it, since the call returns no job."""

    def edit(body: Any) -> Any:
        if body == 5:
            raise Interrupted
        return -body

    queue = broker.queue("a")
    await bury(queue, range(9))
    with pytest.raises(Interrupted):
        await queue.dlq.redrive(all=True, edit=edit)
    (job,) = await queue.dlq.jobs()
    assert job.state == "cancelled"


async def test_edits_may_take_long(broker: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their caller says between two of them that it is still there."""
    monkeypatch.setattr(redrive_offers, "TOLD", 0)
    queue = broker.queue("a")
    await bury(queue, range(9))
    job = await queue.dlq.redrive(all=True, edit=lambda body: -body, canary=9)
    part = await broker._run(redrives.look(queue._core.keys, job.id))

    async def maintain(script: str) -> None:
        clock.advance("9m" if script == "offer_redrive" else 0)
        await queue.maintain()

    steps = drive_offered(queue._core.keys, part, job._editor, Deadline(monotonic, 0), lambda _: None)
    assert (await drive(broker, steps, maintain)).counts.moved == 9


async def test_paused_and_cancelled_by_others(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(9))
    begun = await queue.dlq.redrive(all=True, edit=lambda body: -body, canary=1_000)
    (job,) = await queue.dlq.jobs()
    await job.pause(by="ben")
    await begun.wait()
    assert (begun.state, begun.why, begun.counts.moved) == ("paused", "ben paused it", 0)
    await job.cancel()
    await begun.wait()
    assert (begun.state, await counts(queue)) == ("cancelled", {"dead": 9})


# to


async def test_to_another_queue_with_its_story(broker: Any, clock: Clock, raw: Any) -> None:
    queue, other = await two(broker)
    await queue.send("x", id="m", headers={"tenant": "a"}, ttl="1h")
    await (await one(queue)).poison("boom")
    clock.advance("2h")
    job = await queue.dlq.redrive(all=True, to="b", by="anna")
    assert (job.how, job.counts) == ("to b", RedriveCounts(eligible=1, moved=1))
    assert (await counts(queue), await counts(other)) == ({}, {"ready": 1})
    delivery = await one(other)
    assert (delivery.id, delivery.body, delivery.headers) == ("m", "x", {"tenant": "a"})
    assert (delivery.charged, delivery.delivery_count, delivery.redriven) == (0, 2, 1)
    assert delivery.expires_at is None
    assert [event.event for event in delivery.history] == ["poisoned", "moved"]
    moved = delivery.history[-1]
    assert (moved.consumer, moved.cause.message) == ("anna", f"redrive {job.id} from a (to b)")
    assert (await queue.stats()).totals["moved"] == 1
    assert await queue.dlq.groups() == []
    for name in "ab":
        audit(raw, name)


async def test_what_expired_goes_too(broker: Any, clock: Clock) -> None:
    queue, other = await two(broker)
    await queue.send("x", ttl="1s")
    clock.advance("1s")
    await queue.maintain()
    assert (await queue.expired.redrive(all=True, to=other)).counts.moved == 1
    assert [event.event for event in (await one(other)).history] == ["expired", "moved"]


async def test_an_id_that_the_other_queue_knows_stays_dead(broker: Any) -> None:
    queue, other = await two(broker)
    await other.send("its own", id="m")
    await bury(queue, [Message(body="x", id="m"), Message(body="y", id="n")])
    job = await queue.dlq.redrive(all=True, to=other)
    assert job.counts == RedriveCounts(eligible=2, moved=1, refused=1)
    assert job.refusals == (Refusal("m", "b has a message with this id"),)
    assert sorted(one.body for one in await other.peek(9)) == ["its own", "y"]
    assert await counts(queue) == {"dead": 1}


async def test_another_message_of_the_same_id_and_time_is_no_copy(broker: Any) -> None:
    """A move that was cut off is completed, but only if what is there is the same."""
    queue, other = await two(broker)
    await queue.send(1, id="m")
    await other.send(2, id="m")
    for one_of in (queue, other):
        await (await one(one_of)).poison("at the same moment")
    job = await queue.dlq.redrive(all=True, to=other)
    assert (job.counts.moved, job.refusals[0].why) == (0, "b has a message with this id")
    assert [letter.body for letter in await queue.dlq.browse()] == [1]
    assert [letter.body for letter in await other.dlq.browse()] == [2]


async def test_an_edited_body_that_becomes_long_on_the_way(broker: Any, raw: Any) -> None:
    queue, other = await two(broker)
    dead = await bury(queue, ["x" * 5_000, "y"])
    edited = await queue.dlq.redrive(
        all=True, to=other, edit=lambda body: "short" if len(body) > 1 else "z" * 5_000
    )
    assert edited.counts.moved == 2
    assert [b" head=" in raw.hget("rq:{b}:states", id) for id in dead] == [False, True]
    audit(raw, "b")


async def test_edited_for_the_type_of_the_other_queue(broker: Any) -> None:
    queue = broker.queue("a")
    other = broker.queue("b", type=Order)
    await bury(queue, [1, "two"])
    job = await queue.dlq.redrive(all=True, to=other, create=True, edit=Order)
    assert (job.counts.moved, job.counts.refused) == (1, 1)
    assert (await one(other)).body == Order(1)


@each_row_afresh("target", ["nowhere", "a", "DLQ.a", "EXP.b", "", "no good"])
async def test_where_nothing_can_go(target: str, broker: Any, raw: Any) -> None:
    """A typo makes no queue."""
    queue, _ = await two(broker)
    await bury(queue, ["x"])
    before = contents(raw)
    for dry_run in (True, False):
        with pytest.raises(InvalidInput):
            await queue.dlq.redrive(all=True, to=target, dry_run=dry_run)
    assert contents(raw) == before


async def test_a_queue_made_on_request(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.open()
    assert (await queue.dlq.redrive(all=True, to="new", create=True)).counts.moved == 0
    await bury(queue, ["x"])
    plan = await queue.dlq.redrive(all=True, to="new", create=True, dry_run=True)
    assert (plan.eligible, await broker.queues()) == (1, ["a"])
    assert (await queue.dlq.redrive(all=True, to="new", create=True)).counts.moved == 1
    assert sorted(await broker.queues()) == ["a", "new"]
    assert len(await ids(broker.queue("new"))) == 1


async def test_a_queue_that_is_deleted_meanwhile(broker: Any) -> None:
    queue, other = await two(broker)
    await bury(queue, range(30))
    job = await queue.dlq.redrive(all=True, to=other, rate=1)
    await job.wait(0)
    await other.delete(force=True)
    with pytest.raises(
        InvalidInput, match="'b' was deleted in the meantime, so the remaining messages are still dead"
    ):
        await job.wait()
    assert (await job.refresh()).state == "cancelled"
    assert (await counts(queue), await broker.queues()) == ({"dead": 29}, ["a"])


async def test_a_shared_name_gives_to_another_queue(broker: Any) -> None:
    """What is that queue's own goes back to it."""
    await broker.policies.set("#", dead_letter=SharedDeadLetterStrategy("graveyard"))
    queue, other = await two(broker)
    await bury(queue, ["x"])
    await bury(other, ["y"])
    job = await broker.queue("graveyard").dlq.redrive(all=True, to="b", edit=lambda body: body * 2)
    assert (job.state, job.counts.moved) == ("done", 2)
    assert (await counts(queue), await counts(other)) == ({}, {"ready": 2})
    assert sorted(one.body for one in await other.claim(9)) == ["xx", "yy"]


# ttl


@each_row_afresh("to", [None, "b"])
@each_row_afresh("all_", [True, False])
async def test_a_new_time_to_live(all_: bool, to: str | None, broker: Any, clock: Clock) -> None:
    queue, other = await two(broker, redelivery=after(0, most=9))
    await bury(queue, ["x", "y"])
    job = await queue.dlq.redrive(**({"all": True} if all_ else {"where": "body > ''"}), ttl="1h", to=to)
    assert (job.how, job.counts.moved) == (("to b, " if to else "") + "ttl 1h", 2)
    there = other if to else queue
    first, second = await there.claim(2)
    assert first.expires_at == second.expires_at
    assert first.expires_at - first.history[-1].at == timedelta(hours=1)
    await second.release()
    await first.nack("once more")
    clock.advance("59m")
    again = await there.claim(2)
    assert {delivery.expires_at for delivery in again} == {first.expires_at}
    await there.release(again)
    clock.advance("1m")
    await there.maintain()
    assert await counts(there) == {"expired": 2}
    await there.expired.redrive(all=True)  # which ends it
    clock.advance("1d")
    assert [delivery.expires_at for delivery in await there.claim(9)] == [None, None]


@pytest.mark.parametrize("to", [None, "b"])
async def test_a_time_to_live_is_kept(to: str | None, broker: Any, clock: Clock) -> None:
    """What it is over for stays dead."""
    queue, other = await two(broker)
    for name, ttl in (("short", "1h"), ("long", "3h"), ("none", None)):
        await queue.send(name, id=name, ttl=ttl)
    await queue.poison(await queue.claim(9))
    clock.advance("2h")
    plan = await queue.dlq.redrive(all=True, ttl="keep", dry_run=True)
    assert numbers(plan) == (3, 1, 0, 0, 0)
    job = await queue.dlq.redrive(all=True, ttl="keep", to=to)
    assert job.counts == RedriveCounts(eligible=3, moved=2, expired=1)
    assert await counts(queue) == ({"dead": 1} if to else {"ready": 2, "dead": 1})
    there = other if to else queue
    clock.advance("1h")
    await there.maintain()
    assert (await there.expired.browse())[0].id == "long"
    assert await ids(there) == ["none"]


@pytest.mark.parametrize("terms", [{"all": True}, {"where": "true"}, {"all": True, "to": "b"}])
async def test_a_time_to_live_is_over_at_its_millisecond(
    terms: dict[str, Any], broker: Any, clock: Clock
) -> None:
    queue, _ = await two(broker)
    await queue.send("x", ttl="1h")
    await queue.poison(await queue.claim())
    clock.advance("1h")
    job = await queue.dlq.redrive(ttl="keep", **terms)
    assert job.counts == RedriveCounts(eligible=1, expired=1)


async def test_the_time_to_live_of_an_earlier_redrive_is_kept(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bury(queue, ["x"])
    await queue.dlq.redrive(all=True, ttl="1h")
    clock.advance("30m")
    await queue.poison(await queue.claim())
    assert (await queue.dlq.redrive(all=True, ttl="keep")).counts.moved == 1
    clock.advance("29m")
    assert (await queue.stats()).ready == 1
    clock.advance("1m")
    await queue.maintain()
    assert await counts(queue) == {"expired": 1}


async def test_a_time_to_live_of_a_millisecond(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bury(queue, ["x"])
    await queue.dlq.redrive(all=True, ttl=0.001)
    clock.advance(0.001)
    await queue.maintain()
    assert await counts(queue) == {"expired": 1}


async def test_a_redrive_that_an_earlier_version_began(broker: Any, raw: Any) -> None:
    """It says nothing of a time to live, so the messages have none."""
    queue = broker.queue("a")
    await queue.send("x", ttl="1h")
    await queue.poison(await queue.claim())
    job = await queue.dlq.redrive(where="true", detach=True)
    asked = json.loads(raw.hget("rq:{a}:redrives", job.id))
    del asked["ttl"], asked["how"], asked["to"]
    raw.hset("rq:{a}:redrives", job.id, json.dumps(asked))
    await queue.maintain()
    assert (await one(queue)).expires_at is None


async def test_a_detached_redrive_has_a_time_to_live(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bury(queue, ["x"])
    await queue.dlq.redrive(all=True, ttl="1h", detach=True)
    await queue.maintain()
    clock.advance("1h")
    await queue.maintain()
    assert await counts(queue) == {"expired": 1}


async def test_an_undo_ends_the_time_to_live(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bury(queue, ["x"])
    job = await queue.dlq.redrive(all=True, ttl="1h")
    await job.undo()
    clock.advance("2h")
    await queue.maintain()
    assert await counts(queue) == {"dead": 1}
    assert (await queue.dlq.redrive(all=True, ttl="keep")).counts.moved == 1


@pytest.mark.parametrize("ttl", [None, "3h"])
async def test_an_undo_gives_back_the_time_to_live_of_an_earlier_redrive(
    ttl: str | None, broker: Any, clock: Clock
) -> None:
    queue = broker.queue("a")
    await bury(queue, ["x"])
    await queue.dlq.redrive(all=True, ttl="1h")
    await queue.poison(await queue.claim())
    before = await queue.dlq.browse()
    await (await queue.dlq.redrive(all=True, ttl=ttl)).undo()
    after_it = await queue.dlq.browse()
    assert [letter.expires_at for letter in after_it] == [letter.expires_at for letter in before]
    assert (await queue.dlq.redrive(all=True, ttl="keep")).counts.moved == 1
    clock.advance("1h")
    await queue.maintain()
    assert await counts(queue) == {"expired": 1}


async def test_the_time_to_live_of_a_redrive_that_was_undone_is_not_the_next_ones(
    broker: Any, clock: Clock, raw: Any
) -> None:
    """I7."""
    queue = broker.queue("a")
    await bury(queue, ["x"])
    await (await queue.dlq.redrive(all=True, ttl="1h")).undo()
    audit(raw, "a")
    await queue.dlq.redrive(all=True)
    clock.advance("2h")
    assert await bodies(queue) == ["x"]


async def test_moved_and_copied_with_the_time_to_live_that_a_redrive_gave(broker: Any, clock: Clock) -> None:
    queue, other = await two(broker)
    await bury(queue, ["x", "y"])
    await queue.dlq.redrive(all=True, ttl="1h")
    assert await queue.select(limit=1).copy(other) == 1
    assert await queue.select(all=True).move(broker.queue("b")) == 1
    copied, moved = await other.claim(9)
    assert (copied.body, copied.expires_at, moved.body) == ("x", moved.expires_at, "y")
    await other.release([copied, moved])
    clock.advance("1h")
    assert await ids(other) == []
    assert await counts(other) == {"expired": 2}


# wrong arguments


@each_row_afresh(
    "wrong, why",
    [
        ({"to": "b", "canary": 5}, "not counted in another queue"),
        ({"to": "b", "rate": 5, "min_success": 0.5}, "not counted in another queue"),
        ({"to": "b", "detach": True}, "detach leaves the redrive to other processes, which cannot do `to`"),
        ({"edit": str, "detach": True}, "which cannot do `edit`"),
        ({"edit": "str"}, "pass a plain function"),
        ({"create": True}, "pass both"),
        ({"to": 5}, "is not a queue of"),
    ],
)
async def test_what_does_not_go_together(wrong: dict[str, Any], why: str, broker: Any) -> None:
    queue, _ = await two(broker)
    await bury(queue, ["x"])
    with pytest.raises(InvalidInput, match=why):
        await queue.dlq.redrive(all=True, **wrong)
    assert await counts(queue) == {"dead": 1}


async def test_an_edit_that_awaits(broker: Any) -> None:
    async def edit(body: Any) -> Any:
        return body

    with pytest.raises(InvalidInput, match="pass a plain function"):
        await broker.queue("a").dlq.redrive(all=True, edit=edit)


@each_row_afresh("ttl", [0, -1, "soon", "kept", float("nan")])
async def test_a_wrong_time_to_live(ttl: Any, broker: Any) -> None:
    with pytest.raises(InvalidDuration, match="ttl"):
        await broker.queue("a").dlq.redrive(all=True, ttl=ttl)
