"""Async handlers: one event loop that claims, runs calls side by side, and settles them in batches."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

from rq_dlq import _work
from rq_dlq.consumer import ACK_WITHIN, IDLE_WAIT, HandlerTimeout, Stop
from rq_dlq.errors import RqDlqError
from rq_dlq.handlers import Handler, logger, report

if TYPE_CHECKING:
    from rq_dlq.asyncio.broker import Broker
    from rq_dlq.asyncio.queue import Delivery

RETRY_AFTER = 1.0  # seconds until a claim is tried again after Redis did not answer
CHECK = 0.05  # seconds between two looks at the stop


class AsyncConsumers:
    """Runs one async handler, up to `concurrency` calls at once, in a thread with an event loop of its own."""

    def __init__(
        self, handler: Handler, concurrency: int, broker: Broker, stop: Stop, *, burst: bool
    ) -> None:
        self._handler = handler
        self._concurrency = concurrency
        self._broker = broker
        self._stop = stop
        self._burst = burst
        sync = handler.queue
        self._queue = broker.queue(
            sync.name,
            type=sync.work.codec.type,
            lease=sync.work.lease / 1000,
            redelivery=sync.work.redelivery if sync.work.declares else None,
        )
        self._work = self._queue.work
        self._running: dict[asyncio.Task[None], Delivery[Any]] = {}
        self._done: list[Delivery[Any]] = []
        self._flushing: asyncio.TimerHandle | None = None
        self._flushes: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self.consume()), name=f"rq-dlq {sync.name}", daemon=True
        )

    def start(self) -> None:
        """Begin to consume."""
        self._thread.start()

    def join(self, timeout: float) -> bool:
        """Wait for the end; whether it has come."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def tend(self) -> None:
        """Nothing: the event loop tends its calls itself."""

    async def consume(self) -> None:
        """Claim and run until the stop, then wait for what runs."""
        tending = asyncio.create_task(self._tend())
        try:
            while not self._stop.finishing.is_set():
                room = self._concurrency - len(self._running)
                if room == 0:
                    await asyncio.wait(
                        self._running, timeout=CHECK, return_when=asyncio.FIRST_COMPLETED
                    )
                    continue
                deliveries = await self._claim(room)
                for delivery in deliveries:
                    task = asyncio.create_task(self._call(delivery))
                    self._running[task] = delivery
                    task.add_done_callback(lambda task: self._running.pop(task, None))
                if self._burst and not deliveries:
                    if not self._running:
                        break
                    await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
            while self._running:
                await asyncio.wait(self._running, timeout=CHECK)
            await self._flush()
            if self._flushes:
                await asyncio.wait(self._flushes)
        finally:
            tending.cancel()
            await self._broker.close()

    async def _claim(self, room: int) -> list[Delivery[Any]]:
        """What there is; a wait is short while calls run, so that their results are not held up."""
        wait = 0 if self._burst else IDLE_WAIT
        steps = _work.claim(self._work, self._queue.delivery, count=min(room, 100), wait=wait)
        try:
            return await self._broker.run_steps(steps)
        except RqDlqError as error:
            logger.error("%s: cannot claim: %s", self._queue.name, error)
            await asyncio.sleep(RETRY_AFTER)
            return []

    async def _call(self, delivery: Delivery[Any]) -> None:
        handler = self._handler
        error: BaseException | None = None
        try:
            async with asyncio.timeout(handler.timeout):
                if handler.takes_delivery:
                    await handler.function(delivery.body, delivery)
                else:
                    await handler.function(delivery.body)
        except TimeoutError as raised:
            error = (
                raised if str(raised) else HandlerTimeout(f"it ran longer than {handler.timeout} s")
            )
        except BaseException as raised:  # noqa: BLE001 - whatever a handler raises, the worker lives
            error = raised
        if delivery.settled:  # the handler did it
            return
        if error is None:
            self._done.append(delivery)
            if self._flushing is None:
                loop = asyncio.get_running_loop()
                self._flushing = loop.call_later(ACK_WITHIN, self._start_flush)
            return
        try:
            steps = _work.settle_by_error(self._work, [delivery.held], error)
            (settlement,) = await self._broker.run_steps(steps)
        except RqDlqError as failure:
            logger.error("%s %s: cannot settle: %s", delivery.queue, delivery.id, failure)
        else:
            report(delivery, settlement, error)

    def _start_flush(self) -> None:
        task = asyncio.create_task(self._flush())
        self._flushes.add(task)
        task.add_done_callback(self._flushes.discard)

    async def _flush(self) -> None:
        """Ack what is done."""
        self._flushing = None
        done, self._done = self._done, []
        if not done:
            return
        try:
            steps = _work.ack(self._work, [delivery.held for delivery in done])
            settlements = await self._broker.run_steps(steps)
        except RqDlqError as failure:
            logger.error("%s: cannot ack %d messages: %s", self._queue.name, len(done), failure)
            return
        for delivery, settlement in zip(done, settlements, strict=True):
            if not settlement:
                report(delivery, settlement, None)

    async def _tend(self) -> None:
        """Keep the leases alive; cancel the calls when the stop says so."""
        extended = time.monotonic()
        while True:
            await asyncio.sleep(CHECK)
            if self._stop.cancelling.is_set():
                for task in list(self._running):
                    task.cancel()
            elif self._running and time.monotonic() - extended > self._work.lease / 3000:
                extended = time.monotonic()
                await self._extend(list(self._running.values()))

    async def _extend(self, running: list[Delivery[Any]]) -> None:
        held = [delivery.held for delivery in running]
        try:
            _, still = await self._broker.run_steps(
                _work.extend(self._work, held, self._work.lease)
            )
        except RqDlqError as failure:
            logger.warning("%s: cannot extend the leases: %s", self._queue.name, failure)
            return
        for delivery, kept in zip(running, still, strict=True):
            if not kept and delivery in self._running.values() and not delivery.lost:
                delivery.lost = True
                logger.warning(
                    "%s %s: the lease was lost while its handler runs", delivery.queue, delivery.id
                )
