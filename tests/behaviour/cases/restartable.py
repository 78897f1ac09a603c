"""A real server that writes everything to disk, to be killed and started again."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import redis

import rq_dlq
import rq_dlq.asyncio
from rq_dlq.values.durations import Duration
from tests import servers
from tests.audit import audit
from tests.colours import Awaited
from tests.conftest import MOVED_CLOCK, Clock

Colour = Literal["sync", "async"]


class Restartable:
    """The server, and a broker of one colour at it; made by `start`.

    Attributes:
        broker: of the server as it runs now; after a restart it is another one.
        clock: moved by hand; it stands still over a restart.
    """

    broker: Any
    clock: Clock

    def __init__(self, folder: Path, colour: Colour) -> None:
        self._folder = folder
        self._colour = colour
        self._running = ExitStack()

    async def start(self) -> None:
        """Run the server, with what it finds on disk."""
        options = ("--dir", str(self._folder), "--appendonly", "yes", "--appendfsync", "always")
        path = self._running.enter_context(servers.running(*options))
        self._raw: Any = redis.Redis(unix_socket_path=path)
        self._running.callback(self._raw.close)
        self.clock = Clock(self._raw)
        url = f"unix://{path}"
        if self._colour == "async":
            self.broker = rq_dlq.asyncio.Broker(url, verbs=MOVED_CLOCK)
        else:
            self.broker = Awaited(rq_dlq.Broker(url, verbs=MOVED_CLOCK))

    async def restart(self, *, down: Duration = 0) -> None:
        """Kill the server, without a word to anyone, and run it again after a while."""
        before = self.clock.now
        await self.stop()
        await self.start()
        self.clock.set(before)
        self.clock.advance(down)

    async def stop(self) -> None:
        """Kill the server; all its keys agree with each other."""
        for family in self._raw.smembers("rq:queues"):
            audit(self._raw, family.decode())
        self._running.close()
        await self.broker.close()  # which can give nothing back any more
