"""Limits work to a rate."""

from __future__ import annotations

import time

STEPS = 5  # in a second


class Pace:
    """Keeps work to a rate.

    Args:
        rate: messages per second; 0: no limit.
        most: the most messages in one step.
    """

    def __init__(self, rate: int, most: int) -> None:
        self._rate = rate
        self._began = time.monotonic()
        self._done = 0
        self.chunk = min(most, max(1, rate // STEPS)) if rate else most

    def note(self, count: int) -> None:
        """Count messages as done, and sleep if they were done too fast."""
        self._done += count
        if self._rate:
            ahead = self._done / self._rate - (time.monotonic() - self._began)
            if ahead > 0:
                time.sleep(ahead)
