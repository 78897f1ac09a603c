"""Async handlers: one event loop that claims, runs calls side by side, and settles in batches."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from concurrent.futures import wait
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from rq_dlq import _work
from rq_dlq.worker.claiming import Pace
from rq_dlq.worker.consumer import ACK_TOGETHER, ACK_WITHIN, RETRY_AFTER, STUCK_AFTER, Consumer, Shared, take
from rq_dlq.worker.running import end_child
from rq_dlq.worker.stopping import HandlerTimeout, Stopped
from rq_dlq.worker.tally import logger

if TYPE_CHECKING:
    from rq_dlq.asyncio.broker import Broker
    from rq_dlq.asyncio.delivery import Delivery
    from rq_dlq.asyncio.queue import Queue
    from rq_dlq.client.handlers import Handler

CHECK = 0.05  # seconds between two looks at the stop and at the leases
MOST = 100  # messages in one claim
LOOK = 1.0  # seconds between two looks whether the event loop still runs


class AsyncConsumer(Consumer["Delivery[Any]"]):
    """Runs one async handler, up to `concurrency` calls at once, in the event loop of the worker.

    It claims some messages ahead, as its pace allows, so that the next call begins when one ends. The
    worker's thread releases those that wait too long; who pops one from the deque owns it.

    Args:
        broker: the queue's broker; only this object uses and closes it.
    """

    def __init__(
        self, handler: Handler, queue: Queue[Any], concurrency: int, broker: Broker, shared: Shared
    ) -> None:
        super().__init__(queue, shared)
        self._handler = handler
        self.concurrency = concurrency
        self._broker = broker
        self._loop, self._loop_name = shared.loop, f"event loop ({self.queue.name})"
        self._pace = Pace(at_once=concurrency)
        self._unstarted: deque[Delivery[Any]] = deque()  # claimed ahead
        self._running: dict[Delivery[Any], tuple[asyncio.Task[None], float]] = {}  # and when claimed
        self._calling: set[Delivery[Any]] = set()  # those whose handler runs
        self._cancelled: set[Delivery[Any]] = set()
        self._over: list[Delivery[Any]] = []  # those that ended in this turn of the event loop
        self._process = os.getpid()
        self._done: list[Delivery[Any]] = []  # to be acked
        self._enough = asyncio.Event()  # there are so many that they do not wait for others
        self._acking: asyncio.Task[None] | None = None
        self._resting = False
        self._ended = asyncio.Event()  # a call has
        self._claimed = self._last_end = 0.0  # monotonic seconds
        self._extended = time.monotonic()

    def _consume(self) -> None:
        self._vitals.turn(self._loop_name)
        consuming = asyncio.run_coroutine_threadsafe(self.consume(), self._loop)
        while not wait([consuming], LOOK).done:
            if not self._loop.is_running():
                raise RuntimeError("the event loop of the worker broke: did a handler close its descriptors?")
        consuming.result()

    async def consume(self) -> None:
        """Claim and run until the stop, then wait for the running calls."""
        tending = asyncio.create_task(self._keep_leases())
        self._context = copy_context()  # of the tasks, so that none sees what another one sets
        try:
            await self._claim_and_begin()
            await self._release_unstarted()
            await self._ack_done()
            while tasks := [task for task, _ in self._running.values() if not task.done()]:
                await asyncio.wait(tasks)
            if self._acking is not None:
                self._enough.set()  # none follow that it could wait for
                await self._acking
            await self._ack_done()
        finally:
            tending.cancel()
            await asyncio.wait([tending], timeout=LOOK)  # else it may connect while the broker is closed
            self._vitals.rest(self._loop_name)
            await self._release_unstarted()  # there are some if it failed
            await self._broker.close()

    async def _claim_and_begin(self) -> None:
        while not self._stop.finishing.is_set():
            if self._overdue:
                await self._extend_all()
            wanted, ahead = self._wanted, len(self._running) >= self.concurrency
            if wanted == 0:
                await self._rest()
                continue
            claim = self.claim(min(wanted, MOST), waits=not ahead)
            deliveries = await self._broker._run(_work.riding(self._ack(), claim))
            if self.pause:
                await asyncio.sleep(self.pause)
            if deliveries:
                self._claimed = time.monotonic()
                self._unstarted.extend(deliveries)
                self._begin()
            elif self.permit.passed:
                await self._one_ends(self.permit.pause)
            elif ahead:
                await self._one_ends(CHECK)
            elif self._until == "empty" and self._running:
                await self._one_ends(None)
            elif await self._broker._run(self.over()):
                break

    async def _rest(self) -> None:
        """Wait until there is something to claim for; that claim acks what ends meanwhile."""
        self._ack_later()
        self._resting = True
        await self._one_ends(CHECK)
        self._resting = False

    @property
    def _wanted(self) -> int:
        """How many messages to claim: for the calls that can begin, and ahead if few are left of those.

        Nothing is claimed ahead where no call has ended lately, so that the pace is not that of today.
        """
        ahead = 0 if time.monotonic() - self._last_end > self._pace.soon else self._pace.ahead
        if len(self._unstarted) > ahead // 2:
            return 0
        return max(0, self.concurrency + ahead - len(self._running) - len(self._unstarted))

    @property
    def _overdue(self) -> bool:
        """Whether what was claimed ahead may be lost, because something has blocked the event loop."""
        return bool(self._unstarted) and time.monotonic() - self._extended > self._lease

    def _begin(self) -> None:
        """Begin as many calls as can run."""
        most = 0 if self._stop.finishing.is_set() else self.concurrency
        with suppress(IndexError):  # none is left; the worker's thread may have released them
            while len(self._running) < most and not self._overdue:
                delivery = self._unstarted.popleft()
                self._running[delivery] = self._loop.create_task(self._run(delivery)), self._claimed

    async def _one_ends(self, seconds: float | None) -> None:
        """Wait until a call ends, or the time is over (seconds; None: no limit)."""
        self._ended.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ended.wait()

    def _end(self) -> None:
        """Do what follows the end of calls, once for all that ended in the same turn of the event loop."""
        for delivery in self._over:
            del self._running[delivery]
        self._cancelled.difference_update(self._over)
        if self.permit.suspect in self._over:
            self.permit.end()
        self._over.clear()
        self._last_end = time.monotonic()
        self._begin()
        claims = self._resting and self._wanted > 0
        if claims or not self._resting:
            self._ended.set()
        if not claims:
            self._ack_later()

    async def _run(self, delivery: Delivery[Any]) -> None:
        try:
            handling = self._observers.handling(delivery) if self._observers else None
            error = await self._call(delivery)
            if os.getpid() != self._process:
                end_child(error)
            if handling is not None:
                handling.end(error)
            if self.can_wait(delivery, error):
                self._done.append(delivery)
                return
            while not await self._broker._run(self.settle(delivery, error)):
                if self._stop.giving_up.is_set():
                    break
                await asyncio.sleep(CHECK)  # meanwhile no other suspect may run
        except Exception:  # noqa: BLE001 - it is logged
            logger.exception("%s: a call could not be settled", self.queue.name)
        finally:
            self._over.append(delivery)
            if len(self._over) == 1:
                self._loop.call_soon(self._end, context=self._context)

    async def _call(self, delivery: Delivery[Any]) -> BaseException | None:
        """Run the handler; returns the error that it ended with."""
        handler = self._handler
        limit = None if handler.timeout is None else asyncio.timeout(handler.timeout)
        self._calling.add(delivery)
        began = time.monotonic()
        try:
            arguments = (delivery.body, delivery) if handler.takes_delivery else (delivery.body,)
            if limit is None:
                await handler.function(*arguments)
            else:
                async with limit:
                    await handler.function(*arguments)
        except TimeoutError as error:
            if limit is None or not limit.expired():
                return error
            where = error.__cause__ or error  # the cancellation, raised where the handler was
            return HandlerTimeout().with_traceback(where.__traceback__)
        except asyncio.CancelledError as error:
            loop_broke = self._stop.broken and self._running[delivery][0].cancelling()  # not its fault
            return Stopped() if delivery in self._cancelled or loop_broke else error
        except BaseException as error:  # noqa: BLE001 - no error of a handler ends the worker
            return error
        finally:
            self._calling.discard(delivery)  # from here on a cancellation would cut off the settling
            self._pace.note(time.monotonic() - began)
        return None

    def _ack_later(self) -> None:
        """Have the finished messages acked soon, if there are some."""
        if len(self._done) >= ACK_TOGETHER:
            self._enough.set()
        if self._done and (self._acking is None or self._acking.done()):
            self._acking = asyncio.create_task(self._ack_soon())

    async def _ack_soon(self) -> None:
        """Ack the finished messages with those that finish soon."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ACK_WITHIN):
                await self._enough.wait()
        self._enough.clear()
        await self._ack_done()

    async def _ack_done(self) -> None:
        """Ack the finished messages, until there are none."""
        while self._done and not await self._broker._run(self._ack()):
            if self._stop.giving_up.is_set():
                break
            await asyncio.sleep(RETRY_AFTER)

    def _ack(self) -> _work.Steps[bool]:
        """Ack the finished messages; False: Redis cannot be reached, so some are left."""
        again, self._done = self._done, []
        try:
            again = yield from self.ack(again)
        finally:
            self._done = again + self._done
        return not again

    async def _keep_leases(self) -> None:
        """Extend the leases; after a second stop signal, cancel each call once."""
        while True:
            await asyncio.sleep(CHECK)
            self._vitals.turn(self._loop_name)
            if self._stop.cancelling.is_set():
                for delivery in self._calling - self._cancelled:
                    self._cancelled.add(delivery)
                    self._running[delivery][0].cancel()
            elif time.monotonic() - self._extended > self._lease / 3:
                await self._extend_all()

    async def _extend_all(self) -> None:
        """Extend all leases, and drop what was lost before its call began."""
        began = time.monotonic()
        kept = [d for d in (*self.running, *self._unstarted.copy()) if not (d.settled or d.lost)]
        lost = await self._broker._run(self.extend(kept)) if kept else None
        self.drop(lost or (), self._unstarted)
        self._extended = began  # not before: until then nothing that may be lost begins
        self._begin()

    async def _release_unstarted(self) -> None:
        await self._broker._run(self.release(self._take_unstarted()))

    def _take_unstarted(self) -> list[Delivery[Any]]:
        taken = take(self._unstarted)
        if self.permit.suspect in taken:
            self.permit.end()
        return taken

    # From the worker's thread

    @property
    def running(self) -> list[Delivery[Any]]:
        """The deliveries whose calls run, or are being settled."""
        return [*self._running]

    @property
    def holds(self) -> tuple[int, float]:
        """How many messages it holds, and when the oldest call's was claimed."""
        since = [claimed for _, claimed in [*self._running.values()]]
        return len(since) + len(self._unstarted) + len(self._done), min(since, default=self._claimed)

    def tend(self) -> None:
        """Release messages that wait behind stuck calls; the event loop does the rest."""
        if self._unstarted and time.monotonic() - self._claimed > STUCK_AFTER:
            self._tending.run(self.release(self._take_unstarted()))
