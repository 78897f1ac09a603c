"""Detects calls that block the event loop, from the worker's thread.

A blocked loop extends no leases, so the worker's thread does (`leases`), when the loop has not turned for
0.2 s. It sees which task runs there, so the log has a name. That ends with the handler's timeout, or after
ten leases: a call that never ends must not keep its messages forever, so the process is unhealthy then. Each
call that begins is a turn.
"""

from __future__ import annotations

import asyncio
import time
from math import inf
from typing import TYPE_CHECKING, Any

from rq_dlq.worker.tally import logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    NameOf = Callable[[asyncio.Task[Any]], str]

LATE = 0.2  # seconds without an iteration until the worker's thread takes over from the event loop
NOTED_AFTER = 1.0  # seconds without an iteration until it is logged
ADVICE = "use def, or asyncio.to_thread"


class EventLoopWatch:
    """Watches how long the event loop of the async handlers has been blocked, and by which call.

    Args:
        loop: the event loop, which another thread runs.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._turned = inf  # monotonic seconds; infinite: it is not watched
        self._blocked_since = 0.0  # monotonic seconds; 0: it is not blocked
        self._blocker = ""

    def turn(self, now: float) -> None:
        """Note that it begins an iteration or a call now (monotonic seconds); inf: do not watch it."""
        self._turned = now

    @property
    def blocked(self) -> float:
        """Seconds since the last `turn`; below 0: it is not watched."""
        return time.monotonic() - self._turned

    def look(self, names: Iterable[NameOf]) -> None:
        """Log a blocking call once, and when it has ended, how long it blocked.

        Args:
            names: a function of each async consumer that names the call of a task; empty: not its call.
        """
        turned, blocked = self._turned, self.blocked
        if self._blocked_since and turned not in {self._blocked_since, inf}:
            line = "the event loop was blocked for %.0f s by %s: %s"
            logger.warning(line, turned - self._blocked_since, self._blocker, ADVICE)
            self._blocked_since = 0.0
        if not self._blocked_since and blocked > NOTED_AFTER and turned == self._turned:
            self._blocked_since, self._blocker = turned, self._name(names)
            logger.warning("the event loop is blocked by %s: %s", self._blocker, ADVICE)

    def _name(self, names: Iterable[NameOf]) -> str:
        """The blocking call, or other code that blocks."""
        task = asyncio.current_task(self._loop)
        if task is None:
            return "a callback"
        known = next(filter(None, (name_of(task) for name_of in names)), "")
        return known or str(getattr(task.get_coro(), "__qualname__", task.get_name()))
