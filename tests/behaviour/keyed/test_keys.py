"""Messages with a key: order, limits, turns; what each verb does with the seats of their lanes."""

from __future__ import annotations

import logging
from dataclasses import asdict
from functools import partial
from itertools import product
from typing import Any

import pytest

import rq_dlq
from rq_dlq import InvalidInput, InvalidMessage, Message, PerKey, PolicyError, RedeliveryPolicy
from rq_dlq._keys import QueueKeys
from rq_dlq.core.changing import changing
from tests.behaviour.helpers import AT_ONCE, ids, keyed
from tests.behaviour.stepping import drive
from tests.conftest import Clock
from tests.model.driver import Driver
from tests.servers.counts import verbs_run
from tests.tables import each_row, each_row_afresh

ONCE = RedeliveryPolicy(delays=["1s"], max_redeliveries=1)
ORDER, HOLD = PerKey(order=True), PerKey(order=True, on_dead="hold")
shop = partial(keyed, redelivery=ONCE)


async def fail(deliveries: Any, **how: Any) -> None:
    for delivery in deliveries:
        await delivery.nack("no", **how)


async def test_strictly_one_after_the_other(broker: Any, clock: Clock) -> None:
    """A retry holds the followers of its key, and nobody else."""
    queue = await shop(broker, ORDER, "a1", "a2", "b1", "a3")
    a1, b1 = await queue.claim(9)
    assert (a1.id, a1.key, b1.id, b1.key) == ("a1", "a", "b1", "b")
    assert (await queue.stats()).blocked == 2
    await a1.nack("no")
    await b1.ack()
    assert await queue.claim(9) == []
    clock.advance("1s")
    (again,) = await queue.claim(9)
    assert (again.id, again.attempt) == ("a1", 2)
    await again.ack()
    (a2,) = await queue.claim(9)
    assert a2.id == "a2"
    await a2.release()
    assert await ids(queue) == ["a2"]


async def test_a_dead_one_is_skipped_and_comes_back_before_its_followers(broker: Any) -> None:
    queue = await shop(broker, ORDER, "a1", "a2", "a3")
    await queue.poison(await queue.claim(), "no")
    (a2,) = await queue.claim(9)
    await queue.dlq.redrive(all=True)
    assert await queue.claim(9) == []
    await a2.ack()
    assert await ids(queue) == ["a1"]


ENDS = {
    "redriven": lambda queue: queue.dlq.redrive(all=True),
    "purged": lambda queue: queue.dlq.purge(all=True),
    "moved": lambda queue: queue.dlq.select(all=True).move("other", create=True),
}


@each_row_afresh("end", ENDS)
async def test_a_dead_one_holds_its_lane(end: str, broker: Any) -> None:
    queue = await shop(broker, HOLD, "a1", "a2", "b1")
    (a1, b1) = await queue.claim(9)
    await a1.poison("no")
    await b1.ack()
    assert await queue.claim(9) == []
    await ENDS[end](queue)
    assert await ids(queue) == (["a1"] if end == "redriven" else ["a2"])


async def test_a_dead_one_holds_its_lane_until_it_is_acked(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, HOLD, "a1", "a2")
    await queue.poison(await queue.claim(9), "no")
    letters = broker.queue("DLQ.a")
    await letters.nack(await letters.claim(), error="later")
    assert await queue.claim(9) == []
    clock.advance("1h")
    await letters.ack(await letters.claim())
    assert await ids(queue) == ["a2"]


async def test_followers_are_taken_out_of_the_way(broker: Any) -> None:
    """In order, also where a limit is given; the head of another key stays."""
    queue = await shop(broker, HOLD, "a1", "b1", "a2", "a3", "b2")
    await queue.poison([one for one in await queue.claim(9) if one.id == "a1"], "no")
    assert await queue.select(key="a").dead_letter(reason="a1 has to go first") == 2
    assert sorted(one.id for one in await queue.dlq.select(all=True).browse()) == ["a1", "a2", "a3"]


async def test_at_most_so_many_of_a_key(broker: Any, clock: Clock) -> None:
    """One that waits for its next attempt lets another one in."""
    queue = await shop(broker, PerKey(limit=2), "a1", "a2", "a3", "a4", "b1")
    first = await queue.claim(9)
    assert [one.id for one in first] == ["a1", "a2", "b1"]
    await first[0].nack("no")
    third = await queue.claim(9)
    assert [one.id for one in third] == ["a3"]
    clock.advance("1s")
    assert await queue.claim(9) == []  # a1 is due, and has to wait
    await first[1].ack()
    assert await ids(queue) == ["a1"]  # it is older than a4


async def test_keys_take_turns(broker: Any) -> None:
    queue = await shop(broker, PerKey(fair=2), *(f"a{n}" for n in range(9)))
    await queue.send("b0", id="b0", key="b")
    taken = [(await ids(queue, 1))[0] for _ in range(10)]
    assert taken.index("b0") <= 2
    assert [name for name in taken if name[0] == "a"] == [f"a{n}" for n in range(9)]


async def test_a_batch_is_filled_from_all_lanes_alike(broker: Any) -> None:
    names = [f"{key}{n:02}" for key in "abc" for n in range(20)]
    queue = await shop(broker, PerKey(fair=True), *names)
    counts = dict.fromkeys("abc", 0)
    for name in await ids(queue, 30):
        counts[name[0]] += 1
    assert counts == {"a": 10, "b": 10, "c": 10}
    assert len(await ids(queue, 30)) == 30


async def test_a_batch_is_filled_with_the_only_one_of_each_lane(broker: Any) -> None:
    queue = await shop(broker, PerKey(fair=1), *(f"{key}{n}" for key in "abc" for n in range(2)))
    assert sorted(one.id for one in await queue.claim(6)) == ["a0", "a1", "b0", "b1", "c0", "c1"]


@each_row_afresh("rule", [PerKey(fair=1), PerKey(rate="9/s"), PerKey(order=True, rate="9/s")])
async def test_a_claim_takes_a_hundred_where_each_lets_in_another(rule: PerKey, broker: Any) -> None:
    """Otherwise one claim would keep Redis busy for tens of milliseconds (I9)."""
    queue = broker.queue("a", per_key=rule)
    await queue.send_many([Message(n, key=f"k{n // 2}") for n in range(500)])
    assert [len(await queue.claim(500)) for _ in range(2)] == [100, 100]


async def test_a_batch_has_nearly_as_many_of_each_lane(broker: Any, raw: Any) -> None:
    """Who has one more is drawn; and a batch that is filled leaves no lane more than its own."""
    names = [f"{key}{n}" for key in "abc" for n in range(19)]
    queue = await shop(broker, PerKey(fair=1), *names)
    driver, more = Driver(raw, keys=QueueKeys("rq", "a")), set[str]()
    for n, seed in enumerate((0.1, 0.5, 0.9)):
        batch = driver.run(driver.claim_call(f"t{n}", 10, seed=seed)).rows
        taken = [one.id[0] for one in batch]
        assert sorted(taken.count(key) for key in "abc") == [3, 3, 4]
        assert (await queue.stats()).ready == 3
        more |= {key for key in "abc" if taken.count(key) == 4}
    assert more == {*"abc"}
    assert len(await queue.claim(4)) == 4
    assert len(await queue.claim(11)) == 11


async def test_one_lane_fills_a_batch(broker: Any) -> None:
    queue = await shop(broker, PerKey(fair=1), *(f"a{n}" for n in range(9)))
    assert [one.id for one in await queue.claim(7)] == [f"a{n}" for n in range(7)]


@each_row_afresh("at_once", [1, 10])
async def test_who_is_let_in_is_behind_all_that_are_due(at_once: int, broker: Any, clock: Clock) -> None:
    """By a millisecond, however many are let in within one; in turn, behind those that came before."""
    keys = "abcdefghij"
    queue = await shop(broker, PerKey(fair=1), *(f"{key}1" for key in keys))
    await queue.send_many([Message(f"{key}2", id=f"{key}2", key=key) for key in reversed(keys)])
    taken = [one.id for _ in range(10 // at_once) for one in await queue.claim(at_once)]
    assert taken == [f"{key}1" for key in keys]
    clock.advance("1ms")
    await queue.send("p1", id="p1")
    clock.advance("1ms")
    await queue.send("p2", id="p2")
    assert await ids(queue, 12) == ["p1", *(f"{key}2" for key in keys), "p2"]


async def test_who_is_let_in_is_a_millisecond_later_than_now(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, ORDER, "a1", "a2")
    await queue.ack(await queue.claim(1))
    await queue.send("p1", id="p1")
    clock.advance("1ms")
    await queue.send("p2", id="p2")
    assert await ids(queue) == ["p1", "a2", "p2"]


@each_row_afresh("back, order", [(30_000, ["p1", "a2"]), (3_600_000, ["a2", "p1"])])
async def test_after_a_step_back_nobody_waits_for_the_old_time(
    back: int, order: list[str], broker: Any, clock: Clock
) -> None:
    """If it was more than a minute."""
    queue = await shop(broker, PerKey(fair=1), "a1", "a2")
    await queue.send("p1", id="p1")
    clock.set(clock.now - back)
    assert await ids(queue, 1) == ["a1"]
    assert await ids(queue, 2) == order


async def test_nobody_overtakes_who_waits(broker: Any, clock: Clock) -> None:
    """Priority and send order decide in a lane; what was delayed takes the place of its sending."""
    queue = broker.queue("a", per_key=ORDER)
    await queue.send("late", id="late", key="k", delay="5s")
    await queue.send("first", id="first", key="k")
    await queue.send("low", id="low", key="k")
    await queue.send("high", id="high", key="k", priority=9)
    (first,) = await queue.claim(9)
    clock.advance("5s")
    taken = []
    while True:
        await first.ack()
        taken.append(first.id)
        if not (found := await queue.claim(9)):
            break
        (first,) = found
    assert taken == ["first", "high", "late", "low"]


async def test_a_seat_that_is_free_lets_in_nobody_of_a_paused_key(broker: Any) -> None:
    queue = await shop(broker, PerKey(limit=1), "a1", "a2", "b1", "b2")
    held = await queue.claim(9)
    await queue.key("a").pause()
    await queue.ack(held)
    stats = await queue.stats()
    assert (stats.ready, stats.blocked) == (1, 1)
    assert await ids(queue) == ["b2"]


async def test_a_body_is_not_taken_for_a_key(broker: Any) -> None:
    """Also one that has the bytes of such a field."""
    queue = broker.queue("a", per_key=ORDER, redelivery=AT_ONCE)
    for n in range(8):
        await queue.send(b"-" * n + b"\x01\x00\x07abcdefgh")
    await queue.nack(await queue.claim(9))
    assert len(await queue.claim(9)) == 8


async def test_verbs_on_who_is_blocked(broker: Any) -> None:
    queue = await shop(broker, ORDER, "a1", "a2", "a3", "a4")
    (a1,) = await queue.claim(9)
    assert await queue.select(places=["scheduled"]).deliver_now() == 0
    with pytest.raises(
        InvalidInput, match=r"a3 cannot be delivered now.*its key a: 2 in front; a1 is being processed"
    ):
        await queue.select(ids=["a3"]).deliver_now()
    assert await queue.select(ids=["a4"]).prioritize(9) == 1
    assert await queue.select(ids=["a3"]).expire() == 1
    assert (await queue.stats()).blocked == 2
    assert (await queue.stats()).next_due is None
    await a1.ack()
    (a4,) = await queue.claim(9)
    assert a4.id == "a4"
    assert await queue.purge(all=True) == 1
    await a4.ack()
    assert (await queue.stats()).waiting == 0


async def test_who_is_delivered_now_goes_behind_the_first_of_its_key(broker: Any, clock: Clock) -> None:
    """Both are due, and no claim has come: the one that is delivered is not the one that becomes ready."""
    queue = broker.queue("a", per_key=ORDER)
    later, sooner = await queue.send_many([Message(n, delay=f"{3 - n}s", key="a") for n in range(2)])
    clock.advance("5s")
    assert await queue.select(ids=[sooner]).deliver_now() == 1
    assert await ids(queue) == [later]


async def test_a_lane_is_purged_whole(broker: Any) -> None:
    """Who is purged lets in the next, which is purged, too."""
    queue = await shop(broker, ORDER, "a1", "a2", "a3", "b1", "b2")
    assert await queue.select(key="a").purge() == 3
    assert await queue.select(where="key = 'b'", limit=1).purge() == 1
    assert await ids(queue) == ["b2"]


async def test_a_lane_moves_in_its_order(broker: Any) -> None:
    queue = await shop(broker, ORDER, "a1", "a2", "a3")
    other = broker.queue("other", per_key=ORDER)
    await other.open()
    assert await queue.select(key="a").move("other") == 3
    moved = []
    for _ in range(3):
        (one,) = await other.claim(9)
        moved.append(one.id)
        await one.ack()
    assert moved == ["a1", "a2", "a3"]


async def handled(queue: Any) -> list[str]:
    """The ids, each acked before the next claim."""
    seen = []
    while found := await queue.claim(9):
        seen += [delivery.id for delivery in found]
        await queue.ack(found)
    return seen


DIE: dict[str, tuple[Any, str]] = {
    "dead": (partial(changing.dead_letter, reason="no"), "dlq"),
    "expired": (changing.expire_now, "expired"),
}


@each_row_afresh("rule, end", list(product(["order", "order hold", "limit 1"], DIE)))
async def test_a_lane_that_dies_comes_back_in_its_order(
    rule: str, end: str, broker: Any, clock: Clock
) -> None:
    """Each script in a millisecond of its own: the redrive follows the order of the deaths."""
    names = [f"a{n}" for n in range(6)]
    queue = await shop(broker, rule, *names)
    verb, place = DIE[end]

    async def tick(_: str) -> None:
        clock.advance("1ms")

    choice = queue.select(key="a")._choice
    assert await drive(broker, verb(queue._core, choice), tick) == len(names)
    letters = getattr(queue, place)
    assert [letter.id for letter in await letters.browse()] == names
    await letters.redrive(all=True)
    assert await handled(queue) == names


@each_row_afresh("verb", ["move", "copy"])
async def test_who_waits_where_a_lane_moves_to_gets_it_in_order(verb: str, broker: Any) -> None:
    names = [f"a{n}" for n in range(6)]
    queue = await shop(broker, ORDER, *names)
    other, came = broker.queue("other", per_key=ORDER), []
    await other.open()

    async def look(_: str) -> None:
        came.extend(await handled(other))

    choice = queue.select(key="a")._choice
    await drive(broker, changing.transfer(queue._core, choice, other._core, keep=verb == "copy"), look)
    assert came + await handled(other) == names


async def test_a_rule_over_a_full_queue_lets_other_keys_through(broker: Any, raw: Any) -> None:
    """A claim blocks a hundred."""
    await shop(broker, None, *(f"a{n}" for n in range(500)), "b0")
    queue = broker.queue("a", per_key=ORDER)
    assert await ids(queue, 1) == ["a0"]
    before = verbs_run(raw)
    assert await ids(queue, 1) == ["b0"]
    assert 5 <= verbs_run(raw) - before <= 7


async def test_an_undo_takes_back_who_is_blocked(broker: Any) -> None:
    queue = await shop(broker, ORDER, "a1", "a2")
    await queue.poison(await queue.claim(), "no")
    await queue.poison(await queue.claim(), "no")
    job = await queue.dlq.redrive(all=True)
    assert (await queue.stats()).blocked == 1
    await job.undo()
    assert (await queue.stats()).dead == 2


async def test_an_undo_takes_back_who_is_blocked_by_another(broker: Any) -> None:
    """By one that was sent meanwhile, and keeps its seat."""
    queue = await shop(broker, ORDER, "a1", "a2")
    await queue.poison(await queue.claim(), "no")
    await queue.poison(await queue.claim(), "no")
    await queue.send("a3", id="a3", key="a")
    job = await queue.dlq.redrive(all=True)
    assert (await queue.stats()).blocked == 2
    await job.undo()
    assert (await job.refresh()).counts.undone == (await queue.stats()).dead == 2


async def test_a_rule_is_turned_on_and_off(broker: Any, raw: Any, clock: Clock) -> None:
    """Over a full queue, and takes effect for what is queued."""
    queue = await shop(broker, None, "a1", "a2", "a3", "b1")
    await broker.policies.set("a", per_key="order", pinned=True)
    await queue.send("b2", id="b2", key="b")
    assert await ids(queue) == ["a1", "b1"]
    assert (await queue.stats()).blocked == 3
    await broker.policies.set("a", per_key=PerKey(limit=2), pinned=True)
    clock.advance("2s")
    assert await ids(queue) == ["a2", "b2"]
    await broker.policies.set("a", per_key=None, pinned=True)
    clock.advance("2s")
    assert await ids(queue) == []  # due by now, and promoted by the next
    assert await ids(queue) == ["a3"]
    clock.advance("2s")
    await queue.claim()
    assert not raw.exists("rq:{a}:seated")
    assert raw.hget("rq:{a}:settings", "per_key") is None


SEATS = {
    "order": 1, "order hold": 1, "limit 1": 1, "limit 3": 3, "limit 16": 16, "fair 2": 2, "fair 4": 4,
    "rate 1/m": 1, "order rate 1/m": 1, "limit 3 rate 1/m": 3,
}  # fmt: skip


@each_row_afresh("before", SEATS)
async def test_a_rule_that_allows_fewer_holds_for_who_is_ready(before: str, broker: Any) -> None:
    for number, (after, seats) in enumerate(SEATS.items()):
        name = f"q{number}"
        await broker.policies.set(name, per_key=before)
        queue = broker.queue(name)
        await queue.send_many([Message("", id=f"a{n}", key="a") for n in range(20)])
        await queue.send("", id="b0", key="b")
        await broker.policies.set(name, per_key=after)
        claimed = [one for count in (1, 20, 20) for one in await ids(queue, count) if one != "b0"]
        assert claimed == [f"a{n}" for n in range(20)][: len(claimed)], after
        assert claimed, after
        if not after.startswith("fair"):  # whose seats are free when they are handed out
            assert len(claimed) <= seats, after


BACK: dict[str, Any] = {
    "release": lambda queue, held: queue.release(held),
    "nack": lambda queue, held: queue.nack(held, "no"),
    "redrive": lambda queue, held: queue.poison(held, "no"),
}


@each_row_afresh("rule, how", list(product(["order", "order hold", "limit 1"], BACK)))
async def test_who_was_handed_out_under_a_wider_rule_comes_back_one_by_one(
    rule: str, how: str, broker: Any, clock: Clock
) -> None:
    await broker.policies.set("a", per_key="limit 3", redelivery={"delays": [0]})
    queue = broker.queue("a")
    await queue.send_many([Message("", id=f"a{n}", key="a") for n in range(6)])
    held = await queue.claim(9)
    await broker.policies.set("a", per_key=rule, redelivery={"delays": [0]})
    for _ in range(4):  # until no claim looks for seats that are too many
        assert await queue.claim(9) == []
        clock.advance("1s")
    await BACK[how](queue, held)
    await queue.dlq.redrive(all=True)
    seen: list[str] = []
    while found := await queue.claim(9):
        assert len(found) == 1
        assert await queue.claim(9) == []
        seen += [delivery.id for delivery in found]
        await queue.ack(found)
    assert sorted(seen) == [f"a{n}" for n in range(6)]


async def test_who_has_no_seat_takes_over_none_of_a_lane_that_has_too_many(broker: Any, raw: Any) -> None:
    queue = await shop(broker, PerKey(limit=2), "a0", "a1", "a2")
    assert await ids(queue, 1) == ["a0"]
    rows = raw.zrange(QueueKeys("rq", "a")["scheduled"], 0, -1)
    raw.zadd(
        QueueKeys("rq", "a")["ready"], dict.fromkeys(rows, 0)
    )  # a2, as before keys had a rule: it is first
    raw.zrem(QueueKeys("rq", "a")["scheduled"], *rows)
    await queue.key("a").limit(1)
    assert await ids(queue, 1) == []
    assert await ids(queue, 9) == []


@each_row_afresh("rule, forgotten", list(product(["order", "limit 1"], [False, True])))
async def test_who_was_handed_out_under_a_wider_rule_ends_before_the_next_begins(
    rule: str, forgotten: bool, broker: Any, raw: Any, clock: Clock
) -> None:
    await broker.policies.set("a", per_key="limit 2")
    queue = broker.queue("a")
    await queue.send_many([Message("", id=f"a{n}", key="a") for n in range(4)])
    await queue.send("", id="b0", key="b")
    held = await queue.claim(9)
    await broker.policies.set("a", per_key=rule)
    for _ in range(4):  # until all seats were read twice
        assert await queue.claim(9) == []
        clock.advance("1s")
    if forgotten:  # as if something else had given too many seats
        raw.hdel(QueueKeys("rq", "a")["settings"], "narrowed")
        assert await queue.claim(9) == []
    for delivery in held[:2]:
        assert await queue.claim(9) == []
        await queue.ack([delivery])
    assert await ids(queue, 9) == ["a2"]


async def test_a_rate_and_fewer_seats_take_the_one_of_who_is_ready(broker: Any, clock: Clock) -> None:
    await broker.policies.set("a", per_key="limit 3 rate 1/s")
    queue = broker.queue("a")
    await queue.send_many([Message("", id=f"a{n}", key="a") for n in range(4)])
    for name in ("a0", "a1"):
        assert await ids(queue, 9) == [name]
        clock.advance("1s")
    await queue.send("", id="b0", key="b")
    clock.advance("1s")
    assert await ids(queue, 1) == ["b0"]  # a2 is let in behind it
    await broker.policies.set("a", per_key="order rate 1/s")
    assert await queue.claim(9) == []


@each_row_afresh("end", ["purge", "dead_letter", "expire", "move", "copy"])
async def test_who_is_due_and_leaves_takes_its_row_along(
    end: str, broker: Any, raw: Any, clock: Clock
) -> None:
    """Also if it is the script that ends it that finds it due."""
    queue = await shop(broker, ORDER, "a1", "a2")
    await queue.nack(await queue.claim(), "no", delay="1s")
    clock.advance("1s")
    chosen = queue.select(ids=["a1"])
    await (getattr(chosen, end)("b", create=True) if end in {"move", "copy"} else getattr(chosen, end)())
    rows = [
        row[8:] for index in ("ready", "scheduled") for row in raw.zrange(QueueKeys("rq", "a")[index], 0, -1)
    ]
    assert sorted(rows) == ([b"a1", b"a2"] if end == "copy" else [b"a2"])


async def test_a_higher_limit_of_a_key_lets_in_who_is_due_and_in_front(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", per_key=PerKey(limit=1))
    await queue.send("", id="a0", key="a", delay="1s")
    await queue.send_many([Message("", id=f"a{n}", key="a") for n in (1, 2)])
    clock.advance("1s")
    await queue.key("a").limit(2)
    assert sorted(await ids(queue, 9)) == ["a0", "a1"]


async def test_a_limit_of_a_key_ends_with_the_rule(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, PerKey(limit=1), *(f"a{n}" for n in range(6)))
    await queue.key("a").limit(4)
    for _ in range(4):
        await queue.release(await queue.claim(9))
        clock.advance("1s")
    assert await ids(broker.queue("a", per_key=ORDER), 9) == ["a0"]


async def test_a_lower_limit_of_a_key_holds_for_who_is_ready(broker: Any, raw: Any, clock: Clock) -> None:
    queue = await shop(broker, PerKey(limit=3), "a1", "a2", "a3", "b1", "b2")
    first = await queue.claim()
    await queue.key("a").limit(1)
    assert await ids(queue) == ["b1", "b2"]
    assert (await queue.key("a").stats()).seats == 1
    await queue.ack(first)
    assert await ids(queue) == ["a2"]
    settings = QueueKeys("rq", "a")["settings"]
    for _ in range(3):  # all seats are read
        assert bool(raw.hexists(settings, "narrowed")) == (_ < 2)
        clock.advance("1s")
        await queue.claim()
    assert not raw.hexists(settings, "narrowed")


@each_row_afresh("rule, end", list(product(["order", "limit 1"], ["ack", "poison", "release"])))
async def test_who_was_delayed_and_is_due_goes_before_his_followers(
    rule: str, end: str, broker: Any, clock: Clock
) -> None:
    """Also where no claim comes between: what frees the seat has to look."""
    queue = broker.queue("a", per_key=rule)
    await queue.send("", id="a1", key="a", delay="1s")
    await queue.send_many([Message("", id=name, key="a") for name in ("a2", "a3")])
    (a2,) = await queue.claim()
    clock.advance("1s")
    await (a2.poison("no") if end == "poison" else a2.release() if end == "release" else a2.ack())
    assert await handled(queue) == (["a2", "a1", "a3"] if end == "release" else ["a1", "a3"])


async def test_who_was_delayed_and_is_due_goes_before_who_is_sent_then(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", per_key=ORDER)
    await queue.send("", id="a1", key="a", delay="1s")
    clock.advance("1s")
    await queue.send("", id="a2", key="a")
    assert await handled(queue) == ["a1", "a2"]


async def test_a_long_record_has_its_lane(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", per_key=ORDER, redelivery=ONCE)
    for n in range(3):
        await queue.send("x" * 3_000, id=f"a{n}", key="a", ttl="1h")
    (first,) = await queue.claim(9)
    await first.nack("no")
    clock.advance("1s")
    (first,) = await queue.claim(9)
    await first.ack()
    assert await ids(queue) == ["a1"]


async def test_who_waits_is_woken_by_an_ack(broker: Any, raw: Any) -> None:
    queue = await shop(broker, ORDER, "a1", "a2")
    claimed = await queue.claim(9)
    raw.delete("rq:{a}:wake")
    await queue.ack(claimed)
    assert raw.llen("rq:{a}:wake") == 1


async def test_every_way_to_send_has_a_key(broker: Any, clock: Clock, caplog: Any) -> None:
    queue = broker.queue("a")
    task = broker.task(queue="t", key=lambda user_id: f"user-{user_id}")(welcome)
    await queue.send("x", key="k")
    await queue.send_many([1, Message(2, key="own")], key="all", headers={"a": "b"})
    async with queue.session() as session:
        await session.send(queue, b"raw", key="in a session")
    await queue.schedule("tick", "s", every="1m", key="each tick")
    clock.advance("1m")
    await queue.maintain()
    claimed = await queue.claim(9)
    assert [one.key for one in claimed] == ["k", "all", "own", "in a session", "each tick"]
    assert claimed[1].headers == {"a": "b"}
    await task.send(7)
    await task.options(key="other").send(user_id=7)
    await broker.task(queue="t", name="plain", key="one")(welcome).send(8)
    assert [one.key for one in await broker.queue("t").claim(9)] == ["user-7", "other", "one"]
    with pytest.raises(InvalidMessage, match="the function of its key failed"):
        await broker.task(queue="t", name="bad", key=lambda user_id: user_id["x"])(welcome).send(8)
    warned = [one.message for one in caplog.records if "ignores the keys" in one.message]
    assert [text.split(" ")[0] for text in warned] == ["a", "t"]


def welcome(user_id: int) -> None:
    """A task."""


async def test_keys_that_count_are_not_warned_of(broker: Any, caplog: Any) -> None:
    await shop(broker, ORDER, "a1")
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


async def test_messages_are_chosen_and_counted_by_key(broker: Any) -> None:
    queue = await shop(broker, None, "a1", "b1", "a2")
    await queue.send("none", id="n")
    assert await queue.select(key="a").count() == 2
    assert await queue.select(where="key = 'b' OR key IS NULL").count() == 2
    assert await queue.select().count_by("key") == {"a": 2, "b": 1, None: 1}
    await queue.poison(await queue.claim(9), "no")
    assert await queue.dlq.select(key="a").count() == 2


@each_row("key", ["", 1, b"x", "x" * 201, "\ud800"])
async def test_a_key_is_a_short_text(key: Any, broker: Any) -> None:
    with pytest.raises(InvalidMessage, match="use text of 1 to 200 bytes\n"):
        await broker.queue("a").send("x", key=key)


@each_row(
    "given, said",
    [
        ({}, "pass one of order"),
        ({"order": True, "limit": 2}, "pass one of order"),
        ({"on_dead": "hold", "limit": 2}, "requires order=True. Pass only these, or leave on_dead out"),
        ({"order": True, "on_dead": "stop"}, "Pass 'skip' or 'hold'"),
        ({"limit": 0}, "1 to 1000"),
        ({"fair": 101}, "1 to 100\n"),
        ({"order": True, "limit": 2, "rate": "1/s"}, "pass one of order"),
        ({"rate": "often"}, r"'often'. Pass text such as \"100/s\" or \"5/10m\" \(ms, s, m, h, d\)\n"),
    ],
)
def test_a_rule_is_checked(given: Any, said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        PerKey(**given)


@each_row(
    "rule, text",
    [
        *[(ORDER, "order"), (HOLD, "order hold"), (PerKey(limit=8), "limit 8"), (PerKey(fair=1), "fair 1")],
        (PerKey(fair=True), "fair 4"),
        *[(PerKey(rate=5), "rate 5/s"), (PerKey(order=True, rate="9/10m"), "order rate 9/10m")],
        *[(PerKey(limit=8, rate="1/s"), "limit 8 rate 1/s"), (PerKey(fair=2, rate=1), "fair 2 rate 1/s")],
        (PerKey(order=True, on_dead="hold", rate="1/s"), "order hold rate 1/s"),
    ],
)
def test_a_rule_is_text_in_redis(rule: PerKey, text: str) -> None:
    assert str(rule) == text
    assert PerKey.of(text) == PerKey.of(asdict(rule)) == rule


def test_names() -> None:
    assert rq_dlq.PerKey is PerKey


async def test_a_key_has_a_limit_of_its_own(broker: Any, raw: Any, clock: Clock) -> None:
    """It lets in at once; a pause keeps it; nothing of it stays when it is taken back."""
    queue = await shop(broker, PerKey(limit=1), "a1", "a2", "a3", "a4", "b1", "b2")
    key = queue.key("a")
    assert await ids(queue) == ["a1", "b1"]
    assert await key.limit(3) is True
    assert await key.limit(3) is False
    assert await ids(queue) == ["a2", "a3"]
    clock.advance("2s")
    assert await queue.claim(9) == []
    assert (await key.stats()).limit == 3
    assert "it waits for its key a (at most 3 at a time): 3 in front" in str(await queue.explain("a4"))
    await key.pause()
    await key.resume()
    assert (await key.stats()).limit == 3
    await broker.policies.set("a", per_key=ORDER, pinned=True)
    assert (await key.stats()).limit is None
    assert "it waits for its key a: 3 in front" in str(await queue.explain("a4"))
    await broker.policies.remove("a")
    assert (await key.stats()).limit == 3
    await queue.purge(all=True)
    await queue.send_many([Message(n, key="a") for n in range(3)])
    assert await key.limit(None) is True
    assert (await key.stats(), await queue.claim(9)) == (await key.stats(), [])
    assert not raw.exists("rq:{a}:special")
    clock.advance("2s")
    await queue.claim()
    assert raw.hget("rq:{a}:settings", "limited") is None
    assert [(one.did, one.chosen) for one in await broker.audit(queue="a") if one.did == "limited"] == [
        ("limited", "key a as others"),
        ("limited", "key a to 3"),
    ]


async def test_a_limit_that_is_taken_back_leaves_nothing(broker: Any, raw: Any, clock: Clock) -> None:
    queue = await shop(broker, PerKey(limit=1), "a1")
    await queue.key("a").limit(3)
    for limit, kept in ((3, True), (None, False)):
        await queue.key("a").limit(limit)
        clock.advance("2s")
        await queue.claim()
        assert raw.hexists("rq:{a}:settings", "limited") == kept


@each_row("limit", [0, 1_001, True, 1.5, "8"])
async def test_a_limit_of_a_key_is_a_whole_number(limit: Any, broker: Any) -> None:
    with pytest.raises(InvalidInput, match=r"limit is .*Pass a whole number, 1 to 1000"):
        await broker.queue("a", per_key=PerKey(limit=1)).key("k").limit(limit)


@each_row_afresh("rule", {"order": ORDER, "fair": PerKey(fair=True), "none": None})
async def test_only_where_the_rule_is_a_limit(rule: str, broker: Any) -> None:
    queue = broker.queue("a", per_key={"order": ORDER, "fair": PerKey(fair=True), "none": None}[rule])
    with pytest.raises(InvalidInput, match=r"a does not limit keys.*per_key=PerKey\(limit=8\)"):
        await queue.key("k").limit(8)
