"""What nobody saw: faults of the Lua that no other test failed on (tests/mutants)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rq_dlq import _calls
from rq_dlq._calls import Call, Share, claims
from rq_dlq._keys import QueueKeys
from rq_dlq._work import MOST
from tests.audit import audit
from tests.model.test_found import Bench
from tests.model.world import CAUSE


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


def test_a_default_time_to_live_of_nothing_is_none(bench: Bench) -> None:
    """So what has none gets the most that is allowed."""
    bench.queue.run(bench.queue.configure_call({"expiry": "0 - 5000"}))
    bench.send(("m", 4))
    assert bench.raw.zscore(bench.keys["expiring"], "m") == bench.clock.now + 5_000


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
