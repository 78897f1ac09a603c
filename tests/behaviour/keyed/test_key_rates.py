"""Rates of keys: alone, beside order, a limit and turns; who gets a token back; what is said of who waits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from rq_dlq import Message, PerKey
from rq_dlq._keys import QueueKeys
from tests.behaviour.helpers import AT_ONCE, after, ids
from tests.behaviour.helpers import keyed as shop
from tests.conftest import Clock
from tests.tables import each_row_afresh

SECOND = timedelta(seconds=1)
KEYS = QueueKeys("rq", "a")
LONG = b"\x1f" + b"\x01" * 64  # lua/order.lua
MODES = {
    "alone": PerKey(rate="1/s"),
    "in order": PerKey(order=True, rate="1/s"),
    "held": PerKey(order=True, on_dead="hold", rate="1/s"),
    "limited": PerKey(limit=3, rate="1/s"),
    "in turn": PerKey(fair=True, rate="1/s"),
}


@each_row_afresh("mode", MODES)
async def test_one_of_a_key_at_its_slot(mode: str, broker: Any, clock: Clock) -> None:
    """Counted from the last that was handed out, also after an idle minute; other keys do not wait."""
    queue = await shop(broker, MODES[mode], "a1", "a2", "a3", "b1")
    await queue.ack(first := await queue.claim(9))
    assert [one.id for one in first] == ["a1", "b1"]
    clock.advance("999ms")
    assert await queue.claim(9) == []
    assert (await queue.stats()).blocked == 2
    clock.advance("1ms")
    await queue.ack(second := await queue.claim(9))
    assert [one.id for one in second] == ["a2"]
    clock.advance("60s")
    await queue.send("a4", id="a4", key="a")
    assert await ids(queue) == ["a3"]


@each_row_afresh("mode", MODES)
async def test_many_keys_at_their_slots(mode: str, broker: Any, raw: Any, clock: Clock) -> None:
    """More than Redis keeps in a list without a long member (`Order.add`), which does not stay."""
    queue, keys = await shop(broker, MODES[mode]), range(60)
    await queue.send_many([Message(n, id=f"{key}-{n}", key=f"k{key}") for n in range(3) for key in keys])
    for n in range(3):
        held = await queue.claim(99)
        assert sorted(one.id for one in held) == sorted(f"{key}-{n}" for key in keys)
        assert await queue.claim(99) == []
        await queue.ack(held)
        clock.advance("1s")
    assert LONG not in {*raw.zrange(KEYS["seats"], 0, -1), *raw.zrange(KEYS["slots"], 0, -1)}
    assert (await queue.stats()).totals["acked"] == 180


async def test_what_a_cut_off_call_left_among_slots_and_seats_goes(
    broker: Any, raw: Any, clock: Clock
) -> None:
    queue = await shop(broker, MODES["limited"], "a1", "a2")
    assert await ids(queue) == ["a1"]
    raw.zadd(KEYS["slots"], {LONG: 0})
    raw.zadd(KEYS["seats"], {LONG: 0})
    raw.zadd(KEYS["ready"], {LONG: 0})
    clock.advance("1s")
    assert await ids(queue) == ["a2"]
    for index in ("slots", "seats", "ready"):
        assert raw.zscore(KEYS[index], LONG) is None


async def test_a_limit_beside_it_holds(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, PerKey(limit=2, rate="1/s"), "a1", "a2", "a3")
    (a1,) = await queue.claim(9)
    clock.advance("1s")
    assert await ids(queue) == ["a2"]
    clock.advance("10s")
    assert await queue.claim(9) == []
    await a1.ack()
    assert await ids(queue) == ["a3"]


async def test_a_retry_in_order_waits_for_its_slot_and_keeps_its_place(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, MODES["in order"], "a1", "a2", redelivery=AT_ONCE)
    (a1,) = await queue.claim(9)
    await a1.nack("no")
    assert await queue.claim(9) == []
    said = str(await queue.explain("a1"))
    assert "it waits for the rate of its key a; the next by its rate at " in said
    clock.advance("1s")
    (again,) = await queue.claim(9)
    assert (again.id, again.attempt) == ("a1", 2)


async def test_a_retry_takes_a_token(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, MODES["alone"], "a1", "a2", redelivery=after("500ms"))
    (a1,) = await queue.claim(9)
    await a1.nack("no")
    clock.advance("600ms")
    assert await queue.claim(9) == []
    clock.advance("400ms")
    assert await ids(queue) == ["a1"]
    clock.advance("1s")
    assert await ids(queue) == ["a2"]


@each_row_afresh("mode", MODES)
async def test_a_release_gives_the_token_back(mode: str, broker: Any) -> None:
    queue = await shop(broker, MODES[mode], "a1", "a2")
    (a1,) = await queue.claim(9)
    await a1.release()
    (a1,) = await queue.claim(9)
    assert a1.id == "a1"
    await a1.release(delay="1h")
    assert await ids(queue) == ([] if "order" in str(MODES[mode]) else ["a2"])


@each_row_afresh("mode", {name: MODES[name] for name in ("alone", "limited", "in turn")})
async def test_what_is_given_back_late_does_not_come_together(mode: str, broker: Any, clock: Clock) -> None:
    queue = await shop(broker, MODES[mode], "a1", "a2", "a3", "a4")
    held, taken = [], list[str]()
    for _ in range(3):
        clock.advance("1s")
        held += await queue.claim(9)
    for delivery in held:
        await delivery.release()
        taken += await ids(queue)
    assert (len(held), len(taken)) == (3, 1)  # that of the newest, which is within its slot
    clock.advance("1s")
    assert len(await ids(queue)) == 1


async def test_dead_ones_hold_their_key_and_come_back_at_its_slot(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, MODES["held"], "a1", "a2")
    (a1,) = await queue.claim(9)
    await a1.poison("no")
    clock.advance("5s")
    assert await queue.claim(9) == []
    await queue.dlq.redrive(all=True)
    await queue.ack(again := await queue.claim(9))
    assert [one.id for one in again] == ["a1"]
    assert await queue.claim(9) == []
    clock.advance("1s")
    assert await ids(queue) == ["a2"]


async def test_a_clock_that_steps_back_costs_one(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, PerKey(rate="1/s"), "a1", "a2", "a3")
    assert await ids(queue) == ["a1"]
    clock.set(clock.now - 3_600_000)
    assert await ids(queue) == ["a2"]
    assert await ids(queue) == []
    clock.advance("1s")
    assert await ids(queue) == ["a3"]


async def test_it_is_turned_on_and_off_over_a_full_queue(broker: Any, raw: Any, clock: Clock) -> None:
    queue = await shop(broker, PerKey(limit=3), "a1", "a2", "a3", "a4", "b1")
    await broker.policies.set("a", per_key="limit 3 rate 1/s", pinned=True)
    assert await ids(queue) == ["a1", "b1"]
    await broker.policies.set("a", per_key="rate 1/h", pinned=True)
    clock.advance("1s")
    assert await ids(queue) == ["a2"]
    await broker.policies.set("a", per_key=None, pinned=True)
    clock.advance("2s")
    assert await ids(queue) == []  # due by now, and promoted by the next
    assert await ids(queue) == ["a3", "a4"]
    clock.advance("2s")
    await queue.claim()
    assert not raw.exists("rq:{a}:slots", "rq:{a}:seated")


async def test_who_claims_wakes_one_that_watches_the_time(broker: Any, raw: Any) -> None:
    queue = await shop(broker, PerKey(rate="10/s"), "a1")
    assert await ids(queue, 1) == ["a1"]
    assert raw.llen("rq:{a}:wake") == 1


async def test_ten_a_second(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, PerKey(rate="10/s"), "a1", "a2", "a3", "a4")
    assert await ids(queue) == ["a1"]
    for name in ("a2", "a3", "a4"):
        clock.advance("99ms")
        assert await queue.claim(9) == []
        clock.advance("1ms")
        assert [found.id for found in await queue.claim(9)] == [name]
    await queue.send("no key", id="x")
    assert await ids(queue) == ["x"]


async def test_idle_keys_leave_nothing_behind(broker: Any, raw: Any, clock: Clock) -> None:
    queue = broker.queue("a", per_key=PerKey(rate="1/s"))
    await queue.send_many([Message(n, key=f"k{n}") for n in range(100)])
    await queue.ack(await queue.claim(100))
    assert (raw.zcard("rq:{a}:slots"), raw.exists("rq:{a}:seated")) == (100, 0)
    assert 86_340_000 < raw.pttl("rq:{a}:slots") <= 86_401_000, "a day, and an interval"
    clock.advance("1s")
    assert await queue.claim(44) == []
    assert raw.zcard("rq:{a}:slots") == 2, "a claim forgets two for each message, and ten"
    assert await queue.claim(1) == []
    assert not raw.exists("rq:{a}:slots")
    raw.zadd("rq:{a}:slots", {str(lane): 1 for lane in range(101)})
    assert await queue.claim(600) == []
    assert raw.zcard("rq:{a}:slots") == 1, "and never more than a hundred"
    assert await queue.claim(1) == []


async def test_what_is_said_of_who_waits(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, MODES["in order"], "a1", "a2", "a3")
    (a1,) = await queue.claim(9)
    now = a1.enqueued_at
    found = await queue.key("a").stats()
    assert found.next_at is not None
    assert now + SECOND <= found.next_at <= now + 2 * SECOND
    said = str(await queue.explain("a3"))
    assert "it waits for its key a: 2 in front; a1 is being processed at " in said
    assert f"; the next by its rate at {found.next_at:%H:%M:%S} UTC" in said
    await a1.ack()
    assert "it waits for the rate of its key a: 1 in front; the next by its rate" in str(
        await queue.explain("a3")
    )
    clock.advance("1s")
    assert (await queue.key("a").stats()).next_at is None


@each_row_afresh(
    "rule, first, front, then",
    [
        (PerKey(rate="1/m"), "after that one", "the rate of its key a: 0", "when its rate allows"),
        (PerKey(fair=1, rate="1/m"), "after that one", "the rate of its key a: 0", "when its rate allows"),
        (PerKey(limit=2, rate=1), "when its rate allows", "the rate of its key a: 1", "when its rate allows"),
        (PerKey(order=True, rate=1), "when that one is done", "its key a: 1", "when that one is done"),
    ],
)
async def test_what_lets_in_the_next(rule: PerKey, first: str, front: str, then: str, broker: Any) -> None:
    """It is another message only if there is one to wait for."""
    queue = await shop(broker, rule, "a1", "a2")
    said = await queue.explain("a2")
    assert said.why == "it waits for its key a: 1 in front; a1 holds its seat"
    assert said.next == f"the next message of its key is delivered {first}"
    assert await ids(queue) == ["a1"]
    said = await queue.explain("a2")
    assert f"it waits for {front} in front; " in said.why
    assert said.next == f"the next message of its key is delivered {then}"


async def test_one_that_was_let_in_and_goes_lets_the_next_in(broker: Any) -> None:
    """At once: it has taken no slot."""
    queue = await shop(broker, PerKey(limit=2, rate="1/s"), "a1", "a2", "a3")
    assert await queue.select(ids=["a1"]).purge() == 1
    stats = await queue.stats()
    assert (stats.ready, stats.blocked) == (1, 1)


async def test_a_retry_that_waits_for_its_slot_gives_back_its_seat_of_a_limit(broker: Any, raw: Any) -> None:
    queue = await shop(broker, PerKey(limit=1, rate="1/h"), "a1", redelivery=AT_ONCE)
    (a1,) = await queue.claim(9)
    await a1.nack("no")
    assert (await queue.stats()).blocked == 1
    assert raw.zrange(queue._core.keys["seats"], 0, -1) == []
