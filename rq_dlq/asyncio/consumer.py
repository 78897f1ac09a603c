"""Async handlers: one event loop that claims, runs calls side by side, and settles them in batches."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from typing import TYPE_CHECKING, Any, cast

from rq_dlq import _work
from rq_dlq.attribution import Attribution
from rq_dlq.consumer import (
    ACK_TOGETHER,
    ACK_WITHIN,
    RETRY_AFTER,
    settle_call,
)
from rq_dlq.errors import BrokerUnavailable, RqDlqError
from rq_dlq.handlers import Handler, Tally, logger, report
from rq_dlq.message import Settlement
from rq_dlq.running import end_child
from rq_dlq.stopping import HandlerTimeout, Patience, Stop, Stopped

if TYPE_CHECKING:
    from rq_dlq._redis import Connections
    from rq_dlq.asyncio.broker import Broker
    from rq_dlq.asyncio.delivery import Delivery
    from rq_dlq.stopping import Until

CHECK = 0.05  # seconds between two looks at the stop and at the leases


class AsyncConsumers:
    """Runs one async handler, up to `concurrency` calls at once, in a thread with an event loop of its own.

    Args:
        tending: blocking connections, for the worker's thread.
    """

    def __init__(
        self,
        handler: Handler,
        concurrency: int,
        broker: Broker,
        tending: Connections,
        stop: Stop,
        *,
        until: Until,
        tally: Tally,
    ) -> None:
        self._handler = handler
        self._concurrency = concurrency
        self._broker = broker
        self._tending = tending
        self._stop = stop
        self._until = until
        self._tally = tally
        self._patience = Patience(until)
        sync = handler.queue
        self._queue = broker.queue(
            sync.name,
            type=sync.work.codec.type,
            lease=sync.work.lease / 1000,
            **sync.work.said,
        )
        self._work = self._queue.work
        self._attribution = Attribution(self._work, tending, abreast=True)
        self._running: dict[asyncio.Task[None], Delivery[Any]] = {}
        self._calling: set[asyncio.Task[Any]] = set()  # those whose handler runs
        self._cancelled: set[asyncio.Task[Any]] = set()
        self._done: list[Delivery[Any]] = []
        self._flushing: asyncio.TimerHandle | None = None
        self._flushes: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._main, name=f"rq-dlq {sync.name}", daemon=True)

    def start(self) -> None:
        """Begin to consume."""
        self._thread.start()

    def join(self, timeout: float) -> bool:
        """Wait for the end; whether it has come."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def tend(self) -> None:
        """Nothing: the event loop tends its calls itself."""

    def abandon(self) -> None:
        """Give back the messages of calls that do not end, just before the process does."""
        held = [d.held for d in list(self._running.values()) if not d.settled]
        try:
            settlements = self._tending.run(_work.release(self._work, held))
        except RqDlqError as failure:
            logger.error("%s: cannot release: %s", self._queue.name, failure)
        else:
            self._tally.add(settlements, "released")

    def _main(self) -> None:
        try:
            asyncio.run(self.consume())
        except BaseException:  # noqa: BLE001 - it is logged, and ends the worker
            logger.exception("%s: the consumer broke off", self._queue.name)
            self._stop.break_off()

    async def consume(self) -> None:
        """Claim and run until the stop, then wait for what runs."""
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
            self._attribution.close()
            await self._broker.close()

    async def _consume(self) -> None:
        while not self._stop.finishing.is_set():
            room = self._concurrency - len(self._running)
            if room == 0:
                await asyncio.wait(self._running, timeout=CHECK, return_when=asyncio.FIRST_COMPLETED)
                continue
            deliveries = await self._claim(room)
            if self._stop.finishing.is_set():
                await self._release(deliveries)
            elif deliveries:
                for delivery in deliveries:
                    self._begin(delivery)
            elif self._until == "empty" and self._running:
                await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
            elif await self._over():
                break

    async def _claim(self, room: int) -> list[Delivery[Any]]:
        count = min(room, 100)
        attributed = await self._attributed(count)
        steps = _work.claim(
            self._work,
            self._queue.delivery,
            count=count,
            wait=self._patience.wait,
            attributed=attributed,
            spoiled=self._tally.note,
            stopped=self._stop.finishing.is_set,
        )
        deliveries: list[Delivery[Any]] = []
        try:
            deliveries = await self._broker.run_steps(steps)
        except RqDlqError as error:
            logger.error("%s: cannot claim: %s", self._queue.name, error)
            await asyncio.sleep(0 if self._until == "empty" else RETRY_AFTER)
        self._patience.note(found=bool(deliveries))
        if attributed:
            self._attribution.take(deliveries)
        return deliveries

    async def _attributed(self, count: int) -> bool:
        attribution = self._attribution
        if not attribution.wanted(count):
            return False
        return attribution.prompt() or await asyncio.to_thread(attribution.ready, count)

    async def _over(self) -> bool:
        """Whether it was the last claim, since it found nothing."""
        if self._until != "drained":
            return self._until == "empty"
        try:
            return await self._broker.run_steps(_work.is_drained(self._work))
        except RqDlqError as error:
            logger.error("%s: cannot see whether it is drained: %s", self._queue.name, error)
            return False

    async def _release(self, deliveries: list[Delivery[Any]]) -> None:
        try:
            steps = _work.release(self._work, [d.held for d in deliveries])
            settlements = await self._broker.run_steps(steps)
        except RqDlqError as failure:
            logger.error("%s: cannot release: %s", self._queue.name, failure)
        else:
            self._tally.add(settlements, "released")

    def _begin(self, delivery: Delivery[Any]) -> None:
        task = asyncio.create_task(self._run(delivery))
        self._running[task] = delivery
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task)
        self._cancelled.discard(task)
        if not task.cancelled() and (error := task.exception()):
            logger.error("%s: a call broke off", self._queue.name, exc_info=error)

    async def _run(self, delivery: Delivery[Any]) -> None:
        process = os.getpid()
        error = await self._call(delivery)
        if os.getpid() != process:
            end_child(error)
        if delivery.outcome is not None:  # the handler did it
            self._tally.add([Settlement(delivery.id, delivery.outcome)], "acked")
        elif error is None:
            self._done.append(delivery)
            self._flush_within(0 if len(self._done) >= ACK_TOGETHER else ACK_WITHIN)
        else:
            await self._settle(delivery, error)
        self._attribution.end(delivery)

    async def _call(self, delivery: Delivery[Any]) -> BaseException | None:
        """Run the handler; the error that it ended with."""
        handler, task = self._handler, cast("asyncio.Task[Any]", asyncio.current_task())
        self._attribution.begin(delivery)
        limit = asyncio.timeout(handler.timeout)
        self._calling.add(task)
        try:
            async with limit:
                if handler.takes_delivery:
                    await handler.function(delivery.body, delivery)
                else:
                    await handler.function(delivery.body)
        except TimeoutError as error:
            if not limit.expired():
                return error
            where = error.__cause__ or error  # the cancellation, raised where the handler was
            return HandlerTimeout().with_traceback(where.__traceback__)
        except asyncio.CancelledError as error:
            return Stopped() if task in self._cancelled else error
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises, the worker lives
            return error
        finally:
            self._calling.discard(task)  # from here on a cancellation would cut off the settling
        return None

    async def _settle(self, delivery: Delivery[Any], error: BaseException) -> None:
        while True:
            try:
                steps = settle_call(self._work, delivery, error)
                (settlement,) = await self._broker.run_steps(steps)
            except RqDlqError as failure:
                logger.error("%s %s: cannot settle: %s", delivery.queue, delivery.id, failure)
                if isinstance(failure, BrokerUnavailable) and not self._stop.giving_up.is_set():
                    continue
            else:
                self._tally.note(delivery, settlement, error)
            return

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
        """Ack what is done."""
        done, self._done = self._done, []
        if not done:
            return
        try:
            steps = _work.ack(self._work, [delivery.held for delivery in done])
            settlements = await self._broker.run_steps(steps)
        except RqDlqError as failure:
            logger.error("%s: cannot ack %d messages: %s", self._queue.name, len(done), failure)
            if isinstance(failure, BrokerUnavailable):
                self._done = done + self._done
                self._flush_within(RETRY_AFTER)
            return
        self._tally.add(settlements, "acked")
        for delivery, settlement in zip(done, settlements, strict=True):
            if not settlement:
                report(delivery, settlement, None)

    async def _tend(self) -> None:
        """Keep the leases alive; cancel the calls when the stop says so, each once."""
        extended = time.monotonic()
        while True:
            await asyncio.sleep(CHECK)
            if self._stop.cancelling.is_set():
                for task in self._calling - self._cancelled:
                    self._cancelled.add(task)
                    task.cancel()
            elif time.monotonic() - extended > self._work.lease / 3000:
                extended = time.monotonic()
                await self._extend([d for d in self._running.values() if not (d.settled or d.lost)])

    async def _extend(self, running: list[Delivery[Any]]) -> None:
        held = [delivery.held for delivery in running]
        try:
            deadline, still = await self._broker.run_steps(_work.extend(self._work, held, self._work.lease))
        except RqDlqError as failure:
            logger.warning("%s: cannot extend the leases: %s", self._queue.name, failure)
            return
        for delivery, kept in zip(running, still, strict=True):
            if kept:
                delivery.lease_ends = deadline
            elif not delivery.settled and delivery in self._running.values():
                delivery.lost = True
                logger.warning(
                    "%s %s: the lease was lost while its handler runs", delivery.queue, delivery.id
                )
