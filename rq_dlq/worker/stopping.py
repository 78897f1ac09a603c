"""Stops a worker or a maintenance process on signals, in two steps.

A signal handler only puts the signal's number into a `SimpleQueue`, whose `put` is reentrant; a thread sets
the stop's events and logs. An event has a lock, and a signal handler may interrupt another one that holds it:
of a thousand workers that got two SIGTERMs within 16 ms, one waited for itself forever.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import logging

TICK = 0.05  # seconds between two checks for a stop

Until: TypeAlias = Literal["stopped", "empty", "drained"]
"""When a worker ends on its own: never, when no message is ready and no call runs, or when none is left."""


class HandlerTimeout(TimeoutError):  # noqa: N818 - the usual name
    """A call ran longer than its handler's timeout."""

    def __init__(self, text: str = "the call ran longer than its handler's timeout") -> None:
        super().__init__(text)


class DeadlinePassed(HandlerTimeout):
    """The time to live of the message ended during its call; it expires without a charge."""

    def __init__(self, text: str = "the time to live of the message ended while its handler ran") -> None:
        super().__init__(text)


class Stopped(BaseException):
    """Raised inside a call to interrupt it after a second signal; its message is released."""


def ending_signals() -> list[signal.Signals]:
    """The signals for an orderly end, including SIGHUP of a closed terminal, except under `nohup`."""
    hangup = getattr(signal, "SIGHUP", None)  # missing on Windows
    if hangup is None or signal.getsignal(hangup) is signal.SIG_IGN:
        return [signal.SIGTERM, signal.SIGINT]
    return [signal.SIGTERM, signal.SIGINT, hangup]


class Stop:
    """The stages of a worker's shutdown.

    Attributes:
        finishing: no new call starts.
        cancelling: running calls are interrupted.
        giving_up: unanswered calls to Redis are not retried.
        broken: the worker ends because a consumer failed.
        blocked: the program's own code is running in the thread that receives signals, and cannot be
            interrupted.
    """

    def __init__(self) -> None:
        self.finishing = threading.Event()
        self.cancelling = threading.Event()
        self.giving_up = threading.Event()
        self.broken = self.blocked = False

    def break_off(self) -> None:
        """End the worker because a consumer failed."""
        self.broken = True
        self.finishing.set()

    def signal(self) -> None:
        """Proceed to the next stage: the first signal lets calls finish, the second one cancels them."""
        if self.finishing.is_set():
            self.cancelling.set()
        self.finishing.set()


@contextmanager
def cutting_short(cuts: Sequence[Callable[[], object]]) -> Generator[None]:
    """Call these periodically: they interrupt calls over their limit, or all calls after a second signal.

    A separate thread does this without I/O, so calls end in time even while Redis does not answer.
    """
    over = threading.Event()

    def cut() -> None:
        while not over.wait(TICK):
            for cut_short in cuts:
                cut_short()

    cutting = threading.Thread(target=cut, name="rq-dlq time limits", daemon=True)
    cutting.start()
    try:
        yield
    finally:
        over.set()
        cutting.join()


@contextmanager
def heeding_signals(stop: Stop, log: logging.Logger) -> Generator[None]:
    """Pass SIGTERM, SIGINT and SIGHUP on to a stop, and log them, if this is the main thread.

    While the program's own code blocks the main thread, a third signal has its default effect.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: SimpleQueue[int | None] = SimpleQueue()  # its `put` is reentrant

    def heed() -> None:
        while (number := came.get()) is not None:
            stop.signal()
            doing = "cancelling running calls" if stop.cancelling.is_set() else "finishing running calls"
            log.info("%s: %s", signal.Signals(number).name, doing)

    def on_signal(number: int, _: FrameType | None) -> None:
        if stop.blocked and stop.cancelling.is_set():
            signal.signal(number, before[signal.Signals(number)])
            signal.raise_signal(number)
        else:
            came.put(number)

    heeding = threading.Thread(target=heed, name="rq-dlq signals", daemon=True)
    heeding.start()
    before = {number: signal.getsignal(number) for number in ending_signals()}
    for number in before:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
        came.put(None)
        heeding.join()
