"""The terminal of `rq-dlq top`: an alternate screen, keys, signals. It is restored at the end."""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

from rich.live import Live

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
SUSPEND = signal.SIGTSTP
SIGNALS = {*ENDING, SUSPEND, signal.SIGWINCH}
NEWS = 0  # not a signal: another thread has something to show


class Terminal:
    """Draws, and waits for keys, signals and readings."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._keys = sys.stdin.fileno() if sys.stdin and sys.stdin.isatty() else None
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)

    @property
    def whole(self) -> bool:
        """Whether the screen can be redrawn; otherwise each picture is printed after the last one."""
        return self._console.is_terminal and not self._console.is_dumb_terminal

    def tell(self) -> None:
        """Announce a new reading, from any thread."""
        os.write(self._wake, bytes([NEWS]))

    def wait(self) -> tuple[set[int], str]:
        """The received signals, or NEWS, and the typed keys."""
        sources = [self._woken] if self._keys is None else [self._woken, self._keys]
        ready, _, _ = select.select(sources, [], [])
        came = {*os.read(self._woken, 1024)} if self._woken in ready else set[int]()
        if self._keys not in ready or self._keys is None:
            return came, ""
        try:
            typed = os.read(self._keys, 1024)
        except OSError:  # the terminal was closed
            typed = b""
        return came if typed else {*came, signal.SIGHUP}, typed.decode(errors="ignore")

    @contextmanager
    def listening(self) -> Generator[None]:
        """Pass signals on to `wait`; a repeated SIGINT, SIGTERM or SIGHUP ends the process immediately."""

        def on_signal(number: int, _: FrameType | None) -> None:
            if number in ENDING:
                signal.signal(number, signal.SIG_DFL)

        before = {number: signal.signal(number, on_signal) for number in SIGNALS}
        wakes = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakes)
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def screen(self) -> Generator[Callable[[RenderableType], None]]:
        """A function that draws. Keys arrive one by one; the log is off if it would garble the screen."""
        settings = None if self._keys is None else termios.tcgetattr(self._keys)
        try:
            if self._keys is not None:
                tty.setcbreak(self._keys, termios.TCSANOW)
            if not self.whole:
                yield self._console.print
                return
            if sys.stderr.isatty():
                logging.disable()
            with Live(
                console=self._console,
                screen=True,
                auto_refresh=False,
                redirect_stdout=False,
                redirect_stderr=False,
            ) as live:
                yield partial(live.update, refresh=True)
        finally:
            logging.disable(logging.NOTSET)
            if settings is not None and self._keys is not None:
                termios.tcsetattr(self._keys, termios.TCSANOW, settings)
