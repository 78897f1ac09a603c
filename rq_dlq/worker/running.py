"""Calls of a handler in a consumer's thread, which another thread can interrupt."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import AsyncGenerator, Coroutine, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rq_dlq.values.forks import this_process
from rq_dlq.worker.stopping import HandlerTimeout, Stopped
from rq_dlq.worker.tally import logger

if TYPE_CHECKING:
    from rq_dlq.client.delivery import Delivery
    from rq_dlq.client.handlers import Handler


class Running:
    """Runs calls one after another in one thread.

    Attributes:
        delivery: the delivery whose handler is running; None: no handler is running.
        began: when the last call began, monotonic seconds.
    """

    def __init__(self, handler: Handler) -> None:
        self._function = handler.function
        self._takes_delivery = handler.takes_delivery
        self.delivery: Delivery[Any] | None = None
        self.began = 0.0
        self._thread = self._process = 0
        self._lock = threading.Lock()  # held while a call is interrupted
        self._cutting = self._interrupted = False

    def run(self, delivery: Delivery[Any]) -> BaseException | None:
        """Run the handler; returns the error that it ended with.

        An interrupt is raised some instructions after the request, perhaps after the call has ended. Then it
        is caught here and does not change the result. Each call gets at most one interrupt, between the time
        when `delivery` is set and `_end`.
        """
        error: BaseException | None = None
        ended = False
        if not self._thread:
            self._thread, self._process = threading.get_ident(), this_process()
        try:
            self.began = time.monotonic()
            self.delivery = delivery
            try:
                if self._takes_delivery:
                    result = self._function(delivery.body, delivery)
                else:
                    result = self._function(delivery.body)
                if result is not None:
                    delivery._returned = checked(result)  # noqa: SLF001 - not public
            except BaseException as raised:  # noqa: BLE001 - no error of a handler ends the worker
                error = raised
            ended = True
            self.delivery = None
            if self._cutting or self._interrupted:
                self._end()
        except (HandlerTimeout, Stopped) as late:
            if not ended and error is None:
                error = late
            self._end()
        if this_process() != self._process:
            end_child(error)
        return error

    def cut_short(self, delivery: Delivery[Any] | None, reason: type[BaseException]) -> None:
        """Raise an error inside this call, once, if it is still running; from another thread.

        This sets `_cutting` and then checks whether the call runs; `_end` clears `delivery` and then checks
        `_cutting`. So at least one of them sees the other, and most calls take no lock.
        """
        with self._lock:
            self._cutting = True
            if delivery is not None and delivery is self.delivery and not self._interrupted:
                self._interrupted = True
                self._interrupt(reason)
            self._cutting = False

    def _end(self) -> None:
        self.delivery = None
        if self._cutting or self._interrupted:
            with self._lock:
                interrupted, self._interrupted = self._interrupted, False
            if interrupted:
                self._use_up()

    def _interrupt(self, reason: type[BaseException]) -> None:
        """Request an error in the thread of the calls, replacing a pending one."""
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), ctypes.py_object(reason))

    def _use_up(self) -> None:
        """Clear any pending request by making another one and waiting for it.

        It would be simpler to withdraw it, but in CPython 3.11 that leaves a flag set, which slows down the
        process and makes a profiler hang.
        """
        with suppress(Stopped):
            self._interrupt(Stopped)
            while True:
                pass


def checked(result: Any) -> Any:
    """Check that a call did not return an awaitable or a generator: acking its message would lose the work.

    Raises:
        TypeError: it did.
    """
    if result is None or not isinstance(result, Coroutine | Generator | AsyncGenerator):
        return result
    if isinstance(result, AsyncGenerator):
        raise TypeError("the call returned an async generator, which is never run: remove the `yield`")
    result.close()  # otherwise Python warns that it was never awaited
    if isinstance(result, Generator):
        raise TypeError("the call returned a generator, which is never run: remove the `yield`")
    raise TypeError(
        "the call returned a coroutine, which is never awaited: make the handler, and each decorator around "
        "it, an `async def` that awaits its calls"
    )


def end_child(error: BaseException | None) -> None:
    """End a forked process that returned from its handler: it is not a worker, and settles nothing."""
    if error is not None and not isinstance(error, SystemExit):
        logger.error("a process that a handler forked ended with an error", exc_info=error)
    with suppress(Exception):
        sys.stdout.flush()
    code = error.code if isinstance(error, SystemExit) else error
    os._exit(code if isinstance(code, int) else code is not None)
