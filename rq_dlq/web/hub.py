"""Reads Redis once for all open pages of the process."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from rq_dlq.core.looking.monitor import LONGEST, Monitor
from rq_dlq.errors import RqDlqError

if TYPE_CHECKING:
    from rq_dlq.asyncio.broker import Broker
    from rq_dlq.core.looking.overview import Overview

logger = logging.getLogger("rq_dlq.web")
LIVE, IDLE = 1.0, LONGEST  # seconds between two readings, while a page is open and while none is
CHARTS = 900.0  # seconds shown in the charts
FRESH = 2.0  # seconds for which a reading is used for a new page


class Hub:
    """Reads all queues once a second while a page is open, otherwise every ten seconds.

    It starts with the first page, and ends with `close` or with the event loop.

    Attributes:
        monitor: the last reading, the rates, the points for the charts.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.monitor = Monitor(keep=CHARTS)
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
    async def watching(self) -> AsyncGenerator[Callable[[], asyncio.Event]]:
        """Count a page as open; yields a function that returns the event of the next reading."""
        self._start()
        self._viewers += 1
        if self._viewers == 1:
            self._wanted.set()
        try:
            yield lambda: self._turn
        finally:
            self._viewers -= 1

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
