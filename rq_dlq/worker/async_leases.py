"""The leases of async calls: the event loop extends them, or the worker's thread while that is blocked."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from math import inf
from typing import TYPE_CHECKING, Any

from rq_dlq.worker.blocking import LATE
from rq_dlq.worker.consumer import Consumer
from rq_dlq.worker.holding import RETRY_AFTER
from rq_dlq.worker.tally import logger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rq_dlq.asyncio.delivery import Delivery
    from rq_dlq.client.handlers import Handler
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.worker.shared import Shared

CHECK = 0.05  # seconds between two checks of the stop and the leases
BLOCKED_LEASES = 10  # for how many leases a call may block the event loop, if its handler has no timeout


class AsyncLeases(Consumer["Delivery[Any]"]):
    """A consumer in an event loop that keeps its leases even while the event loop is blocked.

    While it is blocked, the worker's thread extends them, for at most the handler's timeout, or ten leases.
    After that the process is unhealthy, and its messages are redelivered.

    Args:
        run: runs steps in the event loop.
    """

    def __init__(
        self, handler: Handler, queue: Any, shared: Shared, run: Callable[[Steps[Any]], Awaitable[Any]]
    ) -> None:
        super().__init__(handler, queue, shared)
        self._run_steps = run
        self._watch = shared.watch
        self._may_block = handler.timeout or BLOCKED_LEASES * self._lease  # seconds
        self._loop_name = f"event loop ({self.queue.name})"
        self._asked = self._extended = time.monotonic()  # when it last tried to extend all leases, and did
        self._put_back = -inf  # when possibly released messages were put back
        self._turning: asyncio.TimerHandle | None = None

    @abstractmethod
    def begin_calls(self) -> None:
        """Begin as many calls as can run."""

    def turn(self) -> None:
        """Note that the event loop is running, and expect it to keep running."""
        self._watch.turn(time.monotonic())
        self._vitals.turn(self._loop_name, within=self._may_block)
        self._turning = asyncio.get_running_loop().call_later(CHECK, self.turn)

    def rest(self) -> None:
        """Stop watching the event loop."""
        if self._turning is not None:
            self._turning.cancel()
        self._watch.rest()  # another consumer in the event loop starts the watch again
        self._vitals.rest(self._loop_name)

    @property
    def _overdue(self) -> bool:
        """Whether messages claimed ahead may be lost: a release failed, or leases were not extended."""
        unsure = self._put_back >= self._extended or time.monotonic() - self._extended > self._lease
        return unsure and bool(self._unstarted)

    def put_back(self, deliveries: list[Delivery[Any]]) -> None:
        """Put back messages taken from `_unstarted`; none begins before its lease is extended."""
        self._put_back = time.monotonic()
        self._unstarted.extendleft(reversed(deliveries))

    async def keep_leases(self) -> None:
        """Extend the leases. An error here ends the consumer: its leases would no longer be extended."""
        soon = min(RETRY_AFTER, self._lease / 3)
        try:
            while True:
                await asyncio.sleep(CHECK)
                now = time.monotonic()
                due = self._overdue or now - self._extended > self._lease / 3
                if due and now - self._asked > soon:
                    await self._extend_all()
        except Exception:  # noqa: BLE001 - it is logged, and ends the worker
            logger.exception("%s: the leases cannot be kept", self.queue.name)
            self._stop.break_off()
            self._stop.cancelling.set()

    async def _extend_all(self) -> None:
        """Extend all leases, and drop messages lost before their calls began."""
        self._asked = began = time.monotonic()
        kept = self._held
        none: list[Delivery[Any]] = []
        lost: list[Delivery[Any]] | None = await self._run_steps(self.extend(kept)) if kept else none
        if lost is not None:
            self.note_lost(lost)
            self.drop(lost)
            self._extended = began
            self.begin_calls()

    @property
    def _held(self) -> list[Delivery[Any]]:
        held = (*self.running, *self._unstarted.copy(), *self._done.copy())
        return [delivery for delivery in held if not (delivery.settled or delivery.lost)]

    # From the worker's thread

    def take_due(self) -> list[Delivery[Any]]:
        """The deliveries whose leases a blocked event loop has not extended in time."""
        now, third, blocked = time.monotonic(), self._lease / 3, self._watch.blocked
        if not min(LATE, third) < blocked < self._may_block:
            return []
        if now - self._extended <= third or now - self._asked <= min(RETRY_AFTER, third):
            return []
        self._asked = now
        return self._held

    def note_extended(self, lost: list[Delivery[Any]] | None) -> None:
        """Note which of these leases are lost; None: unknown."""
        if lost:
            self.note_lost(lost)  # the event loop checks again before it begins calls that have a task
        elif lost is not None:
            self._extended = self._asked
