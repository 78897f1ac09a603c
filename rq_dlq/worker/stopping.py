"""Stopping a worker or a maintenance process by signals, in two steps."""

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

TICK = 0.05  # seconds between two checks whether to stop

Until: TypeAlias = Literal["stopped", "empty", "drained"]
"""When a worker ends by itself: never, when nothing is ready, or when nothing is left to deliver."""


class HandlerTimeout(TimeoutError):  # noqa: N818 - the word for it
    """A call ran longer than its handler's timeout."""

    def __init__(self, text: str = "the call ran longer than its handler's timeout") -> None:
        super().__init__(text)


class DeadlinePassed(HandlerTimeout):
    """The time to live of a call's message ended; it is not charged, and expires."""

    def __init__(self, text: str = "the time to live of the message ended while its handler ran") -> None:
        super().__init__(text)


class Stopped(BaseException):
    """Raised inside a call to cut it short after a second signal; its message is released."""


def ending_signals() -> list[signal.Signals]:
    """Those that end a process in good order; SIGHUP, of a terminal that is closed, but not under `nohup`."""
    hangup = getattr(signal, "SIGHUP", None)  # Windows has none
    if hangup is None or signal.getsignal(hangup) is signal.SIG_IGN:
        return [signal.SIGTERM, signal.SIGINT]
    return [signal.SIGTERM, signal.SIGINT, hangup]


class Stop:
    """The stages of a worker's end.

    Attributes:
        finishing: no new call starts.
        cancelling: running calls are cut short.
        giving_up: calls that Redis does not answer are not tried again.
        broken: the worker ends because a consumer failed.
        blocked: the program's own code runs in the thread that gets the signals, which no stage cuts short.
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
        """Go on to the next stage: the first signal finishes, the second one cancels."""
        if self.finishing.is_set():
            self.cancelling.set()
        self.finishing.set()


@contextmanager
def cutting_short(cuts: Sequence[Callable[[], object]]) -> Generator[None]:
    """Call these again and again: they cut short what runs too long, or all calls after a second signal.

    A thread of its own does so. It talks to nobody, so calls end in time also while Redis does not answer.
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

    A thread of its own does both. A signal's handler interrupts whatever the main thread does, also another
    handler, so it must not set an event or log: the main thread may hold the lock that it would wait for.
    While the program's own code blocks that thread, a third signal does what it would do without us.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: SimpleQueue[int | None] = SimpleQueue()  # its `put` may interrupt itself

    def heed() -> None:
        while (number := came.get()) is not None:
            stop.signal()
            doing = "cancelling what runs" if stop.cancelling.is_set() else "finishing what has begun"
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
