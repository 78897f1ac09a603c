"""How many messages a consumer claims at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Pace:
    """Measures how long calls take, so that a consumer claims only what it can start soon.

    A message that waits in one consumer could run in another.
    """

    soon: float = 0.1  # seconds within which the last of a claim is to start
    most: int = 100
    _usual: float | None = None  # seconds, a moving average

    def note(self, seconds: float) -> None:
        """Note how long a call took."""
        known = self._usual
        self._usual = seconds if known is None else known + 0.2 * (seconds - known)

    @property
    def claim(self) -> int:
        """The number of messages to claim."""
        if self._usual is None:
            return 1
        return max(1, min(self.most, int(self.soon / max(self._usual, 1e-6))))
