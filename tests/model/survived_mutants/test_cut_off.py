"""Scripts that were cut off: faults of the Lua that no other test failed on (tests/proofs/mutants)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from rq_dlq._keys import QueueKeys
from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.core.cancelling import calls as cancelling_calls
from rq_dlq.core.changing import calls as choosing_calls
from rq_dlq.core.jobs import calls as job_calls
from rq_dlq.core.schedules import calls as schedule_calls
from rq_dlq.core.sending import calls as sending_calls
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.steps.call import Call
from rq_dlq.core.steps.step import MOST
from rq_dlq.core.upkeep import calls as upkeep_calls
from tests.model.bench import Bench
from tests.model.driver import CODEC, Driver, packed


@pytest.mark.parametrize("chosen", [{"ids": ["m"]}, {"limit": 9}])
def test_what_is_leased_is_left_alone_whatever_an_index_says(bench: Bench, chosen: dict[str, Any]) -> None:
    """A claim that was cut off left the row behind."""
    bench.send(("m", 4))
    rows = bench.raw.zrange(bench.keys["ready"], 0, -1, withscores=True)
    bench.claim("t")
    bench.raw.zadd(bench.keys["ready"], dict(rows))
    assert bench.queue.run(choosing_calls.purge(bench.queue.sender(), place="ready", **chosen)) == 0
    assert bench.queue.settle(settling_calls.ack(bench.keys, [("m", "t")]))
    bench.queue.run(choosing_calls.purge(bench.queue.sender(), place="ready", limit=9))


def test_a_row_left_behind_hands_out_no_second_of_a_key(bench: Bench) -> None:
    """A message of an ordered key loses its seat to an older one, and has an old row in front of both."""
    assert bench.queue.run(bench.queue.configure_call({"per_key": "order"}))
    bench.send_alike("m", key="k")
    left = bench.raw.zrange(bench.keys["ready"], 0, -1, withscores=True)
    bench.claim("t")
    assert bench.queue.settle(settling_calls.ack(bench.keys, [("m", "t")]))
    bench.send_alike("older", "m", key="k")
    (row,) = bench.raw.zrange(bench.keys["scheduled"], 0, -1)
    (lane,) = [lane for _, lane in bench.raw.zrange(bench.keys["seats"], 0, -1, withscores=True)]
    bench.raw.zrem(bench.keys["scheduled"], row)
    (last,) = [at for _, at in bench.raw.zrange(bench.keys["ready"], 0, -1, withscores=True)]
    bench.raw.zadd(bench.keys["ready"], {row: last, **dict(left)})
    bench.raw.zrem(bench.keys["seats"], "older")
    bench.raw.zadd(bench.keys["seats"], {"m": lane})
    for token, taken in (("u", ["older"]), ("v", ["m"])):
        assert bench.claim(token, 9) == taken
        assert bench.queue.settle(settling_calls.ack(bench.keys, [(taken[0], token)]))
    assert bench.claim("w", 9) == []


def test_a_row_left_behind_lets_nobody_pass_who_waits(bench: Bench) -> None:
    """A delayed message falls due, and an old row of the same id is the first in its lane."""
    bench.queue.run(bench.queue.configure_call({"per_key": "order"}))
    bench.send_alike("holder", "m", key="k")
    left = bench.raw.zrange(bench.keys["scheduled"], 0, -1, withscores=True)
    bench.claim("t", 9)
    assert bench.queue.settle(settling_calls.ack(bench.keys, [("holder", "t")]))
    bench.claim("u", 9)
    assert bench.queue.settle(settling_calls.ack(bench.keys, [("m", "u")]))
    bench.send_alike("holder", "waits", key="k")
    bench.send_alike("m", key="k", delay=500)
    bench.raw.zadd(bench.keys["scheduled"], dict(left))
    bench.raw.zrem(bench.keys["seats"], "holder")
    bench.step(500)
    bench.queue.run(upkeep_calls.promote(bench.keys, limit=9))
    assert bench.raw.zscore(bench.keys["seats"], "m") is None
    order = []
    for token in ("v", "w", "x"):
        bench.step(1_000)
        (handed_out,) = bench.claim(token, 9)
        assert bench.queue.settle(settling_calls.ack(bench.keys, [(handed_out, token)]))
        order.append(handed_out)
    assert order == ["holder", "waits", "m"]


def test_a_row_of_an_earlier_birth_lets_nobody_pass(bench: Bench) -> None:
    """As of a message of the same id that was sent before, and is done."""
    bench.configure(per_key="order")
    bench.send_alike("holder", "waits", "m", key="k")
    (*_, (row, lane)) = bench.raw.zrange(bench.keys["scheduled"], 0, -1, withscores=True)
    assert row.endswith(b"m")
    bench.raw.zadd(bench.keys["scheduled"], {row[:1] + bytes(7) + row[8:]: lane})
    order = []
    for token in ("t", "u", "v"):
        (handed_out,) = bench.claim(token, 9)
        assert bench.queue.settle(settling_calls.ack(bench.keys, [(handed_out, token)]))
        order.append(handed_out)
    assert order == ["holder", "waits", "m"]


def test_a_row_of_another_priority_lets_nobody_pass(bench: Bench) -> None:
    """As of a message whose priority was changed."""
    bench.configure(per_key="order")
    names = [f"m{n}" for n in range(8)]
    bench.send_alike(*names, key="k")
    (*_, (row, lane)) = bench.raw.zrange(bench.keys["scheduled"], 0, -1, withscores=True)
    assert row.endswith(b"m7")
    bench.raw.zadd(bench.keys["scheduled"], {bytes([9 - n]) + row[1:]: lane for n in range(10)})
    order = []
    for name in names:
        (handed_out,) = bench.claim(name, 9)
        assert bench.queue.settle(settling_calls.ack(bench.keys, [(handed_out, name)]))
        order.append(handed_out)
    assert (order, bench.claim("t")) == (names, [])


def test_what_was_moved_into_the_queue_is_staged_no_more(bench: Bench) -> None:
    job, attempt = "job", job_calls.attempt_of("a", delay=0, ttl=0)
    bench.queue.run(job_calls.stage(bench.keys, job, attempt, packed(("a", 4), ("b", 4), ("c", 4))))
    commit = job_calls.commit_job(
        bench.keys, job, {attempt: 6}, batch=0, call="call", grace=1_000, remembered=60_000
    )
    assert bench.queue.run(commit) == "done"
    moved, left = [], []
    for _ in range(3):
        moved.append(
            bench.queue.run(job_calls.move_staged(bench.keys, job, attempt, limit=2, early=True)).messages
        )
        left.append(bench.raw.llen(bench.keys.stage(job, attempt)))
    assert (moved, left) == ([2, 1, 0], [2, 0, 0])
    assert bench.claim("t", 9) == ["a", "b", "c"]


def test_a_job_of_many_lists_is_committed_whole(bench: Bench) -> None:
    """Lua takes at most 8,000 values at once; of each list it writes two."""
    lists = [job_calls.attempt_of(f"a{n}", delay=0, ttl=0) for n in range(4_100)]
    commit = job_calls.commit_job(
        bench.keys, "job", dict.fromkeys(lists, 0), batch=0, call="call", grace=1_000, remembered=60_000
    )
    assert bench.queue.run(commit) == "done"
    assert bench.raw.zcard(bench.keys["committed"]) == len(lists)
    bench.raw.flushall()  # there are no such lists


SETTLED: dict[str, Callable[[QueueKeys], Call[Any]]] = {
    "acked": lambda keys: settling_calls.ack(keys, [("m", "u")]),
    "discarded": lambda keys: Driver(None, keys=keys).poison_call([("m", "u")]),
}


@pytest.mark.parametrize("verb", SETTLED)
def test_no_message_that_was_cut_off_stays_without_its_story(bench: Bench, verb: str) -> None:
    for n in bench.each_point():
        bench.queue.run(bench.queue.configure_call({"dead_letter": '{"dead": "discard"}'}))
        bench.send(("m", 4))
        bench.claim("t")
        bench.nack("t", "m", delay=0)
        bench.claim("u")
        bench.stopped_at(SETTLED[verb](bench.keys), n)
        stays = bench.raw.hexists(bench.keys["messages"], "m")
        assert bench.raw.hexists(bench.keys["history"], "m") or not stays, f"stopped at {n}"


def test_no_schedule_that_was_cut_off_is_without_its_tick(bench: Bench) -> None:
    for n in bench.each_point():
        bench.stopped_at(schedule_calls.schedule(bench.keys, "hourly", known=b"", record=b"r", at=9), n)
        has_tick = bench.raw.zscore(bench.keys["ticks"], "hourly") == 9
        assert has_tick or not bench.raw.hexists(bench.keys["schedules"], "hourly"), f"stopped at {n}"


def test_a_cancel_that_was_cut_off_is_noted_once(bench: Bench) -> None:
    act = json.dumps(["1", "cancelled", '"c"', "default", "m", ""])
    for n in bench.each_point():
        bench.send(("m", 4))
        call = cancelling_calls.cancel(bench.queue.sender(), id="m", act=act)
        bench.stopped_at(call, n)
        if not bench.raw.hexists(bench.keys["messages"], "m"):
            bench.queue.run(call, repeated=True)
            notes = [note for _, note in bench.raw.xrange(bench.keys["audit"])]
            assert len(notes) <= 1, f"stopped at {n}"
    assert notes[0].items() >= {b"did": b"cancelled", b"user": b"default", b"chosen": b"m"}.items()


@pytest.mark.parametrize("verb", ["ack", "sweep"])
def test_a_sweep_leaves_nothing_of_a_claim_that_was_cut_off(bench: Bench, verb: str) -> None:
    for n in bench.each_point():
        bench.send(("m", 4))
        bench.claim("t", lease=1_000)
        bench.step(1_000 if verb == "sweep" else 0)
        call = upkeep_calls.sweep(bench.keys, limit=1, seed=0.5, default_policy=bench.queue.wire)
        bench.stopped_at(call if verb == "sweep" else settling_calls.ack(bench.keys, [("m", "t")]), n)
        bench.step(1_000)
        bench.sweep(9)
        assert not bench.raw.exists(bench.keys["claims"], bench.keys["leases"]), f"stopped at {n}"


def test_a_priority_that_was_cut_off_is_given_again(bench: Bench) -> None:
    for n in bench.each_point():
        bench.send(("m", 4))
        bench.claim("t")
        bench.nack("t", "m", delay=1_000)
        call = choosing_calls.prioritize(bench.queue.sender(), place="scheduled", ids=["m"], priority=9)
        bench.stopped_at(call, n)
        assert bench.queue.run(call) == 1, f"stopped at {n}"


def test_a_long_message_whose_priority_was_cut_off_is_where_its_state_says(bench: Bench) -> None:
    """Its record may still have the priority before."""
    for n in bench.each_point():
        bench.queue.run(bench.queue.configure_call({"per_key": "order"}))
        pack = CODEC.packer(4, {}, key="k")
        items: list[Any] = [cell for name in ("a", "b", "c") for cell in (name, pack(b"x" * 3_000))]
        bench.queue.run(sending_calls.send(bench.queue.sender(), delay=0, ttl=0, items=items))
        call = choosing_calls.prioritize(bench.queue.sender(), place="scheduled", ids=["c"], priority=8)
        bench.stopped_at(call, n)
        raised = b"/104/" in bench.raw.hget(bench.keys["states"], "c")
        order = ""
        for token in ("t", "u", "v"):
            (handed_out,) = bench.claim(token)
            assert bench.queue.settle(settling_calls.ack(bench.keys, [(handed_out, token)]))
            order += handed_out
        assert order == ("acb" if raised else "abc"), f"stopped at {n}"
        assert not bench.raw.exists(*[bench.keys[name] for name in ("ready", "scheduled", "states")])


def test_a_claim_clears_up_behind_a_purge_that_was_cut_off(bench: Bench) -> None:
    bench.send(("m", 4))
    bench.claim("t")
    bench.nack("t", "m", delay=0)
    bench.raw.hdel(bench.keys["messages"], "m")
    bench.raw.hincrby(bench.keys["counters"], "purged", 1)  # which the purge came no more to
    assert bench.claim("u") == []
    assert not bench.raw.exists(bench.keys["states"], bench.keys["history"], bench.keys["ready"])


def test_what_an_ack_left_behind_goes_even_if_the_sweep_is_cut_off(bench: Bench) -> None:
    for n in bench.each_point():
        bench.send(("m", 4))
        bench.claim("t")
        bench.nack("t", "m", delay=0)
        bench.claim("u", lease=1_000)
        bench.raw.hdel(bench.keys["messages"], "m")
        bench.step(1_000)
        call = upkeep_calls.sweep(bench.keys, limit=1, seed=0.5, default_policy=bench.queue.wire)
        bench.stopped_at(call, n)
        bench.sweep(1)
        for key in ("states", "history", "claims", "leases"):
            assert not bench.raw.exists(bench.keys[key]), f"{key}, stopped at {n}"


def test_a_job_that_is_moved_and_cut_off_loses_nothing(bench: Bench) -> None:
    for n in bench.each_point():
        job, attempt = "job", job_calls.attempt_of("a", delay=0, ttl=0)
        bench.queue.run(job_calls.stage(bench.keys, job, attempt, packed(("a", 4), ("b", 4))))
        commit = job_calls.commit_job(
            bench.keys, job, {attempt: 4}, batch=0, call="call", grace=1_000, remembered=60_000
        )
        assert bench.queue.run(commit) == "done"
        move = job_calls.move_staged(bench.keys, job, attempt, limit=9, early=True)
        bench.stopped_at(move, n)
        while bench.queue.run(move):
            pass
        assert bench.claim("t", 9) == ["a", "b"], f"stopped at {n}"


def test_the_largest_division_that_was_cut_off_is_ended_whole(bench: Bench) -> None:
    """It had written the other claim, and no state yet."""
    bench.send(*[(f"m{n}", 4) for n in range(MOST)])
    bench.claim("t", MOST)
    given, until = bench.raw.hget(bench.keys["claims"], "t"), bench.raw.zscore(bench.keys["leases"], "t")
    bench.raw.hset(bench.keys["claims"], mapping={"u": given, "u:held": MOST})
    bench.raw.zadd(bench.keys["leases"], {"u": until})
    assert bench.queue.run(batch_calls.divide_claim(bench.keys, "t", to="u", keep=0)) == MOST
    assert bench.queue.run(batch_calls.ack_claim(bench.keys, "u")) == MOST


def test_one_of_a_later_form_always_has_a_row(bench: Bench) -> None:
    for n in bench.each_point():
        bench.send(("m", 4))
        bench.raw.hset(bench.keys["states"], "m", ">=1.4 x")
        bench.stopped_at(bench.queue.claim_call("t"), n)
        rows = [bench.raw.zcard(bench.keys[index]) for index in ("ready", "scheduled")]
        assert any(rows), f"stopped at {n}"
