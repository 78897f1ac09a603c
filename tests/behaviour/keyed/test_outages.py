"""A dependency that is down: what needs it waits, uncharged, and comes back by success."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from rq_dlq import Breaker, InvalidInput, Message, PerKey, Poison, PolicyError, Redeliver, RedeliveryPolicy
from rq_dlq._keys import QueueKeys
from tests.conftest import Clock
from tests.model.driver import Driver
from tests.servers.counts import verbs_run
from tests.tables import each_row, each_row_afresh

THREE = Breaker(distinct=3, within="10s")
ONCE = RedeliveryPolicy(initial_delay=1, max_redeliveries=1, collision_avoidance=0)


async def shop(broker: Any, *names: str, **how: Any) -> Any:
    """A queue whose messages need payments, but for those whose names begin with o."""
    settings = {"breaker": THREE, "redelivery": ONCE} | how
    queue = broker.queue("a", **settings)
    await send(queue, *names)
    return queue


async def send(queue: Any, *names: str) -> None:
    await queue.send_many(
        [Message(n, id=n, dependency=None if n[0] == "o" else "payments", key=f"k{n[0]}") for n in names]
    )


def some(letter: str, count: int) -> list[str]:
    return [f"{letter}{n:02}" for n in range(count)]


async def taken(queue: Any, count: int = 99) -> list[Any]:
    """What claims hand out until there is nothing."""
    found: list[Any] = []
    for _ in range(30):
        more = await queue.claim(count - len(found))
        found += more
        if (not more and not (await queue.stats()).ready) or len(found) == count:
            return found
    return found


async def fall(queue: Any, count: int = 3) -> None:
    """Let so many messages fail."""
    for one in await queue.claim(count):
        await one.nack("payments are down")


async def state(queue: Any) -> Any:
    return await queue.dependency("payments").stats()


async def test_a_claim_parks_a_hundred(broker: Any, raw: Any) -> None:
    """Of 350 that it reads: the others stay for the next ones, and so does what needs nothing."""
    queue = await shop(broker, *(f"p{n}" for n in range(350)), "o1")
    await queue.dependency("payments").pause()
    before = verbs_run(raw)
    assert [one.id for one in await queue.claim(1_000)] == ["o1"]
    assert verbs_run(raw) - before == 4
    assert (raw.zcard("rq:{a}:ready"), (await queue.stats()).scheduled) == (0, 350)


async def test_it_opens_and_nobody_is_charged(broker: Any, clock: Clock, caplog: Any) -> None:
    """What failed before is refunded, also what somebody holds; others go on; the log says it once."""
    queue = await shop(broker, *some("p", 8), "o1", "o2")
    held = await queue.claim(4)
    for one in held[:3]:
        settlement = await one.nack("down")
    assert (settlement.opened, settlement.uncharged) == ("payments", True)
    assert [one.charged for one in await queue.select(ids=["p00", "p01", "p02"]).browse()] == [0, 0, 0]
    assert [one.id for one in await taken(queue)] == ["o1", "o2"]
    await held[3].nack("down, too")
    clock.advance("900ms")
    assert await taken(queue) == []
    found = await state(queue)
    assert (found.open, found.waiting, found.paused, found.dead) == (True, 6, False, ())
    assert (found.next_probe - found.since).total_seconds() == 1
    warned = [one.message for one in caplog.records if "counts as down" in one.message]
    assert len(warned) == 1
    assert warned[0].startswith("a: payments counts as down")
    (opened, *_) = await broker.audit()
    assert (opened.did, opened.by, opened.chosen) == ("opened", "breaker", "dependency payments")


async def test_each_failure_of_a_message_is_refunded(broker: Any) -> None:
    """Those since its last redrive, also the earlier ones."""
    queue = await shop(broker, "p0", redelivery=RedeliveryPolicy(delays=[0], max_redeliveries=3))
    for _ in range(4):
        await fall(queue, 1)
    await queue.dlq.redrive(all=True)
    for _ in range(2):
        await fall(queue, 1)
    assert [one.charged for one in await queue.peek()] == [2]
    await send(queue, "p1", "p2")
    await fall(queue, 3)
    assert (await state(queue)).open
    assert [one.charged for one in await queue.select(ids=["p0", "p1", "p2"]).browse()] == [0, 0, 0]


async def test_one_message_never_opens_it(broker: Any) -> None:
    queue = await shop(broker, "p0", redelivery=RedeliveryPolicy(initial_delay=0, max_redeliveries=20))
    for _ in range(9):
        await fall(queue)
    assert not (await state(queue)).open


@each_row_afresh("error", [ValueError("no"), Poison("no"), Redeliver("1s", charge=False)])
async def test_what_does_not_count(error: Exception, broker: Any) -> None:
    """Errors of other classes, and what charges nobody."""
    queue = await shop(broker, *some("p", 9), breaker=Breaker(distinct=3, errors=(ConnectionError,)))
    for one in await queue.claim(5):
        try:
            async with one:
                raise error
        except ValueError:
            pass
    assert not (await state(queue)).open
    for one in await queue.claim(3):
        with pytest.raises(ConnectionError):
            async with one:
                raise ConnectionResetError
    assert (await state(queue)).open


async def _ids(queue: Any) -> list[str]:
    return [one.id for one in await taken(queue)]


async def test_probes_rotate_and_become_rare(broker: Any, clock: Clock) -> None:
    """Three at a time at most, of which those that failed come last; the wait doubles up to the longest."""
    queue = await shop(broker, *some("p", 5), breaker=Breaker(distinct=2, longest_probe="4s"))
    held = await queue.claim(5)
    for one in held:
        await one.nack("down", delay=0)
    assert await _ids(queue) == []
    tried: list[str] = []
    for wait in (1, 2, 4, 4, 4):
        clock.advance(f"{wait}s")
        claimed = await taken(queue)
        tried += [one.id for one in claimed]
        assert await taken(queue) == []
        for one in claimed:
            await one.nack("down")
        assert await taken(queue) == []
    assert set(tried) == set(some("p", 5))
    assert {one.charged for one in await queue.select(all=True).browse()} == {0}


async def test_no_probe_beside_another(broker: Any, clock: Clock, raw: Any) -> None:
    """Until it is settled, or its lease lapses, which counts neither way."""
    queue = await shop(broker, *some("p", 6), redelivery=RedeliveryPolicy(delays=[0], max_redeliveries=9))
    await fall(queue)
    assert await taken(queue) == []
    clock.advance("1s")
    first, *_ = await taken(queue)
    for _ in range(9):
        clock.advance("3s")
        assert await taken(queue) == []
    clock.advance("4s")  # the leases have lapsed
    found = await taken(queue)
    clock.advance("4s")
    assert len(found or await taken(queue)) > 0
    words = raw.hget("rq:{a}:states", first.id).split()
    assert (words[4], words[6]) == (b"0", b"1"), "lapsed, and not charged"


async def test_success_lets_them_in(broker: Any, clock: Clock, raw: Any) -> None:
    """Twice as many each time, at most 32; what comes meanwhile is not held up; then all is as before."""
    queue = await shop(broker, *some("p", 99), "o1")
    await fall(queue)
    assert await _ids(queue) == ["o1"]
    clock.advance("1s")
    rounds = []
    claimed = await taken(queue)
    while claimed:
        rounds.append(len(claimed))
        await queue.ack(claimed)
        claimed = await taken(queue)
    assert rounds in (
        [3, 6, 12, 24, 32, 22],
        [2, 4, 8, 16, 32, 32, 5],
    )  # any one may be the first or the newest
    clock.advance("2s")
    await queue.ack(await taken(queue))
    assert await taken(queue) == []
    assert (await state(queue)).open is False
    assert not raw.exists("rq:{a}:special", "rq:{a}:gates", "rq:{a}:seated")
    clock.advance("2s")
    await queue.claim()
    assert raw.hget("rq:{a}:settings", "gated") == b"plain"
    assert [one.did for one in await broker.audit()] == ["closed", "opened"]


async def test_new_messages_pass_while_it_drains(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, *some("p", 50))
    await fall(queue)
    assert await taken(queue) == []
    clock.advance("1s")
    await (await taken(queue))[0].ack()
    await send(queue, "q1")
    assert "q1" in await _ids(queue)


async def test_failures_count_again_once_it_drains(broker: Any, clock: Clock) -> None:
    """And may open it anew; what was let through then waits again."""
    queue = await shop(
        broker, *some("p", 50), redelivery=RedeliveryPolicy(initial_delay=1, max_redeliveries=0)
    )
    await fall(queue, 3)
    dead = (await queue.stats()).dead
    assert dead == 2  # which failed before it was known
    assert (await state(queue)).dead == ("p01", "p00")
    assert await taken(queue) == []
    clock.advance("1s")
    await (await taken(queue))[0].ack()
    (one,) = await taken(queue, 1)
    await one.nack("a bad one")
    assert (await queue.stats()).dead == dead + 1
    for one in await taken(queue, 2):
        await one.nack("down again")
    assert (await state(queue)).open
    assert await taken(queue) == []


async def test_a_poison_head_neither_keeps_it_open_nor_is_spared(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, *some("p", 6))
    await fall(queue)
    assert await taken(queue) == []
    for _ in range(60):
        clock.advance("1s")
        for one in await taken(queue):
            await (one.nack("bad") if one.id == "p00" else one.ack())
    stats = await queue.stats()
    assert (stats.dead, stats.totals["acked"], stats.waiting) == (1, 5, 0)
    assert (await queue.dlq.select(all=True).browse())[0].id == "p00"


async def test_in_order_a_parked_one_keeps_its_seat(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, per_key=PerKey(order=True))
    for name, key in (("p1", "a"), ("p2", "b"), ("p3", "c"), ("p4", "a")):
        await queue.send(name, id=name, key=key, dependency="payments")
    for name, key in (("o1", "a"), ("o2", "d")):
        await queue.send(name, id=name, key=key)
    for one in await queue.claim(9):
        if one.id != "o2":
            await one.nack("down", delay=0)
    assert await taken(queue) == []
    assert (await queue.key("a").stats()).held_by == (("p1", ""),)
    clock.advance("1s")
    done = []
    while claimed := await taken(queue):
        done += [one.id for one in claimed]
        await queue.ack(claimed)
    assert done == ["p1", "p2", "p3", "p4", "o1"] or done.index("p1") < done.index("p4") < done.index("o1")


async def test_with_a_limit_it_gives_the_seat_back(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, "p1", "p2", "p3", per_key=PerKey(limit=1))
    await queue.send("other", id="o", key="kp")
    for _ in range(4):
        for one in await taken(queue):
            await (one.ack() if one.id == "o" else one.nack("down"))
    assert (await queue.stats()).totals["acked"] == 1
    clock.advance("1s")
    done: list[str] = []
    while len(done) < 3:
        claimed = await taken(queue)
        assert len(claimed) <= 1
        done += [one.id for one in claimed]
        await queue.ack(claimed)
        clock.advance("1s")
    assert sorted(done) == ["p1", "p2", "p3"]


async def test_a_canary_behind_it_waits(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, *some("p", 9))
    await queue.poison(await queue.claim(4), "bad")
    await fall(queue)
    assert await taken(queue) == []
    job = await queue.dlq.redrive(all=True, canary=2, detach=True)
    await queue.maintain()
    clock.advance("900ms")
    assert await taken(queue) == []
    await job.refresh()
    assert (job.state, job.counts.moved) == ("running", 2)


async def test_what_expires_there_expires(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, *some("p", 3))
    await queue.send("x", id="x", dependency="payments", ttl="5s")
    await fall(queue)
    assert await taken(queue) == []
    assert (await queue.stats()).blocked
    clock.advance("6s")
    await queue.maintain()
    assert (await queue.stats()).expired == 1


async def test_verbs_on_who_is_parked(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, *some("p", 9))
    await fall(queue)
    assert await taken(queue) == []
    with pytest.raises(InvalidInput, match=r"p05 cannot be delivered now.*it waits for payments: down since"):
        await queue.select(ids=["p05"]).deliver_now()
    assert await queue.select(ids=["p06"]).prioritize(9) == 1
    assert await taken(queue) == []
    assert await queue.select(ids=["p07"]).move("b", create=True) == 1
    assert await queue.select(ids=["p08"]).dead_letter() == 1
    assert [one.id for one in await broker.queue("b").claim(9)] == ["p07"]
    clock.advance("1s")
    assert "p06" in await _ids(queue)
    assert await queue.purge(all=True) > 3
    assert (await state(queue)).waiting == 0


async def test_it_is_forgotten_when_nobody_needs_it(broker: Any, clock: Clock, raw: Any) -> None:
    queue = await shop(broker, *some("p", 3))
    await fall(queue)
    await queue.purge(all=True)
    for _ in range(3):
        clock.advance("31s")
        await queue.claim()
    assert not raw.exists("rq:{a}:special", "rq:{a}:gates")
    assert raw.hget("rq:{a}:settings", "gated") == b"plain"


async def test_a_batch_that_fails_counts_one(broker: Any) -> None:
    """It settles its bad messages before the others; each batch is refunded."""
    queue = await shop(broker, *some("p", 20))
    for count in (9, 9):
        await queue.nack(await queue.claim(count), "down")
    assert not (await state(queue)).open
    await queue.nack(await queue.claim(2), "down")
    assert (await state(queue)).open
    assert {one.charged for one in await queue.select(all=True).browse()} == {0}


async def test_a_long_record_is_parked_and_counted(broker: Any, clock: Clock) -> None:
    queue = await shop(broker)
    for n in range(6):
        await queue.send("x" * 3_000, id=f"p{n}", key="k", dependency="payments")
    await fall(queue)
    assert await taken(queue) == []
    clock.advance("1s")
    first, *others = await taken(queue)
    await first.ack()
    assert len(await taken(queue)) == min(2, 5 - len(others))


async def test_turned_off_it_lets_them_in(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, *some("p", 6), redelivery=ONCE, breaker=None)
    await broker.policies.set("a", breaker=THREE, pinned=True)
    await fall(queue)
    assert await taken(queue) == []
    await broker.policies.set("a", breaker=None, pinned=True)
    clock.advance("2s")
    await queue.claim()
    assert len(await taken(queue)) >= 3


# By hand


async def test_a_dependency_is_paused_by_hand(broker: Any, clock: Clock) -> None:
    """Without a breaker, too. Nobody is charged; resumed, 32 come at once, and no failures open it."""
    queue = await shop(broker, *some("p", 60), "o1", breaker=None)
    (held,) = await queue.claim(1)
    payments = queue.dependency("payments")
    assert await payments.pause()
    assert not await payments.pause()
    await held.nack("no")
    assert await _ids(queue) == ["o1"]
    found = await payments.stats()
    assert (found.open, found.paused, found.until, found.next_probe) == (True, True, None, None)
    clock.advance("1h")
    assert await taken(queue) == []
    assert await payments.resume()
    assert not await payments.resume()
    claimed = await taken(queue)
    assert len(claimed) == 32
    assert {one.charged for one in claimed} == {0}


async def test_resumed_it_stays_closed_for_a_while(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, *some("p", 40))
    await fall(queue)
    with pytest.raises(InvalidInput, match=r"payments down since .* pass close=True"):
        await queue.dependency("payments").resume()
    assert await queue.dependency("payments").resume(close=True)
    await fall(queue, 9)
    assert not (await state(queue)).open
    clock.advance("11m")
    await fall(queue, 9)
    assert (await state(queue)).open
    assert [(one.did, one.number) for one in await broker.audit()] == [
        ("opened", 0), ("closed", 0), ("opened", 0),
    ]  # fmt: skip


async def test_a_pause_ends_by_itself(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, *some("p", 3), breaker=None)
    assert await queue.dependency("payments").pause(until="1m")
    assert await taken(queue) == []
    assert (await state(queue)).until is not None
    clock.advance("59s")
    assert await taken(queue) == []
    clock.advance("1s")
    assert len(await taken(queue)) == 3


@each_row_afresh("rule", [None, PerKey(limit=2), PerKey(order=True), PerKey(fair=True)])
async def test_a_key_is_paused_by_hand(rule: Any, broker: Any) -> None:
    queue = await shop(broker, *some("k", 4), "o1", breaker=None, per_key=rule)
    tenant = queue.key("kk")
    assert await tenant.pause(until="1h")
    assert await _ids(queue) == ["o1"]
    assert (await queue.stats()).blocked == 4
    assert await tenant.resume()
    assert not await tenant.resume()
    done = []
    while claimed := await taken(queue):
        done += [one.id for one in claimed]
        await queue.ack(claimed)
    assert done == some("k", 4)
    assert [one.did for one in await broker.audit()] == ["resumed", "paused"]


async def test_a_handler_pauses_the_key_of_its_message(broker: Any, clock: Clock) -> None:
    """The later end wins; nobody is charged."""
    queue = await shop(broker, *some("t", 4), "o1", breaker=None)
    for one, after in zip(await queue.claim(3), ("30s", "60s", "30s"), strict=True):
        async with one:
            raise Redeliver(after, pause_key=True)
    assert await _ids(queue) == ["o1"]
    clock.advance("31s")
    assert await taken(queue) == []
    clock.advance("29s")
    claimed = [one for one in await taken(queue) if one.id != "o1"]
    assert sorted(one.id for one in claimed) == some("t", 4)
    assert {one.charged for one in claimed} == {0}
    with pytest.raises(ValueError, match="needs a duration: pass after"):
        Redeliver(pause_key=True)


async def test_a_queue_is_paused_until_a_time(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, "p1", breaker=None)
    assert await queue.pause(until="1m")
    assert (await queue.stats()).paused
    assert await queue.claim() == []
    assert await queue.pause()  # for good
    clock.advance("2m")
    assert await queue.claim() == []
    assert await queue.pause(until="1m")
    clock.advance("1m")
    assert not (await queue.stats()).paused
    assert [one.id for one in await queue.claim()] == ["p1"]
    assert not await queue.resume()


async def test_in_all_queues(broker: Any) -> None:
    for name in "ab":
        await broker.queue(name).send("x", dependency="payments")
    assert await broker.dependency("payments").pause(until="1h") == 2
    assert [(one.queue, one.open) for one in await broker.dependency("payments").stats()] == [
        ("a", True), ("b", True),
    ]  # fmt: skip
    assert await broker.queue("b").claim() == []
    assert await broker.dependency("payments").resume() == 2
    assert len(await taken(broker.queue("b"))) == 1


# Settings


@each_row(
    "given, said",
    [
        ({"distinct": 1}, "2 to 100"),
        ({"within": "2h"}, "an hour at most"),
        ({"share": 1.5}, "0 to 1"),
        ({"probe": "1m"}, "longer than"),
        ({"errors": ["x"]}, "errors"),
    ],
)
def test_a_breaker_is_checked(given: Any, said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        Breaker(**given)


@each_row("text", ["", "off", "distinct=20,within=30s", "distinct=x", "unknown=1", "share=2"])
def test_a_text_that_is_no_breaker(text: str) -> None:
    with pytest.raises(PolicyError):
        Breaker.of(text)


def test_a_breaker_is_text_in_redis() -> None:
    text = "distinct=20 within=30000ms share=0.5 probe=1000ms longest_probe=30000ms"
    assert str(Breaker()) == text
    assert Breaker.of(text) == Breaker.of("on") == Breaker.of(True) == Breaker()
    assert Breaker.of("distinct=9 within=1m") == Breaker.of({"distinct": 9, "within": 60})


async def test_a_dependency_that_counts_is_not_warned_of(broker: Any, caplog: Any) -> None:
    await shop(broker, "p1", per_key=PerKey(order=True))
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


async def test_who_waits_sets_the_alarm_for_the_next_probe(broker: Any, raw: Any, clock: Clock) -> None:
    """So nobody polls."""
    queue = await shop(broker, *some("p", 4))
    await fall(queue)
    assert await taken(queue) == []
    driver = Driver(raw, keys=QueueKeys("rq", "a"))
    reply = driver.run(driver.claim_call("T", 1, patience=60_000))
    assert reply.wait == 1_000
    assert await queue.pause(until="400ms")
    reply = driver.run(driver.claim_call("U", 1, patience=60_000, alarmed=True))
    assert reply.wait == 400
    clock.advance("400ms")
    reply = driver.run(driver.claim_call("V", 1, patience=60_000, alarmed=True))
    assert reply.wait == 600


async def test_a_probe_whose_time_was_lost_is_due_in_a_second(broker: Any, raw: Any, clock: Clock) -> None:
    queue = await shop(broker, *some("p", 5))
    await fall(queue)
    assert await taken(queue) == []
    raw.delete("rq:{a}:gates")
    clock.advance("1s")
    assert await queue.claim(9) == []
    assert len(await queue.claim(9)) > 0


async def test_another_priority_lets_nobody_in(broker: Any, clock: Clock) -> None:
    """Who waits for a dependency stays in its lane, behind the 32 that come first; so does one of a key."""
    queue = await shop(broker, *some("p", 40))
    payments = queue.dependency("payments")
    await payments.pause()
    assert await taken(queue) == []
    await payments.resume()
    assert await queue.select(ids=["p38"]).prioritize(1) == 1
    stats = await queue.stats()
    assert (stats.ready, stats.blocked) == (32, 8)
    ordered = broker.queue("b", per_key=PerKey(order=True))
    await ordered.send_many([Message(n, id=n, key="k") for n in ("first", "second")])
    await ordered.key("k").pause(until="1s")
    assert await taken(ordered) == []
    clock.advance("2s")  # the pause is over, and no claim has seen that
    assert await ordered.select(ids=["first"]).prioritize(1) == 1
    assert [one.id for one in await ordered.claim(9)] == ["second"]


async def test_what_comes_back_overtakes_no_message_of_its_key_that_is_due(broker: Any, clock: Clock) -> None:
    """It was delayed, and nobody has claimed since it is due."""
    queue = broker.queue("a", per_key=PerKey(limit=1), breaker=Breaker())
    await queue.dependency("pay").pause()
    due = await queue.send("due", key="k", delay="1s")
    parked = await queue.send("parked", key="k", dependency="pay")
    assert await queue.claim(9) == []
    clock.advance("2s")
    await queue.dependency("pay").resume()
    (first,) = await queue.claim(9)
    assert first.id == due
    await first.ack()
    assert [one.id for one in await queue.claim(9)] == [parked]
