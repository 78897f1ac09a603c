"""An outage, to the millisecond and to the message: when probes come, who has a pass, what counts."""

from __future__ import annotations

from typing import Any

from rq_dlq import Breaker, PerKey
from tests.behaviour.helpers import AT_ONCE, after, one
from tests.behaviour.keyed.test_outages import send, shop, some, state, taken
from tests.conftest import Clock
from tests.tables import each_row_afresh


async def down(queue: Any, count: int = 3) -> None:
    """Let so many fail, which opens it, and have a claim park them all."""
    for held in await queue.claim(count):
        await held.nack("down", delay=0)
    assert await taken(queue) == []


async def nothing_before(wait: int, queue: Any, clock: Clock) -> Any:
    """A millisecond before it has passed nothing comes, then one to three messages do."""
    clock.set(clock.now + wait - 1)
    assert await queue.claim(9) == []
    clock.set(clock.now + 1)
    found = await queue.claim(9)
    assert 0 < len(found) < 4
    return found


async def test_the_waits_of_probes_double(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, *some("p", 3), breaker=Breaker(distinct=3, longest_probe="10s"))
    await down(queue)
    for wait in (1_000, 2_000, 4_000, 8_000, 10_000, 10_000):
        probes = await nothing_before(wait, queue, clock)
        assert await queue.claim(9) == []
        for probe in probes:
            await probe.nack("down")


async def test_a_probe_is_the_first_the_newest_and_any_one(broker: Any, clock: Clock, raw: Any) -> None:
    """What failed as a probe goes last, so neither bad heads nor bad newcomers keep it open."""
    queue = await shop(broker, *some("p", 25))
    await down(queue)
    failed = set[str]()
    for _ in range(3):
        left = set(some("p", 25)) - failed
        clock.advance("30s")
        probes = {found.id: found for found in await queue.claim(9)}
        assert {min(left), max(left)} <= probes.keys()
        failed |= probes.keys()
        for probe in probes.values():
            await probe.nack("down")
        assert await taken(queue) == []
    waiting = [row[8:].decode() for row, _ in raw.zrange("rq:{a}:scheduled", 0, -1, withscores=True)]
    assert set(waiting[-len(failed) :]) == failed


async def test_beside_a_probe_it_looks_again_a_second_later(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, *some("p", 3))
    await down(queue)
    probes = await nothing_before(1_000, queue, clock)
    clock.advance("2s")
    assert await queue.claim(9) == []
    for probe in probes:
        await probe.nack("down")
    for probe in await nothing_before(1_000, queue, clock):
        await probe.nack("down")
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
    for probe in await nothing_before(30_000, queue, clock):
        await probe.nack("down")
    assert await queue.claim() == []
    await queue.purge(all=True)
    clock.advance("2s")
    assert await queue.claim() == []
    clock.set(clock.now + 29_999)
    assert await queue.claim() == []
    assert raw.exists("rq:{a}:special", "rq:{a}:gates") == 2
    clock.set(clock.now + 1)
    assert await queue.claim() == []
    assert not raw.exists("rq:{a}:special", "rq:{a}:gates")


async def test_it_drains_by_time_if_no_pass_is_left(broker: Any, clock: Clock, raw: Any) -> None:
    """By probes; none while others are on their way. An ack wakes who waits."""
    queue = await shop(broker, *some("p", 20))
    await down(queue)
    probe, *held = await nothing_before(1_000, queue, clock)
    assert not raw.exists("rq:{a}:wake")
    await probe.ack()
    assert raw.llen("rq:{a}:wake") == 1
    held += await taken(queue)
    clock.advance("1s")
    assert await queue.claim(9) == []
    for found in held:
        await found.nack("bad", delay="1h", charge=False)
    for _ in range(3):
        for found in await nothing_before(1_000, queue, clock):
            await found.nack("bad", delay="1h", charge=False)


async def test_while_it_comes_back_a_failure_lets_one_through(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, *some("p", 20), redelivery=after(60, most=9))
    await down(queue)
    probe, *held = await nothing_before(1_000, queue, clock)
    await probe.ack()
    held += await taken(queue)
    await held[0].nack("its own")
    assert len(await taken(queue)) == 1


async def test_an_ack_that_lets_nobody_through_wakes_nobody(broker: Any, clock: Clock, raw: Any) -> None:
    queue = await shop(broker, *some("p", 3))
    await down(queue)
    probe, *_ = await nothing_before(1_000, queue, clock)
    for name in {*some("p", 3)} - {probe.id}:
        await queue.cancel(name)
    await probe.ack()
    assert not raw.exists("rq:{a}:wake", "rq:{a}:special")


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
    held = await nothing_before(1_000, queue, clock)
    await held.pop().ack()
    held += await taken(queue)
    assert len(held) == 3
    while len(held) > 1:
        await held.pop().ack()
    assert raw.exists("rq:{a}:special", "rq:{a}:gates") == 2
    await held.pop().ack()
    assert not raw.exists("rq:{a}:special", "rq:{a}:gates")


async def test_it_drains_past_those_whose_key_is_paused(broker: Any, clock: Clock) -> None:
    """52 of them at a time."""
    queue = await shop(broker, *some("p", 60), "q1", breaker=None)
    payments = queue.dependency("payments")
    await payments.pause()
    assert await taken(queue) == []
    await queue.key("kp").pause()
    await payments.resume()
    assert ((await state(queue)).waiting, (await queue.key("kp").stats()).blocked) == (9, 52)
    assert {found.id for found in await nothing_before(1_000, queue, clock)} == {"q1"}


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
    found = await nothing_before(1_000, queue, clock)
    await found.pop().ack()
    found += await taken(queue)
    held, other = found
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
    assert (found.open, found.dead, found.died) == (True, ("p00",), 1)
    (dead,) = await queue.dlq.select(all=True).browse()
    assert dead.charged == 2, "a dead letter is not refunded"


async def test_resumed_it_stays_closed_for_ten_minutes(broker: Any, clock: Clock, raw: Any) -> None:
    queue = await shop(broker, *some("x", 3))
    payments = queue.dependency("payments")
    await down(queue)
    await queue.purge(all=True)
    await payments.resume(close=True)
    found = await payments.stats()
    assert (found.open, found.charged_until is not None) == (False, True)
    assert raw.zrange("rq:{a}:gates", 0, -1, withscores=True)[0][1] == clock.now + 600_000
    clock.set(clock.now + 599_999)
    await send(queue, *some("p", 9))
    for held in await queue.claim(3):
        await held.nack("down", delay=0)
    assert not (await state(queue)).open
    assert raw.exists("rq:{a}:special", "rq:{a}:gates") == 2
    clock.set(clock.now + 1)
    held = await queue.claim(3)
    assert not raw.exists("rq:{a}:special", "rq:{a}:gates")
    assert (await state(queue)).charged_until is None
    for found in held[:2]:
        await found.nack("down", delay=0)
    assert not (await state(queue)).open
    await held[2].nack("down", delay=0)
    assert (await state(queue)).open


async def test_when_the_pause_of_one_that_is_down_ends_it_is_probed(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, *some("p", 5))
    await down(queue)
    await queue.dependency("payments").pause(until="5s")
    probe, *others = await nothing_before(5_000, queue, clock)
    found = await state(queue)
    assert (found.open, found.paused, found.until) == (True, False, None)
    await probe.ack()
    assert len(await taken(queue)) == min(2, 4 - len(others))


async def test_gates_of_lanes_without_a_state_are_forgotten(broker: Any, raw: Any) -> None:
    """A script that was cut off left them; a claim looks at ten gates."""
    queue = await shop(broker, "o1", "o2")
    raw.hset("rq:{a}:settings", "gated", "special")
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


@each_row_afresh(
    "rule, count, blocked", [(None, 0, 0), (None, 1, 0), (None, 1_001, 1), (PerKey(limit=1), 3, 2)]
)
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
    assert raw.zcard("rq:{a}:seated") == 2
    await queue.key("kp").pause()
    assert await taken(queue) == []
    assert not raw.exists("rq:{a}:seated")


async def test_a_claim_that_parks_one_parks_a_hundred(broker: Any) -> None:
    queue = await shop(broker, "o1", *some("p", 105))
    await queue.dependency("payments").pause()
    assert [found.id for found in await queue.claim(2)] == ["o1"]
    assert (await queue.stats()).blocked == 100


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
