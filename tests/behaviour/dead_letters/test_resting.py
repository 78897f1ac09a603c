"""Dead letters that fail in their dead-letter queue: given back at once, told, and at rest for a while."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from rq_dlq import Message, Redeliver, SharedDeadLetterStrategy
from rq_dlq.core.claiming.calls import claim
from tests.behaviour.dead_letters.test_dead_letters import Order
from tests.behaviour.helpers import after, bodies, bring_to, bury, claim_all, counts, ids, one
from tests.behaviour.stepping import alone
from tests.conftest import Clock
from tests.tables import each_row_afresh

REPEATED = pytest.mark.parametrize("end", ["nack", "poison"])


@REPEATED
@pytest.mark.parametrize(("state", "name"), [("dead", "DLQ.a"), ("expired", "EXP.a")])
async def test_it_is_given_back_at_once_and_rests(
    state: str, name: str, end: str, broker: Any, clock: Clock
) -> None:
    queue = broker.queue("a", redelivery=after("5s", most=0))
    await bring_to(state, queue, clock)
    dead = broker.queue(name)
    for tried in (1, 2, 3):
        settlement = await getattr(await one(dead), end)("the mail server is down")
        assert (settlement.outcome, settlement.delay) == ("kept", 5)
        assert await counts(queue) == {state: 1}
        (letter,) = await (queue.dlq if state == "dead" else queue.expired).browse()
        assert (letter.nacked, letter.charged) == (tried, tried)
        clock.advance("4.999s")
        assert await dead.claim() == []
        clock.advance("1ms")
    await one(dead)


@REPEATED
async def test_its_history_tells_its_newest_failure(end: str, broker: Any, clock: Clock) -> None:
    """Beside that of which it died, which stays its cause."""
    queue = broker.queue("a", redelivery=after("5s", most=0))
    await bury(queue, ["x"], ValueError("the first reason"))
    (before,) = await queue.dlq.browse()
    for tried in range(40):
        clock.advance("5s")
        await getattr(await one(broker.queue("DLQ.a")), end)(OSError(f"try {tried}"))
    (letter,) = await queue.dlq.browse()
    assert [event.event for event in letter.history] == ["poisoned", "kept"]
    event = letter.history[-1]
    assert (event.delivery, event.delay, event.consumer) == (41, 5, letter.history[0].consumer)
    assert (event.cause.type, event.cause.message) == ("OSError", "try 39")
    assert event.at.timestamp() * 1000 == clock.now
    died = ("reason", "died_at", "fingerprint")
    assert [getattr(letter, name) for name in died] == [getattr(before, name) for name in died]
    (group,) = await queue.dlq.groups()
    assert (group.error, group.count) == ("ValueError: the first reason", 1)


@pytest.mark.parametrize("process_expired", [False, True])
async def test_the_history_of_an_expired_one_is_in_order(
    process_expired: bool, broker: Any, clock: Clock
) -> None:
    """It expired once, before it failed there."""
    queue = broker.queue("a", redelivery=after("5s"), dead_letter={"process_expired": process_expired})
    await queue.send("x", ttl="5s")
    await (await one(queue)).nack()
    source = broker.queue("DLQ.a" if process_expired else "EXP.a")
    for _ in range(3):
        clock.advance("5s")
        await (await one(source)).nack()
    (letter,) = await source.select().browse()
    assert [event.event for event in letter.history] == ["nacked", "expired", "kept"]
    assert letter.history[1].at == letter.died_at
    assert await source.select(all=True).redrive() == 1
    (message,) = await queue.select().browse()
    assert [event.event for event in message.history] == ["nacked", "expired", "kept", "redriven"]


async def test_its_failures_do_not_displace_those_of_which_it_died(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("0s", most=39))
    await queue.send("x")
    for tried in range(40):
        await (await one(queue)).nack(f"try {tried}")
    for tried in range(20):
        clock.advance("5s")
        await (await one(broker.queue("DLQ.a"))).nack(f"later {tried}")
    (letter,) = await queue.dlq.browse()
    assert letter.cause.message == "try 39"
    assert [event.cause.message for event in letter.history[-3:]] == ["try 38", "try 39", "later 19"]
    assert [event.event for event in letter.history] == ["nacked"] * 29 + ["kept"]


@each_row_afresh(
    "options, rest",
    [({}, 2), ({"delay": "90s"}, 90), ({"delay": 0}, 1), ({"charge": False}, 2)],
)
async def test_how_long_it_rests(options: dict[str, Any], rest: int, broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("2s", "7s", most=0))
    await bury(queue, ["x"])
    settlement = await (await one(broker.queue("DLQ.a"))).nack("no", **options)
    assert settlement.delay == rest
    (letter,) = await queue.dlq.browse()
    assert (letter.nacked, letter.charged) == (1, int(options.get("charge", True)))
    clock.advance(f"{rest}s")
    await one(broker.queue("DLQ.a"))


async def test_it_rests_longer_each_time_as_the_policy_says(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("2s", "7s", "20s", most=0))
    await bury(queue, ["x"])
    rests = []
    for _ in range(4):
        rests.append((await (await one(broker.queue("DLQ.a"))).nack()).delay)
        clock.advance("20s")
    assert rests == [2, 7, 20, 20]


async def test_a_policy_without_a_wait_does_not_let_it_spin(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("0s", most=0))
    await bury(queue, ["x"])
    dead = broker.queue("DLQ.a")
    delivery = await one(dead)
    with suppress(Redeliver):
        async with delivery:
            raise Redeliver(after="0s")
    assert await dead.claim() == []
    clock.advance("1s")
    await one(dead)


async def test_the_others_come_meanwhile_and_it_comes_in_its_place(broker: Any, clock: Clock) -> None:
    """The order of death stays."""
    queue = broker.queue("a", redelivery=after("5s", most=0))
    dead = broker.queue("DLQ.a")
    for body in range(5):
        await bury(queue, [body])
        clock.advance("1s")
    first, second, third = await dead.claim(3)
    await first.nack()
    await second.release()  # given back unseen, it does not rest
    await third.nack(delay="1h")
    assert [letter.body for letter in await queue.dlq.browse()] == [0, 1, 2, 3, 4]
    later = await dead.claim(2)
    assert [delivery.body for delivery in later] == [1, 3]
    for delivery in later:
        await delivery.release()
    clock.advance("5s")
    assert await bodies(dead) == [0, 1, 3, 4]


async def test_a_lapse_gives_it_back_as_it_was(broker: Any, clock: Clock) -> None:
    """Its consumer was gone for as long as its lease."""
    queue = broker.queue("a", redelivery=after("5s", most=0))
    await bury(queue, ["x"])
    await (await one(broker.queue("DLQ.a"))).nack()
    clock.advance("5s")
    await one(broker.queue("DLQ.a"), lease="10s")
    clock.advance("10s")
    again = await one(broker.queue("DLQ.a"))
    assert (again.delivery_count, again.nacked, again.lapsed) == (4, 1, 0)


@pytest.mark.parametrize("by", ["all", "id", "group"])
async def test_it_is_redriven_while_it_rests(by: str, broker: Any) -> None:
    """And once it dies again, it does not rest."""
    queue = broker.queue("a", redelivery=after("5s", most=0))
    (sent,) = await bury(queue, ["x"])
    await (await one(broker.queue("DLQ.a"))).nack(delay="1h")
    (group,) = await queue.dlq.groups()
    ways: dict[str, dict[str, Any]] = {"all": {"all": True}, "id": {"ids": [sent]}, "group": {"group": group}}
    chosen = ways[by]
    assert (await queue.dlq.redrive(**chosen)).counts.moved == 1
    delivery = await one(queue)
    assert (delivery.charged, delivery.reason) == (0, "")
    await delivery.poison()
    assert await ids(broker.queue("DLQ.a")) == [sent]


async def test_it_is_purged_moved_and_dropped_while_it_rests(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("5s", most=0), dead_letter={"expiration": "1m"})
    await broker.queue("b").send("to be there")
    purged, moved, _ = await bury(queue, ["purged", "moved", "dropped"])
    for delivery in await broker.queue("DLQ.a").claim(3):
        await delivery.nack(delay="1h")
    assert await queue.select(places=["dead"], ids=[purged]).purge() == 1
    assert await queue.select(places=["dead"], ids=[moved]).move(broker.queue("b")) == 1
    assert await bodies(broker.queue("b")) == ["to be there", "moved"]
    clock.advance("59.999s")
    assert (await queue.maintain())["retired"] == 0
    clock.advance("1ms")
    assert (await queue.maintain())["retired"] == 1
    assert await counts(queue) == {}


async def test_in_a_shared_dead_letter_queue(broker: Any, clock: Clock) -> None:
    await broker.policies.set("#", dead_letter=SharedDeadLetterStrategy("LOST"))
    for name in ("a", "b"):
        await bury(broker.queue(name, redelivery=after("5s", most=0)), [name])
    lost = broker.queue("LOST")
    assert [settlement.delay for settlement in await lost.nack(await lost.claim(2))] == [5, 5]
    assert await lost.claim(2) == []
    clock.advance("5s")
    assert sorted(await bodies(lost)) == ["a", "b"]


async def test_however_many_rest_they_do_not_block_the_others(broker: Any, clock: Clock) -> None:
    queue, dead = broker.queue("a", redelivery=after("1h", most=0)), broker.queue("DLQ.a")
    for body in ("rests", "ready"):
        for _ in range(3 if body == "rests" else 1):
            await bury(queue, [body] * 500)
            clock.advance("1s")
    for _ in range(3):
        await dead.nack(await claim_all(dead, 500))
    found: list[str] = []
    for _ in range(60):
        found += await bodies(dead, 100)
    assert set(found) == {"ready"}
    assert len(found) > 400  # whatever is left is found by the next ones
    assert (await queue.stats()).dead == 2_000 - len(found)


@pytest.mark.parametrize(("resting", "found"), [(100, []), (1_000, ["ready"]), (1_001, [])])
async def test_a_claim_looks_past_a_thousand(
    resting: int, found: list[str], broker: Any, clock: Clock
) -> None:
    """I9: then past as many from a random place on; here that is the first."""
    queue = broker.queue("a", redelivery=after("1h", most=0))
    for number in (resting // 2, resting - resting // 2):
        await bury(queue, ["rests"] * number)
    dead = broker.queue("DLQ.a")
    while held := await dead.claim(500):
        await dead.nack(held)
    clock.advance("1s")
    if resting > 100:
        await bury(queue, [Message(body="x", id="ready")])
    options: dict[str, Any] = {"part": "dead", "token": "t", "count": 1, "lease": 1_000, "patience": 0}
    call = claim(queue._core.keys, **options, consumer='""', seed=0.0, default_policy=queue._core.policy)
    claimed = await broker._run(alone(call))
    assert [row.id for row in claimed.rows] == found


async def test_one_that_does_not_decode_is_told_and_rests(broker: Any) -> None:
    await bury(broker.queue("a", redelivery=after("5s", most=0)), [{"number": "one"}, {"number": 2}])
    dead = broker.queue("DLQ.a", type=Order)
    assert await bodies(dead) == [Order(2)]
    assert await counts(broker.queue("a")) == {"dead": 1, "leased": 1}
    (letter,) = await broker.queue("a").dlq.browse()
    assert (letter.reason, letter.nacked, letter.history[-1].event) == ("poison", 1, "kept")
    assert "number" in letter.history[-1].cause.message


async def test_the_outcome_history_tells_it(broker: Any) -> None:
    queue = broker.queue("a", redelivery=after("5s", most=0), outcomes=100)
    await bury(queue, ["x"])
    await (await one(broker.queue("DLQ.a"))).nack(OSError("no"))
    death, told = await queue.outcomes()
    assert (told.event, told.cause, told.reason) == ("kept", "nacked", "poison")
    assert (told.attempt, told.delay, told.error_class) == (2, 5, "OSError")
    assert told.consumer == death.consumer != ""


@pytest.mark.parametrize("word", [b"rest=", b"rest=soon", b"rest=1 rest=2"])
async def test_a_damaged_word_lets_it_rest_no_longer(word: bytes, broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    (sent,) = await bury(queue, ["x"])
    key = "rq:{a}:states"
    raw.hset(key, sent, raw.hget(key, sent) + b" " + word)
    assert await ids(broker.queue("DLQ.a")) == [sent]
