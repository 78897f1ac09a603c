"""T4: every script stopped at each of its Redis calls, and what must hold then.

Scripts do not roll back, so this is what a wrong type, a missing right or a full memory leaves behind. No
message may be lost or doubled by it, and a repetition succeeds.

Between two queues no single write makes the step. So of a move that is cut off one message may be in both
queues, and of a session all may be sent while what was to be acked comes again: never less, and a repetition
completes it.

A call is stopped by an error of ours and by one of Redis. Then one sweep, or a repetition of the call, must
leave everything in order, except the totals, which may be off by the part that was done.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cache
from itertools import count
from typing import Any

from rq_dlq._scripts.verb import Library, Verb
from rq_dlq.core.claiming import calls as claiming_calls
from rq_dlq.core.sessions.calls import Ended
from rq_dlq.core.steps.call import Call
from rq_dlq.errors import BrokerRefused
from rq_dlq.values.settlement import Settlement
from tests.audit import audit
from tests.conftest import MOVED_CLOCK
from tests.contents import contents
from tests.model.driver import Driver
from tests.model.steps import COMMITS, MOVES, STEPS, committed_in_part, moved_in_part
from tests.model.world import Beginning, World, dumped

# The next write has acked_ids, cleared, muted and streams expire; redrives are forgotten after a week.
STAYS = {
    *("counters", "settings", "outcomes", "schedules", "ticks", "acked_ids", "cleared", "muted"),
    *("redrives", "redriving", "audit", "gates", "former_seats", "former_lanes", "special", "streams"),
}
SHIM = """\
local redis = (function(redis, calls, last)
  local function stops()
    calls = calls + 1
    return calls == last and redis.call('SET', 'stopped', 1)
  end
  return {
    call = function(...)
      if stops() then return %s end
      return redis.call(...)
    end,
    pcall = function(...)
      if stops() then return { err = 'stopped' } end
      return redis.pcall(...)
    end,
  }
end)(redis, 0, tonumber(redis.call('GETDEL', 'stop at')))
"""
OURS, REDIS = "error('stopped')", "redis.call('LPUSH', 'stopped', 1)"
"""What stands in place of the call: an error of ours, or one of Redis itself, of a wrong type."""


class Stopped:
    """The scripts, each with an error in place of a Redis call: of that to which the key `stop at` counts."""

    def __init__(self, error: str) -> None:
        self._error = error
        self._verbs: dict[str, Verb] = {}

    def __getitem__(self, name: str) -> Verb:
        if name not in self._verbs:
            script = WHOLE[name]
            self._verbs[name] = replace(script, source=SHIM % self._error + script.source)
        return self._verbs[name]

    @property
    def library(self) -> Library:
        """What says to which module a line belongs."""
        return WHOLE.library


WHOLE = MOVED_CLOCK.as_form("bare")
"""The scripts to which the shim is added."""
STOPPED = {error: Stopped(error) for error in (OURS, REDIS)}


def stopping(raw: Any, n: int, error: str = OURS) -> Stopped:
    """The scripts, of which the next one to run stops at its n-th Redis call."""
    raw.set("stop at", n)
    return STOPPED[error]


@cache
def beginning(raw: Any) -> Beginning:
    """The world as it is at first, made once for a server."""
    return Beginning.of(World(raw))


class Drains:
    """What comes out of a world, and which keys it leaves. Stops that left the same are drained once."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Counter[str], AbstractSet[str]]] = {}

    def check(self, world: World, may: AbstractSet[str], where: str) -> Counter[str]:
        """What comes out is all that must, and each once; nothing else is left. Returns what came."""
        seen, left = self._of(world)
        doubled = {name for name, times in seen.items() if times > 1}
        assert not doubled, f"{where}: doubled {doubled}"
        missing = world.all - may - seen.keys()
        assert not missing, f"{where}: lost {missing}"
        assert seen.keys() <= world.all | may, f"{where}: from nowhere {seen.keys() - world.all - may}"
        assert left <= STAYS, f"{where}: left {left - STAYS}"
        return seen

    def _of(self, world: World) -> tuple[Counter[str], AbstractSet[str]]:
        place = repr([(key, ttl > 0, value) for key, (ttl, value) in dumped(world.raw).items()])
        if place not in self._known:
            self._known[place] = world.drain(), world.left()
        return self._known[place]


def stop(raw: Any, name: str, n: int, error: str = OURS) -> tuple[World, Call[Any], bool]:
    """The world with the call stopped at its n-th Redis call; whether there is one."""
    world = World(raw, beginning=beginning(raw))
    call = STEPS[name][0](world)
    try:
        Driver(world.raw, verbs=stopping(world.raw, n, error)).run(call)  # type: ignore[arg-type]
    except BrokerRefused as refused:
        assert ("stopped" in str(refused)) == (error == OURS), refused  # noqa: PT017 - others are failures
    return world, call, bool(world.raw.delete("stopped"))


def stops(raw: Any, name: str, every: int = 1) -> Iterator[tuple[World, Call[Any], str, bool]]:
    """The world with a step stopped at each point, and at last not: the call, where, whether it was.

    Args:
        every: stop at one of so many points only; which, is drawn.
    """
    for n in count(random.randint(1, every), every):
        world, call, stopped = stop(raw, name, n)
        yield world, call, f"{name} stopped at {n}", stopped
        if not stopped:
            return


# What must hold; each check tries every point of a step, or one of so many, and says how many it tried


def nothing_is_lost(raw: Any, name: str, every: int = 1) -> int:
    """I1 after one sweep: nothing is lost, doubled or left behind."""
    every = 1 if name in MOVES else every  # their messages are counted, one at each stop
    may, points, doubled, drains = STEPS[name][1], 0, 0, Drains()
    for world, _, where, stopped in stops(raw, name, every):
        seen = drains.check(world, may, where)
        points += stopped
        doubled += in_part(name, seen)
        assert stopped or not in_part(name, seen), f"{where}: it is done in part"
    assert points or every > 1, f"{name} calls nothing"
    if name in MOVES:  # each message at one stop, between its two queues
        assert doubled == len(may) / 2, f"{name}: {doubled} were in both queues"
    return points


def a_repetition_succeeds(raw: Any, name: str, every: int = 1) -> int:
    """The same call once more does the rest, and says so."""
    world, points, drains = World(raw, beginning=beginning(raw)), 0, Drains()
    whole = world.queue.run(STEPS[name][0](world))
    for world, call, where, stopped in stops(raw, name, every):
        check_reply(name, world.queue.run(call, repeated=True), whole, where)
        if name.startswith("send"):
            known = world.queue.look_up(["n1", "n2"])
            assert known.keys() == {"n1", "n2"}, where
        seen = drains.check(world, STEPS[name][1], f"{where} and repeated")
        assert not in_part(name, seen), f"{where} and repeated: {seen}"
        points += stopped
    return points


def check_reply(name: str, again: Any, whole: Any, where: str) -> None:
    """The reply of the repetition says that all is done."""
    if isinstance(again, list) and again and isinstance(again[0], Settlement):
        assert all(again), f"{where}: {again}"
    if isinstance(again, claiming_calls.Claimed):
        # what a stop left behind in an index counts, so there may be fewer, and then more to claim
        assert again.rows or not whole.rows or again.wait == 0, where
        assert len(again.rows) <= len(whole.rows), where
        assert len({row.id for row in again.rows}) == len(again.rows), where
    if name in COMMITS:
        assert again == whole == Ended(), f"{where}: {again} is not held"


def a_claim_adds_up(raw: Any, name: str) -> int:
    """I1, I13: repeated or maintained, no lease, list or count says something else than the states."""
    if name not in WHOLE_CLAIMS:
        return 0
    world, points = World(raw, beginning=beginning(raw)), 0
    whole = world.queue.run(STEPS[name][0](world))
    for repeated in (True, False):
        for world, call, where, stopped in stops(raw, name):
            if repeated:
                again = world.queue.run(call, repeated=True)
                assert again == whole or "ack" in name, f"{where}: {again}"
            else:
                world.pass_time(3_600)
                world.maintain()
            counted = int(raw.hget(world.keys["counters"], "acked") or 0)
            gone = len(world.all) - 1 - raw.hlen(world.keys["messages"])  # one of them is the other queue's
            assert counted in {gone, 0}, f"{where}: counted twice"
            raw.hset(world.keys["counters"], "acked", gone)  # where the ack came no more to it
            audit(raw, "q")
            points += stopped
    return points


def redis_leaves_the_same(raw: Any, name: str) -> int:
    """An error of Redis itself leaves what ours leaves."""
    points = 0
    for n in count(1):
        _, _, stopped = stop(raw, name, n)
        ours = contents(raw)
        stop(raw, name, n, REDIS)
        assert contents(raw) == ours, f"{name} stopped at {n}"
        if not stopped:
            return points
        points += 1
    return points


CHECKS: tuple[Callable[[Any, str], int], ...] = (
    nothing_is_lost,
    a_repetition_succeeds,
    a_claim_adds_up,
    redis_leaves_the_same,
)
WHOLE_CLAIMS = {
    "ack_claim", "ack the rest of a claim", "divide_claim", "hand on a claim",
}  # fmt: skip


def in_part(name: str, seen: Counter[str]) -> int:
    """How much of a step between two queues is done in part."""
    if name in COMMITS:
        return committed_in_part(seen)
    if name not in MOVES:
        return 0
    return sum(moved_in_part(seen, message_id) for message_id in STEPS[name][1] if "/" not in message_id)
