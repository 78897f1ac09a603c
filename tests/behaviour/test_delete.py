"""Deleting a queue: refused while anything is in it, unless everything is to go; nothing is left behind."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import rq_dlq
from rq_dlq import (
    InvalidInput,
    LeaseLost,
    PolicyError,
    RedeliveryPolicy,
    SharedDeadLetterStrategy,
)
from rq_dlq._work import delete, jobs
from tests.behaviour.faults import lose_replies, meanwhile
from tests.behaviour.helpers import bodies, bring_to, bury, counts, one
from tests.behaviour.stepping import alone
from tests.conftest import Clock
from tests.verbs.scene import set_up

COMMITTED = 2  # messages of a job that is committed, in the scene
STATES = ("ready", "scheduled", "leased", "dead", "expired")
MESSAGES = "rq:{a}:messages"
LOST = SharedDeadLetterStrategy("LOST")


def left_of(raw: Any, home: str) -> set[bytes]:
    """The keys of a queue that do not expire by themselves."""
    return {key for key in raw.keys("*") if b"{%s}" % home.encode() in key and raw.pttl(key) < 0}


async def test_an_empty_queue_leaves_nothing(broker: Any, raw: Any) -> None:
    queue = broker.queue("a", outcomes=100, redelivery=RedeliveryPolicy())
    await queue.send("x")
    await (await one(queue)).ack()
    await queue.pause()
    assert len(left_of(raw, "a")) > 1
    assert await queue.delete() == 0
    assert left_of(raw, "a") == set()
    assert await broker.queues() == []
    assert await queue.delete() == 0
    again = broker.queue("a")
    assert (await again.settings()).redelivery == (await broker.queue("b").settings()).redelivery


@pytest.mark.parametrize("state", STATES)
async def test_what_is_in_it(state: str, broker: Any, raw: Any, clock: Clock) -> None:
    """It is refused, with the counts and what to do; told to, everything goes and is reported."""
    queue = broker.queue("a")
    await bring_to(state, queue, clock)
    with pytest.raises(InvalidInput, match=rf"not empty: 1 {state}\. Drain .* `rq-dlq queue rm a --all`"):
        await queue.delete()
    assert await counts(queue) == {state: 1}
    assert await queue.delete(everything=True) == 1
    assert left_of(raw, "a") == set()
    assert await broker.queues() == []


async def test_everything_of_a_queue_in_every_state(broker: Any, raw: Any, clock: Clock) -> None:
    """Also what a job committed, which was moved into it first."""
    scene = await set_up(broker, clock)
    found = sum((await counts(scene.queue)).values())
    with pytest.raises(InvalidInput, match="1 committed lists of jobs"):
        await scene.queue.delete()
    assert await scene.queue.delete(everything=True) == found + COMMITTED
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
        stage = jobs.Stage(core.keys, "job", "task")
        await broker._run(stage.add([f"{core.name}1", core.codec.packer(4, {})("staged")]))
        lists[core.name] = stage.counts
    steps = jobs.commit(cores, "job", lists)
    await broker._run(_until_committed(steps))
    assert await first.delete(everything=True) == 1
    assert left_of(raw, "a") == set()
    assert raw.zcard("rq:{b}:committed") == 1


def _until_committed(steps: Any) -> Any:
    """The steps up to the commit in the first queue: the committer dies there."""
    reply: Any = None
    while True:
        step: Any = steps.send(reply)
        reply = yield step  # pyright: ignore[reportUnknownVariableType]
        if getattr(step, "script", "") == "commit_job":
            return


async def test_dead_letters_are_deleted_with_their_queue_only(broker: Any) -> None:
    await broker.policies.set("a", dead_letter=LOST)
    await bury(broker.queue("a"), ["x"])
    await bury(broker.queue("b"), ["x"])
    for name in ("LOST", "DLQ.b", "EXP.b"):
        with pytest.raises(InvalidInput, match=f"cannot delete '{name}'"):
            await broker.queue(name).delete(everything=True)
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
        assert sync_broker.queue("a").delete(everything=True) == 1
        assert await consumer.claim() == []
        assert sync_broker.queues() == []
        await send(second)
        assert sync_broker.queues() == ["a"]
        assert raw.hget("rq:{a}:settings", "max_in_flight") == b"1"
        await (await one(consumer)).ack()


async def test_a_session_and_a_job_register_it_again(broker: Any, sync_broker: rq_dlq.Broker) -> None:
    queue = broker.queue("a")
    async with queue.session() as session:
        await session.send(queue, "x")
    assert sync_broker.queue("a").delete(everything=True) == 1
    async with queue.session() as session:
        await session.send(queue, "x")
    assert sync_broker.queues() == ["a"]
    assert sync_broker.queue("a").delete(everything=True) == 1
    stage = jobs.Stage(queue._core.keys, "job", "task")
    await broker._run(stage.add(["1", queue._core.codec.packer(4, {})("staged")]))
    await broker._run(jobs.commit([queue._core], "job", {"a": stage.counts}))
    assert sync_broker.queues() == ["a"]


async def test_a_lost_reply_deletes_nothing_that_was_sent_since(
    broker: Any, sync_broker: rq_dlq.Broker, raw: Any
) -> None:
    """I12: the repetition finds that the call was done."""
    queue = broker.queue("a")
    await queue.send("x")
    lost = await lose_replies(broker, "delete")
    meanwhile(lost, lambda: sync_broker.queue("a").send("y", id="y") if not raw.exists(MESSAGES) else None)
    assert await queue.delete(everything=True) == 1
    assert lost.runs > 1
    assert await broker.queues() == ["a"]
    assert await bodies(queue) == ["y"]


async def test_a_name_that_was_used_meanwhile_stays(
    broker: Any, sync_broker: rq_dlq.Broker, raw: Any
) -> None:
    """A producer sends between the removal of the keys and that of the name."""
    queue = sync_broker.queue("a")
    queue.send("x")
    steps: Any = delete(queue._core, everything=True)
    reply: Any = None
    try:
        while True:
            step: Any = steps.send(reply)
            reply = sync_broker._connected().run(alone(step))
            if getattr(step, "script", "") == "delete":
                raw.hset("rq:{a}:counters", "sent", 0)
    except StopIteration:
        pass
    assert await broker.queues() == ["a"]
    raw.delete("rq:{a}:counters")


# A name that a policy wants


async def test_a_name_that_was_drained_before_the_policy(broker: Any) -> None:
    """An empty queue gives way."""
    for used in (False, True):
        name = f"LOST{used}"
        early = broker.queue(name)
        if used:
            await early.send("x")
            await (await one(early)).ack()
        assert await early.claim() == []
        await broker.policies.set("a", dead_letter=SharedDeadLetterStrategy(name))
        assert name not in await broker.queues()
        await bury(broker.queue("a"), [name])
        assert name in await bodies(broker.queue(name))


async def test_a_name_that_a_prefix_makes(broker: Any) -> None:
    assert await broker.queue("dead.a").claim() == []
    await broker.queue("a").open()
    await broker.policies.set("#", dead_letter={"prefix": "dead."})
    await bury(broker.queue("a"), ["x"])
    assert await bodies(broker.queue("dead.a")) == ["x"]


async def test_an_entry_that_was_away_for_a_moment(broker: Any, sync_broker: rq_dlq.Broker) -> None:
    """A consumer that started then has taken the name."""
    await broker.policies.set("#", dead_letter=LOST)
    await bury(broker.queue("a"), ["x"])
    await broker.policies.remove("#")
    assert sync_broker.queue("LOST").claim() == []
    assert sync_broker.queues() == ["LOST", "a"]
    await broker.policies.set("#", dead_letter=LOST)
    assert await broker.queues() == ["a"]
    assert await bodies(broker.queue("LOST")) == ["x"]


@pytest.mark.parametrize("state", STATES)
async def test_a_queue_that_is_not_empty_keeps_its_name(state: str, broker: Any, clock: Clock) -> None:
    await bring_to(state, broker.queue("LOST"), clock)
    with pytest.raises(PolicyError, match=r"'LOST' is a queue of its own: .* `rq-dlq queue rm LOST`"):
        await broker.policies.set("a", dead_letter=LOST)
    assert await counts(broker.queue("LOST")) == {state: 1}
    assert (await broker.policies.read()).entries == {}


async def test_a_name_that_a_program_declares(broker: Any, caplog: pytest.LogCaptureFixture) -> None:
    """What was only claimed from gives way; what has settings or messages of its own does not."""
    assert await broker.queue("LOST").claim() == []
    await bury(broker.queue("a", dead_letter=LOST), ["x"])
    assert await bodies(broker.queue("LOST")) == ["x"]
    await broker.queue("own", redelivery=RedeliveryPolicy()).open()
    with pytest.raises(PolicyError, match="'own' is a queue of its own"):
        await broker.queue("b", dead_letter=SharedDeadLetterStrategy("own")).send("x")
    with caplog.at_level(logging.WARNING, "rq_dlq"):
        assert "own" in await broker.queues()
