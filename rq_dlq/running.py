"""The call of a handler in a consumer's thread, which another thread may cut short."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rq_dlq.handlers import logger
from rq_dlq.stopping import HandlerTimeout, Stopped

if TYPE_CHECKING:
    from rq_dlq.handlers import Handler
    from rq_dlq.message import Leased


class Running:
    """Runs one call after the other, in one thread.

    Attributes:
        delivery: whose handler runs; None: none does.
        began: when the last call began, monotonic seconds.
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._lock = threading.Lock()  # guards all below: both threads use them
        self.delivery: Leased[Any] | None = None
        self.began = 0.0
        self._thread = 0
        self._interrupted = False

    def run(self, delivery: Leased[Any]) -> BaseException | None:
        """Run the handler; the error that it ended with.

        An interrupt is raised some instructions after it was asked for, so perhaps after the call has ended:
        then it is caught here, and the call counts as it ended. There is one for each call at most, none
        before _begin and none after _end.
        """
        error: BaseException | None = None
        ended = False
        process = os.getpid()
        try:
            self._begin(delivery)
            try:
                if self._handler.takes_delivery:
                    self._handler.function(delivery.body, delivery)
                else:
                    self._handler.function(delivery.body)
            except BaseException as raised:  # noqa: BLE001 - whatever it is, the worker lives
                error = raised
            ended = True
            self._end()
        except (HandlerTimeout, Stopped) as late:
            if not ended and error is None:
                error = late
            self._end()
        if os.getpid() != process:
            end_child(error)
        return error

    def cut_short(self, delivery: Leased[Any] | None, reason: type[BaseException]) -> None:
        """Have an error raised inside this call, once, if it still runs; from another thread."""
        with self._lock:
            if delivery is not None and delivery is self.delivery and not self._interrupted:
                self._interrupted = True
                self._interrupt(reason)

    def _begin(self, delivery: Leased[Any]) -> None:
        with self._lock:
            self._thread = threading.get_ident()
            self.delivery = delivery
            self.began = time.monotonic()

    def _end(self) -> None:
        with self._lock:
            self.delivery = None
            interrupted, self._interrupted = self._interrupted, False
        if interrupted:
            self._interrupt(None)

    def _interrupt(self, reason: type[BaseException] | None) -> None:
        """Have an error raised in the thread of the calls; None: no more the one that was asked for."""
        error = None if reason is None else ctypes.py_object(reason)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), error)


def end_child(error: BaseException | None) -> None:
    """End a process that a handler forked and that came out of it: it is no worker, and settles nothing."""
    if error is not None and not isinstance(error, SystemExit):
        logger.error("a process that a handler forked ended with an error", exc_info=error)
    with suppress(Exception):
        sys.stdout.flush()
    code = error.code if isinstance(error, SystemExit) else error
    os._exit(code if isinstance(code, int) else code is not None)
