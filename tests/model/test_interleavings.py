"""T1: every order in which a few workers can act on a few messages, on the real Lua: nothing is sampled.

A breadth-first search. A state of the world is what the queue's keys hold, the clock, and what each worker
believes that it holds. Every state is put into Redis, every action is tried, what comes of it is checked.
Replies are lost, too: a worker may run its last call once more, whatever the others did meanwhile. What is
found is the shortest way to a violation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

from rq_dlq import _calls
from rq_dlq._calls import Call, Claimed
from rq_dlq._scripts import Scripts
from rq_dlq.message import Settlement
from rq_dlq.policy import RedeliveryPolicy
from tests.audit import audit
from tests.conftest import MOVED_CLOCK
from tests.model.driver import Driver
from tests.model.world import CAUSE

BEGIN = 1_790_000_000_000
TICK = 1_000  # milliseconds: a lease, a delay and the clock's step
POLICY = RedeliveryPolicy(initial_delay=1, multiplier=1, collision_avoidance=0, max_redeliveries=1)
HASHES = ("messages", "states", "history", "claims", "counters")
INDEXES = ("ready", "scheduled", "dead", "expired", "expiring", "leases")
ALL = (*HASHES, *INDEXES, "wake")
PUT = f"""\
redis.call('FLUSHDB')
redis.call('SET', 'clock', ARGV[1])
local at = 2
for n, key in ipairs(KEYS) do
  local count = tonumber(ARGV[at])
  if count > 0 and n <= {len(HASHES)} then
    redis.call('HSET', key, unpack(ARGV, at + 1, at + count))
  elseif count > 0 and n == #KEYS then
    redis.call('RPUSH', key, unpack(ARGV, at + 1, at + count))
  else
    for i = at + 1, at + count, 2 do redis.call('ZADD', key, ARGV[i + 1], ARGV[i]) end
  end
  at = at + 1 + count
end
"""
GET = f"""\
local all = {{}}
for n, key in ipairs(KEYS) do
  all[n] = n <= {len(HASHES)} and redis.call('HGETALL', key)
    or n == #KEYS and redis.call('LRANGE', key, 0, -1) or redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
end
return all
"""
Keys = tuple[tuple[bytes, ...], ...]  # the cells of each key, flat
Held = tuple[str, str]


class Worker(NamedTuple):
    """What a worker knows: how often it claimed, what it was given and did not settle, its last call."""

    claims: int = 0
    held: tuple[Held, ...] = ()
    last: tuple[str, ...] = ()


class World(NamedTuple):
    """A state: what each key holds, the clock's ticks, the workers."""

    keys: Keys
    ticks: int
    workers: tuple[Worker, ...]


class Seen:
    """What a server holds, as the client that `audit` reads it with."""

    def __init__(self, driver: Driver, keys: Keys) -> None:
        self.cells = {driver.keys[name]: cells for name, cells in zip(ALL, keys, strict=True)}

    def hgetall(self, key: str) -> dict[bytes, bytes]:
        return dict(zip(self.cells[key][::2], self.cells[key][1::2], strict=True))

    def hkeys(self, key: str) -> tuple[bytes, ...]:
        return self.cells.get(key, ())[::2]

    def keys(self, pattern: str | bytes) -> list[bytes]:
        return [key.encode() for key, cells in self.cells.items() if cells and pattern == "rq:*"]

    def zrange(self, key: str, first: int, last: int, *, withscores: bool = False) -> Sequence[Any]:
        assert (first, last) == (0, -1)
        cells = self.cells.get(key, ())
        members, scores = cells[::2], cells[1::2]
        return list(zip(members, map(float, scores), strict=True)) if withscores else members

    def exists(self, key: str) -> bool:
        return bool(self.cells.get(key))

    def ttl(self, key: str) -> int:
        return 5 if key.endswith((":wake", ":alarm")) else -1


@dataclass
class Search:
    """The search; `scope` says how large its world is."""

    raw: Any
    messages: int
    workers: int
    ticks: int
    claims: int
    scripts: Scripts = MOVED_CLOCK
    transitions: int = 0
    ways: dict[World, tuple[World, str] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.queue = Driver(self.raw, POLICY)
        self.names = [self.queue.keys[name] for name in ALL]
        self.put = self.raw.script_load(PUT)
        self.get = ("EVALSHA", self.raw.script_load(GET), len(ALL), *self.names)
        self.connection = self.raw.connection_pool.get_connection()

    def run(self) -> None:
        """Visit every state."""
        self.raw.flushall()
        for name in self.scripts.names():
            self.raw.script_load(self.scripts[name].source)
        self.raw.set("clock", BEGIN)
        for n in range(self.messages):  # the second one has a ttl
            self.queue.run(self.queue.send_call((f"m{n}", 4), ttl=2 * TICK if n == 1 else 0))
        start = World(self.holds(), 0, (Worker(),) * self.workers)
        self.ways[start] = None
        waiting = deque([start])
        while waiting:
            world = waiting.popleft()
            for action in self.actions(world):
                following = self.act(world, action)
                if following not in self.ways:
                    self.ways[following] = (world, " ".join(map(str, action)))
                    self.check(following, world, action)
                    waiting.append(following)

    def actions(self, world: World) -> list[tuple[Any, ...]]:
        """What can happen next: (worker, verb, …)."""
        possible: list[tuple[Any, ...]] = [(None, "sweep"), (None, "redrive")]
        if world.ticks < self.ticks:
            possible.append((None, "tick"))
        for number, worker in enumerate(world.workers):
            if worker.claims < self.claims:
                possible.append((number, "claim", f"{'abc'[number]}{worker.claims}", str(number + 1)))
            for held in worker.held:
                possible += [
                    (number, verb, *held) for verb in ("ack", "nack", "again", "poison", "release", "extend")
                ]
            if worker.last:
                possible.append((number, "repeat"))
        return possible

    def call(self, verb: str, *rest: str) -> Call[Any]:  # noqa: PLR0911 - one for each verb
        """The call of an action."""
        keys, held = self.queue.keys, [rest[:2]]
        if verb == "claim":
            return self.queue.claim_call(rest[0], int(rest[1]), lease=TICK)
        if verb in {"nack", "again"}:
            return _calls.nack(
                keys, held, delay=0 if verb == "again" else None, charge=True, cause=CAUSE, consumer='"c"',  # type: ignore[arg-type]
                seed=0.5, default_policy=self.queue.wire,
            )  # fmt: skip
        if verb == "poison":
            return _calls.poison(keys, held, reason="poison", cause=CAUSE, consumer='"c"')  # type: ignore[arg-type]
        if verb == "sweep":
            return _calls.sweep(keys, limit=1, seed=0.5, default_policy=self.queue.wire)
        if verb == "redrive":
            return _calls.redrive(keys, part="dead", by='"op"', limit=1)
        if verb == "extend":
            return _calls.extend(keys, held, lease=TICK)  # type: ignore[arg-type]
        return {"ack": _calls.ack, "release": _calls.release}[verb](keys, held)  # type: ignore[arg-type]

    def act(self, world: World, action: tuple[Any, ...]) -> World:
        """What comes of an action."""
        self.transitions += 1
        number, verb, *rest = action
        if verb == "tick":
            return world._replace(ticks=world.ticks + 1)
        if number is None:
            keys, _ = self.transition(world, self.call(verb))
            return world._replace(keys=keys)
        worker = world.workers[number]
        repeated = verb == "repeat"
        if repeated:
            verb, *rest = worker.last
        keys, reply = self.transition(world, self.call(verb, *rest), repeated=repeated)
        held = worker.held
        if isinstance(reply, Claimed):
            given = tuple((row.id, rest[0]) for row in reply.rows)
            held = (*[pair for pair in held if pair not in given], *given)
        elif verb != "extend":
            held = tuple(pair for pair in held if pair != tuple(rest[:2]))
        self.check_reply(world, keys, (verb, *rest), reply, repeated=repeated)
        after = Worker(worker.claims + (verb == "claim" and not repeated), held, (verb, *rest))
        workers = (*world.workers[:number], after, *world.workers[number + 1 :])
        return World(keys, world.ticks, workers)

    def transition(self, world: World, call: Call[Any], *, repeated: bool = False) -> tuple[Keys, Any]:
        """Put a state into Redis, run a call, read what is there: one round trip."""
        now = BEGIN + world.ticks * TICK
        cells = [cell for key in world.keys for cell in (len(key), *key)]
        put = ("EVALSHA", self.put, len(ALL), *self.names, now, *cells)
        commands = (put, call.command(self.scripts), self.get)
        connection = self.connection
        connection.send_packed_command(connection.pack_commands(commands))
        _, reply, content = (connection.read_response() for _ in commands)
        return self.content(content), call.read(reply, repeated)

    def holds(self) -> Keys:
        """What the keys hold now."""
        return self.content(self.raw.execute_command(*self.get))

    @staticmethod
    def content(replies: list[Any]) -> Keys:
        """Hashes by the names of their fields, since their order says nothing."""
        hashes = replies[: len(HASHES)]
        ordered = (sorted(zip(cells[::2], cells[1::2], strict=True)) for cells in hashes)
        flat = (tuple(cell for pair in pairs for cell in pair) for pairs in ordered)
        return (*flat, *map(tuple, replies[len(HASHES) :]))

    # What must hold

    def check(self, world: World, before: World, action: tuple[Any, ...]) -> None:
        """Of every state: the keys agree (I1, I6, I13), no count went down (I4), the wake-up is there."""
        try:
            audit(Seen(self.queue, world.keys), "q")
            old, new = states(before.keys), states(world.keys)
            redriven = "redrive" in action
            for message_id in old.keys() & new.keys():
                for column in (3, 4, 5, 6, 7, 8):
                    kept = int(new[message_id][column]) >= int(old[message_id][column])
                    assert kept or (column == 4 and redriven), f"{message_id}: {old} became {new}"
            gone = set(before.keys[0][::2]) - set(world.keys[0][::2])
            assert not gone or "ack" in action or "repeat" in action, f"{gone} vanished"
            assert len(world.keys[-1]) <= 1
            assert world.keys[-1] or not world.keys[ALL.index("ready")], "what is ready wakes no one"
        except AssertionError as error:
            error.add_note(self.way(world))
            raise

    def check_reply(
        self, world: World, keys: Keys, said: tuple[str, ...], reply: Any, *, repeated: bool
    ) -> None:
        """Of every reply: only who holds a message settles it (I2); a repetition changes nothing (I12)."""
        try:
            now = BEGIN + world.ticks * TICK
            if isinstance(reply, Claimed):
                for row in reply.rows:
                    state = row.state.split(b" ")
                    assert state[1] == b"+" + said[1].encode(), "handed out without a lease"
                    assert int(state[2]) <= now, "handed out early"
                return
            _, message_id, token = said[:3]
            holder = states(world.keys).get(message_id, [b""] * 2)[1]
            holds = holder == b"+" + token.encode()
            settled = reply[1][0] if isinstance(reply, tuple) else reply[0]
            if isinstance(settled, Settlement) and settled.outcome == "settled":
                assert repeated, "settled twice"
            else:
                assert bool(settled) == holds, f"{said} by {token}, held by {holder!r}: {settled}"
            assert holds or keys == world.keys, f"{said} was refused, and changed something"
        except AssertionError as error:
            error.add_note(f"{self.way(world)}\n{' '.join(said)}")
            raise

    def way(self, world: World) -> str:
        """The actions that led to a state."""
        steps: list[str] = []
        while step := self.ways[world]:
            world = step[0]
            steps.append(step[1])
        return "\n".join(reversed(steps))


def states(keys: Keys) -> dict[str, list[bytes]]:
    """The cells of every state line."""
    return {name.decode(): line.split(b" ") for name, line in zip(keys[1][::2], keys[1][1::2], strict=True)}


@pytest.mark.parametrize("backend", ["real"], indirect=True)
def test_every_order_of_a_small_world(raw: Any) -> None:
    search = Search(raw, messages=1, workers=2, ticks=2, claims=1)
    search.run()
    assert search.transitions > 10_000


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("backend", ["real"], indirect=True)
@pytest.mark.parametrize(("messages", "ticks", "claims"), [(2, 1, 1), (1, 1, 2)])
def test_every_order_of_a_larger_world(raw: Any, messages: int, ticks: int, claims: int) -> None:
    search = Search(raw, messages=messages, workers=2, ticks=ticks, claims=claims)
    search.run()
    assert search.transitions > 100_000


@pytest.mark.parametrize("backend", ["real"], indirect=True)
def test_the_search_finds_a_missing_fence(raw: Any) -> None:
    search = Search(raw, messages=1, workers=2, ticks=2, claims=1)
    open_door = "local function holds(token, text)\n  return text and text:find(' +', 1, true) ~= nil\nend\n"
    search.scripts = Scripts({**MOVED_CLOCK.fragments, "lib/holds": open_door})
    with pytest.raises(AssertionError) as caught:
        search.run()
    assert search.transitions < 1_000
    assert len(caught.value.__notes__[0].splitlines()) <= 6  # the shortest way
