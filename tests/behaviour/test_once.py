"""A call that is repeated is one call, whatever consumers did with its messages between the tries (I12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from redis.exceptions import NoScriptError

import rq_dlq
from rq_dlq import BrokerUnavailable, KnownId, Message
from rq_dlq._keys import QueueKeys
from rq_dlq.core.jobs import jobs
from rq_dlq.core.steps.senders import Senders
from tests.behaviour.batches.test_jobs import commit, stage
from tests.behaviour.faults import acked, change_talk, lose_calls, lose_replies, meanwhile
from tests.behaviour.helpers import AT_ONCE, after, bury, counts, ids
from tests.tables import each_row_afresh

SENDS = 200


def registers(raw: Any, family: str = "a") -> list[bytes]:
    """The keys of the senders of a queue."""
    return list(raw.keys(f"rq:{{{family}}}:sender:*"))


async def test_a_send_is_one_send_though_it_was_acked_meanwhile(
    broker: Any, sync_broker: rq_dlq.Broker
) -> None:
    queue, taken = broker.queue("a"), list[str]()
    lost = await lose_replies(broker, "send", times=0)
    meanwhile(lost, lambda: taken.extend(acked(sync_broker.queue("a"))))
    sent = []
    for number in range(SENDS):
        lost.left = 1
        sent.append(await queue.send(number))
    assert (lost.runs, taken) == (2 * SENDS, sent)
    assert (await queue.stats()).totals["sent"] == SENDS


async def test_a_repeated_send_says_what_the_lost_reply_said(broker: Any) -> None:
    """New messages are not known because the first try added them."""
    queue = broker.queue("a")
    lost = await lose_replies(broker, "send", times=0)
    for known in (), (2,), (0, 7, 249):
        await queue.purge(all=True)
        await queue.send_many([Message(body=1, id=str(n)) for n in known])
        lost.left = 1
        batch = [Message(body=2, id=str(n)) for n in range(250)]
        if not known:
            assert len(await queue.send_many(batch, on_duplicate="raise")) == 250
        else:
            with pytest.raises(KnownId) as raised:
                await queue.send_many(batch, on_duplicate="raise")
            assert raised.value.ids == tuple(map(str, known))
    assert lost.left == 0


@pytest.mark.parametrize("times", [1, 2])
async def test_a_batch_of_sends_is_one_batch(times: int, broker: Any, sync_broker: rq_dlq.Broker) -> None:
    """More than a script, and more than a round trip."""
    queue, taken = broker.queue("a"), list[str]()
    lost = await lose_replies(broker, "send", times)
    meanwhile(lost, lambda: taken.extend(acked(sync_broker.queue("a"))))
    sent = await queue.send_many(range(1_300))
    assert sorted(taken) == sorted(sent)
    assert (await queue.stats()).totals["sent"] == 1_300


@each_row_afresh("done", [[0], [0, 1], [3], [1, 3]])
async def test_of_a_batch_that_was_done_in_part_the_rest_is_done(
    done: list[int], broker: Any, sync_broker: rq_dlq.Broker
) -> None:
    """Whichever scripts of it were carried out before the connection broke, by one node or by another."""
    queue, taken = broker.queue("a"), list[str]()
    await queue.send("before")
    await ids(queue)
    failed: list[int] = []

    def cut(commands: list[Any]) -> list[Any]:
        if failed or len(commands) < 4:
            return commands
        failed.append(1)
        return [commands[n] for n in done]

    def answered(replies: list[Any]) -> list[Any]:
        if failed == [1]:
            failed.append(2)
            taken.extend(acked(sync_broker.queue("a")))
            raise ConnectionResetError
        return replies

    await change_talk(broker, cut, answered)
    sent = await queue.send_many(range(1_000))
    taken += await ids(queue)
    assert sorted(taken) == sorted(sent)


async def test_what_a_batch_has_to_load_comes_after_the_rest_of_it(broker: Any) -> None:
    """Another client may have loaded a script that was not there for the first call of a batch."""
    queue = broker.queue("a")
    await queue.send("before")
    await ids(queue)
    refused: list[int] = []

    def without_the_first(commands: list[Any]) -> list[Any]:
        if refused or len(commands) < 4:
            return commands
        refused.append(1)
        return commands[1:]

    def not_there(replies: list[Any]) -> list[Any]:
        if refused == [1]:
            refused.append(2)
            return [NoScriptError("No matching script"), *replies]
        return replies

    await change_talk(broker, without_the_first, not_there)
    sent = await queue.send_many(range(1_000))
    assert refused == [1, 2]
    assert sorted(await ids(queue)) == sorted(sent)


async def test_a_copy_is_one_copy(broker: Any, sync_broker: rq_dlq.Broker) -> None:
    queue, other, taken = broker.queue("a"), broker.queue("b"), list[str]()
    await other.open()
    sent = await queue.send_many(range(5))
    lost = await lose_replies(broker, "transfer")
    meanwhile(lost, lambda: taken.extend(acked(sync_broker.queue("b"))))
    assert await queue.select(all=True).copy(other) == 5
    assert (lost.runs, taken) == (2, sent)
    assert await counts(other) == {}


async def test_a_redrive_is_one_redrive_though_they_died_at_once(
    broker: Any, sync_broker: rq_dlq.Broker
) -> None:
    queue = broker.queue("a")
    dead = await bury(queue, range(10))
    lost = await lose_replies(broker, "step_redrive")
    meanwhile(lost, lambda: [delivery.poison("again") for delivery in sync_broker.queue("a").claim(100)])
    assert (await queue.dlq.redrive(ids=dead[:3])).counts.moved == 3
    assert lost.runs == 2
    assert await counts(queue) == {"dead": 10}
    assert sorted(letter.redriven for letter in await queue.dlq.browse()) == [0] * 7 + [1] * 3


@pytest.mark.parametrize("verb", ["redrive", "purge"])
async def test_a_repeated_chunk_goes_on_where_it_would_have(verb: str, broker: Any) -> None:
    """The note of a call on a range says where the range goes on, too."""
    queue = broker.queue("a")
    await bury(queue, range(60))
    lost = await lose_replies(broker, verb)
    dlq = queue.dlq.select(all=True)
    assert await (dlq.redrive() if verb == "redrive" else dlq.purge()) == 60
    assert lost.runs == 4  # three chunks, and the first of them again
    assert await counts(queue) == ({"ready": 60} if verb == "redrive" else {})


async def test_what_was_delivered_by_hand_and_failed_waits(broker: Any, sync_broker: rq_dlq.Broker) -> None:
    """I5: it is redelivered when its policy says so, not when a repetition arrives."""
    queue = broker.queue("a", redelivery=after("1h", most=9))
    await queue.send_many(range(3), delay="1h")
    lost = await lose_replies(broker, "deliver_now")
    meanwhile(lost, lambda: [delivery.nack("no") for delivery in sync_broker.queue("a").claim(100)])
    assert await queue.select(places=["scheduled"]).deliver_now() == 3
    assert await counts(queue) == {"scheduled": 3}


@pytest.mark.parametrize("times", [1, 3])
async def test_a_commit_is_one_commit(times: int, broker: Any, sync_broker: rq_dlq.Broker) -> None:
    """Repeated by the client, or by its user; at a time when nothing fences it but its own number."""
    queue, taken = broker.queue("a"), list[str]()
    lost = await lose_replies(broker, "commit", times)
    meanwhile(lost, lambda: taken.extend(acked(sync_broker.queue("a"))))
    session = queue.session()
    sent = await session.send(queue, "x")
    if times == 3:
        with pytest.raises(BrokerUnavailable) as failed:
            await session.commit()
        assert failed.value.indeterminate
    await session.commit()
    assert taken == [sent]
    assert await counts(queue) == {}


async def test_a_commit_that_never_arrived_is_made_by_the_next_one(broker: Any) -> None:
    """Its number is not taken for done because of what its broker did meanwhile."""
    queue = broker.queue("a")
    async with queue.session() as other:
        await other.send(queue, "before")
    session = queue.session()
    await session.send(queue, "x")
    await lose_calls(broker, "commit", times=3)
    with pytest.raises(BrokerUnavailable):
        await session.commit()
    for body in ("while", "it", "waits"):
        await queue.send(body)
        async with queue.session() as other:
            await other.send(queue, body)
    await session.commit()
    assert [message.body for message in await queue.select().browse()].count("x") == 1


async def test_a_job_is_written_once(broker: Any, sync_broker: rq_dlq.Broker) -> None:
    """Its commit is known by its name, and what was moved is no longer staged."""
    queue, taken = broker.queue("a"), list[str]()
    lists = await stage(broker, queue, "t", range(600))
    lost = await lose_replies(broker, "commit_job")
    assert await commit(broker, queue, lists)
    assert lost.runs == 2
    lost = await lose_replies(broker, "move_staged", times=2)
    meanwhile(lost, lambda: taken.extend(acked(sync_broker.queue("a"))))
    for attempt in lists:
        while await broker._run(jobs.move(queue._core.keys, "j", attempt)):
            pass
    assert sorted(taken) == sorted(f"t{n}" for n in range(600))
    assert await counts(queue) == {}


Change = Callable[[Any], Any]
BY_HAND: dict[str, Change] = {
    "dead_letter": lambda queue: queue.select(all=True).dead_letter(),
    "expire_now": lambda queue: queue.select(all=True).expire(),
    "deliver_now": lambda queue: queue.select(all=True).deliver_now(),
    "prioritize": lambda queue: queue.select(all=True).prioritize(9),
    "purge": lambda queue: queue.purge(all=True),
    "transfer": lambda queue: queue.select(all=True).move("b"),
    "redrive": lambda queue: queue.dlq.select(all=True).redrive(),
}


@each_row_afresh("verb", BY_HAND)
async def test_a_repetition_says_how_many(verb: str, broker: Any) -> None:
    queue = broker.queue("a")
    await broker.queue("b").open()
    if verb == "redrive":
        await bury(queue, range(3))
    else:
        await queue.send_many(range(3), delay="1h" if verb == "deliver_now" else None)
    lost = await lose_replies(broker, verb)
    assert await BY_HAND[verb](queue) == 3
    assert lost.runs >= 2


async def test_who_makes_one_call_after_the_other_leaves_one_register(broker: Any, raw: Any) -> None:
    """I13: it goes by itself, and everything else is gone with the messages."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    for number in range(20):
        await broker.queue("a").send(number)
        async with broker.queue("a").session() as session:
            await session.send(queue, number)
    assert await queue.purge(all=True) == 40
    (register,) = registers(raw)
    assert 3_500_000 < raw.pttl(register) <= 3_600_000


def test_a_sender_makes_one_call_at_a_time() -> None:
    senders, keys = Senders(), QueueKeys("rq", "a")
    first, second = senders.lend(keys), senders.lend(keys)
    assert first.keys != second.keys
    senders.take_back(first)
    assert senders.lend(QueueKeys("rq", "b")) is not first
    again = senders.lend(keys)
    assert (again is first, again.number) == (True, 2)


def test_a_forked_child_has_senders_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    senders, keys = Senders(), QueueKeys("rq", "a")
    senders.take_back(of_the_parent := senders.lend(keys))
    monkeypatch.setattr("rq_dlq.core.steps.senders.this_process", lambda: -1)
    assert senders.lend(keys).keys != of_the_parent.keys
