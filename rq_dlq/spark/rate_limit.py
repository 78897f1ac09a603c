"""Limits work to a rate."""

from __future__ import annotations

import time

STEPS = 5  # in a second


class RateLimit:
    """Keeps work to a rate.

    Args:
        rate: messages per second; 0: no limit.
        most: the most messages in one step.
    """

    def __init__(self, rate: float, most: int) -> None:
        self._rate = rate
        self._due = time.monotonic()  # when the next step may begin
        self.chunk = min(most, max(1, int(rate) // STEPS)) if rate else most

    def note(self, count: int) -> None:
        """Count messages as done, and sleep if they were done too fast. A second is made up for."""
        if self._rate:
            self._due = max(self._due, time.monotonic() - 1) + count / self._rate
            time.sleep(max(0.0, self._due - time.monotonic()))
