"""Claims: faults of the Lua that no other test failed on (tests/proofs/mutants)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

import pytest

from rq_dlq.core.batches import batches
from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.core.sending import calls as sending_calls
from rq_dlq.core.sessions import calls as session_calls
from rq_dlq.core.sessions.calls import Ended, Outgoing, Share
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.steps.call import Call
from rq_dlq.core.steps.replies import Word
from rq_dlq.core.steps.step import MOST
from tests.model.bench import Bench
from tests.model.driver import CODEC, packed

ACKS: dict[str, Callable[[Bench, list[tuple[str, str]]], Call[Any]]] = {
    "ack": lambda bench, held: settling_calls.ack(bench.keys, held),
    "ack all": lambda bench, held: session_calls.ack_all(bench.keys, held),
    "commit": lambda bench, held: session_calls.commit(bench.queue.sender(), [Share(bench.keys, held, [])]),
}


@pytest.mark.parametrize("verb", ACKS)
def test_who_acks_a_part_of_a_claim_holds_the_rest(bench: Bench, verb: str) -> None:
    bench.send(("a", 4), ("b", 4), ("c", 4))
    bench.claim("t", 3)
    bench.queue.run(ACKS[verb](bench, [("a", "t"), ("a", "t")]))
    assert bench.raw.hget(bench.keys["claims"], "t:held") == b"2"
    bench.queue.run(ACKS[verb](bench, [("b", "t"), ("c", "t")]))


def test_leases_of_several_claims_are_extended_together(bench: Bench) -> None:
    bench.send(("a", 4), ("b", 4), ("c", 4), ("d", 4))
    for token in "tuv":
        bench.claim(token, lease=1_000)
    bench.claim("w", lease=1_000)
    held = [("a", "t"), ("b", "stale"), ("c", "v"), ("d", "w")]
    bench.step(999)
    deadline, still = bench.queue.run(settling_calls.extend(bench.keys, held, lease=1_000))
    assert still == [True, False, True, True]
    ends = bench.raw.zmscore(bench.keys["leases"], ["t", "v", "w", "u"])
    assert ends == [deadline] * 3 + [deadline - 999]


def test_the_largest_claim_is_acked_and_divided_whole(bench: Bench) -> None:
    bench.send(*[(f"m{n}", 4) for n in range(MOST)])
    assert len(bench.claim("t", MOST)) == MOST
    assert bench.queue.run(batch_calls.divide_claim(bench.keys, "t", to="u", keep=0)) == MOST
    assert bench.queue.run(batch_calls.ack_claim(bench.keys, "u")) == MOST


def test_what_a_division_took_left_its_place_empty(bench: Bench) -> None:
    bench.send(("a", 4), ("b", 4), ("c", 4))
    bench.claim("t", 3)
    assert bench.queue.run(batch_calls.divide_claim(bench.keys, "t", to="u", keep=1)) == 2
    assert bench.raw.hmget(bench.keys["claims"], "t", "u") == [b'"c"\na\n\n', b'"c"\nb\nc']


@pytest.mark.parametrize("patience", [0, 60_000])
def test_what_is_overdue_is_not_waited_for(bench: Bench, patience: int) -> None:
    """More leases ended at once than one claim sweeps."""
    names = [f"m{n}" for n in range(40)]
    bench.send(*[(name, 4) for name in names])
    for name in names:
        bench.claim(f"t{name}", lease=1_000)
    bench.step(1_500)
    claimed = bench.queue.run(bench.queue.claim_call("u", patience=patience))
    assert (claimed.rows, claimed.wait) == ([], 0)


def test_who_only_counts_waits_as_well(bench: Bench) -> None:
    """Also where all that was ready had been left behind."""
    bench.send(("gone", 4))
    bench.send(("m", 4), delay=5_000)
    bench.raw.hdel(bench.keys["messages"], "gone")
    bench.raw.hincrby(bench.keys["counters"], "purged", 1)
    assert bench.queue.run(bench.queue.claim_call("t", patience=60_000, answer="count")).wait == 5_000


def test_an_old_row_gives_no_message_its_old_place(bench: Bench) -> None:
    """A claim that was cut off left it behind."""
    bench.send(("m", 4))
    rows = bench.raw.zrange(bench.keys["ready"], 0, -1, withscores=True)
    bench.claim("t")
    bench.raw.zadd(bench.keys["ready"], dict(rows))
    bench.nack("t", "m", delay=1_000)
    bench.step(500)
    bench.send(("n", 4))
    bench.step(500)
    assert (bench.claim("u", 2), bench.claim("v")) == (["n"], ["m"])


def test_a_claim_sweeps_a_part_only(bench: Bench) -> None:
    """I9."""
    names = [f"m{n}" for n in range(40)]
    bench.send(*[(name, 4) for name in names])
    bench.claim("t", 40, lease=1_000)
    bench.step(1_000)
    claimed = bench.queue.run(bench.queue.claim_call("u", thorough=True))
    assert (claimed.rows, claimed.wait) == ([], 0)
    assert 0 < int(bench.raw.hget(bench.keys["claims"], "t:held") or 0) < 40


def test_a_division_says_to_both_that_a_worker_made_the_claim(bench: Bench) -> None:
    bench.send(("a", 4), ("b", 4))
    bench.claim("t", 2, lease=1_000, suspects="alone")
    assert bench.queue.run(batch_calls.divide_claim(bench.keys, "t", to="u", keep=1)) == 1
    bench.step(1_000)
    bench.sweep(9)
    assert [row.charged for row in bench.queue.browse("ready")] == [0, 0]


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
    assert waits == [1_000, Word.NO_EVENT]


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
    bench.queue.run(
        bench.queue.claim_call("t", lease=1_000_000, patience=60_000, alarmed=True, answer=answer)
    )
    assert bench.raw.hget(bench.keys["claims"], "t:held") == b"1"
    assert bench.queue.run(bench.queue.claim_call("u", patience=60_000)).wait == 1_000


def test_who_claimed_is_known_by_name_also_of_a_worker(bench: Bench) -> None:
    """What else a claim remembers stands behind a tab, and is none of the story."""
    bench.send(("m", 4))
    bench.claim("t", lease=1_000, suspects="alone")
    assert bench.raw.hget(bench.keys["claims"], "t") == b'"c"\tworker\nm'
    bench.step(1_000)
    bench.sweep(1)
    ((event,),) = [message.history for message in bench.queue.browse("ready")]
    assert (event.event, event.consumer) == ("lapsed", "c")


def test_a_batch_that_lapses_is_never_charged(bench: Bench) -> None:
    """Its driver was down, so the message does not even count it; a claim of another kind is charged."""
    bench.send(("m", 4))
    answers: tuple[Literal["rows", "count"], ...] = ("count", "count", "rows")
    for number, answer in enumerate(answers):
        bench.queue.run(bench.queue.claim_call(f"t{number}", lease=1_000, answer=answer))
        bench.step(1_000)
        bench.sweep(1)
    assert bench.raw.hget(bench.keys["states"], "m").split()[4:7] == [b"1", b"0", b"1"]
    assert bench.raw.hget(bench.keys["counters"], "lapsed") == b"3"


def test_what_a_later_version_notes_of_a_claim_stays(bench: Bench) -> None:
    """Behind another tab: it is kept by a sweep in parts, and read by none of these."""
    bench.send(("a", 4), ("b", 4))
    bench.claim("t", 2, lease=1_000, suspects="alone")
    bench.raw.hset(bench.keys["claims"], "t", '"c"\tworker\tnew\na\nb')
    bench.step(1_000)
    bench.sweep(1)
    assert bench.raw.hget(bench.keys["claims"], "t") == b'"c"\tworker\tnew\n\nb'
    bench.sweep(1)
    assert [message.charged for message in bench.queue.browse("ready")] == [0, 0]


def test_where_a_sweep_goes_on_is_not_divided(bench: Bench) -> None:
    """The line is one of the first claim's list."""
    bench.send(("a", 4), ("b", 4))
    bench.claim("t", 2, suspects="alone")
    bench.raw.hset(bench.keys["claims"], "t", '"c"\tworker\t1\na\nb')
    bench.queue.run(batch_calls.divide_claim(bench.keys, "t", to="u", keep=1))
    assert bench.raw.hget(bench.keys["claims"], "t") == b'"c"\tworker\t1\na\n'
    assert bench.raw.hget(bench.keys["claims"], "u") == b'"c"\tworker\t\nb'


def test_a_message_of_no_content_is_a_message(bench: Bench) -> None:
    """With a time to live its record is as short as a sound one can be."""
    items: list[str | bytes] = ["m", bytes((9,))]
    bench.queue.run(sending_calls.send(bench.queue.sender(), delay=0, ttl=1_000, items=items))
    bench.step(1_000)
    assert bench.claim("t") == []
    assert [bench.raw.zcard(bench.keys[place]) for place in ("ready", "expired")] == [0, 1]


def test_a_claim_that_is_read_or_made_again_tells_the_stories(bench: Bench) -> None:
    bench.send(("new", 4), ("m", 9))
    bench.claim("t")
    bench.nack("t", "m", delay=0)
    bench.claim("u", 2)
    story = bench.raw.hget(bench.keys["history"], "m")
    read = bench.queue.follow(batches.read_claim(bench.keys, "u", 0, 9)).rows()
    for rows in (read, bench.queue.run(bench.queue.claim_call("u", 2)).rows):
        assert [(row.id, row.history) for row in rows] == [("m", story), ("new", b"")]


def test_who_holds_the_alarm_and_waits_no_more_hands_it_on(bench: Bench) -> None:
    bench.send(("later", 4), delay=1_000)
    assert bench.queue.run(bench.queue.claim_call("t", patience=60_000)).wait == 1_000
    assert bench.queue.run(bench.queue.claim_call("t", patience=60_000, alarmed=True)).wait == 1_000
    assert not bench.raw.exists(bench.keys["wake"]), "it keeps it as long as it waits"
    assert bench.claim("t", alarmed=True) == []
    assert bench.raw.llen(bench.keys["wake"]) == 1
    assert bench.queue.run(bench.queue.claim_call("u", patience=60_000)).wait == 1_000


def test_who_is_told_to_wake_is_told_for_a_while(bench: Bench) -> None:
    bench.send(("m", 4))
    assert bench.raw.pttl(bench.keys["wake"]) > 0


def test_who_settled_is_known_by_its_whole_token(bench: Bench) -> None:
    """Which is no pattern."""
    bench.send(("m", 4))
    bench.claim("t")
    assert bench.queue.settle(settling_calls.release(bench.keys, [("m", "t")]))
    (settlement,) = bench.queue.run(settling_calls.ack(bench.keys, [("m", "0")]), repeated=True)
    assert settlement.outcome == "lost"


def test_a_claim_puts_off_what_is_of_a_later_form(bench: Bench) -> None:
    """I9: the next claim goes on."""
    names = [f"l{n:02}" for n in range(20)]
    bench.send(*[(name, 4) for name in names], ("m", 4))
    bench.raw.hset(bench.keys["states"], mapping=dict.fromkeys(names, ">=1.4 x"))
    assert [bench.claim(f"t{n}") for n in range(len(names) + 1)] == [*[[]] * len(names), ["m"]]
    bench.raw.flushall()  # where they were put the audit does not know


def test_a_paused_queue_is_not_asked_again_at_once(bench: Bench) -> None:
    """Though more leases ended than the claim sweeps."""
    names = [f"m{n}" for n in range(40)]
    bench.send(*[(name, 4) for name in names])
    bench.claim("t", 40, lease=1_000)
    bench.raw.hset(bench.keys["settings"], "paused", 1)
    bench.step(1_000)
    assert bench.queue.run(bench.queue.claim_call("u")).wait is Word.NO_EVENT


def test_who_goes_on_waiting_keeps_the_alarm(bench: Bench) -> None:
    bench.send(("m", 4), delay=5_000)
    for alarmed in (False, True):
        call = bench.queue.claim_call(f"t{alarmed}", patience=60_000, alarmed=alarmed)
        assert bench.queue.run(call).wait == 5_000
    assert bench.raw.exists(bench.keys["alarm"])
    assert not bench.raw.exists(bench.keys["wake"])


def test_a_claim_expires_what_outlived_its_time_just_now(bench: Bench) -> None:
    bench.send(("m", 4), delay=60_000, ttl=1_000)
    bench.step(1_000)
    assert bench.claim("t") == []
    assert bench.raw.zcard(bench.keys["expired"]) == 1


def test_who_takes_over_a_seat_lets_nobody_pass(bench: Bench) -> None:
    """A limit is turned on over a full queue, and one that is still ready without a seat takes one of two."""
    pack = CODEC.packer(4, {}, key="k")
    items: list[Any] = [cell for name in ("x", "y", "a", "b", "last") for cell in (name, pack(b"x"))]
    bench.queue.run(sending_calls.send(bench.queue.sender(), delay=0, ttl=0, items=items))
    assert bench.queue.run(bench.queue.configure_call({"per_key": "limit 2"}))
    assert bench.claim("t", 2) == ["x", "y"]
    assert bench.claim("u", 2) == []  # all are blocked
    (last,) = (row for row in bench.raw.zrange(bench.keys["scheduled"], 0, -1) if row.endswith(b"last"))
    bench.raw.zrem(bench.keys["scheduled"], last)
    bench.raw.zadd(bench.keys["ready"], {last: 0})  # by another program
    assert bench.queue.settle(settling_calls.ack(bench.keys, [("x", "t"), ("y", "t")]))
    assert [bench.claim(token, 1) for token in ("v", "w", "z")] == [["last"], ["a"], []]
    assert bench.queue.settle(settling_calls.ack(bench.keys, [("last", "v")]))
    assert bench.claim("0", 9) == ["b"]


def test_who_takes_over_a_seat_passes_nobody_who_is_blocked(bench: Bench) -> None:
    """Another program has made the last one of a key ready, in front of all."""
    pack = CODEC.packer(4, {}, key="k")
    assert bench.queue.run(bench.queue.configure_call({"per_key": "order"}))
    items: list[Any] = [cell for name in ("first", "second", "last") for cell in (name, pack(b"x"))]
    bench.queue.run(sending_calls.send(bench.queue.sender(), delay=0, ttl=0, items=items))
    (last,) = (row for row in bench.raw.zrange(bench.keys["scheduled"], 0, -1) if row.endswith(b"last"))
    bench.raw.zrem(bench.keys["scheduled"], last)
    bench.raw.zadd(bench.keys["ready"], {last: 0})
    came: list[str] = []
    for n in range(5):
        for name in bench.claim(f"t{n}", 1):
            bench.queue.settle(settling_calls.ack(bench.keys, [(name, f"t{n}")]))
            came.append(name)
    assert came == ["first", "second", "last"]


def hmgets(bench: Bench) -> int:
    return int(bench.raw.info("commandstats")["cmdstat_hmget"]["calls"])


@pytest.mark.parametrize("backend", ["real"])
def test_a_claim_reads_all_its_records_at_once(bench: Bench) -> None:
    reads = []
    for token, count in (("t", 2), ("u", 50)):
        bench.send(*[(f"{token}{n}", 4) for n in range(count)])
        before = hmgets(bench)
        assert len(bench.claim(token, count)) == count
        reads.append(hmgets(bench) - before)
    assert reads[0] == reads[1]


def test_a_claim_takes_fewer_of_those_that_are_not_fresh(bench: Bench) -> None:
    """Each takes as long as 4 KiB do; the next claim takes the next."""
    names = [f"m{n:03}" for n in range(200)]
    bench.send(*[(name, 4) for name in names], ttl=60_000)
    assert bench.claim("s", 200) == names
    bench.queue.settle(settling_calls.release(bench.keys, [(name, "s") for name in names]))
    first = bench.claim("t", 200)
    assert first == names[: len(first)]
    assert 120 < len(first) < 130  # half a megabyte
    assert bench.claim("u", 200) == names[len(first) :]


def test_a_delayed_message_is_not_delivered_before_its_time_by_a_row_that_was_left(bench: Bench) -> None:
    bench.send(("m", 4), delay=1_000)
    ready, scheduled = bench.keys["ready"], bench.keys["scheduled"]
    (row,) = bench.raw.zrange(scheduled, 0, -1)
    bench.raw.zadd(ready, {row: 1})
    assert bench.claim("t") == []
    assert (bench.raw.zcard(ready), bench.raw.zrange(scheduled, 0, -1)) == (0, [row])


def test_a_delayed_message_is_delivered_where_it_stands_and_not_by_a_row_that_was_left(bench: Bench) -> None:
    """Its priority was changed, and the old row stayed."""
    bench.send(("m", 4), delay=1_000)
    bench.step(1_000)
    ready = bench.keys["ready"]
    (row,) = bench.raw.zrange(bench.keys["scheduled"], 0, -1)
    bench.raw.zadd(ready, {b"\x00" + row[1:]: 1})
    assert bench.claim("t") == []
    assert bench.raw.zrange(ready, 0, -1) == [row]
    assert bench.claim("u") == ["m"]


def test_a_live_message_is_not_delivered_as_a_dead_letter(bench: Bench) -> None:
    bench.send(("m", 4), ttl=60_000)
    (row,) = bench.raw.zrange(bench.keys["ready"], 0, -1)
    bench.raw.zadd(bench.keys["dead"], {row: 1})
    assert bench.claim("t", part="dead") == []
    assert bench.claim("u") == ["m"]


def test_a_row_of_a_later_form_is_put_off_by_a_minute(bench: Bench) -> None:
    bench.send(("m", 4))
    bench.raw.hset(bench.keys["states"], "m", ">=1.4 x")
    assert bench.claim("t") == []
    ((_, due),) = bench.raw.zrange(bench.keys["scheduled"], 0, -1, withscores=True)
    assert due == bench.clock.now + 60_000
    bench.raw.flushall()


def test_what_a_long_message_left_behind_does_not_stop_a_claim(bench: Bench) -> None:
    """The purge of the first was cut off, whose length exceeds what one claim leases."""
    bench.send(("m5", 4), ("m6", 4))  # the first is long
    state = bench.raw.hget(bench.keys["states"], "m5")
    head = re.search(rb" head=\S+/(\d+)", state)
    assert head
    bench.raw.hset(bench.keys["states"], "m5", state.replace(b"/" + head[1], b"/600000"))
    bench.raw.hdel(bench.keys["messages"], "m5")
    bench.raw.hincrby(bench.keys["counters"], "purged", 1)
    assert bench.claim("t", 2) == ["m6"]


@pytest.mark.parametrize(("patience", "left"), [(0, False), (60_000, True)])
def test_who_holds_the_alarm_gives_it_up_if_it_does_not_wait(
    bench: Bench, patience: int, *, left: bool
) -> None:
    bench.queue.run(bench.queue.send_call(("m", 4), delay=30_000))
    assert bench.claim("t", patience=60_000) == []
    assert bench.raw.exists(bench.keys["alarm"])
    assert bench.claim("u", patience=patience, alarmed=True) == []
    assert bool(bench.raw.exists(bench.keys["alarm"])) is left


def test_a_claim_past_a_resting_dead_letter_takes_no_more_than_asked(bench: Bench) -> None:
    """However many there are behind it."""
    names = [f"m{n:04}" for n in range(1_200)]
    for first in range(0, len(names), 400):
        some = names[first : first + 400]
        bench.send(*[(name, 4) for name in some])
        assert bench.claim(f"t{first}", 400) == some
        assert bench.queue.settle(bench.queue.poison_call([(name, f"t{first}") for name in some]))
    assert bench.claim("u", part="dead") == ["m0000"]
    bench.nack("u", "m0000", delay=60_000)
    assert bench.claim("v", part="dead") == ["m0001"]


def test_who_leaves_one_that_its_own_claim_let_in_claims_again_at_once(bench: Bench) -> None:
    bench.configure(per_key="fair 1")
    bench.send_alike("a", "b", key="k")
    found = bench.queue.run(bench.queue.claim_call("t"))
    assert ([row.id for row in found.rows], found.wait) == (["a"], 0)


def test_a_body_is_no_field_of_the_part_before_it(bench: Bench) -> None:
    """Three is the number of the field by which a sender asks for the result."""
    pack = CODEC.packer(4, {}, key="k")
    bench.queue.run(
        sending_calls.send(bench.queue.sender(), delay=0, ttl=0, items=["m", pack(b"\3\0\0" * 99)])
    )
    bench.claim("t")
    assert bench.queue.settle(settling_calls.ack(bench.keys, [("m", "t")]))
    assert not bench.raw.exists(bench.keys["results"])


def test_a_repeated_claim_that_only_counts_says_the_same(bench: Bench) -> None:
    """I12: also how many bytes there are."""
    bench.send(("a", 4), ("b", 4), ("c", 4))
    first, again = (bench.queue.run(bench.queue.claim_call("t", 3, answer="count")) for _ in range(2))
    assert first.size == sum(map(len, bench.raw.hvals(bench.keys["messages"])))
    assert (again.messages, again.size) == (3, first.size)


def test_only_ids_are_looked_for_before_a_strict_commit(bench: Bench) -> None:
    """Not the delay of the next messages."""
    bench.send(("0", 4))
    groups = [Outgoing(0, 0, packed((name, 4))) for name in "ab"]
    call = session_calls.commit(bench.queue.sender(), [Share(bench.keys, [], groups)], strict=True)
    ended: Ended = bench.queue.run(call)
    assert ended == Ended()
    assert bench.claim("t", 9) == ["0", "a", "b"]


def test_who_gives_back_a_dead_letter_gives_back_no_token(bench: Bench) -> None:
    """Nor takes one from what is given back in the same call."""
    bench.send(*[(name, 4) for name in "abcd"])
    bench.claim("t")
    bench.settle(bench.queue.poison_call([("a", "t")]))
    bench.configure(rate="2/s")
    assert (bench.claim("u", 9), bench.claim("dead", part="dead")) == (["b", "c"], ["a"])
    bench.settle(settling_calls.release(bench.keys, [("b", "u"), ("a", "dead")]))
    assert bench.claim("v", 9) == ["b"]


def test_who_sends_a_known_id_with_another_key_is_told(bench: Bench) -> None:
    """Of each, where several are sent and an ack goes with them."""
    bench.send_alike("a", "b", "c", key="k")
    pack = CODEC.packer(4, {}, key="other")
    items: list[Any] = [cell for name in "xac" for cell in (name, pack(b"x"))]
    call = session_calls.commit(bench.queue.sender(), [Share(bench.keys, [], [Outgoing(0, 0, items)])])
    for _ in range(2):  # I12
        assert bench.queue.run(call).other_keys == (("q", "a"), ("q", "c"))


@pytest.mark.parametrize("given", [{}, {"a": b"1"}])
def test_an_ack_without_a_result_leaves_an_empty_one(bench: Bench, given: dict[str, bytes]) -> None:
    """Whatever its id is: a number, or the result of another."""
    names = ["1"] if not given else ["a", "1"]
    bench.send(*[(name, 4) for name in names])
    bench.claim("t", 9)
    for name in names:
        state = bench.raw.hget(bench.keys["states"], name)
        bench.raw.hset(bench.keys["states"], name, state + b" result=1")
    bench.settle(settling_calls.ack(bench.keys, [(name, "t") for name in names], given))
    assert bench.raw.hget(bench.keys["results"], "1") == b"acked %d " % bench.clock.now


def test_a_batch_of_one_that_is_done_ends_the_failures_before(bench: Bench) -> None:
    """Also the first batch of a query that Redis has forgotten."""
    bench.queue.run(batch_calls.note_held(bench.keys, "query", 1))
    bench.queue.run(batch_calls.note_suspected(bench.keys, "query", 3))
    assert bench.queue.run(batch_calls.note_done(bench.keys, "query", 1)) == (1, 2)
    assert bench.queue.run(batch_calls.note_done(bench.keys, "query", 1)) == (1, 2)
    bench.raw.delete(bench.keys.stream("query"))
    assert bench.queue.run(batch_calls.note_half(bench.keys, "query", 0)) == (0, 0)
