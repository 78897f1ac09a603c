"""fakeredis servers that compile each script once, as Redis does, and not at each call."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

import fakeredis
import pytest
from fakeredis.commands_mixins import scripting_mixin

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


@contextlib.contextmanager
def running() -> Iterator[Fakes]:
    """Fakes that look for new Lua globals once a script, and not at each of its calls as well."""
    check: Any = scripting_mixin._check_for_lua_globals

    def at_the_end(runtime: Any, expected: set[Any]) -> None:
        if isinstance(runtime, Compiled):  # inside a script it is the state itself
            check(runtime, expected)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scripting_mixin, check.__name__, at_the_end)
        yield Fakes()


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
