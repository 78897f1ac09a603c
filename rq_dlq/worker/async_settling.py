"""Decides when the finished calls of async handlers are settled."""

from __future__ import annotations

import asyncio
import time
from math import inf
from typing import TYPE_CHECKING, Any

from rq_dlq.worker.finished import SETTLE_WITHIN
from rq_dlq.worker.holding import RETRY_AFTER

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Awaitable, Callable
    from contextvars import Context

    from rq_dlq.asyncio.delivery import Delivery
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.worker.stopping import Stop

OPENS_WITHIN = 0.05  # the most seconds that a new connection takes, unless Redis does not answer


class AsyncSettling:
    """Settles the finished calls of an async consumer together.

    Several round trips may be in progress: later calls do not wait for a reply.

    Args:
        done: the messages of finished calls.
        settle: the steps that settle them; False: some are left.
        ready: opens a connection unless one is idle.
        run: runs steps.
        stop: the stages of the worker's shutdown.
        enough: whether enough calls have ended to settle them now.
        then: called when their settlements have been sent.

    Attributes:
        begins: their settlements are sent as soon as there is a connection.
        context: the context of the tasks that settle; None: the caller's.
    """

    def __init__(
        self,
        done: deque[Delivery[Any]],
        settle: Callable[[], Steps[bool]],
        ready: Callable[[], Awaitable[None]],
        run: Callable[[Steps[bool]], Awaitable[bool]],
        stop: Stop,
        *,
        enough: Callable[[], bool],
        then: Callable[[], None],
    ) -> None:
        self._done, self._settle, self._ready, self._run, self._stop = done, settle, ready, run, stop
        self._enough, self._then = enough, then
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0  # when it ends, monotonic seconds
        self._failing = False  # the timer is for a retry
        self.begins = False
        self._connects = inf  # when it began to connect, by the clock of the event loop
        self._making = set[asyncio.Task[None]]()
        self.context: Context | None = None

    def later(self) -> None:
        """Settle the finished calls soon, if there are any, and now if enough or one for too long."""
        if not self._done or self._failing:
            return
        if self._timer is None:
            self._set(SETTLE_WITHIN)
        if self._enough() or time.monotonic() > self._due:  # calls may keep the timer from its end
            self.now()

    def now(self) -> None:
        """Settle the finished calls as soon as there is a connection, but not in this iteration.

        Until then they count as finished. From then on their settlements are in flight.
        """
        self._unset()
        if self.begins:
            return
        self.begins = True
        making = asyncio.get_running_loop().create_task(self._make(), context=self.context)
        self._making.add(making)
        making.add_done_callback(self._making.discard)

    async def _make(self) -> None:
        loop = asyncio.get_running_loop()
        self._connects = loop.time()
        try:
            await self._ready()
        finally:
            self.begins, self._connects = False, inf
        loop.call_soon(self._then, context=self.context)
        await self._run(self.steps())

    def hold_up_running(self) -> bool:
        """Whether a running call must wait for a short time."""
        return self.begins and asyncio.get_running_loop().time() - self._connects < OPENS_WITHIN

    async def all(self) -> None:
        """Settle the finished calls until none is left, including those that end in the meantime."""
        while self._making or self._done:
            if self._making:
                await asyncio.wait([*self._making])
            elif not await self._run(self.steps()):
                if self._stop.giving_up.is_set():
                    break
                await asyncio.sleep(RETRY_AFTER)
        self._unset()  # the worker's thread may have settled them: nothing must connect afterwards

    def steps(self) -> Steps[bool]:
        """Settle the finished calls; False: some are left, and will be tried again soon."""
        self._unset()
        all_settled = yield from self._settle()
        if not all_settled and not self._stop.finishing.is_set():
            self._failing = True
            self._set(RETRY_AFTER)  # the claim that sent them may wait for long
        return all_settled

    def _set(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = time.monotonic() + seconds
        self._timer = asyncio.get_running_loop().call_later(seconds, self.now, context=self.context)

    def _unset(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._failing = None, False
