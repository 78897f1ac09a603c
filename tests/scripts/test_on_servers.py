"""What scripts do to a server: every server here, declared keys only, at a cost that does not grow."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import fakeredis
import pytest
import redis

from rq_dlq._scripts import Joined, Verb
from rq_dlq.core.changing import calls as choosing_calls
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.steps.step import CHUNK, MOST
from rq_dlq.core.upkeep import calls as upkeep_calls
from rq_dlq.testing.clock import CLOCK
from tests import servers
from tests.conftest import MOVED_CLOCK
from tests.model.driver import Driver
from tests.model.steps import STEPS
from tests.model.world import Beginning, World
from tests.tables import each_row
from tests.verbs import VERBS

DAY = 86_400_000


@pytest.fixture(scope="module", params=["fakeredis", *servers.programs()], ids=str)
def client(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A client of each of them."""
    if request.param == "fakeredis":
        yield fakeredis.FakeRedis(server=request.getfixturevalue("fakes").server())
        return
    with servers.running(program=str(request.param)) as path:
        connection = redis.Redis(unix_socket_path=path)
        yield connection
        connection.close()


SHIM = f"""\
local redis = (function(redis)
  local declared = {{ ['{CLOCK}'] = true }}
  for _, key in ipairs(KEYS) do declared[key] = true end
  local function checked(run)
    return function(command, key, ...)
      if not declared[key] then error('undeclared: ' .. tostring(key)) end
      return run(command, key, ...)
    end
  end
  return {{ call = checked(redis.call), pcall = checked(redis.pcall) }}
end)(redis)
"""


AS_SCRIPTS = MOVED_CLOCK.as_form("bare")


class Declared:
    """The scripts, each failing where it touches a key that is not one of its KEYS (I10)."""

    @functools.cache  # noqa: B019 - there is one
    def __getitem__(self, name: str) -> Verb:
        script = AS_SCRIPTS[name]
        return replace(script, source=SHIM + script.source)


DECLARED: Any = Declared()


def test_the_steps_cover_every_script(redis_client: redis.Redis) -> None:
    beginning = Beginning.of(World(redis_client))
    used = {step(World(redis_client, beginning=beginning)).verb for step, _ in STEPS.values()}
    assert used == set(Joined().names())


@pytest.fixture(scope="module")
def beginning(client: Any) -> Beginning:
    """The world, to be put back."""
    return Beginning.of(World(client))


@each_row("name", STEPS)
def test_a_step_works_and_touches_declared_keys_only(client: Any, beginning: Beginning, name: str) -> None:
    """On fakeredis the verbs, and not each of their branches: the keys of a script are the same there."""
    if isinstance(client, fakeredis.FakeRedis) and name not in VERBS:
        return
    world = World(client, beginning=beginning)
    call = STEPS[name][0](world)
    Driver(client, verbs=DECLARED).run(call)
    assert world.drain().keys() >= world.all - STEPS[name][1]


def test_the_shim_notices_an_undeclared_key(client: Any) -> None:
    shimmed = SHIM + "return redis.call('GET', 'other')"
    with pytest.raises(redis.ResponseError, match="undeclared: other"):
        client.eval(shimmed, 0)


def test_a_round_trip_by_the_servers_own_clock(client: Any) -> None:
    client.flushall()
    queue = Driver(client, verbs=Joined())
    taken = queue.run(queue.send_call(("a", 4), ("b", 9)))
    assert taken is not None
    assert (taken.known, taken.births(2)) == ({}, [taken.birth, taken.birth + 1])
    claimed = queue.run(queue.claim_call("t", 9))
    assert [row.id for row in claimed.rows] == ["b", "a"]
    seconds, micros = client.time()
    assert abs(claimed.now - (seconds * 1000 + micros // 1000)) < 10_000
    assert queue.settle(settling_calls.ack(queue.keys, [("a", "t"), ("b", "t")]))


def test_the_largest_calls_stay_below_what_lua_can_unpack(client: Any) -> None:
    world = World(client)
    run, keys = world.queue.run, world.keys
    client.flushall()
    world.pass_time(0)
    ids = [f"big{n}" for n in range(MOST + CHUNK)]
    for first in range(0, len(ids), CHUNK):
        run(world.queue.send_call(*[(name, 4) for name in ids[first : first + CHUNK]], delay=1_000, ttl=DAY))
    world.pass_time(10)
    claimed: list[str] = []
    tokens: dict[str, str] = {}
    while len(claimed) < MOST:  # each promotes, then takes, as many as it may
        token = f"B{len(tokens)}"
        rows = run(world.queue.claim_call(token, MOST - len(claimed))).rows
        claimed += [row.id for row in rows]
        tokens |= {row.id: token for row in rows}
    assert claimed == ids[:MOST]
    for first in range(0, MOST, CHUNK):
        part = [(name, tokens[name]) for name in ids[first : first + CHUNK]]
        assert all(run(settling_calls.extend(keys, part, lease=1_000))[1])
    held = [(name, tokens[name]) for name in ids[:CHUNK]]
    assert world.queue.settle(settling_calls.ack(keys, held))
    world.pass_time(10)
    swept = 0
    while found := run(world.sweep(CHUNK)):
        swept += found
    assert swept >= MOST - CHUNK
    world.pass_time(2 * DAY / 1000)
    while run(upkeep_calls.expire(keys, limit=CHUNK)):
        pass
    while run(choosing_calls.purge(world.queue.sender(), place="expired", limit=CHUNK)):
        pass
    assert world.left() <= {"counters"}


# The cost


def fill(world: World, pending: int) -> None:
    """That many more messages ready, scheduled, leased and dead."""
    run = world.queue.run
    for first in range(0, pending, CHUNK):
        few = range(first, min(first + CHUNK, pending))
        items = [(f"dead{n}", 9) for n in few]
        run(world.queue.send_call(*items))
        run(world.queue.claim_call(f"D{first}", len(few)))
        run(world.poisoned(f"D{first}", *[name for name, _ in items]))
        run(world.queue.send_call(*[(f"leased{n}", 9) for n in few]))
        run(world.queue.claim_call(f"L{first}", len(few), lease=DAY))
        run(world.queue.send_call(*[(f"ready{n}", 0) for n in few], ttl=DAY))
        run(world.queue.send_call(*[(f"scheduled{n}", 0) for n in few], delay=DAY, ttl=2 * DAY))


def filled(raw: Any, pending: int) -> tuple[World, dict[bytes, bytes], int]:
    """The world with so many more, as a snapshot."""
    world = World(raw)
    raw.lpop(world.keys["wake"], 9)
    # What the steps look at is claimed before these; they only stand behind it.
    fill(world, pending)
    here = [name for name in world.all if "/" not in name]
    assert raw.hlen(world.keys["messages"]) == len(here) + 4 * pending
    return world, {key: raw.dump(key) for key in raw.keys("rq:*") if raw.ttl(key) == -1}, world.clock.now


def commands(raw: Any, name: str, snapshot: tuple[World, dict[bytes, bytes], int]) -> dict[str, int]:
    """How often a step calls which command."""
    world, dumped, now = snapshot
    raw.flushall()
    for key, value in dumped.items():
        raw.restore(key, 0, value)
    world.clock.set(now)
    call = STEPS[name][0](world)
    world.queue.run(queue_calls.stats(world.keys, "q"))
    raw.config_resetstat()
    world.queue.run(call)
    stats = raw.info("commandstats")
    return {command: row["calls"] for command, row in stats.items() if command != "cmdstat_config|resetstat"}


@pytest.fixture
def alone() -> Iterator[Any]:
    """The client of a server that nobody else uses: its calls are counted."""
    with servers.running() as path, redis.Redis(unix_socket_path=path) as raw:
        yield raw


@pytest.mark.redis
def test_the_cost_does_not_grow_with_what_is_pending(alone: Any) -> None:
    few, many = {}, {}
    snapshot = filled(alone, 100)
    for name in STEPS:
        few[name] = commands(alone, name, snapshot)
    snapshot = filled(alone, 2_000)
    for name in STEPS:
        many[name] = commands(alone, name, snapshot)
    assert sum(few["claim"].values()) > 5
    for name in ("reindex", "reindex in parts"):  # what it meets first differs
        assert sum(many.pop(name).values()) <= 3_000 > sum(few.pop(name).values())
    assert few == many


@pytest.mark.redis
def test_a_sweep_looks_at_no_more_leases_than_it_may(alone: Any) -> None:
    def calls_of_a_sweep(leases: int) -> int:
        alone.flushall()
        world = World(alone)
        for n in range(leases):
            world.queue.run(world.queue.send_call((f"m{n}", 9)))
            world.queue.run(world.queue.claim_call(f"L{n:03}", 1, lease=1_000 + n))
        world.pass_time(3)
        world.queue.run(world.sweep(1))  # so that the server knows the script
        alone.config_resetstat()
        assert world.queue.run(world.sweep(2)) == 2
        return sum(row["calls"] for row in alone.info("commandstats").values())

    assert calls_of_a_sweep(10) == calls_of_a_sweep(300)
