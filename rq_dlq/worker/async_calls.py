"""Concurrent calls of an async handler in an event loop."""

from __future__ import annotations

import asyncio
import time
from math import inf
from types import coroutine
from typing import TYPE_CHECKING, Any

from rq_dlq.core.steps.driving import drive
from rq_dlq.values.forks import this_process
from rq_dlq.worker.running import checked, end_child
from rq_dlq.worker.stopping import DeadlinePassed, HandlerTimeout, Stopped

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from rq_dlq.asyncio.delivery import Delivery
    from rq_dlq.client.handlers import Handler
    from rq_dlq.core.queues.observers import Handling, Observers
    from rq_dlq.worker.async_tasks import Rest
    from rq_dlq.worker.stopping import Stop


class AsyncCalls:
    """Runs calls of one handler, each in the task of its delivery.

    Args:
        stop: the stages of the worker's shutdown.
        settles: whether ended calls are about to be settled, so that running calls must wait.
        ended: called with a call's delivery, its error, and whether it has waited; returns what is left to
            be awaited.

    Attributes:
        running: the tasks of the handlers that run, by delivery.
    """

    def __init__(
        self,
        handler: Handler,
        observers: Observers,
        stop: Stop,
        *,
        settles: Callable[[], bool],
        ended: Callable[[Delivery[Any], BaseException | None, bool], Rest],
    ) -> None:
        self._function, self._takes_delivery = handler.function, handler.takes_delivery
        self._timeout, self._deadline = handler.timeout or inf, handler.deadline  # seconds; is there one
        self._observers, self._stop = observers, stop
        self._settles, self._ended = settles, ended
        self._process = this_process()
        self.running: dict[Delivery[Any], asyncio.Task[Any] | None] = {}
        self._cancelled: set[Delivery[Any]] = set()

    def begin(self, delivery: Delivery[Any], now: float) -> Rest:
        """Run the handler until it ends or waits; returns what is left, to be awaited in this task.

        Args:
            now: monotonic seconds.
        """
        handling = self._observers.handling(delivery) if self._observers else None
        self.running[delivery] = asyncio.current_task()
        if self._settles():  # its task was made before enough calls had ended
            return self._go_on(delivery, now, handling, self._later(delivery))
        try:
            call, future = self._call(delivery), None
            try:
                future = call.send(None)
            except StopIteration as end:
                call = None
                if end.value is not None:
                    delivery._returned = checked(end.value)  # noqa: SLF001
        except BaseException as error:  # noqa: BLE001 - no error of a handler ends the worker
            return self._end(delivery, self._error(delivery, error), handling, waited=False)
        if call is None:
            return self._end(delivery, None, handling, waited=False)
        return self._go_on(delivery, now, handling, self._driven(call, future))

    def _end(
        self, delivery: Delivery[Any], error: BaseException | None, handling: Handling | None, *, waited: bool
    ) -> Rest:
        del self.running[delivery]  # a later cancellation would interrupt the settling
        if self._cancelled:
            self._cancelled.discard(delivery)
        if this_process() != self._process:
            end_child(error)
        if handling is not None:
            handling.end(error)
        return self._ended(delivery, error, waited)

    async def _go_on(
        self, delivery: Delivery[Any], began: float, handling: Handling | None, call: Awaitable[object]
    ) -> None:
        """Run a call that waits to its end."""
        seconds, over = self._timeout, HandlerTimeout
        if self._deadline and (left := delivery._time_to_live(began)) < seconds:  # noqa: SLF001
            seconds, over = left, DeadlinePassed
        limit = None if seconds == inf else asyncio.timeout(began + seconds - time.monotonic())
        error: BaseException | None = None
        try:
            if limit is None:
                result: object = await call
            else:
                async with limit:
                    result = await call
            delivery._returned = checked(result)  # noqa: SLF001
        except BaseException as raised:  # noqa: BLE001 - no error of a handler ends the worker
            error = self._error(delivery, raised)
            if limit is not None and limit.expired() and isinstance(raised, TimeoutError):
                # the traceback of the cancellation, raised where the handler waited
                error = over().with_traceback((raised.__cause__ or raised).__traceback__)
        rest = self._end(delivery, error, handling, waited=True)
        error = None  # its traceback refers to this frame
        if rest is not None:
            await rest

    def _error(self, delivery: Delivery[Any], error: BaseException) -> BaseException:
        """The error of a call; `Stopped`: the worker interrupted it, or the event loop broke."""
        if isinstance(error, asyncio.CancelledError):
            task = self.running[delivery]
            loop_broke = self._stop.broken and task and task.cancelling()  # not the call's fault
            return Stopped() if delivery in self._cancelled or loop_broke else error
        return error

    async def _later(self, delivery: Delivery[Any]) -> object:
        await self._held_up()
        return await self._driven(self._call(delivery))

    @coroutine
    def _driven(self, call: Any, *begun: object) -> Generator[object, None, object]:
        """Drive a call to its end; `begun`: the future that it waits for, if it has begun."""
        error: BaseException | None = None
        if begun:
            try:
                yield from self._wait(*begun)
            except BaseException as raised:  # noqa: BLE001 - the call decides
                error = raised
        return (yield from drive(call, self._wait, error=error))

    def _call(self, delivery: Delivery[Any]) -> Any:
        body = delivery.body
        return self._function(body, delivery) if self._takes_delivery else self._function(body)

    def _wait(self, future: object) -> Generator[object, None, None]:
        """Wait on behalf of a call, whatever comes of it.

        Many calls may continue in the same iteration of the event loop. When enough have ended, the others
        wait until their settlement begins: otherwise a killed worker would repeat all of them.
        """
        try:
            yield future
        except (Exception, asyncio.CancelledError):
            yield from self._held_up().__await__()
            raise
        if self._settles():
            yield from self._held_up().__await__()

    async def _held_up(self) -> None:
        while self._settles():  # noqa: ASYNC110 - for a few iterations of the event loop
            await asyncio.sleep(0)

    def cancel(self) -> None:
        """Cancel each call once."""
        for delivery in [*self.running]:
            self.cancel_one(delivery)

    def cancel_one(self, delivery: Delivery[Any]) -> None:
        """Cancel a call once, if it is running."""
        task = self.running.get(delivery)
        if task is not None and delivery not in self._cancelled:
            self._cancelled.add(delivery)
            task.cancel()
