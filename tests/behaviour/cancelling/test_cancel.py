"""Cancelling one message, wherever it is: before its turn, in work, when it is over."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from rq_dlq import InvalidInput, InvalidMessage, LeaseLost, Message, PerKey, RedeliveryPolicy
from rq_dlq.core.batches import batches
from tests.behaviour.faults import change_talk, lose_replies, meanwhile
from tests.behaviour.helpers import after, one
from tests.conftest import Clock
from tests.tables import each_row, each_row_afresh

ORDER = PerKey(order=True)


async def shop(broker: Any, rule: PerKey | None, *names: str, **given: Any) -> Any:
    queue = broker.queue("a", per_key=rule, **given)
    await queue.send_many([Message(name, id=name, key="customer") for name in names])
    return queue


@each_row_afresh("delay", [None, "1h"])
async def test_what_waits_is_gone(delay: str | None, broker: Any) -> None:
    queue = broker.queue("a", dedup_window="1h")
    message = await queue.send("x", id="m", delay=delay)
    assert await queue.cancel(message) == "cancelled"
    assert await queue.cancel(message) == "unknown"
    stats = await queue.stats()
    assert (stats.ready + stats.scheduled, stats.totals["cancelled"]) == (0, 1)
    assert (await queue.send("x", id="m")).new  # it was not acked


async def test_what_is_in_work_is_gone_at_once(broker: Any) -> None:
    """Nothing counts any more that its holder does; the others of its claim go on."""
    queue = broker.queue("a")
    await queue.send_many([Message(n, id=str(n)) for n in range(4)])
    acks, nacks, extends, other = await queue.claim(4)
    for name in ("0", "1", "2"):
        assert await queue.cancel(name) == "cancelled"
    for settle in (acks.ack, lambda: nacks.nack("no"), extends.extend):
        with pytest.raises(LeaseLost):
            await settle()
    assert (await queue.stats()).leased == 1
    await other.extend()
    await other.ack()
    totals = (await queue.stats()).totals
    assert (totals["acked"], totals["cancelled"], totals.get("nacked", 0)) == (1, 3, 0)
    assert await queue._run(_leases(queue)) == 0


def _leases(queue: Any) -> Any:
    from rq_dlq.core.pages import calls  # noqa: PLC0415

    return (yield calls.size(queue._core.keys, "leases"))


async def test_by_what_the_send_returned(broker: Any, raw: Any) -> None:
    """Its worker is told, too."""
    queue = broker.queue("a")
    sent = await queue.send("x")
    await one(queue)
    assert await queue.cancel(sent) == "cancelled"
    assert raw.keys("rq:cancelled:*")


async def test_what_is_over_stays(broker: Any) -> None:
    queue = broker.queue("a", dedup_window="1h")
    for name in ("dead", "expired", "acked", "held"):
        await queue.send(name, id=name)
    await queue.select(ids=["dead", "held"]).dead_letter()
    await queue.select(ids=["expired"]).expire()
    await (await one(queue)).ack()
    (letter,) = await broker.queue("DLQ.a").claim(1)
    words = [await queue.cancel(name) for name in ("dead", "expired", "acked", "held", "never")]
    assert words == ["dead", "expired", "acked", "dead", "unknown"]
    assert (await queue.stats()).totals.get("cancelled", 0) == 0
    await letter.release()


async def test_a_repeated_call_answers_the_same(broker: Any, sync_broker: Any, raw: Any) -> None:
    """Its first reply is lost, and meanwhile another message has the id; its worker is told all the same."""
    queue = broker.queue("a")
    await queue.send("first", id="m")
    held = await one(queue)
    lost = await lose_replies(broker, "cancel")
    meanwhile(lost, lambda: sync_broker.queue("a").send("second", id="m"))
    assert await queue.cancel("m") == "cancelled"
    assert raw.keys("rq:cancelled:*")
    assert (await queue.stats()).totals["cancelled"] == 1
    assert (await one(queue)).body == "second"
    with pytest.raises(LeaseLost):
        await held.ack()


async def test_the_audit_says_who(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x", id="m")
    await queue.cancel("m", by="ana")
    await queue.cancel("m", by="ana")  # changed nothing
    (entry,) = await broker.audit()
    assert (entry.did, entry.by, entry.queue, entry.chosen) == ("cancelled", "ana", "a", "m")


async def test_a_session_that_took_it_sends_nothing(broker: Any) -> None:
    queue, other = broker.queue("a"), broker.queue("b")
    await queue.send_many([Message(n, id=str(n)) for n in range(2)])
    session = queue.session()
    await session.claim(2)
    await session.send(other, "done")
    assert await queue.cancel("0") == "cancelled"
    with pytest.raises(LeaseLost) as lost:
        await session.commit()
    await session.rollback(lost.value)
    assert [m.id for m in await queue.peek(9)] == ["1"]
    assert await other.peek(9) == []


async def test_what_a_batch_of_spark_holds_stays(sync_broker: Any) -> None:
    queue = sync_broker.queue("a")
    queue.send("x", id="m")
    sync_broker._run(batches.claim_batch(queue._core, "t", limit=9, lease=60_000))
    with pytest.raises(InvalidInput, match="in a Spark batch"):
        queue.cancel("m")
    assert queue.stats().leased == 1


@each_row_afresh("rule", [ORDER, PerKey(limit=1)])
async def test_the_next_of_its_key_waits_for_the_call(rule: PerKey, broker: Any) -> None:
    queue = await shop(broker, rule, "m1", "m2")
    held = await one(queue)
    assert await queue.cancel("m1") == "cancelled"
    assert await queue.claim(9) == []
    assert "m1 was cancelled, and its call has not ended" in str(await queue.explain("m2"))
    assert (await queue.key("customer").stats()).held_by[0][0] == "m1"
    with pytest.raises(LeaseLost):
        await held.extend()  # the call goes on, and keeps its place
    assert await queue.claim(9) == []
    with pytest.raises(LeaseLost):
        await held.ack()
    assert (await one(queue)).id == "m2"


@each_row_afresh(("rule", "most"), [(ORDER, None), (None, 1)])
async def test_who_extends_its_lease_keeps_its_place_after_a_cancel(
    rule: PerKey | None, most: int | None, broker: Any, clock: Clock
) -> None:
    queue = await shop(broker, rule, "m1", "m2", max_in_flight=most)
    held = await one(queue)
    await queue.cancel("m1")
    clock.advance("20s")
    with pytest.raises(LeaseLost):
        await held.extend()
    clock.advance("29s")
    assert await queue.claim(9) == []
    clock.advance("1s")
    assert [d.id for d in await queue.claim(9)] == ["m2"]


@each_row_afresh("rule", [ORDER, PerKey(limit=1)])
async def test_the_next_waits_no_longer_than_the_lease(rule: PerKey, broker: Any, clock: Clock) -> None:
    queue = await shop(broker, rule, "m1", "m2")
    await one(queue)
    await queue.cancel("m1")
    clock.advance("31s")
    assert [d.id for d in await queue.claim(9)] == ["m2"]
    assert (await queue.stats()).totals.get("lapsed", 0) == 0


async def test_with_turns_nobody_waits_for_the_call(broker: Any) -> None:
    queue = await shop(broker, PerKey(fair=1), "m1", "m2")
    (held, *_) = await queue.claim(1)
    await queue.cancel("m1")
    assert [d.id for d in await queue.claim(9)] == ["m2"]
    with pytest.raises(LeaseLost):
        await held.ack()


async def settle(held: Any, end: str) -> None:
    if end == "extend":
        await held.extend()
    elif end == "nack":
        await held.nack("no")
    else:
        await getattr(held, end)()


@each_row_afresh("rule", [None, ORDER, PerKey(limit=1), PerKey(fair=1)])
async def test_the_call_of_a_cancelled_message_is_in_flight_until_it_ends(rule: Any, broker: Any) -> None:
    """`max_in_flight=1` never runs two calls, whichever way the cancelled one ends."""
    queue = broker.queue("a", per_key=rule, max_in_flight=1)
    ends = ["ack", "nack", "release", "poison"]
    await queue.send_many([Message(n, id=f"m{n}", key=f"k{n}") for n in range(len(ends) + 1)])
    for n, end in enumerate(ends):
        held = await one(queue, count=9)
        assert held.id == f"m{n}"
        assert await queue.cancel(held.id) == "cancelled"
        assert await queue.claim(9) == []
        assert "fewer than 1 are being processed (max_in_flight)" in (await queue.explain(f"m{n + 1}")).next
        with pytest.raises(LeaseLost):
            await held.extend()  # the call goes on, and keeps its place
        assert await queue.claim(9) == []
        with pytest.raises(LeaseLost):
            await settle(held, end)
    await (await one(queue)).ack()
    assert (await queue.stats()).totals["cancelled"] == len(ends)


@each_row_afresh("rule", [None, ORDER])
async def test_a_cancelled_call_is_in_flight_no_longer_than_its_lease(
    rule: Any, broker: Any, clock: Clock, raw: Any
) -> None:
    """Also while claims repair seats, each second; a lease that goes on for others of its claim keeps it."""
    queue = broker.queue("a", per_key=rule, max_in_flight=2)
    await queue.send_many([Message(n, id=f"m{n}", key=f"k{n}") for n in range(4)])
    (cancelled, other) = await queue.claim(9)
    await queue.cancel(cancelled.id)
    for _ in range(3):
        clock.advance("20s")
        await other.extend()
        assert await queue.claim(9) == []
    await other.ack()
    assert (await one(queue, count=9, lease="1h")).id == "m2"
    clock.advance("31s")
    assert (await one(queue, count=9)).id == "m3"
    assert raw.hget("rq:{a}:settings", "cancelling") is None
    assert not raw.zrangebyscore("rq:{a}:seated", -1, -1)


async def test_a_cancelled_call_frees_its_place_while_others_of_its_claim_run(broker: Any) -> None:
    queue = broker.queue("a", max_in_flight=2)
    await queue.send_many([Message(n, id=f"m{n}") for n in range(3)])
    cancelled, other = await queue.claim(9)
    await queue.cancel("m0")
    with pytest.raises(LeaseLost):
        await cancelled.ack()
    assert (await one(queue, count=9)).id == "m2"
    await other.ack()


async def test_a_place_without_a_lease_is_dropped(broker: Any, raw: Any) -> None:
    """Another version ended the claim; or the cancel was cut off, and the message is still held."""
    queue = broker.queue("a", max_in_flight=2)
    await queue.send_many(range(3))
    held = await one(queue)
    raw.hset("rq:{a}:settings", "cancelling", 1)
    raw.zadd("rq:{a}:seated", {"\3gone m": -1, f"\3{held.token} {held.id}": -1})
    assert len(await queue.claim(9)) == 1
    assert not raw.exists("rq:{a}:seated")


async def test_what_was_cancelled_before_it_began_takes_no_place(broker: Any) -> None:
    queue = broker.queue("a", max_in_flight=1)
    await queue.send_many([Message(n, id=f"m{n}") for n in range(2)])
    await queue.cancel("m0")
    assert (await one(queue)).id == "m1"


async def test_a_blocked_one_goes_and_the_next_stays_blocked(broker: Any) -> None:
    queue = await shop(broker, ORDER, "m1", "m2", "m3")
    held = await one(queue)
    assert await queue.cancel("m2") == "cancelled"
    assert await queue.claim(9) == []
    await held.ack()
    assert (await one(queue)).id == "m3"


async def test_the_id_is_free_while_the_call_runs(broker: Any) -> None:
    """Another message may have it; it waits behind the call, which cannot settle it."""
    queue = await shop(broker, ORDER, "m1")
    held = await one(queue)
    await queue.cancel("m1")
    assert (await queue.send("again", id="m1", key="customer")).new
    assert await queue.claim(9) == []
    with pytest.raises(LeaseLost):
        await held.ack()
    (again,) = await queue.claim(9)
    assert (again.id, again.body, again.attempt) == ("m1", "again", 1)


async def test_what_waits_for_its_retry(broker: Any) -> None:
    queue = broker.queue("a", per_key=ORDER, redelivery=after("1h"))
    await queue.send_many([Message(n, id=f"m{n}", key="customer") for n in range(2)])
    await (await one(queue)).nack("no")
    assert await queue.cancel("m0") == "cancelled"
    assert (await one(queue)).id == "m1"


async def test_a_notice_that_gets_lost_fails_nothing(broker: Any) -> None:
    """The message is gone already: the server goes away before its worker is told."""
    queue = broker.queue("a")
    await queue.send("x", id="m")
    held = await one(queue)

    def lost(commands: list[Any]) -> list[Any]:
        if any(command[0] == b"RPUSH" for command in commands):
            message = "the server went away"
            raise redis.ConnectionError(message)
        return commands

    await change_talk(broker, lost, list)
    assert await queue.cancel("m") == "cancelled"
    with pytest.raises(LeaseLost):
        await held.ack()


@each_row("bad", ["", "a\n", "x" * 600])
def test_what_is_no_id_is_refused(bad: str, sync_broker: Any) -> None:
    with pytest.raises(InvalidMessage):
        sync_broker.queue("a").cancel(bad)


async def test_dead_letters_have_verbs_of_their_own(broker: Any) -> None:
    await broker.queue("a", redelivery=RedeliveryPolicy(max_redeliveries=0)).send("x")
    with pytest.raises(InvalidInput, match="cancel messages of"):
        await broker.queue("DLQ.a").cancel("m")


async def test_the_outcome_history_names_the_holder_of_a_cancelled_message(broker: Any) -> None:
    queue = broker.queue("a", outcomes=10)
    for name in ("held", "waits"):
        await queue.send("x", id=name)
        if name == "held":
            await queue.claim()
        await queue.cancel(name)
    held, waits = await queue.outcomes()
    assert (held.event, waits.event) == ("cancelled", "cancelled")
    assert (bool(held.consumer), waits.consumer) == (True, "")
    assert (held.delay, waits.delay) == (0, 0)
