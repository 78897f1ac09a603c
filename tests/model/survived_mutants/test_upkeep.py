"""Redelivery and maintenance: faults of the Lua that no other test failed on (tests/proofs/mutants)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rq_dlq.core.cancelling import calls as cancelling_calls
from rq_dlq.core.changing import calls as choosing_calls
from rq_dlq.core.managing import calls as managing_calls
from rq_dlq.core.sending import calls as sending_calls
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.steps.call import Call
from rq_dlq.core.upkeep import calls as upkeep_calls
from rq_dlq.values.durations import TEN_YEARS
from tests.audit import audit
from tests.model.bench import Bench
from tests.model.driver import CAUSE, Driver


def test_a_delay_of_one_millisecond(bench: Bench) -> None:
    bench.send(("m", 4), delay=1)
    audit(bench.raw, "q")
    assert bench.claim("a") == []
    bench.step(1)
    assert bench.claim("b") == ["m"]


@pytest.mark.parametrize("flags", [0x00, 0x69])
def test_what_need_not_outlive_its_failure_is_dropped(bench: Bench, flags: int) -> None:
    """Whatever its other flags are."""
    bench.queue.run(bench.queue.configure_call({"dead_letter": '{"transient": "discard"}'}))
    items: list[str | bytes] = ["m", bytes((0x80 + flags,)), "stays", bytes((flags,))]
    bench.queue.run(sending_calls.send(bench.queue.sender(), delay=0, ttl=0, items=items))
    bench.claim("t", 2)
    held = [("m", "t"), ("stays", "t")]
    bench.queue.run(bench.queue.poison_call(held))
    assert bench.raw.hkeys(bench.keys["messages"]) == [b"stays"]


def test_a_release_waits_for_a_millisecond(bench: Bench) -> None:
    bench.send(("m", 4))
    bench.claim("t")
    assert bench.queue.settle(settling_calls.release(bench.keys, [("m", "t")], delay=1))
    assert bench.claim("u") == []
    bench.step(1)
    assert bench.claim("v") == ["m"]


def test_a_lease_holds_what_is_left_where_a_record_is_gone(bench: Bench) -> None:
    bench.send(("a", 4), ("b", 4), ("c", 4))
    bench.claim("t", 3, lease=1_000)
    bench.raw.hdel(bench.keys["messages"], "a")
    bench.raw.hincrby(bench.keys["counters"], "sent", -1)  # as if it had never been
    bench.step(1_000)
    for _ in range(4):
        bench.sweep(1)
    bench.step(1_000)
    assert bench.claim("u", 3) == ["b", "c"]


def test_a_lease_ends_with_what_is_left_where_a_record_is_gone(bench: Bench) -> None:
    bench.send(("a", 4), ("b", 4), ("c", 4))
    bench.claim("t", 3, lease=1_000)
    bench.raw.hdel(bench.keys["messages"], "a")
    bench.raw.hincrby(bench.keys["counters"], "sent", -1)
    bench.step(1_000)
    assert bench.sweep(1) == 1
    assert bench.queue.settle(settling_calls.ack(bench.keys, [("b", "t"), ("c", "t")]))
    assert not bench.raw.exists(bench.keys["leases"])


def test_what_stands_where_it_was_born_is_not_stranded(bench: Bench) -> None:
    """A stranger's state says otherwise, while the lease of its former claim ends."""
    bench.send(("a", 4), ("b", 4))
    bench.claim("t", 2, lease=1_000)
    assert bench.queue.settle(settling_calls.release(bench.keys, [("a", "t")]))
    bench.raw.hset(bench.keys["states"], "a", "live - 5 1 0 0 0 0 0 0")
    bench.step(1_000)
    bench.sweep(9)
    assert bench.raw.zcard(bench.keys["ready"]) == 1
    assert bench.claim("u") == ["a"]


def test_a_sweep_wakes_someone_for_what_it_brought_back(bench: Bench) -> None:
    bench.send(("m", 4))
    bench.claim("t", lease=1_000)
    assert (bench.sweep(1), bench.raw.llen(bench.keys["wake"])) == (0, 0)
    bench.step(1_000)
    assert (bench.sweep(1), bench.raw.llen(bench.keys["wake"])) == (1, 1)


def test_a_lease_lasts_to_its_end(bench: Bench) -> None:
    bench.send(("m", 4))
    bench.claim("t", lease=1_000)
    bench.step(999)
    bench.sweep(9)
    assert bench.queue.settle(settling_calls.ack(bench.keys, [("m", "t")]))


BOUNDED: dict[str, tuple[dict[str, int], Callable[[Driver], Call[Any]]]] = {
    "promote": ({"delay": 1}, lambda queue: upkeep_calls.promote(queue.keys, limit=1)),
    "expire": ({"ttl": 1}, lambda queue: upkeep_calls.expire(queue.keys, limit=1)),
    "purge": ({}, lambda queue: choosing_calls.purge(queue.sender(), place="ready", limit=1)),
}


@pytest.mark.parametrize("verb", BOUNDED)
def test_a_call_does_as_much_as_it_may_and_no_more(bench: Bench, verb: str) -> None:
    options, call = BOUNDED[verb]
    bench.send(("a", 4), ("b", 4), **options)
    bench.step(1)
    assert bench.queue.run(call(bench.queue)) == 1
    assert bench.queue.run(call(bench.queue)) == 1


def test_no_delay_is_longer_than_ten_years(bench: Bench) -> None:
    bench.send(("m", 4))
    bench.claim("t")
    bench.nack("t", "m", delay=TEN_YEARS + 1)
    ((_, due),) = bench.raw.zrange(bench.keys["scheduled"], 0, -1, withscores=True)
    assert due == bench.clock.now + TEN_YEARS


def test_a_policy_of_less_than_no_delay_means_none(bench: Bench) -> None:
    """A stranger's: what it says stands in no state."""
    wire = bench.queue.wire.decode().replace('"initial_delay":1000', '"initial_delay":-1')
    assert bench.queue.run(bench.queue.configure_call({"redelivery": wire}))
    bench.send(("m", 4))
    bench.claim("t")
    bench.nack("t", "m")
    (row,) = bench.queue.run(bench.queue.claim_call("u")).rows
    assert row.state.split()[3] == b"2", "it was delivered twice"


@pytest.mark.parametrize("verb", ["ack", "release", "purge"])
def test_what_was_settled_before_is_not_swept(bench: Bench, verb: str) -> None:
    """A claim that is swept in parts counts only what it still held; the purge was cut off."""
    bench.send(("a", 4), ("b", 4), ("c", 4))
    bench.claim("t", 3, lease=1_000)
    settle = settling_calls.ack if verb == "ack" else settling_calls.release
    assert bench.queue.settle(settle(bench.keys, [("a", "t")]))
    if verb == "purge":
        bench.raw.hdel(bench.keys["messages"], "a")
        bench.raw.hincrby(bench.keys["counters"], "purged", 1)
    bench.step(1_000)
    assert bench.sweep(2) == 2
    assert bench.raw.zscore(bench.keys["leases"], "t"), "of c"
    assert bench.queue.settle(settling_calls.ack(bench.keys, [("c", "t")]))
    assert not bench.raw.exists(bench.keys["leases"])
    assert bench.claim("u") == (["a"] if verb == "release" else [])


def test_a_time_of_the_next_decades_is_a_time(bench: Bench) -> None:
    bench.clock.set(2**41 + 1)  # in 2039
    bench.send(("m", 4))
    bench.claim("t")
    bench.nack("t", "m", delay=1_000)
    assert bench.queue.run(choosing_calls.purge(bench.queue.sender(), place="scheduled", ids=["m"])) == 1


def test_what_waits_for_its_redelivery_is_not_stranded(bench: Bench) -> None:
    """A stranger's state says nothing of it, while the lease of its former claim ends."""
    bench.send(("a", 4), ("b", 4))
    bench.claim("t", 2, lease=1_000)
    bench.nack("t", "a", delay=5_000)
    bench.raw.hset(bench.keys["states"], "a", "live - 0 1 0 0 0 0 0 0")
    bench.step(1_000)
    bench.sweep(9)
    assert bench.raw.hget(bench.keys["counters"], "lapsed") == b"1"
    bench.step(4_000)
    assert bench.claim("u", 2) == ["b", "a"]


def test_a_promotion_of_nothing_wakes_no_one(bench: Bench) -> None:
    assert bench.queue.run(upkeep_calls.promote(bench.keys, limit=9)) == 0
    assert not bench.raw.exists(bench.keys["wake"])


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("priority", range(10))
def test_what_is_held_does_not_expire(bench: Bench, priority: int, persistent: bool) -> None:
    """Whatever its flags are."""
    bench.send(("m", priority), ttl=1_000, persistent=persistent)
    assert bench.claim("t") == ["m"]
    assert not bench.raw.exists(bench.keys["expiring"])


def test_what_is_ready_lives_whatever_its_state_says(bench: Bench) -> None:
    """A stranger's state."""
    bench.send(("m", 4))
    bench.raw.hset(bench.keys["states"], "m", "dead - 5 1 0 0 0 0 0 0")
    assert bench.claim("t") == ["m"]
    bench.nack("t", "m", delay=0)
    assert bench.claim("u") == ["m"]


def test_a_sweep_takes_nothing_from_who_claimed_it_since(bench: Bench) -> None:
    bench.send(("a", 4), ("b", 4))
    bench.claim("t", 2, lease=1_000)
    assert bench.queue.settle(settling_calls.release(bench.keys, [("a", "t")]))
    assert bench.claim("u") == ["a"]
    bench.step(1_000)
    bench.sweep(9)
    assert bench.queue.settle(settling_calls.ack(bench.keys, [("a", "u")]))


def test_what_fails_uncharged_waits_as_at_first(bench: Bench) -> None:
    bench.send(("m", 4))
    bench.claim("t")
    call = settling_calls.nack(
        bench.keys, [("m", "t")], delay=None, charge=False, cause=CAUSE, consumer='"c"', seed=0.5,
        default_policy=bench.queue.wire,
    )  # fmt: skip
    assert bench.queue.settle(call)
    bench.step(999)
    assert bench.claim("u") == []
    bench.step(1)
    assert bench.claim("v") == ["m"]


def test_what_was_swept_left_its_place_empty(bench: Bench) -> None:
    bench.send(("a", 4), ("b", 4), ("c", 4))
    bench.claim("t", 3, lease=1_000)
    bench.step(1_000)
    for left in (b'"c"\n\nb\nc', b'"c"\n\n\nc'):
        assert bench.sweep(1) == 1
        assert bench.raw.hget(bench.keys["claims"], "t") == left


def test_a_sweep_is_of_so_many_in_all(bench: Bench) -> None:
    names = [f"m{n}" for n in range(16)]
    bench.send(*[(name, 4) for name in names])
    for token in ("t", "u"):
        bench.claim(token, 8, lease=1_000)
    bench.step(1_000)
    assert [bench.sweep(10) for _ in range(3)] == [10, 6, 0]


def test_a_sweep_leaves_so_many_alone_in_all(bench: Bench) -> None:
    """Those of a later form."""
    names = [f"m{n:02}" for n in range(24)]
    bench.send(*[(name, 4) for name in names])
    for token in ("t", "u", "v"):
        bench.claim(token, 8, lease=1_000)
    for name in names:
        bench.raw.hset(bench.keys["states"], name, b">=1.4 " + bench.raw.hget(bench.keys["states"], name))
    bench.step(1_000)
    assert bench.sweep(10) == 0
    noted = [bench.raw.hget(bench.keys["claims"], token).split(b"\n")[0] for token in ("t", "u", "v")]
    assert noted == [b'"c"', b'"c"\t\t2', b'"c"']
    bench.raw.flushall()


def test_one_that_was_left_alone_stays_in_its_claim(bench: Bench) -> None:
    """It stood first, and a later sweep went on behind it."""
    bench.send(("later", 4), ("m", 4))
    bench.claim("t", 2, lease=1_000)
    state = bench.raw.hget(bench.keys["states"], "later")
    bench.raw.hset(bench.keys["states"], "later", b">=1.4 " + state)
    bench.step(1_000)
    assert [bench.sweep(1), bench.sweep(1)] == [0, 1]
    assert bench.raw.hget(bench.keys["claims"], "t").endswith(b"\nlater\n")
    bench.raw.hset(bench.keys["states"], "later", state)


def test_a_claim_lets_go_of_a_later_form_that_it_holds_no_more(bench: Bench) -> None:
    names = ["given back", "m", "held"]
    bench.send(*[(name, 4) for name in names])
    bench.claim("t", 3, lease=1_000)
    assert bench.queue.settle(settling_calls.release(bench.keys, [("given back", "t")]))
    states = {name: bench.raw.hget(bench.keys["states"], name) for name in ("given back", "held")}
    for name, state in states.items():
        bench.raw.hset(bench.keys["states"], name, b">=1.4 " + state)
    bench.step(1_000)
    bench.sweep(9)
    assert bench.raw.hmget(bench.keys["claims"], "t", "t:held") == [b'"c"\n\n\nheld', b"1"]
    bench.raw.hset(bench.keys["states"], mapping=states)


def test_what_is_retired_is_behind_no_more_than_a_thousand(bench: Bench) -> None:
    """I9: those of a later form."""
    bench.queue.run(bench.queue.configure_call({"dead_letter": '{"dead_for": 1000}'}))
    names = [f"l{n:04}" for n in range(1_010)]
    for part in (names[:500], names[500:], ["m"]):
        bench.send(*[(name, 4) for name in part])
        bench.queue.run(
            choosing_calls.dead_letter(bench.queue.sender(), place="ready", ids=part, by='"c"', cause=CAUSE)
        )
        bench.step(1)
    bench.raw.hset(bench.keys["states"], mapping=dict.fromkeys(names, ">=1.4 x"))
    bench.step(1_000)
    assert bench.queue.run(upkeep_calls.retire(bench.keys, limit=10)) == 0
    bench.raw.flushall()


def test_as_many_claims_as_a_page_holds_are_not_all(bench: Bench) -> None:
    """No message is missing, and then one is."""
    names = [f"m{n}" for n in range(1_001)]
    bench.send(*[(name, 4) for name in names])
    bench.queue.run_all(*[bench.queue.claim_call(f"t{name}") for name in names])
    assert bench.raw.zcard(bench.keys["leases"]) == len(names)
    assert bench.queue.run(upkeep_calls.reindex(bench.keys, limit=9)) == 0
    bench.send(("lost", 4))
    bench.raw.delete(bench.keys["ready"])
    assert bench.queue.run(upkeep_calls.reindex(bench.keys, limit=2_000)) > 0
    assert bench.claim("t") == ["lost"]


def test_a_lapse_that_is_forgiven_ends_the_slot(bench: Bench) -> None:
    bench.configure(per_key="rate 1/10s")
    bench.send_alike("m", key="k")
    assert bench.claim("t", suspects="alone", lease=1_000) == ["m"]
    bench.step(1_000)
    assert bench.claim("u", suspects="alone") == ["m"]


def test_a_dead_letter_that_is_given_back_rests_whatever_keys_do(bench: Bench) -> None:
    bench.configure(per_key="order")
    bench.send(("m", 4))
    bench.claim("t")
    bench.settle(bench.queue.poison_call([("m", "t")]))
    bench.claim("u", part="dead")
    bench.settle(settling_calls.release(bench.keys, [("m", "u")], delay=60_000))
    assert bench.claim("v", part="dead") == []
    bench.step(60_000)
    assert bench.claim("w", part="dead") == ["m"]


def test_who_waits_is_woken_for_what_was_missing(bench: Bench) -> None:
    bench.send(("m", 4))
    bench.raw.delete(bench.keys["ready"], bench.keys["wake"])
    assert bench.queue.run(upkeep_calls.reindex(bench.keys, limit=9)) == 1
    assert bench.raw.llen(bench.keys["wake"]) == 1
    assert bench.claim("t") == ["m"]


def test_a_claim_of_an_unknown_number_hides_nothing(bench: Bench) -> None:
    bench.send(("m", 4))
    bench.claim("t")
    bench.raw.hset(bench.keys["claims"], "t:held", "x")
    assert bench.queue.run(upkeep_calls.reindex(bench.keys, limit=9)) == 1  # it looked
    bench.raw.hset(bench.keys["claims"], "t:held", 1)


def test_a_paused_key_holds_up_what_falls_due(bench: Bench) -> None:
    """Though it has a seat to give."""
    bench.configure(per_key="limit 2")
    bench.queue.run(managing_calls.pause_lane(bench.keys, "key", "k", paused=True))
    bench.send_alike("m", key="k", delay=10)
    bench.step(10)
    bench.queue.run(upkeep_calls.promote(bench.keys, limit=9))
    assert not bench.raw.exists(bench.keys["ready"], bench.keys["seats"])


def test_a_blocked_message_of_a_later_form_keeps_its_row(bench: Bench) -> None:
    bench.configure(per_key="order")
    bench.send_alike("holder", "later", "m", key="k")
    bench.raw.hset(bench.keys["states"], "later", ">=1.4 x")
    bench.claim("t")
    bench.settle(settling_calls.ack(bench.keys, [("holder", "t")]))
    assert [row[8:] for row in bench.raw.zrange(bench.keys["ready"], 0, -1)] == [b"later"]
    bench.raw.flushall()  # the audit cannot read it


def test_of_more_claims_than_it_reads_nothing_is_known(bench: Bench) -> None:
    """I9: so it does not look for what is missing."""
    bench.send(("m", 4))
    bench.raw.delete(bench.keys["ready"])
    bench.raw.zadd(bench.keys["leases"], {f"t{n}": bench.clock.now + 9_000 for n in range(5_001)})
    assert bench.queue.run(upkeep_calls.reindex(bench.keys, limit=9)) == 0
    bench.raw.zremrangebyrank(bench.keys["leases"], 0, 0)
    assert bench.queue.run(upkeep_calls.reindex(bench.keys, limit=9)) == 1
    bench.raw.delete(bench.keys["leases"])


def test_who_passes_a_message_on_is_told_for_how_long(bench: Bench) -> None:
    """In the first reply; a repeated call learns only that it is settled."""
    bench.send(("m", 4))
    bench.claim("t")
    call = bench.queue.pass_on_call([("m", "t")])
    assert bench.reply_to(call) == [b"passed_on 1000"]


def test_a_call_whose_message_is_gone_reports_no_progress(bench: Bench) -> None:
    bench.send(("m", 4))
    bench.claim("t")
    bench.raw.hdel(bench.keys["messages"], "m")
    assert not bench.queue.run(settling_calls.progress(bench.keys, ("m", "t"), part=0.5, text="half"))
    bench.raw.flushall()


def test_what_only_a_later_version_can_put_back_is_not_counted(bench: Bench) -> None:
    bench.send(("m", 4))
    bench.raw.hset(bench.keys["states"], "m", ">=1.4 x")
    bench.raw.delete(bench.keys["ready"])
    bench.queue.run(upkeep_calls.reindex(bench.keys, limit=9))
    assert not bench.raw.hexists(bench.keys["counters"], "reindexed")
    bench.raw.flushall()  # the audit cannot read it


def test_what_has_no_key_is_given_back_whatever_the_rate_of_keys(bench: Bench) -> None:
    bench.configure(per_key="rate 1/10s")
    bench.send(("m", 4))
    bench.claim("t")
    bench.settle(settling_calls.release(bench.keys, [("m", "t")]))
    assert bench.claim("u") == ["m"]


def test_who_passes_a_message_on_twice_is_noted_once(bench: Bench) -> None:
    """There is room for sixteen."""
    bench.send(("m", 4))
    for token in "tuv":
        assert bench.claim(token) == ["m"]
        bench.settle(bench.queue.pass_on_call([("m", token)], mark="deadbeef"))
        bench.step(60_000)
    assert bench.raw.hget(bench.keys["states"], "m").count(b"deadbeef") == 1


def test_a_sweep_ends_the_call_of_a_cancelled_message(bench: Bench) -> None:
    bench.configure(per_key="order")
    bench.send_alike("a", "b", key="k")
    assert bench.claim("t") == ["a"]
    bench.queue.run(cancelling_calls.cancel(bench.queue.sender(), id="a"))
    bench.step(60_000)
    bench.sweep(9)
    assert bench.raw.zcard(bench.keys["ready"]) == 1, "the next of its key is admitted"
