"""The leases of async calls: the event loop extends them, or the worker's thread while that is blocked."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from rq_dlq.worker.blocking import LATE
from rq_dlq.worker.holding import RETRY_AFTER
from rq_dlq.worker.tally import logger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rq_dlq.asyncio.delivery import Delivery
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.worker.holding import Holding
    from rq_dlq.worker.shared import Shared

CHECK = 0.05  # seconds between two checks of the stop and the leases
BLOCKED_LEASES = 10  # for how many leases a call may block the event loop, if its handler has no timeout


class AsyncLeases:
    """Keeps the leases of a consumer in an event loop, even while the event loop is blocked.

    While it is blocked, the worker's thread extends them (`take_due`, `note_extended`), for at most the
    handler's timeout, or ten leases. After that the process is unhealthy, and its messages are redelivered.
    All else is for the event loop.

    Args:
        holding: what the consumer holds.
        timeout: of its handler, seconds; None: it has none.
        run: runs steps in the event loop.
        running: the deliveries whose calls have not ended.
        note_lost: told which of them are lost.
        then: called when the leases are extended.
    """

    def __init__(
        self,
        holding: Holding[Delivery[Any]],
        shared: Shared,
        timeout: float | None,
        run: Callable[[Steps[Any]], Awaitable[Any]],
        *,
        running: Callable[[], list[Delivery[Any]]],
        note_lost: Callable[[list[Delivery[Any]]], None],
        then: Callable[[], None],
    ) -> None:
        self._holding, self._run, self._running, self._note_lost = holding, run, running, note_lost
        self._then, self._lease = then, holding.lease
        self._watch, self._vitals, self._stop = shared.watch, shared.vitals, shared.stop
        self._may_block = timeout or BLOCKED_LEASES * self._lease  # seconds
        self._loop_name = f"event loop ({holding.queue.name})"
        self._asked = self._extended = time.monotonic()  # when it last tried to extend all leases, and did
        self._doubt = self._checked = holding.doubt  # that of the last try, and of the last success
        self._turning: asyncio.TimerHandle | None = None

    def expect(self) -> None:
        """Expect the event loop to run, from another thread."""
        self._vitals.turn(self._loop_name, within=self._may_block)

    def turn(self) -> None:
        """Note that the event loop is running, and expect it to keep running."""
        self._watch.turn(time.monotonic())
        self.expect()
        self._turning = asyncio.get_running_loop().call_later(CHECK, self.turn)

    def rest(self) -> None:
        """Stop watching the event loop."""
        if self._turning is not None:
            self._turning.cancel()
        self._watch.rest()  # another consumer in the event loop starts the watch again
        self._vitals.rest(self._loop_name)

    @property
    def unsure(self) -> bool:
        """Whether messages claimed ahead may be lost: a release failed, or leases were not extended."""
        return self._holding.doubt is not self._checked or time.monotonic() - self._extended > self._lease

    def are_over(self, now: float) -> bool:
        """Whether all leases may have ended before this time (monotonic seconds)."""
        return now - self._extended > self._lease

    async def keep(self) -> None:
        """Extend the leases. An error here ends the consumer: its leases would no longer be extended."""
        soon = min(RETRY_AFTER, self._lease / 3)
        try:
            while True:
                await asyncio.sleep(CHECK)
                now = time.monotonic()
                due = now - self._extended > self._lease / 3 or (self.unsure and self._holding.unstarted)
                if due and now - self._asked > soon:
                    await self._extend_all()
        except Exception:  # noqa: BLE001 - it is logged, and ends the worker
            logger.exception("%s: the leases cannot be kept", self._holding.queue.name)
            self._stop.break_off()
            self._stop.cancelling.set()

    async def _extend_all(self) -> None:
        """Extend all leases, and drop messages lost before their calls began."""
        self._asked = began = time.monotonic()
        doubt = self._holding.doubt
        kept = self._held
        none: list[Delivery[Any]] = []
        lost: list[Delivery[Any]] | None = await self._run(self._holding.extend(kept)) if kept else none
        if lost is not None:
            self._note_lost(lost)
            self._holding.drop(lost)
            self._extended, self._checked = began, doubt
            self._then()

    @property
    def _held(self) -> list[Delivery[Any]]:
        held = (*self._running(), *self._holding.unstarted.copy(), *self._holding.done.copy())
        return [delivery for delivery in held if not (delivery.settled or delivery.lost)]

    # From the worker's thread

    def take_due(self) -> list[Delivery[Any]]:
        """The deliveries whose leases a blocked event loop has not extended in time."""
        now, third, blocked = time.monotonic(), self._lease / 3, self._watch.blocked
        if not min(LATE, third) < blocked < self._may_block:
            return []
        if now - self._extended <= third or now - self._asked <= min(RETRY_AFTER, third):
            return []
        self._asked, self._doubt = now, self._holding.doubt
        return self._held

    def note_extended(self, lost: list[Delivery[Any]] | None) -> None:
        """Note which of these leases are lost; None: unknown."""
        if lost:
            self._note_lost(lost)  # the event loop checks again before it begins calls that have a task
        elif lost is not None:
            self._extended, self._checked = self._asked, self._doubt
