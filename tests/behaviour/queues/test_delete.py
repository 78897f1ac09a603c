"""Deleting a queue: refused while anything is in it, unless everything is to go; nothing is left behind."""

from __future__ import annotations

import logging
from functools import partial
from threading import Thread
from typing import Any

import pytest

import rq_dlq
from rq_dlq import InvalidInput, LeaseLost, RedeliveryPolicy, SharedDeadLetterStrategy
from rq_dlq.core.changing.calls import transfer
from rq_dlq.core.jobs import jobs
from rq_dlq.core.jobs.stage import Stage
from rq_dlq.core.sending import calls as sending_calls
from rq_dlq.values.failure import Cause
from tests.behaviour.faults import lose_replies, meanwhile
from tests.behaviour.helpers import bodies, bring_to, bury, counts, one
from tests.behaviour.stepping import alone
from tests.conftest import Clock
from tests.tables import each_row_afresh
from tests.verbs.scene import set_up

COMMITTED = 2  # messages of a job that is committed, in the scene
STATES = ("ready", "scheduled", "leased", "dead", "expired")
LOST = SharedDeadLetterStrategy("LOST")


def left_of(raw: Any, family: str) -> set[bytes]:
    """The keys of a queue that do not expire by themselves."""
    return {key for key in raw.keys("*") if b"{%s}" % family.encode() in key and raw.pttl(key) < 0}


async def test_an_empty_queue_leaves_nothing(broker: Any, raw: Any) -> None:
    queue = broker.queue("a", outcomes=100, redelivery=RedeliveryPolicy())
    await queue.send("x")
    await (await one(queue)).ack()
    await queue.pause()
    assert len(left_of(raw, "a")) > 1
    assert await queue.delete() == 0
    assert left_of(raw, "a") == set()
    assert raw.pttl("rq:{a}:audit") > 29 * 86_400_000  # 30 days, for whoever asks who deleted it
    assert await broker.queues() == []
    assert await queue.delete() == 0
    again = broker.queue("a")
    assert (await again.settings()).redelivery == (await broker.queue("b").settings()).redelivery


@each_row_afresh("state", STATES)
async def test_what_is_in_it(state: str, broker: Any, raw: Any, clock: Clock) -> None:
    """It is refused, with the counts and what to do; told to, everything goes and is reported."""
    queue = broker.queue("a")
    await bring_to(state, queue, clock)
    with pytest.raises(InvalidInput, match=rf"not empty: 1 {state}\. Drain .* `rq-dlq queue rm a --force`"):
        await queue.delete()
    assert await counts(queue) == {state: 1}
    assert await queue.delete(force=True) == 1
    assert left_of(raw, "a") == set()
    assert await broker.queues() == []


async def test_a_row_that_was_left_behind_is_no_message(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x")
    raw.zadd("rq:{a}:scheduled", {b"\x10gone": 1})
    with pytest.raises(InvalidInput, match=r"not empty: 1 ready, 1 scheduled\. Drain"):
        await queue.delete()
    assert await queue.delete(force=True) == 1


async def test_everything_of_a_queue_in_every_state(broker: Any, raw: Any, clock: Clock) -> None:
    """Also what a job committed, which was moved into it first."""
    scene = await set_up(broker, clock)
    found = sum((await counts(scene.queue)).values())
    with pytest.raises(InvalidInput, match="1 committed lists of jobs"):
        await scene.queue.delete()
    assert await scene.queue.delete(force=True) == found + COMMITTED
    assert left_of(raw, "a") == set()
    assert await broker.queues() == ["b"]
    with pytest.raises(LeaseLost):
        await scene.held[0].ack()


async def test_what_a_job_committed_for_another_queue_arrives(broker: Any, raw: Any) -> None:
    """The commit for the other queue is kept with the first one, so it is told before that is deleted."""
    first, other = broker.queue("a"), broker.queue("b")
    cores = [first._core, other._core]
    lists: dict[str, Any] = {}
    for core in cores:
        stage = Stage(core.keys, "job", "task")
        await broker._run(stage.add([f"{core.name}1", core.codec.packer(4, {})("staged")]))
        lists[core.name] = stage.counts
    steps = jobs.commit(cores, "job", lists)
    await broker._run(_until_committed(steps))
    assert await first.delete(force=True) == 1
    assert left_of(raw, "a") == set()
    assert raw.zcard("rq:{b}:committed") == 1


def _until_committed(steps: Any) -> Any:
    """The steps up to the commit in the first queue: the committer dies there."""
    reply: Any = None
    while True:
        step: Any = steps.send(reply)
        reply = yield step  # pyright: ignore[reportUnknownVariableType]
        if getattr(step, "verb", "") == "commit_job":
            return


async def test_dead_letters_are_deleted_with_their_queue_only(broker: Any) -> None:
    await broker.policies.set("a", dead_letter=LOST)
    await bury(broker.queue("a"), ["x"])
    await bury(broker.queue("b"), ["x"])
    for name in ("LOST", "DLQ.b", "EXP.b"):
        with pytest.raises(InvalidInput, match=f"cannot delete '{name}'"):
            await broker.queue(name).delete(force=True)
    assert await counts(broker.queue("b")) == {"dead": 1}


async def test_entries_of_operators_stay(broker: Any) -> None:
    await broker.policies.set("a", max_in_flight=7)
    queue = broker.queue("a", max_in_flight=3, outcomes=5)
    await queue.open()
    await queue.delete()
    assert (await broker.policies.read()).entries.keys() == {"a"}
    settings = await broker.policies.explain("a")
    assert (settings.max_in_flight, settings.outcomes) == (7, None)


async def test_who_opened_it_before_registers_it_again(
    broker: Any, sync_broker: rq_dlq.Broker, raw: Any
) -> None:
    """A producer and a consumer go on, with the settings that hold for it."""
    await broker.policies.set("a", max_in_flight=1)
    consumer, producer = broker.queue("a", lease="1h"), broker.queue("a")
    for send, first, second in ((producer.send, "x", "y"), (producer.send_many, ["x"], ["y"])):
        await send(first)
        assert await bodies(consumer) == ["x"]
        assert sync_broker.queue("a").delete(force=True) == 1
        assert await consumer.claim() == []
        assert sync_broker.queues() == []
        await send(second)
        assert sync_broker.queues() == ["a"]
        assert raw.hget("rq:{a}:settings", "max_in_flight") == b"1"
        await (await one(consumer)).ack()


async def test_what_was_not_told_of_the_deletion_sends_nothing(broker: Any, raw: Any) -> None:
    """It is told, opens the queue again, and repeats the call."""
    core = broker.queue("a")._core
    sender, items = core.client.senders.lend(core.keys), ["id", core.codec.packer(4, {})("x")]
    call = sending_calls.send(sender, delay=0, ttl=0, items=items, opening="of before")
    assert await broker._run(alone(call)) is None
    assert left_of(raw, "a") == set()


async def test_a_session_and_a_job_register_it_again(broker: Any, sync_broker: rq_dlq.Broker) -> None:
    queue = broker.queue("a")
    async with queue.session() as session:
        await session.send(queue, "x")
    assert sync_broker.queue("a").delete(force=True) == 1
    async with queue.session() as session:
        await session.send(queue, "x")
    assert sync_broker.queues() == ["a"]
    assert sync_broker.queue("a").delete(force=True) == 1
    stage = Stage(queue._core.keys, "job", "task")
    await broker._run(stage.add(["1", queue._core.codec.packer(4, {})("staged")]))
    await broker._run(jobs.commit([queue._core], "job", {"a": stage.counts}))
    assert sync_broker.queues() == ["a"]


async def test_a_lost_reply_deletes_nothing_that_was_sent_since(
    broker: Any, sync_broker: rq_dlq.Broker
) -> None:
    """I12: the repetition finds that the call was done."""
    queue = broker.queue("a")
    await queue.send("x")
    lost = await lose_replies(broker, "delete")
    meanwhile(lost, lambda: sync_broker.queue("a").send("y") if lost.left else None)
    assert await queue.delete(force=True) == 1
    assert lost.runs > 1
    assert await broker.queues() == ["a"]
    assert await bodies(queue) == ["y"]


async def test_a_move_beside_a_deletion_loses_nothing(broker: Any) -> None:
    """The messages stay where they are."""
    queue, other = broker.queue("{s}.a"), broker.queue("{s}.b")
    await queue.send("x", id="x")
    await other.send("y")
    verb = partial(transfer, place="ready", keep=False, by="me", cause=Cause.of("moved"))
    for opening, moved in (("of before", 0), (other._core.opening, 1)):
        sender = queue._core.client.senders.lend(queue._core.keys)
        assert await broker._run(alone(verb(sender, other._core.keys, ids=["x"], opening=opening))) == moved
        assert (await queue.stats()).ready == 1 - moved


async def test_a_declaration_is_written_again(broker: Any, sync_broker: rq_dlq.Broker) -> None:
    """A consumer that declares settings makes the queue anew, and its settings are in force again."""
    consumer = broker.queue("a", max_in_flight=7)
    assert await consumer.claim() == []
    assert sync_broker.queue("a").delete() == 0
    sync_broker.queue("a").send("x")
    assert (await broker.policies.explain("a")).max_in_flight is None
    assert await bodies(consumer) == ["x"]
    assert (await broker.policies.explain("a")).max_in_flight == 7


async def test_a_claim_makes_no_queue(broker: Any, raw: Any) -> None:
    for name in ("a", "DLQ.a"):
        assert await broker.queue(name).claim() == []
        assert await broker.queue(name).claim(wait=0.01) == []
    assert [key for key in raw.keys("rq:*") if raw.pttl(key) < 0] == []
    assert await broker.queues() == []


@pytest.mark.parametrize("deleted", [True, False])
def test_who_waits_is_woken(deleted: bool, sync_broker: rq_dlq.Broker) -> None:
    """By what is sent after the deletion, or first."""
    queue, found = sync_broker.queue("a"), list[Any]()
    if deleted:
        queue.open()
    waiting = Thread(target=lambda: found.extend(queue.claim(wait=60)))
    waiting.start()
    if deleted:
        assert sync_broker.queue("a").delete() == 0
    sync_broker.queue("a").send("x")
    waiting.join(30)
    assert [delivery.body for delivery in found] == ["x"]


def test_who_waits_gets_the_dead_letters_that_take_the_name(sync_broker: rq_dlq.Broker) -> None:
    consumer, found = sync_broker.queue("LOST"), list[Any]()
    consumer.open()
    waiting = Thread(target=lambda: found.extend(consumer.claim(wait=60)))
    waiting.start()
    sync_broker.policies.set("a", dead_letter=LOST)
    queue = sync_broker.queue("a")
    queue.send("x")
    queue.claim()[0].poison("boom")
    waiting.join(30)
    assert [delivery.body for delivery in found] == ["x"]


# A name that a policy wants


async def test_a_name_that_was_drained_before_the_policy(broker: Any) -> None:
    """Who only claims makes no queue."""
    for used in (False, True):
        name = f"LOST{used}"
        early = broker.queue(name)
        if used:
            await early.send("x")
            await (await one(early)).ack()
        assert await early.claim() == []
        await broker.policies.set("a", dead_letter=SharedDeadLetterStrategy(name))
        assert (name in await broker.queues()) is used
        await bury(broker.queue("a"), [name])
        assert name in await bodies(broker.queue(name))


async def test_a_name_that_a_prefix_makes(broker: Any) -> None:
    assert await broker.queue("dead.a").claim() == []
    await broker.queue("a").open()
    await broker.policies.set("#", dead_letter={"prefix": "dead."})
    await bury(broker.queue("a"), ["x"])
    assert await bodies(broker.queue("dead.a")) == ["x"]


async def test_an_entry_that_was_away_for_a_moment(broker: Any, sync_broker: rq_dlq.Broker) -> None:
    """A consumer that starts then does not take the name, and becomes one of dead letters."""
    await broker.policies.set("#", dead_letter=LOST)
    await bury(broker.queue("a"), ["x"])
    await broker.policies.remove("#")
    consumer = sync_broker.queue("LOST")
    assert consumer.claim() == []
    assert sync_broker.queues() == ["a"]
    await broker.policies.set("#", dead_letter=LOST)
    assert await broker.queues() == ["a"]
    assert [delivery.body for delivery in consumer.claim()] == ["x"]


@each_row_afresh("state", STATES)
async def test_a_queue_keeps_what_it_has_when_its_name_is_given(
    state: str, broker: Any, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    await bring_to(state, broker.queue("LOST"), clock)
    with caplog.at_level(logging.WARNING, "rq_dlq"):
        for name in ("a", "b"):
            await broker.queue(name).open()
            await broker.policies.set(name, dead_letter=LOST)
    assert caplog.messages == ["LOST is a queue, whose consumers also get what fails elsewhere now"]
    assert await counts(broker.queue("LOST")) == {state: 1}


async def test_a_queue_whose_name_is_given_stays_paused_and_remembers_acks(broker: Any) -> None:
    await broker.policies.set("LOST", dedup_window="10m")
    queue = broker.queue("LOST")
    await queue.send("x", id="m1")
    await (await one(queue)).ack()
    await queue.pause()
    await broker.queue("a").open()
    await broker.policies.set("a", dead_letter=LOST)
    assert not (await queue.send("x", id="m1")).new
    await queue.send("y")
    assert await queue.claim() == []
    await queue.resume()
    assert await bodies(queue) == ["y"]


async def test_a_name_that_a_program_declares(broker: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Who only claims makes no queue; one that has settings of its own shows the letters, too."""
    await broker.queue("LOST").claim()
    await bury(broker.queue("a", dead_letter=LOST), ["x"])
    assert await bodies(broker.queue("LOST")) == ["x"]
    own = broker.queue("own", redelivery=RedeliveryPolicy())
    await own.open()
    with caplog.at_level(logging.WARNING, "rq_dlq"):
        await bury(broker.queue("b", dead_letter=SharedDeadLetterStrategy("own")), ["y"])
    assert caplog.messages == ["own is a queue, whose consumers also get what fails elsewhere now"]
    await own.send("z")
    assert sorted(await bodies(own)) == ["y", "z"]
    assert "own" in await broker.queues()
