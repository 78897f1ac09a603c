"""T4: every script stopped before each of its Redis calls.

Scripts do not roll back, so this is what a wrong type, a missing right or a full memory leaves behind. No
message may be lost or doubled by it, and a repetition succeeds.

Between two queues no single write makes the step. So of a move that is cut off one message may be in both
queues, and of a session all may be sent while what was to be acked comes again: never less, and a repetition
completes it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from rq_dlq import _calls
from rq_dlq._calls import Call
from rq_dlq._scripts import Script, parse
from rq_dlq.errors import BrokerRefused
from rq_dlq.message import Settlement
from tests.audit import audit
from tests.conftest import MOVED_CLOCK
from tests.model.driver import Driver
from tests.model.steps import STEPS, committed_in_part, moved_in_part
from tests.model.world import World

STAYS = {"counters", "settings"}
SHIM = """\
local redis = (function(redis, calls)
  return { call = function(...)
    calls = calls + 1
    if calls == %d then error('stopped') end
    return redis.call(...)
  end }
end)(redis, 0)
"""


@dataclass
class Stopped:
    """The scripts, each ending with an error in place of its n-th Redis call."""

    n: int

    def __getitem__(self, name: str) -> Script:
        return parse(name, SHIM % self.n + MOVED_CLOCK[name].source)


def stop(raw: Any, name: str, n: int) -> tuple[World, Call[Any], bool]:
    """The world with the call stopped before its n-th Redis call; whether there is one."""
    world = World(raw)
    call = STEPS[name][0](world)
    try:
        Driver(raw, scripts=Stopped(n)).run(call)  # type: ignore[arg-type]
    except BrokerRefused as error:
        assert "stopped" in str(error)  # noqa: PT017 - other errors are failures
        return world, call, True
    return world, call, False


def check_drained(world: World, may: set[str], where: str) -> Counter[str]:
    """What comes out is all that must, and each once; nothing else is left. Returns what came."""
    seen = world.drain()
    doubled = {name for name, times in seen.items() if times > 1}
    assert not doubled, f"{where}: doubled {doubled}"
    missing = world.all - may - seen.keys()
    assert not missing, f"{where}: lost {missing}"
    assert seen.keys() <= world.all | may, f"{where}: from nowhere {seen.keys() - world.all - may}"
    assert world.left() <= STAYS, f"{where}: left {world.left() - STAYS}"
    return seen


def in_part(name: str, seen: Counter[str]) -> int:
    """How much of a step between two queues is done in part."""
    if name == "commit":
        return committed_in_part(seen)
    if not name.startswith("move"):
        return 0
    return sum(moved_in_part(seen, message_id) for message_id in STEPS[name][1] if "/" not in message_id)


@pytest.mark.parametrize("backend", ["real", pytest.param("fake", marks=pytest.mark.slow)], indirect=True)
@pytest.mark.parametrize("name", STEPS)
def test_a_stop_anywhere_loses_and_doubles_nothing(raw: Any, name: str) -> None:
    may = STEPS[name][1]
    doubled = 0
    for n in count(1):
        world, _, stopped = stop(raw, name, n)
        seen = check_drained(world, may, f"{name} stopped at {n}")
        if not stopped:
            assert n > 1
            assert not in_part(name, seen)
            break
        doubled += in_part(name, seen)
    # A move: each message at one stop, between its two queues.
    assert not name.startswith("move") or doubled == len(may) / 2


@pytest.mark.parametrize("backend", ["real"], indirect=True)
@pytest.mark.parametrize("name", STEPS)
def test_a_repetition_after_a_stop_succeeds(raw: Any, name: str) -> None:
    may = STEPS[name][1]
    expected = STEPS[name][0](world := World(raw))
    whole = world.queue.run(expected)
    for n in count(1):
        world, call, stopped = stop(raw, name, n)
        again = world.queue.run(call, repeated=True)
        if isinstance(again, list) and again and isinstance(again[0], Settlement):
            assert all(again), f"{name} stopped at {n}: {again}"
        if isinstance(again, _calls.Claimed):
            # what a stop left behind in an index counts, so there may be fewer, and then more to claim
            assert again.rows or not whole.rows or again.wait == 0, f"{name} stopped at {n}"
            assert len(again.rows) <= len(whole.rows), f"{name} stopped at {n}"
            assert len({row.id for row in again.rows}) == len(again.rows), f"{name} stopped at {n}"
        if name == "commit":
            assert again == [], f"{name} stopped at {n}: {again} is not held"
        if name.startswith("send"):
            known = world.queue.look_up(["n1", "n2"])
            assert known.keys() == {"n1", "n2"}, f"{name} stopped at {n}"
        seen = check_drained(world, may, f"{name} stopped at {n} and repeated")
        assert not in_part(name, seen), f"{name} stopped at {n} and repeated: {seen}"
        if not stopped:
            break


WHOLE_CLAIMS = ["ack a claim", "ack the rest of a claim", "divide a claim", "hand on a claim"]


@pytest.mark.parametrize("mended", ["repeated", "maintained"])
@pytest.mark.parametrize("backend", ["real"], indirect=True)
@pytest.mark.parametrize("name", WHOLE_CLAIMS)
def test_a_claim_adds_up_again_after_a_stop(raw: Any, name: str, mended: str) -> None:
    """I1, I13: no lease, list or count is left that says something else than the states."""
    uncut = STEPS[name][0](world := World(raw))
    whole = world.queue.run(uncut)
    for n in count(1):
        world, call, stopped = stop(raw, name, n)
        if mended == "repeated":
            again = world.queue.run(call, repeated=True)
            assert again == whole or "ack" in name, f"{name} stopped at {n}: {again}"
        else:
            world.pass_time(3_600)
            world.maintain()
        counted = int(raw.hget(world.keys["counters"], "acked") or 0)
        gone = len(world.all) - 1 - raw.hlen(world.keys["messages"])  # one of them is the other queue's
        assert counted in {gone, 0}, f"{name} stopped at {n}: counted twice"
        raw.hset(world.keys["counters"], "acked", gone)  # where the ack came no more to it
        audit(raw, "q")
        if not stopped:
            assert n > 5
            break
