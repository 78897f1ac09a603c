"""What nobody saw: faults of the Lua that no other test failed on (tests/mutants)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from rq_dlq import _calls
from rq_dlq._calls import Call, Share, claims, jobs
from rq_dlq._keys import QueueKeys
from rq_dlq._work import MOST
from rq_dlq.errors import BrokerRefused
from rq_dlq.failure import read_history
from tests.audit import audit
from tests.model.driver import Driver, packed
from tests.model.stops import Stopped
from tests.model.test_found import Bench
from tests.model.world import CAUSE

TEN_YEARS = 315_360_000_000  # milliseconds


@pytest.fixture
def bench(raw: Any) -> Iterator[Bench]:
    bench = Bench(raw)
    yield bench
    audit(raw, "q")


ACKS: dict[str, Callable[[Bench, list[tuple[str, str]]], Call[Any]]] = {
    "ack": lambda bench, held: _calls.ack(bench.keys, held),
    "ack all": lambda bench, held: _calls.ack_all(bench.keys, held),
    "commit": lambda bench, held: _calls.commit([Share(bench.keys, held, [])], "c"),
}


@pytest.mark.parametrize("verb", ACKS)
def test_who_acks_a_part_of_a_claim_holds_the_rest(bench: Bench, verb: str) -> None:
    bench.send(("a", 4), ("b", 4), ("c", 4))
    bench.claim("t", 3)
    bench.queue.run(ACKS[verb](bench, [("a", "t"), ("a", "t")]))
    assert bench.raw.hget(bench.keys["claims"], "t:held") == b"2"
    bench.queue.run(ACKS[verb](bench, [("b", "t"), ("c", "t")]))


def test_the_largest_claim_is_acked_and_divided_whole(bench: Bench) -> None:
    bench.send(*[(f"m{n}", 4) for n in range(MOST)])
    assert len(bench.claim("t", MOST)) == MOST
    assert bench.queue.run(claims.divide_claim(bench.keys, "t", to="u", keep=0)) == MOST
    assert bench.queue.run(claims.ack_claim(bench.keys, "u")) == MOST


SAID: dict[str, Any] = {"by": '"c"', "cause": CAUSE}
OPERATED: dict[str, Callable[[QueueKeys], Call[Any]]] = {
    "browse": lambda keys: _calls.browse(keys, place="ready", ids=["m"]),
    "purge": lambda keys: _calls.purge(keys, place="ready", ids=["m"]),
    "dead_letter": lambda keys: _calls.dead_letter(keys, place="ready", ids=["m"], **SAID),
    "redrive": lambda keys: _calls.redrive(keys, part="dead", ids=["m"], by='"c"'),
    "expire_now": lambda keys: _calls.expire_now(keys, place="ready", ids=["m"]),
    "prioritise": lambda keys: _calls.prioritise(keys, place="ready", ids=["m"], priority=9),
    "transfer": lambda keys: _calls.transfer(
        keys, QueueKeys("rq", "to"), place="ready", ids=["m"], keep=True, **SAID
    ),
}


@pytest.mark.parametrize("verb", OPERATED)
def test_only_an_id_is_an_id(bench: Bench, verb: str) -> None:
    """Other messages are called like the other arguments of the call."""
    call = OPERATED[verb](bench.keys)
    names = ["m", *{str(value) for value in call.args.values()} - {""}]
    bench.send(*[(name, 4) for name in names])
    if verb == "redrive":
        bench.queue.run(_calls.dead_letter(bench.keys, place="ready", ids=names, **SAID))
    done = bench.queue.run(call)
    assert [getattr(row, "id", row) for row in done] == ["m"]


@pytest.mark.parametrize("chosen", [{"ids": ["m"]}, {"limit": 9}])
def test_what_is_leased_is_left_alone_whatever_an_index_says(bench: Bench, chosen: dict[str, Any]) -> None:
    """A claim that was cut off left the row behind."""
    bench.send(("m", 4))
    rows = bench.raw.zrange(bench.keys["ready"], 0, -1, withscores=True)
    bench.claim("t")
    bench.raw.zadd(bench.keys["ready"], dict(rows))
    assert bench.queue.run(_calls.purge(bench.keys, place="ready", **chosen)) == []
    assert bench.queue.settle(_calls.ack(bench.keys, [("m", "t")]))
    bench.queue.run(_calls.purge(bench.keys, place="ready", limit=9))


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
    bench.queue.run(_calls.send(bench.keys, delay=0, ttl=0, items=items))
    bench.claim("t", 2)
    held = [("m", "t"), ("stays", "t")]
    bench.queue.run(_calls.poison(bench.keys, held, reason="poison", cause=CAUSE, consumer='"c"'))
    assert bench.raw.hkeys(bench.keys["messages"]) == [b"stays"]


def test_all_settings_at_once(bench: Bench) -> None:
    names = ("redelivery", "dead_letter", "expiry", "max_in_flight", "outcomes", "names")
    call = _calls.configure(
        bench.keys, dict.fromkeys(names, "1"), version=2, version_before=b"", declared_before=b"",
        declared=b"{}",
    )  # fmt: skip
    assert bench.queue.run(call)
    assert bench.raw.hlen(bench.keys["settings"]) == len(names) + 2


def test_what_a_division_took_left_its_place_empty(bench: Bench) -> None:
    bench.send(("a", 4), ("b", 4), ("c", 4))
    bench.claim("t", 3)
    assert bench.queue.run(claims.divide_claim(bench.keys, "t", to="u", keep=1)) == 2
    assert bench.raw.hmget(bench.keys["claims"], "t", "u") == [b'"c"\na\n\n', b'"c"\nb\nc']


@pytest.mark.parametrize("default", [0, TEN_YEARS + 1])
def test_a_default_time_to_live_that_is_no_time_is_none(bench: Bench, default: int) -> None:
    """So what has none gets the most that is allowed."""
    bench.queue.run(bench.queue.configure_call({"expiry": f"{default} - 5000"}))
    bench.send(("m", 4))
    assert bench.raw.zscore(bench.keys["expiring"], "m") == bench.clock.now + 5_000


@pytest.mark.parametrize("default", [1, TEN_YEARS])
def test_the_shortest_and_the_longest_default_time_to_live(bench: Bench, default: int) -> None:
    bench.queue.run(bench.queue.configure_call({"expiry": f"{default} - -"}))
    bench.send(("m", 4))
    assert bench.raw.zscore(bench.keys["expiring"], "m") == bench.clock.now + default


def test_a_delay_that_ends_where_the_message_was_born_is_not_cut_short(bench: Bench) -> None:
    """I5, after a step back of the clock."""
    bench.send(("a", 9))
    bench.step(-1_000)
    bench.send(("m", 9))  # born with a: births do not step back
    bench.claim("t", 2)
    bench.nack("t", "m", delay=1_000)
    bench.step(999)
    assert bench.claim("u") == []
    bench.step(2)
    assert bench.claim("v") == ["m"]


def test_what_is_noted_of_a_query_goes_by_itself(bench: Bench) -> None:
    assert bench.queue.run(claims.note_done(bench.keys, "query", 3)) == 3
    (key,) = bench.raw.keys("*:stream:*")
    assert bench.raw.ttl(key) > 0


def test_what_is_overdue_is_not_waited_for(bench: Bench) -> None:
    """More leases ended at once than one claim sweeps."""
    names = [f"m{n}" for n in range(40)]
    bench.send(*[(name, 4) for name in names])
    for name in names:
        bench.claim(f"t{name}", lease=1_000)
    bench.step(1_500)
    claimed = bench.queue.run(bench.queue.claim_call("u", patience=60_000))
    assert (claimed.rows, claimed.wait) == ([], 0)


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
    assert bench.queue.settle(_calls.ack(bench.keys, [("b", "t"), ("c", "t")]))
    assert not bench.raw.exists(bench.keys["leases"])


def test_what_stands_where_it_was_born_is_not_stranded(bench: Bench) -> None:
    """A stranger's state says otherwise, while the lease of its former claim ends."""
    bench.send(("a", 4), ("b", 4))
    bench.claim("t", 2, lease=1_000)
    assert bench.queue.settle(_calls.release(bench.keys, [("a", "t")]))
    bench.raw.hset(bench.keys["states"], "a", "live - 5 1 0 0 0 0 0 0")
    bench.step(1_000)
    bench.sweep(9)
    assert bench.raw.zcard(bench.keys["ready"]) == 1
    assert bench.claim("u") == ["a"]


@pytest.mark.parametrize("verb", ["dead_letter", "expire_now"])
def test_a_claim_takes_nothing_that_stands_elsewhere(bench: Bench, verb: str) -> None:
    """A verb that was cut off left its row behind."""
    bench.send(("m", 4))
    rows = bench.raw.zrange(bench.keys["ready"], 0, -1, withscores=True)
    bench.queue.run(OPERATED[verb](bench.keys))
    bench.raw.zadd(bench.keys["ready"], dict(rows))
    assert bench.claim("t") == []
    assert not bench.raw.exists(bench.keys["ready"])


def test_who_moves_nothing_wakes_no_one(bench: Bench) -> None:
    assert bench.queue.run(OPERATED["transfer"](bench.keys)) == []
    assert not bench.raw.exists(QueueKeys("rq", "to")["wake"])


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
    assert bench.queue.settle(_calls.ack(bench.keys, [("m", "t")]))


BOUNDED: dict[str, tuple[dict[str, int], Callable[[QueueKeys], Call[Any]]]] = {
    "promote": ({"delay": 1}, lambda keys: _calls.promote(keys, limit=1)),
    "expire": ({"ttl": 1}, lambda keys: _calls.expire(keys, limit=1)),
    "purge": ({}, lambda keys: _calls.purge(keys, place="ready", limit=1)),
}


@pytest.mark.parametrize("verb", BOUNDED)
def test_a_call_does_as_much_as_it_may_and_no_more(bench: Bench, verb: str) -> None:
    options, call = BOUNDED[verb]
    bench.send(("a", 4), ("b", 4), **options)
    bench.step(1)
    assert bench.queue.run(call(bench.keys)) in (1, ["a"])
    assert bench.queue.run(call(bench.keys)) in (1, ["b"])


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


def test_what_was_moved_into_the_queue_is_staged_no_more(bench: Bench) -> None:
    job, attempt = "job", jobs.attempt_of("a", delay=0, ttl=0)
    bench.queue.run(jobs.stage(bench.keys, job, attempt, packed(("a", 4), ("b", 4), ("c", 4))))
    commit = jobs.commit_job(
        bench.keys, job, {attempt: 6}, batch=0, call="call", grace=1_000, remembered=60_000
    )
    assert bench.queue.run(commit) == "committed"
    moved, left = [], []
    for _ in range(3):
        moved.append(bench.queue.run(jobs.move_staged(bench.keys, job, attempt, limit=2, early=True)))
        left.append(bench.raw.llen(bench.keys.stage(job, attempt)))
    assert (moved, left) == ([2, 1, 0], [2, 0, 0])
    assert bench.claim("t", 9) == ["a", "b", "c"]


SETTLED: dict[str, Callable[[QueueKeys], Call[Any]]] = {
    "acked": lambda keys: _calls.ack(keys, [("m", "u")]),
    "discarded": lambda keys: _calls.poison(keys, [("m", "u")], reason="poison", cause=CAUSE, consumer='"c"'),
}


def stopped_at(bench: Bench, call: Call[Any], n: int) -> bool:
    """Run a call that stops at its n-th Redis call; whether it has one."""
    with suppress(BrokerRefused):
        Driver(bench.raw, scripts=Stopped(n)).run(call)  # type: ignore[arg-type]
    return bool(bench.raw.delete("stopped"))


def emptied(bench: Bench) -> None:
    bench.raw.flushall()
    bench.step(0)


@pytest.mark.parametrize("verb", SETTLED)
def test_no_message_that_was_cut_off_stays_without_its_story(bench: Bench, verb: str) -> None:
    for n in itertools.count(1):
        bench.queue.run(bench.queue.configure_call({"dead_letter": '{"dead": "discard"}'}))
        bench.send(("m", 4))
        bench.claim("t")
        bench.nack("t", "m", delay=0)
        bench.claim("u")
        stopped = stopped_at(bench, SETTLED[verb](bench.keys), n)
        stays = bench.raw.hexists(bench.keys["messages"], "m")
        assert bench.raw.hexists(bench.keys["history"], "m") or not stays, f"stopped at {n}"
        emptied(bench)
        if not stopped:
            break


@pytest.mark.parametrize("verb", ["ack", "sweep"])
def test_a_sweep_leaves_nothing_of_a_claim_that_was_cut_off(bench: Bench, verb: str) -> None:
    for n in itertools.count(1):
        bench.send(("m", 4))
        bench.claim("t", lease=1_000)
        bench.step(1_000 if verb == "sweep" else 0)
        call = _calls.sweep(bench.keys, limit=1, seed=0.5, default_policy=bench.queue.wire)
        stopped = stopped_at(bench, call if verb == "sweep" else _calls.ack(bench.keys, [("m", "t")]), n)
        bench.step(1_000)
        bench.sweep(9)
        assert not bench.raw.exists(bench.keys["claims"], bench.keys["leases"]), f"stopped at {n}"
        emptied(bench)
        if not stopped:
            break


def test_a_priority_that_was_cut_off_is_given_again(bench: Bench) -> None:
    for n in itertools.count(1):
        bench.send(("m", 4))
        bench.claim("t")
        bench.nack("t", "m", delay=1_000)
        call = _calls.prioritise(bench.keys, place="scheduled", ids=["m"], priority=9)
        stopped = stopped_at(bench, call, n)
        assert bench.queue.run(call) == ["m"], f"stopped at {n}"
        emptied(bench)
        if not stopped:
            break


@pytest.mark.parametrize("verb", ["ack", "release", "purge"])
def test_what_was_settled_before_is_not_swept(bench: Bench, verb: str) -> None:
    """A claim that is swept in parts counts only what it still held; the purge was cut off."""
    bench.send(("a", 4), ("b", 4), ("c", 4))
    bench.claim("t", 3, lease=1_000)
    settle = _calls.ack if verb == "ack" else _calls.release
    assert bench.queue.settle(settle(bench.keys, [("a", "t")]))
    if verb == "purge":
        bench.raw.hdel(bench.keys["messages"], "a")
        bench.raw.hincrby(bench.keys["counters"], "purged", 1)
    bench.step(1_000)
    assert bench.sweep(2) == 2
    assert bench.raw.zscore(bench.keys["leases"], "t"), "of c"
    assert bench.queue.settle(_calls.ack(bench.keys, [("c", "t")]))
    assert not bench.raw.exists(bench.keys["leases"])
    assert bench.claim("u") == (["a"] if verb == "release" else [])


def test_a_division_says_to_both_what_was_begun(bench: Bench) -> None:
    """So of the other claim, where nothing was begun, nothing is charged."""
    bench.send(("a", 4), ("b", 4))
    bench.claim("t", 2, lease=1_000, attributed=True)
    assert bench.queue.run(claims.divide_claim(bench.keys, "t", to="u", keep=1)) == 1
    bench.step(1_000)
    bench.sweep(9)
    assert bench.raw.hmget(bench.keys["counters"], "lapsed", "released") == [b"1", b"1"]


def test_a_time_of_the_next_decades_is_a_time(bench: Bench) -> None:
    bench.clock.set(2**41 + 1)  # in 2039
    bench.send(("m", 4))
    bench.claim("t")
    bench.nack("t", "m", delay=1_000)
    assert bench.queue.run(_calls.purge(bench.keys, place="scheduled", ids=["m"])) == ["m"]


def test_a_message_of_two_rows_is_claimed_once(bench: Bench) -> None:
    """A send was cut off, and repeated."""
    bench.send(("m", 4))
    ((_, score),) = bench.raw.zrange(bench.keys["ready"], 0, -1, withscores=True)
    bench.raw.zadd(bench.keys["ready"], {b"\x10\x09m": score})
    assert bench.claim("t", 2) == ["m"]


def test_a_claim_takes_nothing_that_another_holds(bench: Bench) -> None:
    """It was cut off, and left the row behind."""
    bench.send(("m", 4))
    rows = bench.raw.zrange(bench.keys["ready"], 0, -1, withscores=True)
    bench.claim("t")
    bench.raw.zadd(bench.keys["ready"], dict(rows))
    assert bench.claim("u") == []


def test_a_claim_clears_up_behind_a_purge_that_was_cut_off(bench: Bench) -> None:
    bench.send(("m", 4))
    bench.claim("t")
    bench.nack("t", "m", delay=0)
    bench.raw.hdel(bench.keys["messages"], "m")
    bench.raw.hincrby(bench.keys["counters"], "purged", 1)  # which the purge came no more to
    assert bench.claim("u") == []
    assert not bench.raw.exists(bench.keys["states"], bench.keys["history"], bench.keys["ready"])


def test_who_does_not_wait_takes_no_alarm(bench: Bench) -> None:
    """Nobody else would watch the time."""
    names = [f"m{n}" for n in range(20)]
    bench.send(*[(name, 4) for name in names])
    for name in names:
        bench.claim(f"t{name}", lease=1_000)
    bench.step(1_000)
    assert bench.claim("u") == []
    assert not bench.raw.exists(bench.keys["alarm"])


def test_one_of_those_who_wait_watches_the_time(bench: Bench) -> None:
    bench.send(("m", 4), delay=1_000)
    waits = [bench.queue.run(bench.queue.claim_call(token, patience=60_000)).wait for token in ("t", "u")]
    assert waits == [1_000, -1]


@pytest.mark.parametrize("unsaid", [1, 2])
def test_what_is_said_no_more_holds_no_more(bench: Bench, unsaid: int) -> None:
    said = ["redelivery", "dead_letter", "expiry", "max_in_flight", "outcomes", "names"]
    for number, names in enumerate((said, said[unsaid:])):
        call = _calls.configure(
            bench.keys, dict.fromkeys(names, "1"), version=number + 1,
            version_before=str(number or "").encode(), declared_before=b"{}" if number else b"",
            declared=b"{}",
        )  # fmt: skip
        assert bench.queue.run(call)
    kept = {name.decode() for name in bench.raw.hkeys(bench.keys["settings"])}
    assert kept == {*said[unsaid:], "version", "declared"}


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


def test_nobody_is_woken_for_what_is_sent_to_a_queue_that_pauses(bench: Bench) -> None:
    bench.queue.run(_calls.pause(bench.keys, paused=True))
    bench.send(("m", 4))
    assert not bench.raw.exists(bench.keys["wake"])


def test_a_send_says_what_the_queue_knew_already(bench: Bench) -> None:
    bench.send(("b", 4))
    items = packed(("a", 4), ("b", 4), ("a", 4))
    assert bench.queue.run(_calls.send(bench.keys, delay=0, ttl=0, items=items)) == [1, 2]


def test_only_a_redelivery_tells_of_a_delay(bench: Bench) -> None:
    """And what is kept for no time is dropped at once."""
    settings = {"outcomes": "1000", "dead_letter": '{"expired": "discard", "dead_for": 0}'}
    bench.queue.run(bench.queue.configure_call(settings))
    bench.send(*[(name, 4) for name in ("acked", "dead", "released")])
    bench.claim("t", 3)
    bench.queue.run(_calls.ack(bench.keys, [("acked", "t")]))
    bench.queue.run(_calls.poison(bench.keys, [("dead", "t")], reason="poison", cause=CAUSE, consumer='"c"'))
    bench.queue.run(_calls.release(bench.keys, [("released", "t")]))
    bench.queue.run(_calls.redrive(bench.keys, part="dead", by='"c"', limit=1))
    bench.queue.run(_calls.dead_letter(bench.keys, place="ready", ids=["dead"], **SAID))
    assert bench.queue.run(_calls.retire(bench.keys, limit=9)) == 1
    bench.queue.run(_calls.purge(bench.keys, place="ready", limit=1))
    to = QueueKeys("rq", "to")
    moved = _calls.transfer(bench.keys, to, place="ready", ids=["m"], keep=False, **SAID)
    for call in (OPERATED["expire_now"](bench.keys), moved):
        bench.send(("m", 4))
        assert bench.queue.run(call) == ["m"]
    told = [cells for _, cells in bench.raw.xrange(bench.keys["outcomes"])]
    assert [cells[b"event"].decode() for cells in told] == [
        "acked", "dead", "released", "redriven", "dead", "discarded", "purged",
        "expired", "discarded", "moved",
    ]  # fmt: skip
    assert {cells[b"delay"] for cells in told} == {b"0"}


def test_a_claim_makes_as_much_ready_as_it_hands_out(bench: Bench) -> None:
    names = [f"m{n:02}" for n in range(20)]
    bench.send(*[(name, 4) for name in names], delay=1)
    bench.step(1)
    assert bench.claim("t", 15) == names[:15]


def test_a_claim_of_the_dead_that_made_nothing_ready_wakes_no_one(bench: Bench) -> None:
    bench.send(("m", 4), ttl=1_000)
    bench.raw.delete(bench.keys["wake"])
    bench.step(1_000)
    assert bench.claim("t", part="dead") == []
    assert not bench.raw.exists(bench.keys["wake"])


@pytest.mark.parametrize("answer", ["rows", "count"])
def test_who_holds_the_alarm_and_has_something_to_do_hands_it_on(bench: Bench, answer: Any) -> None:
    bench.send(("later", 4), delay=1_000)
    assert bench.queue.run(bench.queue.claim_call("t", patience=60_000)).wait == 1_000
    bench.send(("m", 4))
    call = bench.queue.claim_call("t", lease=1_000_000, patience=60_000, alarmed=True)
    call.args["answer"] = answer  # type: ignore[index]
    bench.queue.run(replace(call, read=lambda reply, _: reply))
    assert bench.raw.hget(bench.keys["claims"], "t:held") == b"1"
    assert bench.queue.run(bench.queue.claim_call("u", patience=60_000)).wait == 1_000


def test_a_promotion_of_nothing_wakes_no_one(bench: Bench) -> None:
    assert bench.queue.run(_calls.promote(bench.keys, limit=9)) == 0
    assert not bench.raw.exists(bench.keys["wake"])


def test_what_was_begun_is_found_by_its_whole_id(bench: Bench) -> None:
    """Which is no pattern."""
    bench.send(("x", 4), ("a-b", 4))
    bench.claim("t", 2, attributed=True)
    assert bench.queue.run(_calls.begin(bench.keys, "t", ["a-b"]))
    assert bench.claim("t", 2, attributed=True) == ["x", "a-b"]
    assert bench.raw.hget(bench.keys["claims"], "t:begun") == b"a-b"


def test_a_message_of_no_content_is_a_message(bench: Bench) -> None:
    """With a time to live its record is as short as a sound one can be."""
    items: list[str | bytes] = ["m", bytes((9,))]
    bench.queue.run(_calls.send(bench.keys, delay=0, ttl=1_000, items=items))
    bench.step(1_000)
    assert bench.claim("t") == []
    assert [bench.raw.zcard(bench.keys[place]) for place in ("ready", "expired")] == [0, 1]


def test_what_was_never_redelivered_waited_for_nothing(bench: Bench) -> None:
    bench.send(("m", 4), ttl=1_000)
    (row,) = bench.queue.run(bench.queue.claim_call("t")).rows
    assert row.state.split()[-1] == b"0", "the delay of its last redelivery"


def test_a_claim_that_is_read_or_made_again_tells_the_stories(bench: Bench) -> None:
    bench.send(("new", 4), ("m", 9))
    bench.claim("t")
    bench.nack("t", "m", delay=0)
    bench.claim("u", 2)
    story = bench.raw.hget(bench.keys["history"], "m")
    read = bench.queue.run(claims.read_claim(bench.keys, "u", first=0, limit=9))
    for rows in (read, bench.queue.run(bench.queue.claim_call("u", 2)).rows):
        assert [(row.id, row.history) for row in rows] == [("m", story), ("new", b"")]


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


@pytest.mark.parametrize("verb", ["redrive", "transfer"])
def test_who_was_redriven_waited_for_nothing(bench: Bench, verb: str) -> None:
    to = QueueKeys("rq", "to") if verb == "transfer" else bench.keys
    bench.send(("m", 4))
    bench.claim("t")
    bench.nack("t", "m", delay=1_000)
    bench.queue.run(_calls.dead_letter(bench.keys, place="scheduled", ids=["m"], **SAID))
    bench.raw.delete(to["wake"])
    moved = _calls.transfer(bench.keys, to, place="dead", ids=["m"], keep=False, **SAID)
    assert bench.queue.run(moved if verb == "transfer" else OPERATED["redrive"](bench.keys)) == ["m"]
    state = bench.raw.hget(to["states"], "m").split()
    assert (state[4], state[8], state[9]) == (b"0", b"1", b"0")  # charged, redriven, the last delay
    assert bench.raw.llen(to["wake"]) == 1


def test_who_holds_the_alarm_and_waits_no_more_hands_it_on(bench: Bench) -> None:
    bench.send(("later", 4), delay=1_000)
    assert bench.queue.run(bench.queue.claim_call("t", patience=60_000)).wait == 1_000
    assert bench.queue.run(bench.queue.claim_call("t", patience=60_000, alarmed=True)).wait == 1_000
    assert not bench.raw.exists(bench.keys["wake"]), "it keeps it as long as it waits"
    assert bench.claim("t", alarmed=True) == []
    assert bench.raw.llen(bench.keys["wake"]) == 1
    assert bench.queue.run(bench.queue.claim_call("u", patience=60_000)).wait == 1_000


def test_a_lapse_charges_what_was_begun_by_its_whole_id(bench: Bench) -> None:
    """Which is no pattern."""
    bench.send(("a-b", 4))
    bench.claim("t", lease=1_000, attributed=True)
    bench.step(1_000)
    bench.sweep(1)
    assert bench.raw.hget(bench.keys["counters"], "lapsed") == b"1"


@pytest.mark.parametrize("keep", [True, False])
def test_a_transfer_tells_only_of_what_came(bench: Bench, keep: bool) -> None:
    """One that was cut off had told something before."""
    to = QueueKeys("rq", "to")
    bench.send(("m", 4))
    bench.raw.hset(to["history"], "m", "moved\t1\t0\t0\t\t\t")
    transfer = _calls.transfer(bench.keys, to, place="ready", ids=["m"], keep=keep, **SAID)
    assert bench.queue.run(transfer) == ["m"]
    (event,) = read_history(bench.raw.hget(to["history"], "m"))
    assert event.event == ("copied" if keep else "moved")


def test_who_is_told_to_wake_is_told_for_a_while(bench: Bench) -> None:
    bench.send(("m", 4))
    assert bench.raw.pttl(bench.keys["wake"]) > 0


def test_what_an_ack_left_behind_goes_even_if_the_sweep_is_cut_off(bench: Bench) -> None:
    for n in itertools.count(1):
        bench.send(("m", 4))
        bench.claim("t")
        bench.nack("t", "m", delay=0)
        bench.claim("u", lease=1_000)
        bench.raw.hdel(bench.keys["messages"], "m")
        bench.step(1_000)
        call = _calls.sweep(bench.keys, limit=1, seed=0.5, default_policy=bench.queue.wire)
        stopped = stopped_at(bench, call, n)
        bench.sweep(1)
        for key in ("states", "history", "claims", "leases"):
            assert not bench.raw.exists(bench.keys[key]), f"{key}, stopped at {n}"
        emptied(bench)
        if not stopped:
            break


def test_a_job_that_is_moved_and_cut_off_loses_nothing(bench: Bench) -> None:
    for n in itertools.count(1):
        job, attempt = "job", jobs.attempt_of("a", delay=0, ttl=0)
        bench.queue.run(jobs.stage(bench.keys, job, attempt, packed(("a", 4), ("b", 4))))
        commit = jobs.commit_job(
            bench.keys, job, {attempt: 4}, batch=0, call="call", grace=1_000, remembered=60_000
        )
        assert bench.queue.run(commit) == "committed"
        move = jobs.move_staged(bench.keys, job, attempt, limit=9, early=True)
        stopped = stopped_at(bench, move, n)
        while bench.queue.run(move):
            pass
        assert bench.claim("t", 9) == ["a", "b"], f"stopped at {n}"
        emptied(bench)
        if not stopped:
            break


def test_a_sweep_takes_nothing_from_who_claimed_it_since(bench: Bench) -> None:
    bench.send(("a", 4), ("b", 4))
    bench.claim("t", 2, lease=1_000)
    assert bench.queue.settle(_calls.release(bench.keys, [("a", "t")]))
    assert bench.claim("u") == ["a"]
    bench.step(1_000)
    bench.sweep(9)
    assert bench.queue.settle(_calls.ack(bench.keys, [("a", "u")]))


def test_the_oldest_is_the_first_of_many(bench: Bench) -> None:
    bench.send(("a", 4))
    bench.step(1_000)
    bench.send(("b", 4))
    _, stats = bench.queue.run(_calls.stats(bench.keys, "q"))
    assert (stats.oldest, stats.ready) == (1.0, 2)


def test_what_fails_uncharged_waits_as_at_first(bench: Bench) -> None:
    bench.send(("m", 4))
    bench.claim("t")
    call = _calls.nack(
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


def test_who_settled_is_known_by_its_whole_token(bench: Bench) -> None:
    """Which is no pattern."""
    bench.send(("m", 4))
    bench.claim("t")
    assert bench.queue.settle(_calls.release(bench.keys, [("m", "t")]))
    (settlement,) = bench.queue.run(_calls.ack(bench.keys, [("m", "0")]), repeated=True)
    assert settlement.outcome == "lost"


@pytest.mark.parametrize("stale", ["version_before", "declared_before"])
def test_settings_that_changed_since_are_looked_at_again(bench: Bench, stale: str) -> None:
    bench.raw.hset(bench.keys["settings"], mapping={"version": 1, "declared": "{}"})
    known: dict[str, bytes] = {"version_before": b"1", "declared_before": b"{}", stale: b"before"}
    assert not bench.queue.run(_calls.configure(bench.keys, {}, version=2, declared=b"{}", **known))
    assert bench.raw.hget(bench.keys["settings"], "version") == b"1"


def test_the_largest_division_that_was_cut_off_is_ended_whole(bench: Bench) -> None:
    """It had written the other claim, and no state yet."""
    bench.send(*[(f"m{n}", 4) for n in range(MOST)])
    bench.claim("t", MOST)
    given, until = bench.raw.hget(bench.keys["claims"], "t"), bench.raw.zscore(bench.keys["leases"], "t")
    bench.raw.hset(bench.keys["claims"], mapping={"u": given, "u:held": MOST})
    bench.raw.zadd(bench.keys["leases"], {"u": until})
    assert bench.queue.run(claims.divide_claim(bench.keys, "t", to="u", keep=0)) == MOST
    assert bench.queue.run(claims.ack_claim(bench.keys, "u")) == MOST
