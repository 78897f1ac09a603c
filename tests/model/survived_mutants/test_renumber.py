"""Lanes that 0.1.0 numbered: renumbered in steps, whatever is cut off, and nothing counts by them before."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from rq_dlq.core.cancelling import calls as cancelling_calls
from rq_dlq.core.keyed import calls as keyed_calls
from rq_dlq.core.managing import calls as managing_calls
from rq_dlq.core.sending import calls as sending_calls
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.steps.call import Call
from rq_dlq.core.steps.replies import Word
from rq_dlq.errors import BrokerRefused
from rq_dlq.values.key import WIDTH, Of, lane_of
from tests.format.old_lanes import as_old, index_of, old_lane_of
from tests.model.bench import Bench
from tests.model.driver import CODEC

pytestmark = pytest.mark.parametrize("backend", ["real"], indirect=True)  # fakeredis has no SHA-1
BREAKER = "distinct=2 within=30000ms share=0.5 probe=1000ms longest_probe=30000ms"
LEASE, IN_AN_HOUR = 30_000, 3_600_000  # milliseconds


def fill(bench: Bench, per_key: str = "order", **settings: str) -> None:
    """Seats, blocked messages, a parked one that failed as a probe, a pass, pauses, a slot, a delayed one."""
    bench.configure(per_key=per_key, breaker=BREAKER, **settings)
    bench.send_alike("a1", "a2", "a3", key="a")
    bench.send_alike("b1", "b2", key="b")
    bench.send_alike("later", key="a", delay=IN_AN_HOUR)
    assert bench.claim("A", 1) == ["a1"]
    bench.send_alike("p1", "p2", "p3", "p4", dependency="pay")
    for name in bench.claim("P", 9):
        if name[0] == "p":
            bench.nack("P", name, delay=0, counts=True)
    bench.step(2_500)
    bench.claim("Q", 9)
    bench.queue.run(managing_calls.pause_lane(bench.keys, "key", "c", paused=True))
    bench.send_alike("c1", key="c")


def renumber(bench: Bench, limit: int = 2) -> list[Any]:
    """The replies until it is over."""
    replies: list[Any] = [b""]
    while not isinstance(replies[-1], Word):
        replies.append(bench.queue.run(keyed_calls.renumber(bench.keys, replies[-1], limit=limit)))
    return replies[1:]


@pytest.mark.parametrize("per_key", ["order", "limit 2", "fair 2", "limit 2 rate 1/m"])
def test_all_is_where_it_was(per_key: str, bench: Bench) -> None:
    fill(bench, per_key)
    before = index_of(bench.raw, bench.keys)
    as_old(bench.raw, bench.keys)
    assert index_of(bench.raw, bench.keys) != before
    replies = renumber(bench)
    assert replies[-1] is Word.DONE
    assert len(replies) > 1
    assert index_of(bench.raw, bench.keys) == before
    assert bench.raw.hget(bench.keys["settings"], "gated") == b"special"
    assert bench.queue.run(keyed_calls.renumber(bench.keys, b"", limit=9)) is Word.DONE


def test_whatever_is_cut_off_is_done_by_the_next(bench: Bench) -> None:
    """At each command of each step."""
    for step in itertools.count():
        for n in bench.each_point():
            fill(bench)
            before = index_of(bench.raw, bench.keys)
            as_old(bench.raw, bench.keys)
            place: bytes | Word = b""
            for _ in range(step):
                assert isinstance(place, bytes)
                place = bench.queue.run(keyed_calls.renumber(bench.keys, place, limit=4))
            if isinstance(place, Word):
                return
            bench.stopped_at(keyed_calls.renumber(bench.keys, place, limit=4), n)
            renumber(bench, 9)
            assert index_of(bench.raw, bench.keys) == before, f"step {step} stopped at {n}"


def test_a_text_keeps_0_1_0_out_of_both_keys(bench: Bench) -> None:
    """Of special states from the first step on, of seats after the last; it comes back if it is removed."""
    seats, lanes = (bench.keys[name] for name in ("former_seats", "former_lanes"))
    fill(bench)
    as_old(bench.raw, bench.keys)
    assert isinstance(bench.queue.run(keyed_calls.renumber(bench.keys, b"", limit=1)), bytes)
    assert bench.raw.type(seats) == b"zset"
    text = bench.raw.get(lanes)
    assert text.startswith(b"The lanes of this queue are numbered by SHA-1.")
    renumber(bench)
    for key in (seats, lanes):
        assert bench.raw.get(key) == bench.raw.get(lanes) == text
        bench.raw.delete(key)
        bench.step(2_000)
        bench.claim("T", 9)
        assert bench.raw.get(key) == text


@pytest.mark.parametrize("of", ["key", "dependency"])
@pytest.mark.parametrize("per_key", ["", "order"])
def test_a_sender_with_another_hash_sends_nothing(per_key: str, of: Of, bench: Bench) -> None:
    """Not even what has no lane; afterwards the same number is free."""
    bench.configure(**({"per_key": per_key} if per_key else {}))
    right = CODEC.packer(4, {}, key="k", dependency="bank")(b"x")
    text = "k" if of == "key" else "bank"
    lane, wrong = (number.to_bytes(WIDTH, "big") for number in (lane_of(text, of), old_lane_of(text, of)))
    assert right.count(lane) == 1
    sender = bench.queue.sender()

    def send(payload: bytes) -> None:
        items: list[Any] = ["a", CODEC.packer(4, {})(b"x"), "b", payload]
        bench.queue.run(sending_calls.send(sender, delay=0, ttl=0, items=items))

    with pytest.raises(BrokerRefused, match="is not that of its text: nothing was sent"):
        send(right.replace(lane, wrong))
    assert not bench.raw.exists(bench.keys["messages"], bench.keys["ready"])
    send(right)
    assert sorted(bench.claim("T", 9)) == ["a", "b"]


def cancel_in_work(bench: Bench, *names: str) -> None:
    """Of the key "k": the call of the first one runs on, and holds its seat."""
    bench.configure(per_key="order")
    bench.send_alike(*names, key="k")
    assert bench.claim("A", 9) == [names[0]]
    bench.queue.run(cancelling_calls.cancel(bench.queue.sender(), id=names[0]))


def test_a_blocked_message_tells_the_key_of_a_call(bench: Bench) -> None:
    """Whose own message was cancelled."""
    cancel_in_work(bench, "k1", "k2")
    before = index_of(bench.raw, bench.keys)
    assert before["seats"]
    as_old(bench.raw, bench.keys)
    assert renumber(bench)[-1] is Word.DONE
    assert index_of(bench.raw, bench.keys) == before


def test_a_call_of_which_nothing_tells_the_key_is_waited_for(bench: Bench) -> None:
    """Until its lease has ended, which nobody sweeps before."""
    cancel_in_work(bench, "k1")
    as_old(bench.raw, bench.keys, "k")
    assert renumber(bench)[-1] is Word.CALLS_RUN
    with pytest.raises(BrokerRefused, match=r"have the lanes of 0\.1\.0"):
        bench.send_alike("k2", key="k")
    bench.step(LEASE)
    assert renumber(bench)[-1] is Word.DONE
    bench.send_alike("k2", key="k")
    assert bench.claim("T", 9) == ["k2"]


def test_nothing_counts_by_lanes_before(bench: Bench) -> None:
    """No seat is given or given back, nobody is let in; a claim that was cut off there has taken nothing."""
    fill(bench)
    as_old(bench.raw, bench.keys)
    before = index_of(bench.raw, bench.keys)
    calls: tuple[Call[Any], ...] = (
        bench.queue.claim_call("T", 9),
        settling_calls.release(bench.keys, [("a1", "A")]),
        managing_calls.pause_lane(bench.keys, "key", "z", paused=True),
    )
    for call in calls:
        with pytest.raises(BrokerRefused, match=r"have the lanes of 0\.1\.0"):
            bench.queue.run(call)
    with pytest.raises(BrokerRefused, match=r"have the lanes of 0\.1\.0"):
        bench.send_alike("a4", key="a")
    assert index_of(bench.raw, bench.keys) == before
    renumber(bench)
    bench.send_alike("a4", key="a")
    bench.queue.run(settling_calls.ack(bench.keys, [("a1", "A")]))
    assert bench.claim("T", 9) == ["a2"]


def test_without_seats_and_blocked_ones_the_settings_bring_it(bench: Bench) -> None:
    bench.configure()
    bench.send_alike("k1", "k2", key="k")
    as_old(bench.raw, bench.keys)
    bench.raw.hset(
        bench.keys["former_lanes"], str(old_lane_of("x")), json.dumps({"of": "key", "name": "x", "limit": 3})
    )
    bench.configure(per_key="limit 1")
    assert bench.raw.hget(bench.keys["settings"], "gated") == b"special"
    assert json.loads(bench.raw.hget(bench.keys["special"], str(lane_of("x"))))["limit"] == 3
    assert bench.claim("T", 9) == ["k1"]
    assert bench.raw.zscore(bench.keys["scheduled"], bench.raw.zrange(bench.keys["scheduled"], 0, 0)[0]) == (
        (1 << 43) + lane_of("k")
    )


def test_a_long_message_has_the_lanes_of_its_texts(bench: Bench) -> None:
    """Its state has the numbers of 0.1.0, which do not count: then its record is read."""
    bench.configure(per_key="order", breaker=BREAKER)
    pack = CODEC.packer(4, {}, key="a", dependency="pay")
    items: list[Any] = ["long", pack(b"x" * 5_000)]
    bench.queue.run(sending_calls.send(bench.queue.sender(), delay=0, ttl=0, items=items))
    state = bench.raw.hget(bench.keys["states"], "long").decode()
    head, found, _ = state.partition(" lanes=")
    assert found
    bench.raw.hset(bench.keys["states"], "long", f"{head} lane=7 needs=8")
    lanes: list[tuple[Of, str]] = [("key", "a"), ("dependency", "pay")]
    for of, name in lanes:
        for paused in (True, False):
            bench.queue.run(managing_calls.pause_lane(bench.keys, of, name, paused=paused, close=True))
            assert bench.claim(f"{of}{paused}", 9) == ([] if paused else ["long"])
        bench.queue.settle(settling_calls.release(bench.keys, [("long", f"{of}False")]))
