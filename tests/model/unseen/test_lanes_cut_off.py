"""What a script that is cut off leaves in lanes: faults of the Lua that no other test failed on."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from rq_dlq.core.managing import calls as managing_calls
from rq_dlq.core.sending import calls as sending_calls
from rq_dlq.core.steps.call import Call
from rq_dlq.errors import BrokerRefused
from rq_dlq.values.key import Of, lane_of
from tests.model.bench import Bench
from tests.model.driver import CODEC, Driver
from tests.model.stops import stopping

BLOCKED = 1 << 43
BREAKER = "distinct=1 within=30000ms share=0.5 probe=1000ms longest_probe=30000ms"
BANK = lane_of("bank", "dependency")
KEY = lane_of("k")


def stopped(bench: Bench, call: Call[Any], n: int) -> bool:
    """Run a call that stops at its n-th Redis call; whether it has one."""
    with suppress(BrokerRefused):
        Driver(bench.raw, scripts=stopping(bench.raw, n)).run(call)  # type: ignore[arg-type]
    return bool(bench.raw.delete("stopped"))


def each_point(bench: Bench) -> Iterator[int]:
    """Points to stop at, each in an empty queue; the caller breaks at the first that is none."""
    for n in itertools.count(1):
        yield n
        bench.raw.flushall()
        bench.step(0)


def send(bench: Bench, *names: str, key: str | None = None, dependency: str | None = None) -> None:
    pack = CODEC.packer(4, {}, key=key, dependency=dependency)
    items: list[Any] = [cell for name in names for cell in (name, pack(b"x"))]
    bench.queue.run(sending_calls.send(bench.queue.sender(), delay=0, ttl=0, items=items))


def gate(bench: Bench, name: str, of: Of, *, paused: bool) -> Call[bool]:
    return managing_calls.pause_lane(bench.keys, of, name, paused=paused)


def configure(bench: Bench, **settings: str) -> None:
    assert bench.queue.run(bench.queue.configure_call(settings))


def rows(bench: Bench) -> dict[str, float]:
    """The scores of the messages that wait, ready or scheduled, by id."""
    both = [bench.raw.zrange(bench.keys[index], 0, -1, withscores=True) for index in ("scheduled", "ready")]
    return {row[8:].decode(): score for row, score in itertools.chain(*both)}


def test_who_is_let_through_a_gate_always_has_a_row(bench: Bench) -> None:
    for n in each_point(bench):
        configure(bench, breaker=BREAKER)
        bench.queue.run(gate(bench, "bank", "dependency", paused=True))
        send(bench, "m", dependency="bank")
        assert bench.claim("t") == []
        has_more = stopped(bench, gate(bench, "bank", "dependency", paused=False), n)
        assert rows(bench).keys() == {"m"}, f"stopped at {n}"
        if not has_more:
            break


def test_who_waits_for_its_key_behind_the_gate_keeps_its_seat_until_then(bench: Bench) -> None:
    """Otherwise a later message of the key would pass it."""
    for n in each_point(bench):
        configure(bench, breaker=BREAKER, per_key="order")
        bench.queue.run(gate(bench, "bank", "dependency", paused=True))
        send(bench, "m", key="k", dependency="bank")
        assert bench.claim("t") == []
        bench.queue.run(gate(bench, "k", "key", paused=True))
        has_more = stopped(bench, gate(bench, "bank", "dependency", paused=False), n)
        keeps_seat = bench.raw.zscore(bench.keys["seats"], "m") is not None
        assert keeps_seat or rows(bench) == {"m": BLOCKED + KEY}, f"stopped at {n}"
        if not has_more:
            assert not keeps_seat
            break


def test_an_open_breaker_lets_one_through_also_while_it_is_resumed(bench: Bench) -> None:
    for n in each_point(bench):
        configure(bench, breaker=BREAKER)
        send(bench, "a", "b", "c", dependency="bank")
        bench.claim("t")
        bench.nack("t", "a", counts=True)
        assert bench.claim("u", 9) == []
        has_more = stopped(bench, gate(bench, "bank", "dependency", paused=False), n)
        lane = json.loads(bench.raw.hget(bench.keys["lanes"], str(BANK)) or "{}")
        passes = bench.raw.zcount(bench.keys["seats"], BANK, BANK)
        assert passes <= 1 or "open" not in lane, f"stopped at {n}"
        if not has_more:
            assert passes == 3
            break


def test_who_is_blocked_with_a_seat_always_has_a_row(bench: Bench) -> None:
    for n in each_point(bench):
        configure(bench, per_key="order")
        send(bench, "m", key="k")
        (row,) = bench.raw.zrange(bench.keys["ready"], 0, -1)
        bench.raw.zadd(bench.keys["scheduled"], {row: BLOCKED + KEY})
        bench.raw.zrem(bench.keys["ready"], row)
        bench.step(1_000)
        has_more = stopped(bench, bench.queue.claim_call("t"), n)
        assert rows(bench).keys() == {"m"} or bench.raw.zcard(bench.keys["leases"]), f"stopped at {n}"
        if not has_more:
            break


def test_a_rule_that_is_taken_away_leaves_no_seats(bench: Bench) -> None:
    for n in each_point(bench):
        configure(bench, per_key="order")
        send(bench, "m", key="k")
        configure(bench, per_key="off")
        bench.step(1_000)
        has_more = stopped(bench, bench.queue.claim_call("t"), n)
        for token in ("u", "v"):
            bench.step(1_000)
            bench.claim(token)
        assert not bench.raw.exists(bench.keys["seats"], bench.keys["slots"]), f"stopped at {n}"
        if not has_more:
            break


def test_who_is_blocked_since_keys_have_a_rule_always_has_a_row(bench: Bench) -> None:
    for n in each_point(bench):
        send(bench, "a", "b", key="k")
        configure(bench, per_key="order")
        has_more = stopped(bench, bench.queue.claim_call("t", 2), n)
        assert "b" in rows(bench), f"stopped at {n}"
        if not has_more:
            assert rows(bench) == {"b": BLOCKED + KEY}
            break
