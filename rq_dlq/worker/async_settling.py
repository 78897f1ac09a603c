"""When the finished calls of async handlers are settled."""

from __future__ import annotations

import asyncio
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

OPENS_WITHIN = 0.05  # seconds that a new connection takes, at most, unless Redis does not answer


class AsyncSettling:
    """Settles the finished calls of an async consumer together.

    Several round trips may be in progress: later calls do not wait for a reply.

    Args:
        done: the messages of finished calls.
        settle: the steps that settle them; False: some are left.
        run: runs steps.
        stop: the stages of the worker's end.
        enough: whether enough calls have ended to settle them now.
        then: called when their settlements have been sent.

    Attributes:
        begins: their settlements are sent in the next iteration of the event loop.
        context: the context of the tasks that settle; None: the caller's.
    """

    def __init__(
        self,
        done: deque[Delivery[Any]],
        settle: Callable[[], Steps[bool]],
        run: Callable[[Steps[bool]], Awaitable[bool]],
        stop: Stop,
        *,
        enough: Callable[[], bool],
        then: Callable[[], None],
    ) -> None:
        self._done, self._settle, self._run, self._stop = done, settle, run, stop
        self._enough, self._then = enough, then
        self._timer: asyncio.TimerHandle | None = None
        self._failing = False  # the timer is for a retry
        self.begins = self._opens = False
        self._opened = 0.0  # when that began, by the clock of the event loop
        self._connections = 0  # how many concurrent round trips have been answered
        self._making = set[asyncio.Task[None]]()
        self.context: Context | None = None

    def later(self) -> None:
        """Settle the finished calls soon, if there are any."""
        if not self._done or self._failing:
            return
        if self._enough():
            self.now()
        elif self._timer is None:
            self._set(SETTLE_WITHIN)

    def now(self) -> None:
        """Settle the finished calls in the next iteration of the event loop."""
        self._unset()
        if self.begins or self._opens:
            return
        self.begins = True
        make = self._make(len(self._making) + 1)
        making = asyncio.get_running_loop().create_task(make, context=self.context)
        self._making.add(making)
        making.add_done_callback(self._making.discard)
        asyncio.get_running_loop().call_soon(self._then, context=self.context)

    async def _make(self, at_once: int) -> None:
        self.begins = False
        if at_once <= self._connections:
            await self._run(self.steps())
            return
        self._opens, self._opened = True, asyncio.get_running_loop().time()
        try:
            await self._run(self.steps())
        finally:
            self._opens, self._connections = False, at_once
        self.later()
        self._then()

    @property
    def holds_up(self) -> bool:
        """Whether no call may begin: finished calls are not being settled, perhaps without a connection."""
        return self.begins or self._opens

    @property
    def holds_up_running(self) -> bool:
        """Whether a running call must wait, for a short time."""
        waits = self._opens and asyncio.get_running_loop().time() - self._opened < OPENS_WITHIN
        return self.begins or waits

    async def all(self) -> None:
        """Settle the finished calls until none is left, including those that end in the meantime."""
        while self._making:
            await asyncio.wait([*self._making])
        while self._done:
            if await self._run(self.steps()):
                continue
            if self._stop.giving_up.is_set():
                break
            await asyncio.sleep(RETRY_AFTER)

    def steps(self) -> Steps[bool]:
        """Settle the finished calls; False: some are left, and are tried again soon."""
        self._unset()
        all_settled = yield from self._settle()
        if not all_settled and not self._stop.finishing.is_set():
            self._failing = True
            self._set(RETRY_AFTER)  # the claim that carried them may wait for long
        return all_settled

    def _set(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.now, context=self.context)

    def _unset(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._failing = None, False
