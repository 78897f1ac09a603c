"""What becomes of messages that die or expire, as the dead-letter strategy and the expiry policy say."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq import (
    DiscardingDeadLetterStrategy,
    ExpiryPolicy,
    IndividualDeadLetterStrategy,
    PolicyError,
    SharedDeadLetterStrategy,
)
from tests.behaviour.helpers import after, bodies, bury, counts, ids, one
from tests.conftest import Clock
from tests.tables import each_row_afresh

NEVER = after(0, most=0)
"""The first failure is the last."""


async def totals(queue: Any) -> dict[str, int]:
    """What was counted since the queue began."""
    return dict((await queue.stats()).totals)


async def expire_one(queue: Any, clock: Clock, **options: Any) -> None:
    """Send a message, and let its time to live pass."""
    await queue.send("late", id="late", ttl="1s", **options)
    clock.advance("1s")
    await queue.maintain()


# Where dead letters go


@each_row_afresh(
    "strategy, name",
    [
        (IndividualDeadLetterStrategy(), "DLQ.a.b"),
        (IndividualDeadLetterStrategy(prefix="D."), "D.a.b"),
        (IndividualDeadLetterStrategy(suffix=".dead"), "DLQ.a.b.dead"),
        (IndividualDeadLetterStrategy(prefix="", suffix=".dead"), "a.b.dead"),
        (IndividualDeadLetterStrategy.activemq(), "ActiveMQ.DLQ.Queue.a.b"),
        (SharedDeadLetterStrategy("ActiveMQ.DLQ"), "ActiveMQ.DLQ"),
    ],
)
async def test_names(strategy: Any, name: str, broker: Any) -> None:
    """Under its own name and, always, under the usual one."""
    await broker.policies.set("a.*", dead_letter=strategy)
    queue = broker.queue("a.b")
    await bury(queue, ["x", "y"])
    assert (await queue.settings()).dead_name == name
    assert await counts(broker.queue(name)) == {"dead": 2}
    assert await bodies(broker.queue(name), 1) == ["x"]
    assert await bodies(broker.queue("DLQ.a.b"), 1) == ["y"]


async def test_shared_over_several_queues(broker: Any, clock: Clock) -> None:
    """I1, I10: each message stays in the family of its queue."""
    await broker.policies.set("#", dead_letter=SharedDeadLetterStrategy("LOST"))
    for name in ("a", "b.c", "d"):
        await bury(broker.queue(name), [name])
        clock.advance("1s")
    lost = broker.queue("LOST")
    assert await counts(lost) == {"dead": 3}
    assert sorted(await bodies(lost)) == ["a", "b.c", "d"]
    for name in ("a", "b.c", "d"):
        assert await counts(broker.queue(name)) == {"leased": 1}
    assert await broker.queues() == ["a", "b.c", "d"]


async def test_the_same_id_twice_in_one_shared_queue(broker: Any) -> None:
    """Of two queues they are two messages."""
    await broker.policies.set("#", dead_letter=SharedDeadLetterStrategy("LOST"))
    for name in ("a", "b"):
        await broker.queue(name).send(name, id="m")
        await (await one(broker.queue(name))).poison()
    lost = broker.queue("LOST")
    both = await lost.claim(5)
    assert [(delivery.id, delivery.body) for delivery in sorted(both, key=lambda d: str(d.body))] == [
        ("m", "a"),
        ("m", "b"),
    ]
    assert [settlement.outcome for settlement in await lost.ack(both)] == ["acked", "acked"]
    assert await counts(lost) == {}


# Discarding


@each_row_afresh("verb", ["nack", "poison", "lapse", "unprocessable"])
async def test_discarded_outright_and_counted(verb: str, broker: Any, clock: Clock) -> None:
    """I1, I14."""
    await broker.policies.set("#", dead_letter=None)
    queue = broker.queue("a", redelivery=NEVER, lease="10s", type=Any if verb != "unprocessable" else int)
    body = b"{" if verb == "unprocessable" else "x"
    await broker.queue("a").send(body, ttl="1h", headers={"h": "v"})
    deliveries = await queue.claim()
    if verb in {"nack", "poison"}:
        assert (await getattr(deliveries[0], verb)("boom")).outcome == "discarded"
    clock.advance("10s")
    await queue.maintain()
    assert await counts(queue) == {}
    assert (await totals(queue))["discarded"] == 1
    reason = {"nack": "exhausted", "lapse": "exhausted"}.get(verb, verb)
    assert (await totals(queue))[reason] == 1


async def test_discarded_by_hand(broker: Any) -> None:
    queue = broker.queue("a", dead_letter=None)
    await queue.send_many(range(3))
    await queue.send("later", delay="1h")
    assert await queue.select(all=True).dead_letter() == 4
    assert await counts(queue) == {}
    assert (await totals(queue))["discarded"] == 4


async def test_an_id_that_was_discarded_is_free_again(broker: Any) -> None:
    queue = broker.queue("a", dead_letter=None)
    for _ in range(2):
        await queue.send("x", id="m")
        assert (await (await one(queue)).poison()).outcome == "discarded"
    assert (await totals(queue))["sent"] == 2


async def test_discarded_only_of_some(broker: Any) -> None:
    """A list never widens to everything: of the others weaker entries hold."""
    only = DiscardingDeadLetterStrategy(only="EU.[0-9]{3} mail.*")
    await broker.policies.set("#", dead_letter=SharedDeadLetterStrategy("LOST"))
    await broker.policies.set("*.*", dead_letter=only)
    fates = {}
    for name in ("EU.042", "EU.42", "EU.0420", "EUx042", "mail.a", "mail.a.b", "US.042"):
        queue = broker.queue(name)
        await queue.send("x")
        fates[name] = (await (await one(queue)).poison()).outcome
    assert [name for name, fate in fates.items() if fate == "discarded"] == ["EU.042", "mail.a"]
    assert await counts(broker.queue("LOST")) == {"dead": 5}


# What else goes there


@each_row_afresh(
    "dead_letter, expiry, state",
    [
        ({}, {}, "expired"),
        ({"process_expired": True}, {}, "dead"),
        ({}, {"discard": True}, None),
        ({"process_expired": True}, {"discard": True}, "dead"),
        ({"process_expired": True, "strategy": "discarding"}, {}, None),
        ({"strategy": "discarding"}, {}, "expired"),
    ],
)
async def test_expired_messages(
    dead_letter: dict[str, Any], expiry: dict[str, Any], state: str | None, broker: Any, clock: Clock
) -> None:
    said = {"dead_letter": dead_letter} if dead_letter else {}
    said |= {"expiry": expiry} if expiry else {}
    await broker.policies.set("a", max_in_flight=None, **said)
    queue = broker.queue("a")
    await expire_one(queue, clock)
    assert await counts(queue) == ({state: 1} if state else {})
    counted = await totals(queue)
    assert (counted["expired"], counted.get("discarded", 0)) == (1, 0 if state else 1)
    if state == "dead":
        (letter,) = await queue.dlq.browse()
        assert (letter.reason, letter.cause.type, letter.original_queue) == ("expired", "Expired", "a")
        assert (await queue.dlq.redrive(all=True)).counts.moved == 1
        clock.advance("1h")
        assert await ids(queue) == ["late"]


async def test_an_expired_redelivery_goes_where_the_expired_go(broker: Any) -> None:
    queue = broker.queue("a", redelivery=after("1h"), dead_letter={"process_expired": True})
    await queue.send("x", ttl="1m")
    assert (await (await one(queue)).nack()).outcome == "dead"
    (letter,) = await queue.dlq.browse()
    assert letter.reason == "expired"
    dropping = broker.queue("b", redelivery=after("1h"), expiry=ExpiryPolicy(discard=True))
    await dropping.send("x", ttl="1m")
    assert (await (await one(dropping)).nack()).outcome == "discarded"
    assert await counts(dropping) == {}


@pytest.mark.parametrize("said", [None, False], ids=["unsaid", "process_non_persistent=False"])
async def test_what_need_not_outlive_its_failure(said: Any, broker: Any, clock: Clock) -> None:
    """Only where the strategy says so, and only where it would die."""
    strategy = {"expiration": None} if said is None else {"process_non_persistent": said}
    queue = broker.queue("a", redelivery=NEVER, dead_letter=strategy)
    await queue.send("transient", persistent=False, priority=9, headers={"h": "v"})
    await queue.send_many(["many"], persistent=False)
    await queue.send("lasting")
    outcomes = [(await delivery.nack()).outcome for delivery in await queue.claim(5)]
    assert outcomes == (["dead"] * 3 if said is None else ["discarded", "discarded", "dead"])
    await expire_one(queue, clock, persistent=False)
    assert (await counts(queue))["expired"] == 1


async def test_what_is_transient_is_dropped_where_the_expired_die(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", dead_letter=IndividualDeadLetterStrategy.activemq())
    await expire_one(queue, clock, persistent=False)
    assert await counts(queue) == {}
    assert (await totals(queue))["discarded"] == 1
    await expire_one(queue, clock)
    assert await counts(queue) == {"dead": 1}


# At run time


async def test_a_change_of_strategy_applies_from_then_on(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    sent = await queue.send_many(range(5))
    first, second, third, fourth = await queue.claim(4)
    await first.poison()
    await broker.policies.set("a", dead_letter=SharedDeadLetterStrategy("LOST"))
    await second.poison()
    lost = broker.queue("LOST")
    assert {delivery.id for delivery in await lost.claim(5, lease="1s")} == set(sent[:2])
    clock.advance("1s")
    await queue.maintain()
    await broker.policies.set("a", dead_letter=None)
    assert (await third.poison()).outcome == "discarded"
    assert await counts(queue) == {"ready": 1, "leased": 1, "dead": 2}  # what was dead stays
    await broker.policies.remove("a")
    assert (await fourth.poison()).outcome == "dead"
    assert await counts(lost) == {}
    assert await counts(broker.queue("DLQ.a")) == {"ready": 1, "dead": 3}


async def test_moved_from_one_shared_queue_to_another(broker: Any) -> None:
    """It is a name for the dead letters of a queue, so they are all under the new one at once."""
    queue = broker.queue("a")
    await broker.policies.set("a", dead_letter=SharedDeadLetterStrategy("OLD"))
    await bury(queue, ["x"])
    old = broker.queue("OLD")
    assert await counts(old) == {"dead": 1}
    await broker.policies.set("a", dead_letter=SharedDeadLetterStrategy("NEW"))
    assert (await counts(old), await counts(broker.queue("NEW"))) == ({}, {"dead": 1})


@pytest.mark.parametrize(
    "said",
    [{"dead_letter": SharedDeadLetterStrategy("e")}, {"expiry": {"name": "e"}}],
    ids=["dead", "expired"],
)
async def test_a_queue_is_not_its_own_dead_letter_queue(said: Any, broker: Any) -> None:
    with pytest.raises(
        PolicyError, match="'e' cannot be its own dead-letter or expiry queue: choose another"
    ):
        broker.queue("e", **said)
    with pytest.raises(
        PolicyError, match="'e' cannot be its own dead-letter or expiry queue: choose another"
    ):
        await broker.policies.set("e", **said)
