"""Async handlers: one event loop that claims, runs calls side by side, and settles in batches."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from typing import TYPE_CHECKING, Any, cast

from rq_dlq.worker.duties import ACK_TOGETHER, ACK_WITHIN, RETRY_AFTER, Duties
from rq_dlq.worker.running import end_child
from rq_dlq.worker.stopping import HandlerTimeout, Stop, Stopped
from rq_dlq.worker.tally import logger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq._redis import Connections
    from rq_dlq.asyncio.broker import Broker
    from rq_dlq.asyncio.delivery import Delivery
    from rq_dlq.client.handlers import Handler

CHECK = 0.05  # seconds between two looks at the stop and at the leases
MOST = 100  # messages in one claim


class AsyncConsumers:
    """Runs one async handler, up to `concurrency` calls at once, in a thread with its own event loop.

    Args:
        duties: its steps on the queue.
        broker: the queue's broker; only this object uses and closes it.
        tending: blocking connections, for the worker's thread.
    """

    def __init__(
        self,
        handler: Handler,
        duties: Duties[Delivery[Any]],
        concurrency: int,
        broker: Broker,
        tending: Connections,
        *,
        stop: Stop,
    ) -> None:
        self._handler = handler
        self._concurrency = concurrency
        self._broker = broker
        self._tending = tending
        self._stop = stop
        self._duties = duties
        self._name = duties.queue.name
        self._running: dict[asyncio.Task[None], Delivery[Any]] = {}
        self._calling: set[asyncio.Task[Any]] = set()  # those whose handler runs
        self._cancelled: set[asyncio.Task[Any]] = set()
        self._done: list[Delivery[Any]] = []
        self._flushing: asyncio.TimerHandle | None = None
        self._flushes: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._main, name=f"rq-dlq {self._name}", daemon=True)

    def start(self) -> None:
        """Start consuming."""
        self._thread.start()

    def join(self, timeout: float) -> bool:
        """Wait for the thread to end; returns whether it has."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def tend(self) -> None:
        """Do nothing: the event loop tends its own calls."""

    def abandon(self) -> None:
        """Release the messages of calls that do not end, just before the process ends."""
        self._tending.run(self._duties.release([d for d in list(self._running.values()) if not d.settled]))

    def _main(self) -> None:
        try:
            asyncio.run(self.consume())
        except BaseException:  # noqa: BLE001 - it is logged, and ends the worker
            logger.exception("%s: the consumer failed", self._name)
            self._stop.break_off()

    async def consume(self) -> None:
        """Claim and run until the stop, then wait for the running calls."""
        tending = asyncio.create_task(self._tend())
        try:
            await self._consume()
            while self._running:
                await asyncio.wait(self._running)
            await self._flush()
            while (self._done or self._flushes) and not self._stop.giving_up.is_set():
                await asyncio.wait(self._flushes or {asyncio.create_task(self._flush())})
        finally:
            tending.cancel()
            await self._broker.close()

    async def _consume(self) -> None:
        while not self._stop.finishing.is_set():
            room = self._concurrency - len(self._running)
            if room == 0:
                await self._one_ends(CHECK)
                continue
            deliveries = await self._claim(min(room, MOST))
            if self._stop.finishing.is_set():
                await self._broker._run(self._duties.release(deliveries))
            elif deliveries:
                for delivery in deliveries:
                    self._begin(delivery)
            elif self._duties.permit.passed:
                await self._one_ends(self._duties.permit.pause)
            elif self._duties.until == "empty" and self._running:
                await self._one_ends(None)
            elif await self._broker._run(self._duties.over()):
                break

    async def _claim(self, count: int) -> Sequence[Delivery[Any]]:
        deliveries = await self._broker._run(self._duties.claim(count))
        if self._duties.pause:
            await asyncio.sleep(self._duties.pause)
        return deliveries

    async def _one_ends(self, seconds: float | None) -> None:
        """Wait until a call ends, or the time is over (seconds; None: no limit)."""
        if self._running:
            await asyncio.wait(self._running, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        elif seconds is not None:
            await asyncio.sleep(seconds)

    def _begin(self, delivery: Delivery[Any]) -> None:
        task = asyncio.create_task(self._run(delivery))
        self._running[task] = delivery
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        delivery = self._running.pop(task)
        self._cancelled.discard(task)
        if self._duties.permit.is_for(delivery):
            self._duties.permit.end()
        if not task.cancelled() and (error := task.exception()):
            logger.error("%s: a call could not be settled", self._name, exc_info=error)

    async def _run(self, delivery: Delivery[Any]) -> None:
        process = os.getpid()
        error = await self._call(delivery)
        if os.getpid() != process:
            end_child(error)
        if self._duties.settled_itself(delivery):
            return
        if error is None and not self._duties.permit.is_for(delivery):
            self._done.append(delivery)
            self._flush_within(0 if len(self._done) >= ACK_TOGETHER else ACK_WITHIN)
            return
        while not await self._broker._run(self._duties.settle(delivery, error)):
            if self._stop.giving_up.is_set():
                break
            await asyncio.sleep(CHECK)  # meanwhile no other suspect may run

    async def _call(self, delivery: Delivery[Any]) -> BaseException | None:
        """Run the handler; returns the error that it ended with."""
        handler, task = self._handler, cast("asyncio.Task[Any]", asyncio.current_task())
        limit = asyncio.timeout(handler.timeout) if handler.timeout is not None else None
        self._calling.add(task)
        try:
            call = handler.function(
                *((delivery.body, delivery) if handler.takes_delivery else (delivery.body,))
            )
            if limit is None:
                await call
            else:
                async with limit:
                    await call
        except TimeoutError as error:
            if limit is None or not limit.expired():
                return error
            where = error.__cause__ or error  # the cancellation, raised where the handler was
            return HandlerTimeout().with_traceback(where.__traceback__)
        except asyncio.CancelledError as error:
            return Stopped() if task in self._cancelled else error
        except BaseException as error:  # noqa: BLE001 - no error of a handler ends the worker
            return error
        finally:
            self._calling.discard(task)  # from here on a cancellation would cut off the settling
        return None

    def _flush_within(self, seconds: float) -> None:
        if self._flushing is not None and seconds == 0:
            self._flushing.cancel()
            self._flushing = None
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_later(seconds, self._start_flush)

    def _start_flush(self) -> None:
        self._flushing = None
        task = asyncio.create_task(self._flush())
        self._flushes.add(task)
        task.add_done_callback(self._flushes.discard)

    async def _flush(self) -> None:
        """Ack the finished messages."""
        done, self._done = self._done, []
        if again := await self._broker._run(self._duties.ack(done)):
            self._done = again + self._done
            self._flush_within(RETRY_AFTER)

    async def _tend(self) -> None:
        """Extend the leases; after a second stop signal, cancel each call once."""
        extended = time.monotonic()
        while True:
            await asyncio.sleep(CHECK)
            if self._stop.cancelling.is_set():
                for task in self._calling - self._cancelled:
                    self._cancelled.add(task)
                    task.cancel()
            elif time.monotonic() - extended > self._duties.queue.lease / 3000:
                extended = time.monotonic()
                kept = [d for d in self._running.values() if not (d.settled or d.lost)]
                await self._broker._run(self._duties.extend(kept, self._runs))

    def _runs(self, delivery: Delivery[Any]) -> bool:
        return delivery in self._running.values()
