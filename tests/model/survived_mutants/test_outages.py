"""Outages: faults of the Lua that no other test failed on (tests/proofs/mutants)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rq_dlq.core.changing import calls as choosing_calls
from rq_dlq.core.managing import calls as managing_calls
from rq_dlq.values.key import lane_of
from tests.model.bench import Bench
from tests.model.driver import CAUSE
from tests.model.message_model import BLOCKED

BANK = lane_of("bank", "dependency")
AT_ONCE = 32  # messages that are let in while a dependency comes back


def configure(bench: Bench, distinct: int = 1) -> None:
    breaker = f"distinct={distinct} within=30000ms share=0.5 probe=1000ms longest_probe=30000ms"
    bench.configure(breaker=breaker)


def send(bench: Bench, *names: str) -> None:
    bench.send_alike(*names, dependency="bank")


def passes(bench: Bench) -> int:
    return int(bench.raw.zcount(bench.keys["seats"], BANK, BANK))


def blocked(bench: Bench) -> int:
    return int(bench.raw.zcount(bench.keys["scheduled"], BLOCKED + BANK, BLOCKED + BANK + 0.5))


def pause(bench: Bench, *, paused: bool = True, name: str = "bank") -> None:
    call = managing_calls.pause_lane(bench.keys, "dependency", name, paused=paused, close=True)
    assert bench.queue.run(call)


def claimed(bench: Bench, token: str) -> list[str]:
    return bench.claim(token, 99)


def break_down(bench: Bench) -> None:
    """The dependency of two messages, which wait."""
    configure(bench)
    send(bench, "a", "b")
    bench.claim("t")
    bench.nack("t", "a", counts=True)
    assert claimed(bench, "u") == []


def test_what_comes_back_does_so_by_success(bench: Bench) -> None:
    """At most 32 at once, whatever time passes; where none of them succeeds, by probes."""
    configure(bench)
    pause(bench)
    names = [f"m{n:02}" for n in range(AT_ONCE + 8)]
    send(bench, *names)
    assert claimed(bench, "t") == []
    pause(bench, paused=False)
    assert (passes(bench), blocked(bench)) == (AT_ONCE, 8)
    bench.step(1_000)
    assert claimed(bench, "u") == names[:AT_ONCE]
    for name in names[1:AT_ONCE]:
        bench.nack("u", name, delay=3_600_000)
    bench.step(1_000)
    assert claimed(bench, "v") == []  # one is still out
    assert (passes(bench), blocked(bench)) == (1, 8)
    bench.nack("u", names[0], delay=3_600_000)
    bench.step(1_000)
    probes = claimed(bench, "w")
    assert {names[AT_ONCE], names[-1]} <= {*probes}
    assert (passes(bench), blocked(bench)) == (len(probes), 8 - len(probes))


def test_who_waits_is_woken_for_the_end_of_a_pause(bench: Bench) -> None:
    """It sets its alarm again."""
    configure(bench)
    pause(bench)
    assert bench.raw.llen(bench.keys["wake"]) == 1


@pytest.mark.parametrize("rule", ["limit 3", ""])
def test_who_must_wait_for_its_key_loses_its_pass(rule: str, bench: Bench) -> None:
    """After the limit of a key was lowered, and after keys got a rule: it does not count as let in."""
    configure(bench)
    bench.configure(per_key=rule)
    pause(bench)
    bench.send_alike("a", "b", "c", key="k", dependency="bank")
    assert claimed(bench, "t") == []
    pause(bench, paused=False)
    assert passes(bench) == 3
    if rule:
        assert bench.queue.run(managing_calls.limit_lane(bench.keys, "k", 1))
    else:
        bench.configure(per_key="limit 1")
    assert claimed(bench, "u") == ["a"]
    assert passes(bench) == 1
    ends = [member for member in bench.raw.zrange(bench.keys["gates"], 0, -1) if member[:1] == b"\1"]
    assert ends == [b"\1a"]


def test_a_probe_comes_no_sooner_since_lanes_are_looked_after(bench: Bench) -> None:
    break_down(bench)
    due = bench.clock.now + 8_000
    bench.raw.zadd(bench.keys["gates"], {str(BANK): due})
    for token in ("v", "w"):
        bench.step(1_000)
        assert claimed(bench, token) == []
    assert bench.raw.zscore(bench.keys["gates"], str(BANK)) == due


def test_what_a_gate_leaves_is_claimed_as_it_was(bench: Bench) -> None:
    configure(bench)
    pause(bench, name="other")
    send(bench, "a", "b")
    claimed(bench, "t")
    for name in ("a", "b"):
        bench.nack("t", name, delay=0)
    states = [row.state for row in bench.queue.run(bench.queue.claim_call("u", 9)).rows]
    assert [state.split(b" ")[3] for state in states] == [b"2", b"2"]


@pytest.mark.parametrize("redriven", [True, False])
def test_only_what_was_charged_in_the_window_is_taken_back(bench: Bench, *, redriven: bool) -> None:
    """A redrive gives a fresh budget, and what is charged to that is not of the window."""
    configure(bench, distinct=2)
    send(bench, "m", "n")
    assert claimed(bench, "t") == ["m", "n"]
    bench.nack("t", "m", delay=0, counts=True)
    if redriven:
        said: dict[str, Any] = {"by": '"c"', "cause": CAUSE}
        sender = bench.queue.sender
        assert bench.queue.run(choosing_calls.dead_letter(sender(), place="ready", ids=["m"], **said)) == 1
        assert bench.queue.run(choosing_calls.redrive(sender(), place="dead", ids=["m"], by='"c"')) == 1
        assert claimed(bench, "u") == ["m"]
        bench.nack("u", "m", delay=0)
    bench.nack("t", "n", counts=True)
    assert bench.raw.hget(bench.keys["special"], str(BANK))
    charged = bench.raw.hget(bench.keys["states"], "m").split(b" ")[4]
    assert charged == (b"1" if redriven else b"0")


def gate_of(bench: Bench) -> float | None:
    at: float | None = bench.raw.zscore(bench.keys["gates"], str(BANK))
    return at


def test_what_is_closed_while_nobody_waits_is_only_trusted(bench: Bench) -> None:
    configure(bench)
    send(bench, "a")
    bench.claim("t")
    bench.nack("t", "a", counts=True)
    pause(bench, paused=False)
    lane = json.loads(bench.raw.hget(bench.keys["special"], str(BANK)))
    assert "drains" not in lane
    assert lane["due"] == lane["trusts"] == gate_of(bench)


def test_a_pass_of_a_message_that_is_gone_is_given_back(bench: Bench) -> None:
    configure(bench)
    pause(bench)
    bench.raw.zadd(bench.keys["seats"], {"\1gone": BANK})
    bench.step(1_000)
    assert bench.claim("t") == []
    assert passes(bench) == 0


def test_a_probe_that_is_on_its_way_is_looked_for_each_second(bench: Bench) -> None:
    """However long the wait for the next one is by then."""
    break_down(bench)
    bench.step(1_000)
    assert len(claimed(bench, "v")) == 2
    assert gate_of(bench) == bench.clock.now + 2_000
    bench.step(2_000)
    assert claimed(bench, "w") == []
    assert gate_of(bench) == bench.clock.now + 1_000


def test_what_comes_back_goes_on_without_its_gate(bench: Bench) -> None:
    configure(bench)
    pause(bench)
    send(bench, *(f"m{n:02}" for n in range(AT_ONCE + 8)))
    assert claimed(bench, "t") == []
    pause(bench, paused=False)
    bench.raw.zrem(bench.keys["gates"], str(BANK))
    bench.step(1_000)
    claimed(bench, "u")
    assert gate_of(bench) is not None


def test_failures_that_are_not_charged_count_as_well(bench: Bench) -> None:
    configure(bench, distinct=2)
    send(bench, "a", "b", "waits")
    assert bench.claim("t", 2) == ["a", "b"]
    for name in "ab":
        bench.nack("t", name, delay=0, charge=False, counts=True)
    assert claimed(bench, "u") == []


def test_who_waits_is_woken_for_a_failure_that_counts(bench: Bench) -> None:
    configure(bench, distinct=2)
    send(bench, "m")
    bench.claim("t")
    bench.raw.delete(bench.keys["wake"])
    bench.nack("t", "m", delay=0, counts=True)
    assert bench.raw.llen(bench.keys["wake"]) == 1


def test_a_pause_by_hand_outlasts_the_next_probe(bench: Bench) -> None:
    break_down(bench)
    pause(bench)
    bench.step(60_000)
    assert claimed(bench, "v") == []
    pause(bench, paused=False)
    assert claimed(bench, "w") == ["a", "b"]
