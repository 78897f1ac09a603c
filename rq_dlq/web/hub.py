"""Reads Redis once for all open pages of the process."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from rq_dlq.core.looking.monitor import LONGEST, Monitor
from rq_dlq.errors import RqDlqError

if TYPE_CHECKING:
    from rq_dlq.asyncio.broker import Broker
    from rq_dlq.core.looking.overview import Overview
    from rq_dlq.values.key import KeyStats

logger = logging.getLogger("rq_dlq.web")
LIVE, IDLE = 1.0, LONGEST  # seconds between two readings, while a page is open and while none is
CHARTS = 900.0  # seconds shown in the charts
FRESH = 2.0  # seconds for which a reading is used for a new page
LANES, LANES_EVERY = 10, 5.0  # how many keys a page lists, and the seconds between two readings of them


class Hub:
    """Reads all queues once a second while a page is open, otherwise every ten seconds.

    It starts with the first page, and ends with `close` or with the event loop.

    Attributes:
        monitor: the last reading, the rates, the points for the charts.
        lanes: by queue, the keys with the most blocked messages.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.monitor = Monitor(keep=CHARTS)
        self.lanes: dict[str, list[KeyStats]] = {}
        self._keyed: Counter[str] = Counter()  # queues, by the open pages that show their keys
        self._listed = -LANES_EVERY  # when their keys were read, on the monotonic clock
        self._began = 0.0
        self._looked = -FRESH  # on the monotonic clock
        self._lock = asyncio.Lock()
        self._turn = asyncio.Event()
        self._wanted = asyncio.Event()
        self._viewers = 0
        self._task: asyncio.Task[None] | None = None
        self._rendered: dict[object, str] = {}

    async def now(self, *, within: float = FRESH) -> Overview:
        """The last reading, or a new one if that is older than `within` seconds.

        Raises:
            RqDlqError: Redis does not answer, or refuses.
        """
        self._start()
        asked = time.monotonic()
        async with self._lock:
            seen = self.monitor
            if seen.failure and self._began >= asked:  # callers that waited for a reading share its failure
                raise seen.failure.with_traceback(None)
            if seen.overview is None or seen.failure or self._looked < asked - within:
                return await self._look()
            return seen.overview

    @asynccontextmanager
    async def watching(self, keyed: str = "") -> AsyncGenerator[Callable[[], asyncio.Event]]:
        """Count a page as open; yields a function that returns the event of the next reading.

        Args:
            keyed: the queue whose keys the page shows; empty: it shows none.
        """
        self._start()
        self._viewers += 1
        self._keyed[keyed] += 1
        if self._viewers == 1:
            self._wanted.set()
        try:
            yield lambda: self._turn
        finally:
            self._viewers -= 1
            self._keyed[keyed] -= 1

    async def list_keys(self, name: str) -> None:
        """Read the keys of a queue with the most blocked messages.

        Raises:
            RqDlqError: Redis does not answer, or refuses.
        """
        self.lanes[name] = await self._broker.queue(name).keys(LANES)

    def rendered(self, key: object, render: Callable[[], str]) -> str:
        """The output for all pages of one kind, rendered once for each reading."""
        if key not in self._rendered:
            self._rendered[key] = render()
        return self._rendered[key]

    async def close(self) -> None:
        """Stop reading."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def _start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._go_on())

    async def _go_on(self) -> None:
        while True:
            async with self._lock:
                try:
                    await self._look()
                except RqDlqError:
                    pass  # the pages show it
                except Exception:  # otherwise the open pages would no longer be updated
                    logger.exception("the queues could not be read")
            pause = self.monitor.pause(LIVE if self._viewers else IDLE)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wanted.wait()
            self._wanted.clear()

    async def _look(self) -> Overview:
        self._began = time.monotonic()
        try:
            found = await self._broker.overview(self.monitor.overview)
            if self._began - self._listed >= LANES_EVERY:
                self._listed = self._began
                for name in [name for name, pages in self._keyed.items() if name and pages]:
                    with suppress(RqDlqError):  # of this queue alone: the others have been read
                        await self.list_keys(name)
            self.monitor.add(found, time.monotonic() - self._began)
        except RqDlqError as error:
            self.monitor.fail(error)
            raise
        else:
            return found
        finally:
            self._looked = time.monotonic()
            self._rendered.clear()
            turn, self._turn = self._turn, asyncio.Event()
            turn.set()
