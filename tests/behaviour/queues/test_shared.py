"""One name over the dead letters of many queues: what a claim asks them, and in which order letters come."""

from __future__ import annotations

import random
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

import rq_dlq
from rq_dlq import BrokerRefused, ExpiryPolicy, InvalidInput, SharedDeadLetterStrategy
from rq_dlq.core.batches import batches
from rq_dlq.core.claiming import claim
from rq_dlq.core.steps.call import Call, Command
from rq_dlq.core.steps.step import Pipeline, Wait
from tests.behaviour.helpers import bodies, bury, one
from tests.conftest import Clock
from tests.tables import each_row_afresh

LOST = SharedDeadLetterStrategy("LOST")
MANY, EACH = 250, 100  # queues, and how many of them a claim that waits looks at each second


def server_time() -> int:
    """The time of the server, which is on this machine; milliseconds."""
    return int(datetime.now(UTC).timestamp() * 1000)


async def died_in_turn(broker: Any, clock: Clock, queues: int, letters: int) -> list[int]:
    """Letters that died one after the other, each in a queue drawn at random; their bodies in that order."""
    await broker.policies.set("#", dead_letter=LOST)
    draw = random.Random(7)
    for number in range(letters):
        await bury(broker.queue(f"q{draw.randrange(queues)}"), [number])
        clock.advance("1s")
    return list(range(letters))


@pytest.mark.parametrize("count", [1, 4, 100])
async def test_in_the_order_of_their_deaths(count: int, broker: Any, clock: Clock) -> None:
    expected = await died_in_turn(broker, clock, queues=5, letters=24)
    lost, found = broker.queue("LOST"), list[int]()
    while claimed := await bodies(lost, count):
        assert len(claimed) == min(count, len(expected) - len(found))
        found += claimed
    assert found == expected


async def test_a_letter_that_comes_back_is_the_oldest_again(broker: Any, clock: Clock) -> None:
    """Also where there are more queues than a claim looks at."""
    await died_in_turn(broker, clock, queues=60, letters=60)
    lost = broker.queue("LOST")
    first, second = await lost.claim(2)
    assert (first.body, second.body) == (0, 1)
    await second.release()
    await first.release()
    assert await bodies(lost, 3) == [0, 1, 2]


@pytest.mark.parametrize("count", [1, 3])
async def test_queues_whose_letters_rest_are_in_nobodys_way(count: int, broker: Any, clock: Clock) -> None:
    await died_in_turn(broker, clock, queues=3, letters=12)
    lost = broker.queue("LOST")
    failing = await lost.claim(6)
    assert [delivery.body for delivery in failing] == [*range(6)]
    for delivery in failing:
        await delivery.nack(delay="1h")
    found: list[int] = []
    for _ in range(6 // count + 1):
        found += await bodies(lost, count)
    assert sorted(found) == [*range(6, 12)]
    clock.advance("2h")  # and the leases run out
    assert sorted(await bodies(lost, 100)) == [*range(12)]


async def test_more_queues_than_one_claim_takes_from(broker: Any, clock: Clock) -> None:
    """It returns a hundred at least, and none before an older one."""
    await broker.policies.set("#", dead_letter=LOST)
    for number in range(130):
        await bury(broker.queue(f"q{number}"), [number])
        clock.advance("1s")
    await bury(broker.queue("q3"), range(130, 150))
    lost, found = broker.queue("LOST"), list[int]()
    while claimed := await bodies(lost):
        assert len(claimed) >= min(100, 150 - len(found))
        found += claimed
    assert found == list(range(150))


async def test_what_others_took_meanwhile_is_passed(broker: Any, clock: Clock) -> None:
    expected = await died_in_turn(broker, clock, queues=60, letters=40)
    first, other = broker.queue("LOST"), broker.queue("LOST")
    assert await bodies(first, 2) == expected[:2]
    assert await bodies(other, 20) == expected[2:22]
    assert await bodies(first, 2) == expected[22:24]
    assert await bodies(other) == expected[24:]
    assert await bodies(first) == []


async def test_what_a_dead_consumer_held_comes_back(broker: Any, clock: Clock) -> None:
    """I15: without maintenance."""
    clock.set(server_time() - 3_600_000)  # a look asks the server's own clock
    await broker.policies.set("#", dead_letter=LOST)
    await bury(broker.queue("a"), ["x"])
    first, other = broker.queue("LOST"), broker.queue("LOST")
    for lost in (first, other, first):
        assert (await one(lost, lease="10s")).body == "x"
        clock.advance("10s")


async def test_many_leases_that_ran_out_take_nobodys_place(broker: Any, clock: Clock) -> None:
    """A consumer died with letters of as many queues as one claim takes from."""
    clock.set(server_time() - 3_600_000)
    await broker.policies.set("#", dead_letter=LOST)
    for number in range(101):
        await bury(broker.queue(f"q{number}"), [number])
    held = await broker.queue("LOST").claim(1_000, lease="10s")
    clock.advance("10s")
    assert len(await bodies(broker.queue("LOST"))) >= len(held) >= 100


async def test_what_expires_comes_without_maintenance(broker: Any, clock: Clock) -> None:
    clock.set(server_time() - 3_600_000)
    await broker.policies.set("#", expiry=ExpiryPolicy(name="LATE"))
    await broker.queue("a").send("x", ttl="1s")
    clock.advance("1s")
    assert await bodies(broker.queue("LATE")) == ["x"]


@pytest.mark.parametrize("key", ["leases", "states"])
async def test_a_damaged_queue_is_in_nobodys_way(key: str, broker: Any, clock: Clock, raw: Any) -> None:
    """Neither one that cannot be looked at nor one that cannot be claimed from."""
    expected = await died_in_turn(broker, clock, queues=5, letters=24)
    damaged = (await broker.queue("LOST").dlq.browse())[0].original_queue
    theirs = {letter.body for letter in await broker.queue(damaged).select(places=["dead"]).browse()}
    name = f"rq:{{{damaged}}}:{key}"
    raw.rename(name, "saved") if raw.exists(name) else None
    raw.set(name, "damaged")
    lost, found = broker.queue("LOST"), list[int]()
    while len(found) + len(theirs) < len(expected):
        found += await bodies(lost, 3)
    with pytest.raises(BrokerRefused, match="a key of the queue holds something else"):
        await lost.claim()
    assert found == [body for body in expected if body not in theirs]
    raw.delete(name)
    raw.rename("saved", name) if raw.exists("saved") else None
    assert {*await bodies(lost)} == theirs


async def test_a_name_is_given_and_taken_back(broker: Any) -> None:
    """A claim that does not wait sees both at once."""
    await broker.policies.set("a", dead_letter=LOST)
    for name in ("a", "b"):
        await bury(broker.queue(name), [f"{name}1", f"{name}2"])
    lost = broker.queue("LOST")
    assert (await one(lost)).body == "a1"
    await broker.policies.set("b", dead_letter=LOST)
    assert sorted(await bodies(lost) + await bodies(lost)) == ["a2", "b1", "b2"]
    await broker.policies.remove("b")
    await bury(broker.queue("b"), ["b3"])
    assert await bodies(lost) == []


# A name that changes hands


async def given_back(broker: Any) -> Any:
    """An object that knows LOST as a shared name; by now it is a queue's, with a message."""
    await broker.policies.set("a", dead_letter=LOST)
    await bury(broker.queue("a"), ["old"])
    lost = broker.queue("LOST")
    assert await bodies(lost) == ["old"]
    await broker.policies.remove("a")
    await broker.queue("LOST").send("new")
    return lost


async def looked_at(broker: Any) -> Any:
    """An object that has asked about LOST before that became a shared name."""
    lost = broker.queue("LOST")
    assert (await lost.stats()).ready == 0
    return lost


async def opened(broker: Any) -> Any:
    """An object that has opened the queue LOST, which was deleted since."""
    lost = broker.queue("LOST")
    await bury(lost, ["own"])
    await lost.purge(all=True)
    await lost.dlq.purge(all=True)
    await broker.queue("LOST").delete()
    return lost


async def taken(how: Any, broker: Any) -> Any:
    """An object that knows LOST otherwise; by now it is a shared name, with a letter."""
    lost = await how(broker)
    await broker.policies.set("a", dead_letter=LOST)
    await bury(broker.queue("a"), ["letter"])
    return lost


@pytest.mark.parametrize("wait", [None, "1m"])
async def test_who_drained_a_shared_name_finds_the_queue_that_has_it_now(
    wait: str | None, broker: Any
) -> None:
    lost = await given_back(broker)
    assert [delivery.body for delivery in await lost.claim(9, wait=wait)] == ["new"]


def test_who_waits_for_letters_finds_the_queue_that_has_the_name_now(
    sync_broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rq_dlq.core.claiming.from_view.SECOND", 0)  # no second passes here between two looks
    sync_broker.policies.set("a", dead_letter=LOST)
    queue, lost = sync_broker.queue("a"), sync_broker.queue("LOST")
    queue.open()
    assert lost.claim() == []
    steps = claim.claim(lost._core, lost._deliveries, wait=60_000)
    looks(sync_broker, steps, 3)
    sync_broker.policies.remove("a")
    sync_broker.queue("LOST").send("new")
    with pytest.raises(StopIteration) as end:
        perform(sync_broker, steps, 1_000.0)
    assert [delivery.body for delivery in end.value.value] == ["new"]


OF_A_QUEUE: dict[str, Any] = {
    "send": lambda lost: lost.send("x"),
    "send_many": lambda lost: lost.send_many(["x"]),
    "stats": lambda lost: lost.stats(),
    "peek": lambda lost: lost.peek(),
    "select": lambda lost: lost.select(places=["ready"]).count(),
    "purge": lambda lost: lost.purge(all=True),
    "pause": lambda lost: lost.pause(),
    "schedule": lambda lost: lost.schedule("daily", "x", every="1d"),
    "reset": lambda lost: lost.reset(),
    "delete": lambda lost: lost.delete(force=True),
    "open": lambda lost: lost.open(),
    "claim_batch": lambda lost: lost._run(batches.claim_batch(lost._core, "b", limit=1, lease=1_000)),
}


@each_row_afresh("verb", OF_A_QUEUE)
async def test_an_object_that_knew_a_shared_name_is_one_of_the_queue_that_has_it_now(
    verb: str, broker: Any
) -> None:
    lost = await given_back(broker)
    await OF_A_QUEUE[verb](lost)
    assert not lost._core.view
    left = {"send": 2, "send_many": 2, "purge": 0, "delete": 0, "claim_batch": 0}
    assert (await lost.stats()).ready == left.get(verb, 1)


async def test_a_session_that_knew_a_shared_name_sends_to_the_queue_that_has_it_now(broker: Any) -> None:
    lost = await given_back(broker)
    async with broker.queue("a").session() as session:
        await session.send(lost, "x")
    assert await bodies(broker.queue("LOST")) == ["new", "x"]


async def drained(lost: Any) -> None:
    await lost.release(await lost.claim())


OF_LETTERS: dict[str, Any] = {
    "stats": lambda lost: lost.stats(),
    "peek": lambda lost: lost.peek(),
    "dlq": lambda lost: lost.dlq.browse(),
    "claim": drained,
    "jobs": lambda lost: lost.dlq.jobs(),
}


@each_row_afresh("before", [looked_at, opened])
@each_row_afresh("verb", OF_LETTERS)
async def test_an_object_that_knew_a_queue_shows_the_letters_that_have_its_name_now(
    verb: str, before: Any, broker: Any
) -> None:
    lost = await taken(before, broker)
    await OF_LETTERS[verb](lost)
    assert (await lost.stats()).dead == 1
    assert [letter.body for letter in await lost.dlq.browse()] == ["letter"]
    with pytest.raises(InvalidInput, match="has only the dead letters of other queues"):
        await lost.pause()
    await lost.send("x")
    assert (await lost.stats()).ready == 1
    assert (await lost.dlq.redrive(all=True)).counts.moved == 1
    assert (await broker.queue("a").stats()).ready == 1


# What it costs


@pytest.fixture
def many(sync_broker: rq_dlq.Broker, raw: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """More queues of one shared name than are looked at each second, none with letters."""
    monkeypatch.setattr("rq_dlq.core.claiming.from_view.PER_SECOND", EACH)
    clock.set(server_time())  # nothing is overdue by the server's own clock
    sync_broker.policies.set("#", dead_letter=LOST)
    families = [f"q{number:04}" for number in range(MANY)]
    raw.sadd("rq:queues", *families)
    pipeline = raw.pipeline(transaction=False)
    for family in families:
        pipeline.hset(f"rq:{{{family}}}:settings", mapping={"names": f"LOST\tEXP.{family}", "version": "1"})
    pipeline.execute()
    raw.sadd("rq:aliases", "LOST")
    return families


def perform(broker: rq_dlq.Broker, steps: Any, reply: Any) -> None:
    """Go on with steps that wait, up to their end; waits last a second."""
    while True:
        step = steps.send(reply)
        reply = 1_000.0 if isinstance(step, Wait) else broker._connected()._perform(step)


def looks(broker: rq_dlq.Broker, steps: Any, rounds: int) -> list[list[Command[Any] | Call[Any]]]:
    """What a claim sends before each of its waits."""
    sent: list[list[Command[Any] | Call[Any]]] = [[]]
    reply: Any = None
    with suppress(StopIteration):
        while len(sent) <= rounds:
            step = steps.send(reply)
            if isinstance(step, Wait):
                sent.append([])
                reply = 1_000.0
                continue
            sent[-1] += step.calls if isinstance(step, Pipeline) else [step]
            reply = broker._connected()._perform(step)
    return sent[:rounds]


def test_who_waits_asks_a_bounded_number_of_queues(
    many: list[str], sync_broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each second others, by plain reads; no script runs where there is nothing."""
    monkeypatch.setattr("rq_dlq.core.claiming.from_view.SECOND", 0)  # no second passes here between two looks
    lost = sync_broker.queue("LOST")
    first, *later = looks(sync_broker, claim.claim(lost._core, lost._deliveries, wait=60_000), 7)
    assert not any(isinstance(call, Call) for sent in (first, *later) for call in sent)
    assert max(len(sent) for sent in later) <= 4 * EACH + 5
    dead = {f"rq:{{{family}}}:dead" for family in many}
    asked = [
        {part for call in sent if isinstance(call, Command) for part in call.parts} & dead for sent in later
    ]
    assert dead == set().union(*asked[:3]) == set().union(*asked[3:])


def test_who_takes_letters_asks_few_queues(many: list[str], sync_broker: rq_dlq.Broker) -> None:
    """Also where all queues have letters: their times of death are known from before."""
    for family in many[::10]:
        queue = sync_broker.queue(family)
        queue.send_many(range(3))
        queue.poison(queue.claim(3))
    lost = sync_broker.queue("LOST")
    lost.claim()
    (sent,) = looks(sync_broker, claim.claim(lost._core, lost._deliveries), 1)
    again = [call for call in sent if isinstance(call, Call)]
    assert [call.verb for call in again] == ["claim"]
    assert len(sent) <= 4 * 25 + 4


@pytest.mark.parametrize("wait", [0, "30s"])
def test_a_letter_of_the_last_queue(many: list[str], wait: Any, sync_broker: rq_dlq.Broker) -> None:
    """A claim that does not wait asks all queues before it says that there is nothing."""
    lost = sync_broker.queue("LOST")
    assert lost.claim() == []
    queue = sync_broker.queue(many[-1])
    queue.send("x")
    queue.claim()[0].poison()
    assert [delivery.body for delivery in lost.claim(wait=wait)] == ["x"]
