"""Concurrent calls of an async handler in an event loop."""

from __future__ import annotations

import asyncio
import time
from math import inf
from types import coroutine
from typing import TYPE_CHECKING, Any

from rq_dlq.core.steps.driving import drive
from rq_dlq.worker.running import checked
from rq_dlq.worker.stopping import DeadlinePassed, HandlerTimeout, Stopped

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Mapping

    from rq_dlq.asyncio.delivery import Delivery
    from rq_dlq.client.handlers import Handler
    from rq_dlq.worker.async_tasks import Call
    from rq_dlq.worker.stopping import Stop

_driven: Callable[..., Awaitable[object]] = coroutine(drive)  # type: ignore[assignment]


class AsyncCalls:
    """Runs calls of one handler, each in the task of its delivery.

    Args:
        calls: the calls whose tasks have not ended, by delivery.
        stop: the stages of the worker's shutdown.
        settles: whether ended calls are about to be settled, so that running calls must wait.

    Attributes:
        running: the deliveries whose handlers run.
    """

    def __init__(
        self, handler: Handler, calls: Mapping[Delivery[Any], Call], stop: Stop, settles: Callable[[], bool]
    ) -> None:
        self._function, self._takes_delivery = handler.function, handler.takes_delivery
        self._timeout, self._deadline = (
            handler.timeout or inf,
            handler.deadline,
        )  # seconds; whether there is one
        self._calls, self._stop, self._settles = calls, stop, settles
        self.running: set[Delivery[Any]] = set()
        self._cancelled: set[Delivery[Any]] = set()

    async def run(self, delivery: Delivery[Any]) -> BaseException | None:
        """Run the handler; returns the error that it ended with."""
        seconds, over = self._timeout, HandlerTimeout
        if self._deadline and (left := delivery._time_to_live(time.monotonic())) < seconds:  # noqa: SLF001
            seconds, over = left, DeadlinePassed
        limit = None if seconds == inf else asyncio.timeout(seconds)
        self.running.add(delivery)
        try:
            if self._settles():  # its task was made before enough calls had ended
                await self._held_up()
            body = delivery.body
            call = self._function(body, delivery) if self._takes_delivery else self._function(body)
            if limit is None:
                delivery._returned = checked(await _driven(call, self._wait))  # noqa: SLF001
            else:
                async with limit:
                    delivery._returned = checked(await _driven(call, self._wait))  # noqa: SLF001
        except TimeoutError as error:
            if limit is None or not limit.expired():
                return error
            where = error.__cause__ or error  # the cancellation, raised where the handler waited
            return over().with_traceback(where.__traceback__)
        except asyncio.CancelledError as error:
            loop_broke = self._stop.broken and self._calls[delivery][0].cancelling()  # not the call's fault
            return Stopped() if delivery in self._cancelled or loop_broke else error
        except BaseException as error:  # noqa: BLE001 - no error of a handler ends the worker
            return error
        finally:
            self.running.discard(delivery)  # a later cancellation would interrupt the settling
            self._cancelled.discard(delivery)
        return None

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
        if delivery in self.running and delivery not in self._cancelled:
            self._cancelled.add(delivery)
            self._calls[delivery][0].cancel()
