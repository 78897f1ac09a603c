"""What a script that is cut off leaves in lanes: faults of the Lua that no other test failed on."""

from __future__ import annotations

import itertools
import json

from rq_dlq.core.managing import calls as managing_calls
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.steps.call import Call
from rq_dlq.core.steps.replies import Word
from rq_dlq.values.key import Of, lane_of
from tests.audit import audit
from tests.model.bench import Bench
from tests.model.message_model import BLOCKED

BREAKER = "distinct=1 within=30000ms share=0.5 probe=1000ms longest_probe=30000ms"
BANK = lane_of("bank", "dependency")
KEY = lane_of("k")


def gate(bench: Bench, name: str, of: Of, *, paused: bool) -> Call[Word]:
    return managing_calls.pause_lane(bench.keys, of, name, paused=paused, close=True)


def rows(bench: Bench) -> dict[str, float]:
    """The scores of the messages that wait, ready or scheduled, by id."""
    both = [bench.raw.zrange(bench.keys[index], 0, -1, withscores=True) for index in ("scheduled", "ready")]
    return {row[8:].decode(): score for row, score in itertools.chain(*both)}


def test_who_is_let_through_a_gate_always_has_a_row(bench: Bench) -> None:
    for n in bench.each_point():
        bench.configure(breaker=BREAKER)
        bench.queue.run(gate(bench, "bank", "dependency", paused=True))
        bench.send_alike("m", dependency="bank")
        assert bench.claim("t") == []
        has_more = bench.stopped_at(gate(bench, "bank", "dependency", paused=False), n)
        assert rows(bench).keys() == {"m"}, f"stopped at {n}"
        if not has_more:
            audit(bench.raw, "q")


def test_who_waits_for_its_key_behind_the_gate_keeps_its_seat_until_then(bench: Bench) -> None:
    """Otherwise a later message of the key would pass it."""
    for n in bench.each_point():
        bench.configure(breaker=BREAKER, per_key="order")
        bench.queue.run(gate(bench, "bank", "dependency", paused=True))
        bench.send_alike("m", key="k", dependency="bank")
        assert bench.claim("t") == []
        bench.queue.run(gate(bench, "k", "key", paused=True))
        has_more = bench.stopped_at(gate(bench, "bank", "dependency", paused=False), n)
        keeps_seat = bench.raw.zscore(bench.keys["seats"], "m") is not None
        assert keeps_seat or rows(bench) == {"m": BLOCKED + KEY}, f"stopped at {n}"
        if not has_more:
            assert not keeps_seat
            audit(bench.raw, "q")


def test_an_open_breaker_lets_one_through_also_while_it_is_resumed(bench: Bench) -> None:
    for n in bench.each_point():
        bench.configure(breaker=BREAKER)
        bench.send_alike("a", "b", "c", dependency="bank")
        bench.claim("t")
        bench.nack("t", "a", counts=True)
        assert bench.claim("u", 9) == []
        has_more = bench.stopped_at(gate(bench, "bank", "dependency", paused=False), n)
        lane = json.loads(bench.raw.hget(bench.keys["special"], str(BANK)) or "{}")
        passes = bench.raw.zcount(bench.keys["seats"], BANK, BANK)
        assert passes <= 1 or "open" not in lane, f"stopped at {n}"
        if not has_more:
            assert passes == 3
            audit(bench.raw, "q")


def test_who_is_blocked_with_a_seat_always_has_a_row(bench: Bench) -> None:
    for n in bench.each_point():
        bench.configure(per_key="order")
        bench.send_alike("m", key="k")
        (row,) = bench.raw.zrange(bench.keys["ready"], 0, -1)
        bench.raw.zadd(bench.keys["scheduled"], {row: BLOCKED + KEY})
        bench.raw.zrem(bench.keys["ready"], row)
        bench.step(1_000)
        has_more = bench.stopped_at(bench.queue.claim_call("t"), n)
        assert rows(bench).keys() == {"m"} or bench.raw.zcard(bench.keys["leases"]), f"stopped at {n}"
        if not has_more:
            audit(bench.raw, "q")


def test_a_rule_that_is_taken_away_leaves_no_seats(bench: Bench) -> None:
    for n in bench.each_point():
        bench.configure(per_key="order")
        bench.send_alike("m", key="k")
        bench.configure(per_key="off")
        bench.step(1_000)
        has_more = bench.stopped_at(bench.queue.claim_call("t"), n)
        for token in ("u", "v"):
            bench.step(1_000)
            bench.claim(token)
        assert not bench.raw.exists(bench.keys["seats"], bench.keys["slots"]), f"stopped at {n}"
        if not has_more:
            audit(bench.raw, "q")


def test_who_is_blocked_since_keys_have_a_rule_always_has_a_row(bench: Bench) -> None:
    for n in bench.each_point():
        bench.send_alike("a", "b", key="k")
        bench.configure(per_key="order")
        has_more = bench.stopped_at(bench.queue.claim_call("t", 2), n)
        assert "b" in rows(bench), f"stopped at {n}"
        if not has_more:
            assert rows(bench) == {"b": BLOCKED + KEY}
            audit(bench.raw, "q")


def test_a_pass_of_who_is_not_ready_is_given_back(bench: Bench) -> None:
    """In the second after a script was cut off."""
    bench.configure(breaker=BREAKER)
    bench.queue.run(gate(bench, "bank", "dependency", paused=True))
    bench.send_alike("m", dependency="bank", delay=60_000)
    bench.raw.zadd(bench.keys["seats"], {b"\x01m": BANK})
    bench.step(1_000)
    assert bench.claim("t") == []
    assert not bench.raw.exists(bench.keys["seats"])


def test_a_seat_that_is_taken_over_is_never_one_too_many(bench: Bench) -> None:
    """A limit is turned on over a full queue: `last` gets a seat, which an older message then takes."""
    for n in bench.each_point():
        bench.send_alike("x", "a", "b", key="k")
        bench.configure(per_key="limit 1")
        assert bench.claim("t") == ["x"]
        bench.queue.run(settling_calls.ack(bench.keys, [("x", "t")]))
        bench.raw.zadd(bench.keys["seats"], {"b": KEY})
        bench.stopped_at(bench.queue.claim_call("u", 1), n)
        assert bench.raw.zcount(bench.keys["seats"], KEY, KEY) <= 1, f"stopped at {n}"


def test_who_is_parked_always_has_a_row(bench: Bench) -> None:
    for n in bench.each_point():
        bench.configure(breaker=BREAKER)
        bench.queue.run(gate(bench, "bank", "dependency", paused=True))
        bench.send_alike("m", dependency="bank")
        bench.stopped_at(bench.queue.claim_call("t"), n)
        assert rows(bench).keys() == {"m"}, f"stopped at {n}"


def test_who_is_parked_by_two_rows_gives_one_seat_back(bench: Bench) -> None:
    """A call that was cut off leaves a row of before; only the message's own counts."""
    bench.configure(breaker=BREAKER, per_key="limit 1")
    bench.send_alike("a", key="k", dependency="bank")
    bench.send_alike("b", "c", key="k")
    ((row, score),) = bench.raw.zrange(bench.keys["ready"], 0, -1, withscores=True)
    bench.raw.zadd(bench.keys["ready"], {bytes([row[0] + 1]) + row[1:]: score})
    bench.queue.run(gate(bench, "bank", "dependency", paused=True))
    bench.claim("t", 9)
    assert len(bench.raw.zrangebyscore(bench.keys["seats"], KEY, KEY)) == 1
    bench.queue.run(gate(bench, "bank", "dependency", paused=False))
    bench.step(1_000)
    bench.claim("u", 9)  # the row of before is gone with that


def test_an_open_breaker_lets_no_more_through_while_it_closes(bench: Bench) -> None:
    for n in bench.each_point():
        bench.configure(breaker=BREAKER)
        bench.send_alike("a", "b", "c", "d", "e", dependency="bank")
        bench.claim("t")
        bench.nack("t", "a", counts=True)
        assert bench.claim("u", 9) == []
        bench.step(1_000)
        probe, *others = bench.claim("v", 9)
        has_more = bench.stopped_at(settling_calls.ack(bench.keys, [(probe, "v")]), n)
        lane = json.loads(bench.raw.hget(bench.keys["special"], str(BANK)) or "{}")
        passes = bench.raw.zcount(bench.keys["seats"], BANK, BANK)
        assert passes <= 1 + len(others) or "open" not in lane, f"stopped at {n}"
        if not has_more:
            assert passes == 4
            audit(bench.raw, "q")
