"""A server's clock that is moved by hand, in place of lua/lib/now.lua: the same scripts at another time."""

from __future__ import annotations

from typing import Any

from rq_dlq._scripts import Scripts
from rq_dlq.values.durations import Duration, milliseconds

CLOCK = "rq_dlq:test:now"
MOVED_CLOCK = Scripts({"lib/now": f"-- gives: now\nlocal now = tonumber(redis.call('GET', '{CLOCK}'))\n"})


class Clock:
    """The clock of a server, for the scripts `MOVED_CLOCK`. It stands still until it is moved.

    Args:
        raw: a plain client of the server.
        now: the time at first, milliseconds.
    """

    def __init__(self, raw: Any, now: int = 1_790_000_000_000) -> None:
        self._raw = raw
        self.set(now)

    def set(self, now: int) -> None:
        """Make it this time, milliseconds."""
        self.now = now
        self._raw.set(CLOCK, now)

    def advance(self, span: Duration) -> None:
        """Let time pass.

        Raises:
            InvalidDuration: it is not a duration.
        """
        self.set(self.now + milliseconds(span, name="span"))
