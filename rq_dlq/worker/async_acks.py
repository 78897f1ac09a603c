"""The acks of an event loop, in batches."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rq_dlq.worker.consumer import ACK_WITHIN
from rq_dlq.worker.holding import RETRY_AFTER

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Awaitable, Callable

    from rq_dlq.asyncio.delivery import Delivery
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.worker.stopping import Stop

ACK_TOGETHER = 250  # this many finished messages are acked at once


class AsyncAcks:
    """Acks the finished messages of an async consumer together.

    Args:
        done: the messages to be acked.
        ack: the steps that ack them; False: some are left.
        run: runs steps.
        stop: of the worker.
    """

    def __init__(
        self,
        done: deque[Delivery[Any]],
        ack: Callable[[], Steps[bool]],
        run: Callable[[Steps[bool]], Awaitable[bool]],
        stop: Stop,
    ) -> None:
        self._done, self._ack, self._run, self._stop = done, ack, run, stop
        self._enough = asyncio.Event()  # there are so many that they do not wait for others
        self._making: asyncio.Task[None] | None = None

    def later(self) -> None:
        """Have the finished messages acked soon, if there are some."""
        if len(self._done) >= ACK_TOGETHER:
            self._enough.set()
        if self._done and (self._making is None or self._making.done()):
            self._making = asyncio.create_task(self._soon())

    async def _soon(self) -> None:
        """Ack the finished messages with those that finish soon."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ACK_WITHIN):
                await self._enough.wait()
        self._enough.clear()
        await self.all()

    async def all(self) -> None:
        """Ack the finished messages, also those that finish meanwhile, until there are none."""
        while self._done:
            if await self._run(self.steps()):
                continue
            if self._stop.giving_up.is_set():
                break
            await asyncio.sleep(RETRY_AFTER)

    async def end(self) -> None:
        """Ack the last messages: none follow that their acks could wait for."""
        if self._making is not None:
            self._enough.set()
            await asyncio.wait([self._making])
        await self.all()

    def steps(self) -> Steps[bool]:
        """Ack the finished messages; False: some are left, which are acked again soon."""
        all_acked = yield from self._ack()
        if not all_acked and not self._stop.finishing.is_set():
            self.later()  # the claim that these acks rode with may wait for long
        return all_acked
