"""A server's clock for tests, in place of lua/clock.lua."""

from __future__ import annotations

from typing import Any

from rq_dlq._scripts import Joined
from rq_dlq.values.durations import Duration, milliseconds

CLOCK = "rq_dlq:test:now"


def moved_clock(key: str) -> Joined:
    """The verbs, with the time stored in this key."""
    return Joined({"clock": f"function Clock.read()\n  return tonumber(redis.call('GET', '{key}'))\nend\n"})


MOVED_CLOCK = moved_clock(CLOCK)


class Clock:
    """The clock of a server, for the verbs `MOVED_CLOCK`. It only moves when it is set.

    Args:
        raw: a plain client of the server.
        now: the initial time, milliseconds.
        key: the key of the time, for other verbs (`moved_clock`).
    """

    def __init__(self, raw: Any, now: int = 1_790_000_000_000, key: str = CLOCK) -> None:
        self._raw = raw
        self._key = key
        self.set(now)

    def set(self, now: int) -> None:
        """Set the time, milliseconds."""
        self.now = now
        self._raw.set(self._key, now)

    def advance(self, span: Duration) -> None:
        """Advance the time.

        Raises:
            InvalidDuration: it is not a duration.
        """
        self.set(self.now + milliseconds(span, name="span"))
