"""The outcome history: what became of messages and deliveries, kept where a queue's settings say so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rq_dlq import InvalidInput, Outcome
from rq_dlq._keys import QueueKeys
from rq_dlq.core.batches.batches import ack_batch
from rq_dlq.core.looking import calls as looking_calls
from rq_dlq.core.looking.outcomes import Extent, extent
from rq_dlq.core.steps.step import Steps
from rq_dlq.values.failure import Cause
from rq_dlq.values.user import user_at_host
from tests.behaviour.helpers import after, one
from tests.conftest import Clock
from tests.tables import each_row_afresh

A = QueueKeys("rq", "a")
FAILED = ValueError("no such order: 17")
NOTHING: dict[str, Any] = {
    "delay": 0.0,
    "consumer": "",
    "error_class": "",
    "fingerprint": "",
    "reason": "",
    "cause": "",
}
FAILURE = {"error_class": "ValueError", "fingerprint": Cause.of(FAILED).fingerprint}
LAPSE = {"error_class": "Lapsed", "fingerprint": "lapsed", "cause": "lapsed"}


async def told(queue: Any) -> list[dict[str, Any]]:
    """What the history says, without the fields that say nothing, and those that a test cannot know."""
    return [plain(outcome) for outcome in await queue.outcomes()]


def plain(outcome: Outcome) -> dict[str, Any]:
    """An event's own fields, without what says nothing."""
    assert outcome.queue == "a"
    fields = {name: getattr(outcome, name) for name in ("id", "event", "attempt", "age", *NOTHING)}
    return {name: value for name, value in fields.items() if NOTHING.get(name) != value}


async def failing(broker: Any, **said: Any) -> Any:
    """A queue with one message `m`, sent a minute ago, which keeps outcomes."""
    queue = broker.queue("a", redelivery=after("5s", most=1), outcomes=1_000, **said)
    await queue.send({"order": 17}, id="m", **({} if "expiry" not in said else {"ttl": "2m"}))
    return queue


# Each event


async def test_acked(broker: Any, clock: Clock) -> None:
    queue = await failing(broker)
    clock.advance("1m")
    delivery = await one(queue)
    clock.advance("1500ms")
    await delivery.ack()
    me = queue._core.consumer.strip('"')
    assert await told(queue) == [{"id": "m", "event": "acked", "attempt": 1, "age": 61.5, "consumer": me}]


@each_row_afresh("record", [b"", b"damaged"])
async def test_acked_although_its_record_is_damaged(record: bytes, broker: Any, raw: Any) -> None:
    queue = await failing(broker)
    delivery = await one(queue)
    raw.hset("rq:{a}:messages", "m", record)
    await delivery.ack()
    assert [(outcome.id, outcome.event) for outcome in await queue.outcomes()] == [("m", "acked")]


async def test_nacked_again_and_again(broker: Any, clock: Clock) -> None:
    queue = await failing(broker)
    clock.advance("1m")
    await (await one(queue)).nack(FAILED)
    clock.advance("5s")
    await (await one(queue)).nack(FAILED)
    failed = {"id": "m", "consumer": queue._core.consumer.strip('"'), "cause": "nacked", **FAILURE}
    assert await told(queue) == [
        {"event": "redelivered", "attempt": 1, "age": 60.0, "delay": 5.0, **failed},
        {"event": "dead", "attempt": 2, "age": 65.0, "reason": "exhausted", **failed},
    ]


async def test_lapsed(broker: Any, clock: Clock) -> None:
    queue = await failing(broker)
    await queue.claim(lease="10s")
    clock.advance("10s")
    await queue.maintain()
    clock.advance("5s")
    await queue.claim(lease="10s")
    clock.advance("10s")
    assert await queue.claim() == []  # a claim sweeps as well
    me = {"id": "m", "consumer": queue._core.consumer.strip('"'), **LAPSE}
    assert await told(queue) == [
        {"event": "redelivered", "attempt": 1, "age": 10.0, "delay": 5.0, **me},
        {"event": "dead", "attempt": 2, "age": 25.0, "reason": "exhausted", **me},
    ]


async def test_poisoned(broker: Any, clock: Clock) -> None:
    queue = await failing(broker)
    clock.advance("1s")
    await (await one(queue)).poison(FAILED)
    me = queue._core.consumer.strip('"')
    fields = {"id": "m", "event": "dead", "attempt": 1, "age": 1.0, "consumer": me}
    assert await told(queue) == [{**fields, "reason": "poison", "cause": "poisoned", **FAILURE}]


async def test_released(broker: Any, clock: Clock) -> None:
    queue = await failing(broker)
    delivery = await one(queue)
    clock.advance("1s")
    await delivery.release()
    me = queue._core.consumer.strip('"')
    assert await told(queue) == [{"id": "m", "event": "released", "attempt": 1, "age": 1.0, "consumer": me}]


async def test_passed_on(broker: Any, clock: Clock) -> None:
    """To another version of the program, since the body fits no type of this one."""
    await failing(broker)
    clock.advance("1s")
    other = broker.queue("a", type=int)
    assert await other.claim() == []
    (event,) = await told(other)
    me = other._core.consumer.strip('"')
    fields = {"event": "passed_on", "cause": "passed_on", "age": 1.0, "delay": 1.0, "consumer": me}
    assert event | fields == event
    assert event["error_class"]


async def test_expired(broker: Any, clock: Clock) -> None:
    queue = await failing(broker, expiry={"expiry_delay": "1d"})
    clock.advance("2m")
    await queue.maintain()
    fields = {"id": "m", "event": "expired", "attempt": 0, "age": 120.0, "reason": "expired"}
    assert await told(queue) == [fields]


async def test_a_failure_that_would_come_back_too_late_expires(broker: Any, clock: Clock) -> None:
    queue = await failing(broker, expiry={"expiry_delay": "1d"})
    clock.advance("119s")
    await (await one(queue)).nack(FAILED)
    me = queue._core.consumer.strip('"')
    fields = {"id": "m", "event": "expired", "attempt": 1, "age": 119.0, "consumer": me}
    assert await told(queue) == [{**fields, "reason": "expired", "cause": "nacked", **FAILURE}]


async def test_dropped_when_it_dies(broker: Any) -> None:
    """Its death is told, as of one that is kept, and that it was dropped."""
    queue = await failing(broker, dead_letter=None)
    await (await one(queue)).poison(FAILED)
    me = queue._core.consumer.strip('"')
    fields = {
        "id": "m",
        "attempt": 1,
        "age": 0.0,
        "consumer": me,
        "reason": "poison",
        "cause": "poisoned",
        **FAILURE,
    }
    assert await told(queue) == [{"event": "dead", **fields}, {"event": "discarded", **fields}]


async def test_dropped_when_it_was_kept_long_enough(broker: Any, clock: Clock) -> None:
    queue = await failing(broker, dead_letter={"expiration": "1h"})
    await (await one(queue)).poison(FAILED)
    clock.advance("1h")
    await queue.maintain()
    fields = {
        "id": "m",
        "event": "discarded",
        "attempt": 1,
        "age": 3600.0,
        "reason": "poison",
        "cause": "retired",
    }
    assert (await told(queue))[1:] == [fields]


async def test_redriven_and_acked_among_the_dead(broker: Any, clock: Clock) -> None:
    queue = await failing(broker)
    await (await one(queue)).poison(FAILED)
    clock.advance("1s")
    assert (await queue.dlq.redrive(all=True)).counts.moved == 1
    await (await one(queue)).poison(FAILED)
    await (await one(broker.queue("DLQ.a"))).ack()
    me = {"id": "m", "age": 1.0, "consumer": queue._core.consumer.strip('"')}
    _, redriven, _, acked = await told(queue)
    assert redriven == {"event": "redriven", "attempt": 1, **me, "consumer": user_at_host()}
    assert acked == {"event": "acked", "attempt": 3, "reason": "poison", **me}


async def test_a_dead_letter_that_fails_again_stays_one(broker: Any) -> None:
    queue = await failing(broker)
    await (await one(queue)).poison(FAILED)
    await (await one(broker.queue("DLQ.a"))).nack(FAILED)
    assert [event["event"] for event in await told(queue)] == ["dead", "kept"]


async def test_what_operators_do(broker: Any, clock: Clock) -> None:
    await broker.queue("b").send("there")
    queue = broker.queue("a", outcomes=1_000)
    for name in ("buried", "expired", "moved", "copied", "removed"):
        await queue.send("x", id=name)
    clock.advance("1s")
    await queue.select(ids=["buried"]).dead_letter("a bad day")
    await queue.select(ids=["expired"]).expire()
    await queue.select(ids=["moved"]).move("b")
    await queue.select(ids=["copied"]).copy("b")
    await queue.select(ids=["removed"]).purge()
    await queue.expired.select(all=True).purge()
    me = {"attempt": 0, "age": 1.0, "consumer": queue._core.consumer.strip('"')}
    nobody = {"attempt": 0, "age": 1.0}
    why = {"reason": "poison", "cause": "dead_lettered", "fingerprint": Cause.of("a bad day").fingerprint}
    assert await told(queue) == [
        {"id": "buried", "event": "dead", **me, **why},
        {"id": "expired", "event": "expired", **nobody, "reason": "expired"},
        {"id": "moved", "event": "moved", **me},
        {"id": "removed", "event": "purged", **nobody},
        {"id": "expired", "event": "purged", **nobody, "reason": "expired"},
    ]


async def test_no_span_is_below_none(broker: Any, clock: Clock, raw: Any) -> None:
    """Also after a step back of the clock; readers of the stream need not think of it."""
    await broker.queue("b").send("there")
    queue = broker.queue("a", outcomes=1_000)
    await queue.send_many(["x", "y"])
    delivery = await one(queue)
    clock.set(clock.now - 1_000)
    await delivery.ack()
    await queue.select(all=True).move("b")
    entries = [dict(entry) for _, entry in raw.xrange("rq:{a}:outcomes")]
    assert [(entry[b"event"], entry[b"age"], entry[b"delay"]) for entry in entries] == [
        (b"acked", b"0", b"0"),
        (b"moved", b"0", b"0"),
    ]


async def test_a_lowered_limit_kills_at_the_claim(broker: Any, clock: Clock) -> None:
    queue = await failing(broker)
    await (await one(queue)).nack(FAILED)
    clock.advance("5s")
    await broker.policies.set("a", redelivery=after("5s", most=0), pinned=True)
    assert await queue.claim() == []
    fields = {"id": "m", "event": "dead", "attempt": 1, "age": 5.0, "reason": "exhausted"}
    assert (await told(queue))[1:] == [fields]


@each_row_afresh("end", ["ack", "session", "commit", "claim"])
async def test_every_way_to_ack(end: str, broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", outcomes=1_000)
    await queue.send_many(range(3))
    clock.advance("2s")
    if end == "ack":
        await queue.ack(await queue.claim(3))
    elif end == "claim":
        claimed = await queue.claim(3)
        assert await broker._run(ack_batch(A, [claimed[0].token])) == 3
    else:
        async with queue.session() as session:
            await session.claim(3)
            if end == "commit":
                await session.send(broker.queue("b"), "result")
    fields = {"event": "acked", "attempt": 1, "age": 2.0, "consumer": queue._core.consumer.strip('"')}
    got = await told(queue)
    assert len({event.pop("id") for event in got}) == 3
    assert got == [fields] * 3


@each_row_afresh("said", [{}, {"results": "1h"}])
async def test_acked_together(said: dict[str, str], broker: Any, clock: Clock) -> None:
    """Each has its own age, birth and attempts, although all but these are alike; also a long one."""
    queue = broker.queue("a", redelivery=after("0s"), outcomes=1_000, **said)
    sent = [await queue.send(n) for n in range(3)]
    first, *_ = await queue.claim(2)
    await first.nack(FAILED)
    clock.advance("1s")
    sent += [await queue.send("x" * body) for body in (1, 5_000, 1)]
    clock.advance("1s")
    await queue.maintain()
    held = await queue.claim(6)
    await queue.ack(held)
    acked = {outcome.id: outcome for outcome in await queue.outcomes() if outcome.event == "acked"}
    assert {one.id: one.attempt for one in held} == {name: one.attempt for name, one in acked.items()}
    assert {str(one): one.birth for one in sent if one in acked} == {
        name: one.birth for name, one in acked.items()
    }
    assert {one.age for one in acked.values()} == {1.0, 2.0}


async def test_a_repeated_call_tells_nothing_twice(broker: Any) -> None:
    queue = await failing(broker)
    delivery = await one(queue)
    await queue.nack([delivery], FAILED)
    await queue.nack([delivery], FAILED)
    await queue.ack([delivery])
    assert len(await told(queue)) == 1


# Whether it is kept


async def test_nothing_is_kept_unless_somebody_says_so(broker: Any, clock: Clock, raw: Any) -> None:
    for outcomes in ({}, {"outcomes": None}, {"outcomes": 0}):
        queue = broker.queue("a", redelivery=after("5s", most=1), **outcomes)
        await queue.send_many(["x", "y"])
        first, second = await queue.claim(2)
        await first.nack(FAILED)
        await second.ack()
        clock.advance("5s")
        await (await one(queue)).poison(FAILED)
        assert not raw.exists(A["outcomes"])
        assert not raw.hexists(A["settings"], "outcomes")
        assert await queue.outcomes() == []


async def test_switched_on_and_off_while_messages_wait(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(4))
    claimed = await queue.claim(3)
    await claimed[0].ack()
    assert await broker.policies.set("#", outcomes=50) == 1
    assert (await queue.settings()).outcomes == 50
    await claimed[1].ack()
    assert await broker.policies.set("#", outcomes=None) == 1
    await claimed[2].ack()
    assert [outcome.id for outcome in await queue.outcomes()] == [claimed[1].id]
    assert raw.xlen(A["outcomes"]) == 1


async def test_it_is_bounded(broker: Any, raw: Any) -> None:
    """About: whole nodes of the stream are dropped, of a hundred entries."""
    queue = broker.queue("a", outcomes=10)
    await queue.send_many(range(400))
    await queue.ack(await queue.claim(400))
    assert 10 <= raw.xlen(A["outcomes"]) <= 110
    assert (await queue.stats()).totals["acked"] == 400


@pytest.mark.parametrize("damage", ["setting", "key"])
async def test_what_cannot_be_kept_stops_nothing(damage: str, broker: Any, clock: Clock, raw: Any) -> None:
    queue = await failing(broker)
    await queue.pause()
    await queue.resume()
    if damage == "setting":
        raw.hset(A["settings"], "outcomes", "some")
    else:
        raw.set(A["outcomes"], "no stream")
    await (await one(queue)).nack(FAILED)
    clock.advance("5s")
    await (await one(queue)).ack()
    assert (await queue.stats()).totals["acked"] == 1
    raw.delete(A["outcomes"])


async def test_reset_and_purge_leave_it_alone(broker: Any) -> None:
    queue = await failing(broker)
    await (await one(queue)).release()
    await queue.reset()
    await queue.purge(all=True)
    assert [outcome.event for outcome in await queue.outcomes()] == ["released", "purged"]


# Reading it


async def test_read_page_by_page(broker: Any, raw: Any) -> None:
    queue = broker.queue("a", outcomes=100_000)
    names = await queue.send_many(range(1_100))
    for _ in range(3):
        await queue.ack(await queue.claim(500))
    everything = await queue.outcomes(limit=None)
    assert [outcome.id for outcome in everything] == names
    assert await queue.outcomes() == everything[:1_000]
    assert await queue.outcomes(limit=7) == everything[:7]
    assert await queue.outcomes(limit=0) == []
    assert await queue.outcomes(everything[6].event_id, limit=5) == everything[7:12]
    assert await queue.outcomes(everything[-1].event_id) == []
    seconds, micros = raw.time()
    now = datetime.fromtimestamp(seconds + micros / 1e6, UTC)
    assert now - timedelta(minutes=5) < everything[0].at <= everything[-1].at <= now
    assert await queue.outcomes(everything[0].at, limit=1) == everything[:1]
    assert await queue.outcomes(now + timedelta(seconds=1)) == []


def step(call: Any) -> Steps[Any]:
    return (yield call)


async def test_trim_what_is_kept_elsewhere(broker: Any, raw: Any) -> None:
    queue = broker.queue("a", outcomes=100_000)
    assert await broker._run(extent(A)) == Extent(0, None, None)
    await queue.send_many(range(300))
    await queue.ack(await queue.claim(300))
    everything = await queue.outcomes()
    first, last = everything[0].event_id, everything[-1].event_id
    assert await broker._run(extent(A)) == Extent(300, first, last)
    assert await broker._run(step(looking_calls.trim(A, through=everything[122].event_id))) == 123
    assert await queue.outcomes() == everything[123:]
    assert await broker._run(step(looking_calls.trim(A, through=last))) == 177
    assert await broker._run(extent(A)) == Extent(0, None, None)
    assert raw.exists(A["outcomes"])


async def test_an_entry_that_is_damaged_still_reads(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    raw.xadd(A["outcomes"], {"id": b"\xff", "attempt": "many", "age": "9" * 40, "of tomorrow": "x"}, id="5-1")
    outcome = (await queue.outcomes())[0]
    assert (outcome.id, outcome.event, outcome.attempt, outcome.age) == ("\ufffd", "", 0, 0.0)
    assert outcome.at == datetime(1970, 1, 1, microsecond=5_000, tzinfo=UTC)


@each_row_afresh("since", ["x", "1-2-3", "", 5, datetime(2026, 1, 1), b"1-1"])  # noqa: DTZ001
async def test_since_when(since: Any, broker: Any) -> None:
    with pytest.raises(InvalidInput, match="with its time zone"):
        await broker.queue("a").outcomes(since)


async def test_dead_letters_have_none_of_their_own(broker: Any) -> None:
    with pytest.raises(InvalidInput, match="cannot read the outcomes of"):
        await broker.queue("DLQ.a").outcomes()
    with pytest.raises(InvalidInput, match="limit -1"):
        await broker.queue("a").outcomes(limit=-1)
