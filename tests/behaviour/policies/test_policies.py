"""The map of policies: what an entry does to messages, when, and what a client says of it."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import rq_dlq
from rq_dlq import ExpiryPolicy, PolicyError, RedeliveryPolicy, SharedDeadLetterStrategy
from rq_dlq.policy import Entry
from tests.behaviour.helpers import after, bodies, bury, counts, one, wait_of, waits
from tests.conftest import Clock
from tests.tables import each_row_afresh

USUAL = RedeliveryPolicy()


async def source(queue: Any, field: str) -> str:
    """Which entry a field of a queue's settings comes from."""
    (found,) = [source for source in (await queue.settings()).sources if source.field == field]
    return str(found.source)


# What an entry does


async def test_entries_are_merged_field_by_field(broker: Any, clock: Clock) -> None:
    await broker.policies.set("#", redelivery={"max_redeliveries": 1})
    await broker.policies.set("orders.*", redelivery={"delays": ["5s"]})
    queue = broker.queue("orders.eu")
    await queue.send("x")
    assert (await (await one(queue)).nack()).delay == 5
    clock.advance("5s")
    assert (await (await one(queue)).nack()).outcome == "dead"
    assert await source(queue, "redelivery.delays") == "orders.*"
    assert await source(queue, "redelivery.max_redeliveries") == "#"
    assert await source(queue, "redelivery.collision_avoidance") == "default"
    other = broker.queue("mail")
    await other.send("x")
    wait = (await (await one(other)).nack()).delay
    assert 0.5 <= wait <= 1.5
    clock.advance("5s")
    assert (await (await one(other)).nack()).outcome == "dead"


async def test_set_changes_only_the_fields_that_it_names(broker: Any) -> None:
    """A throttle removed the order of keys, and two messages of one key were in work."""
    policies = broker.policies
    await policies.set("q", per_key="order", breaker="on", pinned=True, redelivery={"max_delay": "1h"})
    await policies.set("q", rate="100/s", redelivery={"initial_delay": "15m"})
    given = Entry.of(
        per_key="order",
        breaker="on",
        rate="100/s",
        pinned=True,
        redelivery={"initial_delay": "15m", "max_delay": "1h"},
    )
    assert (await policies.read()).entries == {"q": given}
    await policies.set("q", pinned=False, per_key=None)
    entry = (await policies.read()).entries["q"]
    assert (entry.stored["per_key"], entry.stored["rate"], entry.pinned) == (None, "100/s", False)
    await policies.put("q", Entry.of(rate="1/s"))
    assert (await policies.read()).entries == {"q": Entry.of(rate="1/s")}


async def test_none_is_off_whatever_a_wider_pattern_sets(broker: Any) -> None:
    await broker.policies.set("#", rate="7/s")
    await broker.policies.set("q", rate="9/s", outcomes=5)
    await broker.policies.set("q", rate=None)
    assert (await broker.policies.explain("q")).rate is None


@each_row_afresh(
    ("first", "second", "both"),
    [
        ({"delays": ["1s", "9s"]}, {"initial_delay": "2s"}, {"initial_delay": "2s", "arithmetic": "rq"}),
        ({"initial_delay": "2s", "max_redeliveries": 3}, {"delays": ["1s", "9s"]},
         {"delays": ["1s", "9s"], "max_redeliveries": 3}),
        ({"arithmetic": "activemq", "redelivery_delay": "2s"}, {"max_redeliveries": 3},
         {"arithmetic": "activemq", "redelivery_delay": "2s", "max_redeliveries": 3}),
    ],
)  # fmt: skip
async def test_fields_of_redelivery_that_exclude_each_other(
    broker: Any, first: dict[str, Any], second: dict[str, Any], both: dict[str, Any]
) -> None:
    await broker.policies.set("q", redelivery=first)
    await broker.policies.set("q", redelivery=second)
    assert (await broker.policies.read()).entries["q"] == Entry.of(redelivery=both)


async def test_a_field_may_contradict_one_that_stays(broker: Any) -> None:
    await broker.policies.set("q", redelivery={"max_delay": "1s"})
    with pytest.raises(PolicyError, match=r"initial_delay \(5s\) is longer than max_delay \(1s\)"):
        await broker.policies.set("q", redelivery={"initial_delay": "5s"})


@each_row_afresh(
    ("first", "second", "both"),
    [
        ({"dead_letter": {"prefix": "D."}}, {"dead_letter": {"expiration": "1d"}},
         {"dead_letter": {"prefix": "D.", "expiration": "1d"}}),
        ({"dead_letter": {"prefix": "D.", "expiration": "1d"}}, {"dead_letter": {"name": "ALL"}},
         {"dead_letter": {"name": "ALL", "expiration": "1d"}}),
        ({"dead_letter": {"report_interval": 5}}, {"dead_letter": {"expiration": "1d"}},
         {"dead_letter": {"report_interval": 5, "expiration": "1d"}}),
        ({"dead_letter": {"prefix": "D.", "expiration": "1d"}}, {"dead_letter": None}, {"dead_letter": None}),
        ({"expiry": {"prefix": "E.", "retention": "1d"}}, {"expiry": {"name": "LATE"}},
         {"expiry": {"name": "LATE", "retention": "1d"}}),
        ({"expiry": {"name": "LATE"}}, {"expiry": {"retention": "1d"}},
         {"expiry": {"name": "LATE", "retention": "1d"}}),
    ],
)  # fmt: skip
async def test_fields_of_dead_and_expired_that_exclude_each_other(
    broker: Any, first: dict[str, Any], second: dict[str, Any], both: dict[str, Any]
) -> None:
    await broker.policies.set("q", **first)
    await broker.policies.set("q", **second)
    assert (await broker.policies.read()).entries["q"] == Entry.of(**both)


async def test_what_cannot_be_read_is_only_replaced(broker: Any, raw: Any) -> None:
    raw.hset("rq:policies", "q", b"[]")
    with pytest.raises(PolicyError, match="can only be replaced or removed"):
        await broker.policies.set("q", rate="1/s")
    await broker.policies.put("q", Entry.of(rate="1/s"))
    assert (await broker.policies.read()).entries == {"q": Entry.of(rate="1/s")}


async def test_the_most_specific_wins(broker: Any) -> None:
    """A total order: word by word from the left, literal < * < end < #."""
    queue = broker.queue("a.b")
    order = ["a.b", "a.b.#", "a.*", "a.*.#", "a.#", "*.b", "*.*", "*.#", "#"]
    for seconds, pattern in reversed(list(enumerate(order, 1))):
        await broker.policies.set(pattern, redelivery=waits(seconds))
        assert await wait_of(queue) == seconds
        assert await source(queue, "redelivery.delays") == pattern
    for seconds, pattern in enumerate(order, 1):
        assert await wait_of(queue) == seconds
        assert await broker.policies.remove(pattern) == 1
    assert (await queue.settings()).redelivery == USUAL


async def test_a_new_object_says_what_it_declares(broker: Any) -> None:
    """Before its first send or claim, which writes it."""
    policy = RedeliveryPolicy(max_redeliveries=17)
    queue = broker.queue("a", redelivery=policy, max_in_flight=5)
    before = await queue.settings()
    assert (before.redelivery.max_redeliveries, before.max_in_flight) == (17, 5)
    await queue.send("x")
    assert await queue.settings() == before


async def test_a_literal_pattern_is_one_queue(broker: Any) -> None:
    await broker.policies.set("a", redelivery=waits(7))
    assert await wait_of(broker.queue("a")) == 7
    for name in ("a.b", "b", "aa"):
        assert 0.5 <= (await wait_of(broker.queue(name)) or 0) <= 1.5


async def test_both_tails_are_one_pattern(broker: Any) -> None:
    await broker.policies.set("a.>", redelivery=waits(3))
    await broker.policies.set("a.#", redelivery=waits(4))
    assert list((await broker.policies.read()).entries) == ["a.#"]
    assert await wait_of(broker.queue("a.b")) == 4


async def test_pinned_beats_declared_beats_entries(broker: Any) -> None:
    queue = broker.queue("a.b", redelivery=after(5, most=9))
    await broker.policies.set("a.b", redelivery=waits(1), max_in_flight=7)
    assert await wait_of(queue) == 5
    assert await source(queue, "redelivery.delays") == "declared in code"
    assert await source(queue, "max_in_flight") == "a.b"  # which the program did not say
    await broker.policies.set("#", redelivery={"max_redeliveries": 0}, pinned=True)
    assert await wait_of(queue) is None
    assert await source(queue, "redelivery.max_redeliveries") == "pinned #"
    assert await source(queue, "redelivery.delays") == "declared in code"
    await broker.policies.set("a.*", redelivery={"max_redeliveries": 3}, pinned=True)
    assert await wait_of(queue) == 5
    assert await source(queue, "redelivery.max_redeliveries") == "pinned a.*"
    await broker.policies.set("#", pinned=False)
    await broker.policies.remove("a.*")
    assert await source(queue, "redelivery.max_redeliveries") == "declared in code"


async def test_explain_is_for_queues_that_were_never_used_too(broker: Any) -> None:
    await broker.policies.set("orders.#", redelivery=waits(5), dead_letter={"expiration": "30d"})
    settings = await broker.policies.explain("orders.new")
    assert settings.redelivery == RedeliveryPolicy(delays=[5], max_redeliveries=9)
    assert (settings.dead_name, settings.expired_name) == ("DLQ.orders.new", "EXP.orders.new")
    assert settings == await broker.queue("orders.new").settings()
    assert settings == await broker.policies.explain("DLQ.orders.new")
    assert await broker.queues() == []


async def test_read_gives_all_entries(broker: Any) -> None:
    entry = Entry.of(redelivery=waits(2), max_in_flight=3, pinned=True)
    assert await broker.policies.put("a.>", entry) == 0
    await broker.policies.set("version", max_in_flight=None)
    stored = await broker.policies.read()
    assert stored.entries == {"a.#": entry, "version": Entry.of(max_in_flight=None)}
    assert (stored.version, stored.unreadable) == (2, ())


async def test_max_in_flight_is_one_limit_for_all_consumers(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(6))
    await broker.policies.set("#", max_in_flight=2)
    first = await queue.claim(5)
    assert len(first) == 2
    assert await broker.queue("a").claim(5) == []
    await first[0].ack()
    assert len(await queue.claim(5)) == 1
    await broker.policies.remove("#")
    assert len(await queue.claim(5)) == 3


# When


async def test_a_change_applies_to_what_is_queued_leased_and_scheduled(
    broker: Any, sync_broker: rq_dlq.Broker, clock: Clock
) -> None:
    """Told by another client than the one that consumes."""
    queue = broker.queue("a", lease="10s")
    await queue.send_many(["scheduled", "leased", "queued"])
    scheduled, leased = await queue.claim(2)
    await scheduled.nack(delay="1h")
    policies = sync_broker.policies
    assert policies.set("#", redelivery=waits(7, most=1)) == 1
    assert (await (await one(queue)).nack()).delay == 7
    assert (await leased.nack()).delay == 7
    assert await counts(queue) == {"scheduled": 3}
    clock.advance("7s")
    assert policies.set("#", redelivery=waits(7, most=2)) == 1
    for delivery in await queue.claim(5):
        assert (await delivery.nack()).delay == 7  # by what held before it would have died
    clock.advance("1h")
    assert policies.set("#", redelivery=waits(7, most=1)) == 1
    assert (await (await one(queue, count=5)).nack()).outcome == "dead"
    assert await counts(queue) == {"dead": 3}  # the others were spent by now (I6)


async def test_a_change_applies_to_a_lapse(broker: Any, sync_broker: rq_dlq.Broker, clock: Clock) -> None:
    queue = broker.queue("a", lease="10s")
    await queue.send("x")
    await one(queue)
    sync_broker.policies.set("a", redelivery=waits(60))
    clock.advance("10s")
    await queue.maintain()
    assert (await queue.stats()).next_due == 60


async def test_a_change_leaves_the_waits_that_have_begun(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after(100))
    await queue.send("x")
    await (await one(queue)).nack()
    await broker.policies.set("a", redelivery=waits(1), pinned=True)
    clock.advance("99s")
    assert await queue.claim() == []
    clock.advance("1s")
    assert await bodies(queue) == ["x"]


async def test_a_queue_that_is_opened_later_has_it(broker: Any) -> None:
    assert await broker.policies.set("a.*", redelivery=waits(3)) == 0
    assert await wait_of(broker.queue("a.b")) == 3


async def test_a_queue_that_was_only_claimed_from_gets_it(broker: Any, sync_broker: rq_dlq.Broker) -> None:
    queue = broker.queue("a")
    assert await queue.claim() == []
    assert await broker.policies.set("a", redelivery=waits(3)) == 0
    sync_broker.queue("a").send("x")
    assert (await (await one(queue)).nack()).delay == 3


async def test_removed_it_holds_no_more(broker: Any) -> None:
    queue = broker.queue("a")
    await broker.policies.set("a", redelivery=waits(3), max_in_flight=1, expiry={"expiry_delay": "1m"})
    assert await wait_of(queue) == 3
    assert await broker.policies.remove("a") == 1
    settings = await queue.settings()
    assert (settings.redelivery, settings.max_in_flight) == (USUAL, None)
    assert {source.source for source in settings.sources} == {"default"}
    assert 0.5 <= (await wait_of(queue) or 0) <= 1.5
    assert (await broker.policies.read()).entries == {}


async def test_what_changes_nothing_is_no_change(broker: Any) -> None:
    for _ in range(2):
        await broker.policies.set("a", max_in_flight=1)
        await broker.policies.remove("b")
    assert (await broker.policies.read()).version == 1


async def test_nothing_said_is_nothing_stored(broker: Any, raw: Any) -> None:
    """I13."""
    queue = broker.queue("a")
    await wait_of(queue)
    await queue.settings()
    await broker.policies.read()
    await broker.policies.remove("#")
    assert raw.hkeys("rq:{a}:settings") == [b"opening"]
    assert not raw.exists("rq:policies")
    assert not raw.exists("rq:aliases")


# What programs declare


async def test_the_last_declaration_wins_and_is_told(
    broker: Any, sync_broker: rq_dlq.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    first = broker.queue("a", redelivery=after(1, most=9))
    assert await wait_of(first) == 1
    with caplog.at_level(logging.WARNING, "rq_dlq"):
        assert await wait_of(broker.queue("a", redelivery=after(1, most=9))) == 1
        assert await wait_of(broker.queue("a")) == 1  # says nothing, so what was declared stands
        assert caplog.messages == []
        sync_broker.queue("a", redelivery=after(2, most=9)).send("y")
    assert caplog.messages == ["a: this program declares a different policy from the previous one"]
    assert await wait_of(first) == 2
    assert await source(first, "redelivery.delays") == "declared in code"


async def test_everything_can_be_declared(broker: Any, clock: Clock) -> None:
    queue = broker.queue(
        "a",
        redelivery=after(0, most=0),
        dead_letter=SharedDeadLetterStrategy("LOST", process_expired=True),
        expiry=ExpiryPolicy(max_expiry_delay="1m"),
        max_in_flight=1,
    )
    await queue.send_many(range(2))
    (delivery,) = await queue.claim(5)
    await delivery.nack()
    clock.advance("1m")
    await queue.maintain()
    assert sorted(await bodies(broker.queue("LOST"))) == [0, 1]
    assert {source.source for source in (await queue.settings()).sources} >= {"declared in code"}


async def test_none_declares_nothing(broker: Any, raw: Any) -> None:
    """But for dead letters, where None says that they are discarded."""
    await broker.queue("a", redelivery=None).send("x")
    assert raw.hkeys("rq:{a}:settings") == [b"opening"]
    queue = broker.queue("b", dead_letter=None)
    await queue.send("x")
    assert (await (await one(queue)).poison()).outcome == "discarded"


async def test_a_declaration_can_be_withdrawn(broker: Any, sync_broker: rq_dlq.Broker) -> None:
    """A release that declares no more cannot say so; the operator can."""
    queue = broker.queue("a", redelivery=after(1, most=9), dead_letter=SharedDeadLetterStrategy("LOST"))
    await bury(queue, ["x"])
    await broker.policies.set("a", redelivery=waits(5), expiry={"retention": "1d"})
    assert await wait_of(queue) == 1
    assert await broker.policies.undeclare("DLQ.a") is True
    assert await wait_of(queue) == 5
    settings = await queue.settings()
    assert {source.source for source in settings.sources} == {"a", "default"}
    assert (settings.dead_name, settings.expiry.retention) == ("DLQ.a", 86_400)
    assert await counts(broker.queue("LOST")) == {}
    assert (await counts(broker.queue("DLQ.a")))["dead"] == 1
    assert await broker.policies.undeclare("a") is False
    assert await wait_of(broker.queue("a")) == 5
    assert await wait_of(broker.queue("a", redelivery=after(2, most=9))) == 2  # declared anew
    assert sync_broker.policies.undeclare("a") is True


async def test_nothing_to_withdraw(broker: Any, raw: Any) -> None:
    await broker.queue("a").send("x")
    for name in ("a", "b", "EXP.a"):
        assert await broker.policies.undeclare(name) is False
    assert raw.keys("rq:*settings") == [b"rq:{a}:settings"]
    assert raw.hkeys("rq:{a}:settings") == [b"opening"]
    with pytest.raises(rq_dlq.InvalidName):
        await broker.policies.undeclare("a b")


async def test_a_declaration_that_does_not_decode_is_withdrawn(broker: Any, raw: Any) -> None:
    raw.hset("rq:{a}:settings", "declared", b"{")
    assert await broker.policies.undeclare("a") is True
    assert not raw.hexists("rq:{a}:settings", "declared")


async def test_open_notes_what_was_declared(broker: Any) -> None:
    await broker.queue("orders", max_in_flight=3).open()
    assert await broker.queues() == ["orders"]
    assert (await broker.queue("orders").settings()).max_in_flight == 3


# What it tells on the way


async def test_progress(broker: Any, raw: Any) -> None:
    raw.sadd("rq:queues", *(f"a.{n}" for n in range(60)), "b")
    told: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        told.append((done, total))

    assert await broker.policies.set("a.#", max_in_flight=1, progress=progress) == 60
    assert await broker.policies.put("a.#", Entry.of(max_in_flight=2), progress=progress) == 60
    assert await broker.policies.remove("a.#", progress=progress) == 60
    assert told == [(1, 60), (26, 60), (51, 60), (60, 60)] * 3


@pytest.mark.parametrize("verb", ["set", "remove"])
async def test_who_breaks_off_is_told_how_far_it_came(verb: str, broker: Any, raw: Any) -> None:
    raw.sadd("rq:queues", *(f"a.{n}" for n in range(60)))
    await broker.policies.set("a.#", max_in_flight=1)

    def stop(done: int, total: int) -> None:
        if done > 1:
            message = f"enough of {total}"
            raise RuntimeError(message)

    def limits() -> set[bytes | None]:
        return {raw.hget(f"rq:{{a.{n}}}:settings", "max_in_flight") for n in range(60)}

    options = {"max_in_flight": 2} if verb == "set" else {}
    with pytest.raises(RuntimeError) as raised:
        await getattr(broker.policies, verb)("a.#", progress=stop, **options)
    assert raised.value.__notes__ == ["26 of 60 queues have the change: it is safe to repeat the call"]
    assert len(limits()) == 2
    assert await getattr(broker.policies, verb)("a.#", **options) == 60
    assert limits() == {b"2" if verb == "set" else None}


async def test_a_program_declares_some_fields_of_redelivery_as_an_entry_does(broker: Any) -> None:
    await broker.policies.set("#", redelivery={"initial_delay": "3s", "collision_avoidance": 0})
    queue = broker.queue("a", redelivery={"max_redeliveries": 1})
    await queue.send("x")
    settings = await queue.settings()
    assert (settings.redelivery.max_redeliveries, settings.redelivery.initial_delay) == (1, 3)
    assert {one.field: one.source for one in settings.sources}[
        "redelivery.max_redeliveries"
    ] == "declared in code"
    assert queue._core.redelivery == RedeliveryPolicy(max_redeliveries=1)
    with pytest.raises(PolicyError, match=r"redelivery is 'often'. Pass a RedeliveryPolicy, or a mapping of"):
        broker.queue("a", redelivery="often")
    with pytest.raises(PolicyError, match=r"fatal .*RedeliveryPolicy\(…, fatal="):
        broker.queue("a", redelivery={"fatal": (ValueError,)})
