"""How what runs for long comes to its end: in two steps, by signals."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import logging
    from collections.abc import Generator
    from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)
TICK = 0.05  # seconds between two looks at whether to stop
LONG_WAIT = 60_000  # milliseconds of one waiting claim, which a stop cuts short
IDLE_WAIT = 1_000  # of one of who waits for the end, at most
FIRST_WAIT = 10  # of the first one of those

Until: TypeAlias = Literal["stopped", "empty", "drained"]
"""When a worker ends by itself: never, when nothing is ready, or when nothing is to be delivered any more."""


class HandlerTimeout(TimeoutError):  # noqa: N818 - the word for it
    """A call ran longer than its handler's timeout."""

    def __init__(self, text: str = "the call ran longer than its handler's timeout") -> None:
        super().__init__(text)


class Stopped(BaseException):
    """Raised inside a call that a second signal cuts short; its message is released."""


class Patience:
    """How long the next claim of a consumer waits for messages.

    Who looks for the end does not wait at first, and then longer each time that there was nothing to claim.
    """

    def __init__(self, until: Until) -> None:
        self._until = until
        self.wait = LONG_WAIT if until == "stopped" else 0  # milliseconds

    def note(self, *, found: bool) -> None:
        """A claim found messages, or none."""
        if self._until == "drained":
            self.wait = 0 if found else min(IDLE_WAIT, max(FIRST_WAIT, 2 * self.wait))


class Stop:
    """How far a worker's end has come.

    Attributes:
        finishing: nothing new begins.
        cancelling: what runs is cut short.
        giving_up: what Redis does not answer by now is not tried again.
        broken: it ends because something in it broke off.
    """

    def __init__(self) -> None:
        self.finishing = threading.Event()
        self.cancelling = threading.Event()
        self.giving_up = threading.Event()
        self.broken = False

    def break_off(self) -> None:
        """A part of it cannot go on."""
        self.broken = True
        self.finishing.set()

    def signal(self) -> None:
        """The first time finish, the second time cancel."""
        if self.finishing.is_set():
            self.cancelling.set()
        self.finishing.set()


@contextmanager
def heeding_signals(stop: Stop, log: logging.Logger) -> Generator[None]:
    """Pass SIGTERM and SIGINT on to a stop meanwhile, where this is the main thread."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        del frame
        stop.signal()
        doing = "cancelling what runs" if stop.cancelling.is_set() else "finishing what has begun"
        log.info("%s: %s", signal.Signals(number).name, doing)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, on_signal) for number in SIGNALS}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
