"""Nothing that changes in the Lua outlives a call: what its functions share is the same afterwards."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import fakeredis
import pytest

from rq_dlq._scripts import Joined
from rq_dlq._scripts.joining import GLOBALS
from rq_dlq.testing.clock import MOVED_CLOCK
from tests.joined_lua import assigned_in_functions, texts
from tests.model import lanes
from tests.model.steps import STEPS
from tests.model.world import Beginning, World
from tests.tables import each_row

# Each table and each function that can be reached from some, and each value in them, with its path; but no
# globals of the server, which the first call binds.
SHARED = """
function(first, bound)
  local found, seen, ways = {}, {}, {}
  for name, callback in next, first do
    ways[#ways + 1] = { name, callback }
  end
  while #ways > 0 do
    local path, value = unpack(table.remove(ways))
    found[#found + 1] = path .. ' = ' .. string.format('%q', tostring(value))
    if not seen[value] and type(value) == 'table' then
      for key, inner in next, value do
        ways[#ways + 1] = { path .. '.' .. tostring(key), inner }
      end
      ways[#ways + 1] = { path .. ' meta', debug.getmetatable(value) or false }
    elseif not seen[value] and type(value) == 'function' then
      for n = 1, debug.getinfo(value, 'u').nups do
        local name, inner = debug.getupvalue(value, n)
        if not bound[name] then
          ways[#ways + 1] = { path .. ' > ' .. name, inner }
        end
      end
    end
    seen[value] = true
  end
  table.sort(found)
  return table.concat(found, '\\n')
end
"""


def shared(server: Any) -> set[bytes]:
    """What the functions of the libraries of a fakeredis share, as it is now."""
    engine = server._lua_functions
    functions = [item for library in engine.libraries.values() for item in library.functions.items()]
    callbacks = {name: function.callback for name, function in functions}
    bound = dict.fromkeys(GLOBALS.encode().split(b", "), True)
    said: bytes = engine.runtime.eval(SHARED)(*map(engine.runtime.table_from, (callbacks, bound)))
    return set(said.splitlines())


def run_all(server: Any, verbs: Joined, steps: Iterable[str] = STEPS) -> set[bytes]:
    """Steps of verbs, each twice, in a queue with another one beside it; what differs then."""
    raw = fakeredis.FakeRedis(server=server)
    beginning = Beginning.of(World(raw, verbs))
    before = shared(server)
    for step in steps:
        world = World(raw, verbs, beginning=beginning)
        call = STEPS[step][0](world)
        for _ in range(2):
            world.queue.run(call)
    return before ^ shared(server)


def test_what_the_functions_share_stays_as_it_was_loaded() -> None:
    server = fakeredis.FakeServer()
    assert run_all(server, MOVED_CLOCK) == set()
    before = shared(server)
    for mode in lanes.MODES:  # rules for keys, and outages
        lanes.drive(fakeredis.FakeRedis(server=server), mode, draw=1, steps=25, outages=True)
    assert before ^ shared(server) == set()


CLOCK = MOVED_CLOCK.modules["clock"]
OUTLIVE = {
    "a local": "local reads = 0\n" + CLOCK.replace("return", "reads = reads + 1\n  return"),
    "a field of the module": "Clock.reads = 0\n"
    + CLOCK.replace("return", "Clock.reads = Clock.reads + 1\n  return"),
    "a field of a table": "local kept = { reads = 0 }\n"
    + CLOCK.replace("return", "kept.reads = kept.reads + 1\n  return"),
}


@each_row("what", OUTLIVE)
def test_what_outlives_a_call_is_found(what: str) -> None:
    changed = run_all(fakeredis.FakeServer(), Joined({"clock": OUTLIVE[what]}), ["send"])
    assert any(name.rpartition(b" = ")[0].endswith(b"reads") for name in changed), changed


@pytest.mark.needs("luacheck")
def test_a_function_that_assigns_what_outlives_it_is_found() -> None:
    assert assigned_in_functions(texts()) == []
    for what, text in OUTLIVE.items():
        (found,) = assigned_in_functions({"clock": text})
        assert re.match(r"clock\.lua:[23]: (setting|mutating) non-standard global", found), what
