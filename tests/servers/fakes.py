"""fakeredis servers that compile each script once, as Redis does, and not at each call."""

from __future__ import annotations

import functools
import threading
from typing import Any

import fakeredis

SCRIPTS = 256  # kept at a time; the package has some sixty


class Fakes:
    """Makes servers that have one Lua state in common, and so one lock."""

    def __init__(self) -> None:
        first: Any = fakeredis.FakeServer()
        fakeredis.FakeRedis(server=first).eval("return 0", 0)  # makes its Lua state
        first._lua_runtime.execute("collectgarbage = function() end")  # else all of it after each call
        self._shared = {name: value for name, value in vars(first).items() if name.startswith("_lua_")}
        self._shared |= {"_lua_runtime": Compiled(first._lua_runtime), "lock": threading.Lock()}

    def server(self) -> Any:
        """An empty one."""
        server = fakeredis.FakeServer()
        vars(server).update(self._shared)
        return server


class Compiled:
    """A Lua state that keeps what it has compiled."""

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self._compiled = functools.lru_cache(SCRIPTS)(runtime.compile)

    def execute(self, source: str | bytes) -> Any:
        """Run it."""
        return self._compiled(source)()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)
