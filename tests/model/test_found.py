"""The shortest ways to what the model, the search and the stops have found, each once wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rq_dlq.core.changing import calls as choosing_calls
from rq_dlq.core.sessions import calls as session_calls
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.upkeep import calls as upkeep_calls
from rq_dlq.values.failure import read_history
from tests.model.bench import Bench


def test_what_was_ready_survives_a_step_back_of_the_clock(bench: Bench) -> None:
    bench.send(("m", 4))
    bench.claim("a")
    bench.nack("a", "m", delay=1_000)
    bench.step(1_000)
    assert bench.queue.run(upkeep_calls.promote(bench.keys, limit=1)) == 1
    bench.step(-1)
    assert bench.claim("b") == ["m"]  # it was dropped from its index, and nowhere then


@pytest.mark.parametrize("back", ["release", "nack"])
def test_a_step_back_of_the_clock_hangs_no_one(bench: Bench, back: str) -> None:
    bench.send(("m", 4))
    bench.step(-3_600_000)
    assert bench.claim("a") == ["m"]
    if back == "release":
        assert bench.queue.settle(settling_calls.release(bench.keys, [("m", "a")]))
    else:
        bench.nack("a", "m", delay=0)
    assert bench.claim("b") == ["m"]  # it waited for the hour to come again


A_SECOND: dict[str, Callable[[Bench], None]] = {
    "nack": lambda bench: bench.nack("t", "m", delay=1_000),
    "release": lambda bench: bench.settle(settling_calls.release(bench.keys, [("m", "t")], delay=1_000)),
    "pass on": lambda bench: bench.settle(bench.queue.pass_on_call([("m", "t")])),
}


@pytest.mark.parametrize("by", ["send", *A_SECOND])
def test_what_falls_due_when_it_was_born_keeps_its_priority(bench: Bench, by: str) -> None:
    """It falls due in the next millisecond (I5)."""
    bench.send(("a", 9))
    bench.step(-1_000)
    bench.send(("m", 9), delay=1_000 if by == "send" else 0)  # born with a: births do not step back
    assert bench.claim("t", 2) == (["a"] if by == "send" else ["a", "m"])
    A_SECOND.get(by, lambda _: None)(bench)
    bench.step(1_000)
    assert bench.claim("u") == []
    bench.step(1)
    bench.send(("late", 5))
    assert bench.claim("v", 2) == ["m", "late"]  # its priority was read as below 0


def test_a_claim_swept_in_parts_lets_go_of_its_lease(bench: Bench) -> None:
    bench.send(("a", 4), ("b", 4), ("c", 4))
    bench.claim("t", 3, lease=1_000)
    bench.step(1_000)
    assert bench.sweep(1) == 1
    held = [("b", "t"), ("c", "t")]
    assert bench.queue.run(settling_calls.extend(bench.keys, held, lease=1_000))[1] == [True, True]
    assert bench.queue.settle(settling_calls.ack(bench.keys, held))
    assert bench.raw.zcard(bench.keys["leases"]) == 0  # it was kept, for a message that it had no more


def test_a_claim_that_is_taken_up_again_holds_as_long_as_its_reply_says(bench: Bench) -> None:
    bench.send(("m", 4))
    bench.claim("t", lease=1_000)  # the reply is lost
    bench.step(999)
    assert bench.claim("t", lease=1_000) == ["m"]
    bench.step(999)
    assert bench.claim("other") == []
    assert bench.queue.settle(settling_calls.ack(bench.keys, [("m", "t")]))  # it had lapsed in its hands


def test_a_claim_of_the_dead_wakes_someone_for_what_it_made_ready(bench: Bench) -> None:
    bench.send(("m", 4), delay=1_000)
    bench.raw.delete(bench.keys["wake"])
    bench.step(1_000)
    assert bench.claim("t", part="dead") == []
    assert bench.raw.llen(bench.keys["wake"]) == 1


def test_a_batch_that_is_due_first_wakes_someone_whatever_comes_first_in_it(bench: Bench) -> None:
    bench.send(("later", 4), delay=5_000)
    bench.raw.delete(bench.keys["wake"])
    bench.send(("low", 0), ("high", 9), delay=1_000)
    assert bench.raw.llen(bench.keys["wake"]) == 1


def test_whatever_makes_a_message_ready_wakes_someone(bench: Bench) -> None:
    run, keys, held = bench.queue.run, bench.keys, [("m", "t")]
    poison = bench.queue.poison_call(held)
    bench.send(("m", 4), delay=1_000)
    bench.step(1_000)
    verbs: dict[str, Callable[[], object]] = {
        "promote": lambda: run(upkeep_calls.promote(keys, limit=1)),
        "release": lambda: run(settling_calls.release(keys, held)),
        "nack": lambda: bench.nack("t", "m", delay=0),
        "redrive": lambda: run(
            choosing_calls.redrive(bench.queue.sender(), place="dead", by='"op"', ids=["m"])
        ),
        "send": lambda: bench.send(("m", 4)),
    }
    for verb, act in verbs.items():
        if verb == "redrive":
            run(poison)
        if verb == "send":
            run(settling_calls.ack(keys, held))
        bench.raw.delete(keys["wake"])
        act()
        assert bench.raw.llen(keys["wake"]) == 1, verb
        assert bench.claim("t") == ["m"]
        assert bench.raw.llen(keys["wake"]) == 0, "nothing is left to wake anyone for"


def test_a_release_of_what_was_acked_in_part_brings_nothing_back(bench: Bench) -> None:
    """An ack was cut off after its first write, which is the moment it counts."""
    bench.send(("m", 4))
    bench.claim("t")
    bench.nack("t", "m", delay=0)
    bench.claim("t")
    bench.raw.hdel(bench.keys["messages"], "m")
    assert not bench.queue.settle(settling_calls.release(bench.keys, [("m", "t")]))
    assert bench.raw.zcard(bench.keys["ready"]) == 0
    assert bench.raw.hget(bench.keys["counters"], "released") is None
    for key in ("states", "history", "leases", "claims"):
        assert not bench.raw.exists(bench.keys[key]), key
    bench.raw.hset(bench.keys["counters"], "acked", 1)  # which the ack came no more to


@pytest.mark.parametrize(("delay", "place"), [(999, "scheduled"), (1_000, "expired"), (1_001, "expired")])
def test_a_redelivery_that_would_fall_due_too_late_expires_at_once(
    bench: Bench, delay: int, place: Any
) -> None:
    bench.send(("m", 4), ttl=1_000)
    bench.claim("t")
    bench.nack("t", "m", delay=delay)
    assert [message.id for message in bench.queue.browse(place)] == ["m"]


def test_the_first_and_the_last_fifteen_events_stay(bench: Bench) -> None:
    bench.send(("m", 4))
    for n in range(40):
        bench.claim(f"t{n}")
        bench.nack(f"t{n}", "m", delay=0)
    (message,) = bench.queue.browse("ready")
    deliveries = [event.delivery for event in read_history(message._row.history)]
    assert deliveries == [*range(1, 16), *range(26, 41)]


@pytest.mark.parametrize("verb", ["ack", "release"])
def test_who_let_a_lease_lapse_is_not_told_that_it_settled(bench: Bench, verb: str) -> None:
    """The call was lost on its way, the lease lapsed, and the call is repeated."""
    bench.send(("m", 4))
    bench.claim("t", lease=1_000)
    bench.step(1_000)
    bench.sweep(1)
    settle: Any = {"ack": settling_calls.ack, "release": settling_calls.release}[verb]
    call = settle(bench.keys, [("m", "t")])
    (settlement,) = bench.queue.run(call, repeated=True)
    assert settlement.outcome == "lost"  # it was told "settled", and the message was delivered again


@pytest.mark.parametrize("verb", ["ack_all", "commit"])
def test_an_item_that_is_there_twice_is_acked_once(bench: Bench, verb: str) -> None:
    bench.send(("a", 4), ("b", 4))
    bench.claim("t", 2)
    twice = [("a", "t"), ("a", "t")]
    share = session_calls.Share(bench.keys, twice, [])
    if verb == "ack_all":
        assert bench.queue.run(session_calls.ack_all(bench.keys, twice)).lost == ()
    else:
        assert bench.queue.run(session_calls.commit(bench.queue.sender(), [share])).lost == ()
    assert bench.queue.settle(settling_calls.ack(bench.keys, [("b", "t")]))  # it had lost its lease, for ever
