"""An outage, to the millisecond and to the message: when probes come, who has a pass, what counts."""

from __future__ import annotations

import json
from typing import Any

from rq_dlq import Breaker, Message, PerKey
from tests.behaviour.helpers import AT_ONCE, after, one
from tests.behaviour.test_outages import send, shop, some, state, taken
from tests.conftest import Clock
from tests.each import each_afresh


async def down(queue: Any, count: int = 3) -> None:
    """Let so many fail, which opens it, and have a claim park them all."""
    for held in await queue.claim(count):
        await held.nack("down", delay=0)
    assert await taken(queue) == []


async def nothing_before(wait: int, queue: Any, clock: Clock) -> Any:
    """A millisecond before it has passed nothing comes, then one message does."""
    clock.set(clock.now + wait - 1)
    assert await queue.claim(9) == []
    clock.set(clock.now + 1)
    return await one(queue, count=9)


async def test_the_waits_of_probes_double(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, *some("p", 3), breaker=Breaker(distinct=3, longest_probe="10s"))
    await down(queue)
    for wait in (1_000, 2_000, 4_000, 8_000, 10_000, 10_000):
        probe = await nothing_before(wait, queue, clock)
        assert await queue.claim(9) == []
        await probe.nack("down")


async def test_probes_take_turns_among_the_first_twenty(broker: Any, clock: Clock, raw: Any) -> None:
    queue = await shop(broker, *some("p", 25))
    await down(queue)
    for before, name in ((18, "p18"), (19, "p19"), (20, "p00"), (21, "p01")):
        ((lane, text),) = raw.hgetall("rq:{a}:lanes").items()
        raw.hset("rq:{a}:lanes", lane, json.dumps(json.loads(text) | {"probes": before}))
        clock.advance("30s")
        probe = await one(queue, count=9)
        assert probe.id == name
        await probe.nack("down")
        assert await taken(queue) == []


async def test_beside_a_probe_it_looks_again_a_second_later(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, *some("p", 3))
    await down(queue)
    probe = await nothing_before(1_000, queue, clock)
    clock.advance("2s")
    assert await queue.claim(9) == []
    await probe.nack("down")
    await (await nothing_before(1_000, queue, clock)).nack("down")
    await nothing_before(4_000, queue, clock)


async def test_without_messages_it_closes_at_the_second_probe(broker: Any, clock: Clock, raw: Any) -> None:
    """The second in a row, the longest wait after the first."""
    queue = await shop(broker, *some("p", 3))
    await down(queue)
    await queue.purge(all=True)
    clock.advance("1s")
    assert await queue.claim() == []
    await send(queue, "p4")
    assert await queue.claim() == []
    await (await nothing_before(30_000, queue, clock)).nack("down")
    assert await queue.claim() == []
    await queue.purge(all=True)
    clock.advance("2s")
    assert await queue.claim() == []
    clock.set(clock.now + 29_999)
    assert await queue.claim() == []
    assert raw.exists("rq:{a}:lanes", "rq:{a}:gates") == 2
    clock.set(clock.now + 1)
    assert await queue.claim() == []
    assert not raw.exists("rq:{a}:lanes", "rq:{a}:gates")


async def test_it_drains_by_time_if_no_pass_is_left(broker: Any, clock: Clock, raw: Any) -> None:
    """One message after the wait of a probe; none while others are on their way. An ack wakes who waits."""
    queue = await shop(broker, *some("p", 9))
    await down(queue)
    probe = await nothing_before(1_000, queue, clock)
    assert not raw.exists("rq:{a}:wake")
    await probe.ack()
    assert raw.llen("rq:{a}:wake") == 1
    held = await taken(queue)
    assert len(held) == 2
    clock.advance("1s")
    assert await queue.claim(9) == []
    for found in held:
        await found.nack("bad", delay="1h", charge=False)
    for _ in range(3):
        found = await nothing_before(1_000, queue, clock)
        await found.nack("bad", delay="1h", charge=False)


async def test_an_ack_that_lets_nobody_through_wakes_nobody(broker: Any, clock: Clock, raw: Any) -> None:
    queue = await shop(broker, *some("p", 3))
    await down(queue)
    probe = await nothing_before(1_000, queue, clock)
    assert await queue.select(ids=["p01", "p02"]).purge() == 2
    await probe.ack()
    assert not raw.exists("rq:{a}:wake", "rq:{a}:lanes")


async def test_beside_those_on_their_way_no_more_than_32_come(broker: Any) -> None:
    queue = await shop(broker, *some("p", 40))
    await queue.dependency("payments").pause()
    assert await taken(queue) == []
    await queue.dependency("payments").resume()
    first, *others = await taken(queue)
    assert len(others) == 31
    await first.ack()
    assert len(await taken(queue)) == 1
    await queue.ack(others[:2])
    assert len(await taken(queue)) == 2


async def test_the_drain_ends_with_the_last_pass(broker: Any, clock: Clock, raw: Any) -> None:
    queue = await shop(broker, *some("p", 4))
    await down(queue)
    await (await nothing_before(1_000, queue, clock)).ack()
    first, second = await taken(queue)
    assert not raw.exists("rq:{a}:wake")
    await first.ack()
    assert raw.llen("rq:{a}:wake") == 1
    (third,) = await taken(queue)
    await second.ack()
    assert raw.exists("rq:{a}:lanes", "rq:{a}:gates") == 2
    await third.ack()
    assert not raw.exists("rq:{a}:lanes", "rq:{a}:gates")


async def test_it_drains_past_those_whose_key_is_paused(broker: Any, clock: Clock) -> None:
    """52 of them at a time."""
    queue = await shop(broker, *some("p", 60), "q1", breaker=None)
    payments = queue.dependency("payments")
    await payments.pause()
    assert await taken(queue) == []
    await queue.key("kp").pause()
    await payments.resume()
    assert ((await state(queue)).waiting, (await queue.key("kp").stats()).blocked) == (9, 52)
    assert (await nothing_before(1_000, queue, clock)).id == "q1"
    assert ((await state(queue)).waiting, (await queue.key("kp").stats()).blocked) == (0, 60)


async def test_a_row_of_a_message_that_is_gone_is_dropped(broker: Any, raw: Any) -> None:
    """A script that was cut off left it; another message comes in its place."""
    queue = await shop(broker, "p1", "p3", breaker=None)
    await queue.dependency("payments").pause()
    assert await taken(queue) == []
    (row, lane), _ = raw.zrange("rq:{a}:scheduled", 0, -1, withscores=True)
    raw.zadd("rq:{a}:scheduled", {row[:-1] + b"2": lane})
    await queue.dependency("payments").resume()
    assert raw.zcard("rq:{a}:scheduled") == 0
    assert [found.id for found in await queue.claim(9)] == ["p1", "p3"]


async def test_what_is_held_when_it_opens_anew_is_no_probe(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, *some("p", 3))
    await down(queue)
    await (await nothing_before(1_000, queue, clock)).ack()
    held, other = await taken(queue)
    await other.ack()
    await send(queue, *some("q", 3))
    for found in await taken(queue):
        await found.nack("down again")
    assert (await state(queue)).open
    await held.ack()
    assert (await state(queue)).open


async def test_the_one_that_died_in_its_window_is_named(broker: Any) -> None:
    queue = await shop(broker, *some("p", 3), redelivery=after(0, most=1))
    for count in (1, 1, 2):
        for found in await queue.claim(count):
            await found.nack("down")
    found = await state(queue)
    assert (found.open, found.dead) == (True, ("p00",))
    (dead,) = await queue.dlq.select(all=True).browse()
    assert dead.charged == 2, "a dead letter is not refunded"


async def test_resumed_it_stays_closed_for_ten_minutes(broker: Any, clock: Clock, raw: Any) -> None:
    queue = await shop(broker)
    payments = queue.dependency("payments")
    await payments.pause()
    await payments.resume()
    assert raw.zrange("rq:{a}:gates", 0, -1, withscores=True)[0][1] == clock.now + 600_000
    clock.set(clock.now + 599_999)
    await send(queue, *some("p", 9))
    for held in await queue.claim(3):
        await held.nack("down", delay=0)
    assert not (await state(queue)).open
    assert raw.exists("rq:{a}:lanes", "rq:{a}:gates") == 2
    clock.set(clock.now + 1)
    held = await queue.claim(3)
    assert not raw.exists("rq:{a}:lanes", "rq:{a}:gates")
    for found in held[:2]:
        await found.nack("down", delay=0)
    assert not (await state(queue)).open
    await held[2].nack("down", delay=0)
    assert (await state(queue)).open


async def test_when_the_pause_of_one_that_is_down_ends_it_is_probed(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, *some("p", 5))
    await down(queue)
    await queue.dependency("payments").pause(until="5s")
    probe = await nothing_before(5_000, queue, clock)
    found = await state(queue)
    assert (found.open, found.paused, found.until) == (True, False, None)
    await probe.ack()
    assert len(await taken(queue)) == 2


async def test_gates_of_lanes_without_a_state_are_forgotten(broker: Any, raw: Any) -> None:
    """A script that was cut off left them; a claim looks at ten gates."""
    queue = await shop(broker, "o1", "o2")
    raw.hset("rq:{a}:settings", "gated", 1)
    raw.zadd("rq:{a}:gates", {str(lane): 1 for lane in range(77, 88)})
    assert len(await queue.claim(1)) == 1
    assert raw.zcard("rq:{a}:gates") == 1
    assert len(await queue.claim(1)) == 1
    assert not raw.exists("rq:{a}:gates")


async def test_let_through_without_a_seat_it_waits_for_its_key(broker: Any) -> None:
    queue = await shop(broker, *some("p", 3), per_key=PerKey(limit=1))
    payments, key = queue.dependency("payments"), queue.key("kp")
    await payments.pause()
    assert await taken(queue) == []
    assert ((await state(queue)).waiting, (await key.stats()).blocked) == (3, 0)
    await payments.resume()
    assert ((await state(queue)).waiting, (await key.stats()).blocked) == (0, 2)
    for name in some("p", 3):
        found = await one(queue, count=9)
        assert found.id == name
        await found.ack()


@each_afresh("rule, count, blocked", [(None, 0, 0), (None, 1, 0), (None, 1_001, 1), (PerKey(limit=1), 3, 2)])
async def test_a_key_is_resumed(rule: Any, count: int, blocked: int, broker: Any) -> None:
    """Without a rule a thousand of its messages are let in at once."""
    queue = await shop(broker, *some("k", count), "o1", breaker=None, per_key=rule)
    await queue.key("kk").pause()
    assert [found.id for found in await queue.claim(1_000)] == ["o1"]
    assert (await queue.stats()).blocked == count
    await queue.key("kk").resume()
    assert (await queue.stats()).blocked == blocked


async def test_let_through_while_its_key_is_paused_it_gives_the_seat_back(broker: Any) -> None:
    queue = await shop(broker, *some("p", 2), per_key=PerKey(order=True))
    payments, key = queue.dependency("payments"), queue.key("kp")
    await payments.pause()
    assert await taken(queue) == []
    assert (await key.stats()).held_by == (("p00", ""),)
    await key.pause()
    await payments.resume()
    assert (await key.stats()).held_by == ()
    assert await taken(queue) == []
    await key.resume()
    assert [found.id for found in await queue.claim(9)] == ["p00"]


async def test_parked_for_its_key_a_message_has_no_pass(broker: Any, raw: Any) -> None:
    queue = await shop(broker, *some("p", 2), breaker=None)
    await queue.dependency("payments").pause()
    assert await taken(queue) == []
    await queue.dependency("payments").resume()
    assert raw.zcard("rq:{a}:seats") == 2
    await queue.key("kp").pause()
    assert await taken(queue) == []
    assert not raw.exists("rq:{a}:seats")


async def test_a_claim_that_parks_one_parks_a_hundred_more(broker: Any) -> None:
    queue = await shop(broker, "o1", *some("p", 105))
    await queue.dependency("payments").pause()
    assert [found.id for found in await queue.claim(2)] == ["o1"]
    assert (await queue.stats()).blocked == 101


async def test_a_row_of_a_leased_message_is_not_parked(broker: Any, raw: Any) -> None:
    """A script that was cut off left it."""
    queue = await shop(broker, "p1")
    rows = raw.zrange("rq:{a}:ready", 0, -1, withscores=True)
    await one(queue)
    raw.zadd("rq:{a}:ready", dict(rows))
    await queue.dependency("payments").pause()
    assert await queue.claim(9) == []
    assert not raw.exists("rq:{a}:ready", "rq:{a}:scheduled")


async def test_who_is_not_parked_keeps_its_count(broker: Any) -> None:
    queue = await shop(broker, "o1", "p1", "o2", "o3", redelivery=AT_ONCE)
    for found in await queue.claim(9):
        await found.nack("no")
    await queue.dependency("payments").pause()
    assert [(found.id, found.delivery_count) for found in await taken(queue)] == [
        ("o1", 2), ("o2", 2), ("o3", 2),
    ]  # fmt: skip


# The window of failures


@each_afresh("later, opens", [(9_999, True), (10_000, False), (-1, False)])
async def test_a_window_ends_to_the_millisecond(later: int, opens: bool, broker: Any, clock: Clock) -> None:
    """What failed in the future, before the clock stepped back, does not count either."""
    queue = await shop(broker, *some("p", 3))
    held = await queue.claim(3, lease="1h")
    for found in held[:2]:
        await found.nack("down", delay="1h")
    clock.set(clock.now + later)
    await held[2].nack("down")
    assert (await state(queue)).open is opens


@each_afresh("successes, opens", [(3, True), (4, False)])
async def test_a_share_of_just_a_half_suffices(successes: int, opens: bool, broker: Any) -> None:
    queue = await shop(broker, *some("p", 9))
    first, second, third, *others = await queue.claim(9)
    await first.nack("down")
    await second.nack("down")
    await queue.ack(others[:successes])
    await third.nack("down")
    assert (await state(queue)).open is opens


async def test_failures_before_a_redrive_do_not_count(broker: Any) -> None:
    queue = await shop(broker, *some("p", 9), redelivery=after(0, most=0))
    await (await one(queue, count=1)).nack("down")
    await queue.dlq.redrive(all=True)
    first, second, third, *others = sorted(await queue.claim(9), key=lambda found: str(found.id))
    await first.nack("down")
    await second.nack("down")
    await queue.ack(others[:4])
    await third.nack("down")
    assert not (await state(queue)).open, "3 failures, 4 successes"


async def test_a_failure_since_its_redrive_is_not_refunded(broker: Any) -> None:
    """If it does not count against the dependency."""
    breaker = Breaker(distinct=3, errors=(ConnectionError,))
    queue = await shop(broker, *some("p", 3), breaker=breaker, redelivery=after(0, most=1))
    for _ in range(2):
        await (await one(queue, count=1)).nack(ConnectionError("down"))
    await queue.dlq.redrive(all=True)
    held = await queue.claim(3)
    for found in held:
        await found.nack(ValueError("its own") if found.id == "p00" else ConnectionError("down"))
    assert (await state(queue)).open
    (redriven,) = await queue.select(ids=["p00"]).browse()
    assert redriven.charged == 1


async def test_successes_between_two_failures_of_a_message_count(broker: Any) -> None:
    """As long as the failure before them does."""
    queue = await shop(broker, *some("p", 20), redelivery=AT_ONCE)
    held = await queue.claim(20)

    async def fails(*names: str) -> bool:
        for found in held:
            if found.id in names:
                await found.nack("down")
        return bool((await state(queue)).open)

    await fails("p00", "p01")
    await queue.ack(held[10:16])
    held = [*await queue.claim(2), *held[2:10]]
    assert not await fails("p01")
    assert not await fails("p02"), "4 failures, 6 successes"
    assert await fails("p03"), "the first failure no longer counts, nor do the successes after it"


async def test_once_it_has_opened_failures_count_from_none(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, *some("p", 9))
    await queue.nack(await queue.claim(3), "down", delay=0)
    assert await taken(queue) == []
    await (await nothing_before(1_000, queue, clock)).ack()
    for found in await taken(queue):
        await found.nack("down again")
    assert not (await state(queue)).open


async def test_windows_that_have_ended_are_removed(broker: Any, clock: Clock, raw: Any) -> None:
    queue = await shop(broker)

    async def fails(*names: str) -> set[bytes]:
        await queue.send_many([Message(1, dependency=name) for name in names])
        await queue.nack(await queue.claim(9), "down", delay="1h")
        return set(raw.hkeys("rq:{a}:strikes"))

    first = await fails("a", "b")
    clock.set(clock.now + 9_999)
    both = await fails("c")
    assert (len(first), len(both - first), first <= both) == (5, 2, True)
    clock.set(clock.now + 1)
    last = await fails("d")
    assert (last & first, len(last)) == ({b""}, 5)
