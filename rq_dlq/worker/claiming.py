"""The next claim of a consumer: its size, how long it waits, and whether it may take a suspect.

A suspect may have killed its worker (lua/judge.lua). A process runs one at a time, beside other messages;
these may kill the process in their own first delivery, and charge the suspect once for each such killer.

- *The permit is taken for a claim, not for a suspect.* A claim may return a suspect, so of the consumers of a
  process only one at a time claims with the permit. It keeps the permit only if a suspect came, until that is
  settled.
- *A claim that is repeated after an error* (I12) may have been made with a permit that was given up, or
  without a worker. Suspects in it are released.
- *Nothing is written while handlers run.* To record each message at its start cost more than the rest of a
  worker, and charged everything that ran beside a killer.
- *Claims ahead* are bounded by time, the messages that can begin within 0.1 s, and by 250 messages: with 100
  each message of a handler that takes 0.1 ms or less costs 4 % more, with 500 no less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rq_dlq.core.claiming import claim

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from rq_dlq.values.leased import Leased
    from rq_dlq.worker.stopping import Until

LONG_WAIT = 60_000  # the longest wait of a claim, milliseconds; a stop ends it
FIRST_WAIT, IDLE_WAIT = 10, 1_000  # the shortest and the longest wait for a queue to drain, milliseconds
BURST_WAIT = 250  # the longest wait of a burst, milliseconds
FIRST_PAUSE = 0.02  # seconds until the next claim, after a claim that found only suspects
LONGEST_PAUSE = 0.25


@dataclass
class Pace:
    """Measures how long calls take, so that a consumer claims only messages that it can start soon.

    Another consumer could run a message that waits in this one.
    """

    soon: float = 0.1  # seconds within which the last message of a claim should start
    most: int = 250  # messages in one claim
    at_once: int = 1  # concurrent calls
    _usual: float | None = None  # seconds, a moving average

    def note(self, seconds: float, calls: int = 1) -> None:
        """Note the time that this many calls took, including the work between them."""
        known = self._usual
        self._usual = seconds if known is None else seconds + 0.75**calls * (known - seconds)

    @property
    def claim(self) -> int:
        """The number of messages to claim when no call runs."""
        return max(1, self.ahead)

    @property
    def ahead(self) -> int:
        """The number of messages that may wait for a call."""
        if self._usual is None:
            return 0
        return min(self.most, int(self.soon * self.at_once / max(self._usual, 1e-6)))


class Patience:
    """How long the next claim of a consumer waits for messages.

    With until="drained" and "empty" the first claim does not wait; each empty claim makes the next one wait
    longer.
    """

    def __init__(self, until: Until) -> None:
        self._until = until
        self.wait = LONG_WAIT if until == "stopped" else 0  # milliseconds
        self._last = 0  # the last wait

    def note(self, *, found: bool) -> None:
        """Note whether a claim found messages."""
        if self._until != "stopped":
            longest = IDLE_WAIT if self._until == "drained" else BURST_WAIT
            self._last = self.wait = 0 if found else min(longest, max(FIRST_WAIT, 2 * self._last))


class Permit(claim.Permit):
    """A consumer's access to the one permit of its worker process to run a suspect.

    Args:
        only: the permit, shared by all consumers of the process.

    Attributes:
        suspect: the suspect that is running or about to run.
        passed: the last claim found only suspects, without a permit to take one.
        pause: seconds to wait before the next claim if `passed`.
    """

    def __init__(self, only: threading.Lock) -> None:
        self._only = only
        self._held = False
        self.suspect: Leased[Any] | None = None
        self.pause = FIRST_PAUSE
        self.passed = False

    def take(self) -> bool:
        """Try to take the permit for the next claim; returns whether that claim may take a suspect."""
        if self.suspect is not None:
            return False
        self._held = self._held or self._only.acquire(blocking=False)
        return self._held

    def note(self, suspect: Leased[Any] | None, *, passed: bool = False) -> None:
        """Note the result of that claim.

        Args:
            suspect: the suspect that the claim took.
            passed: the claim found only suspects, and could not take one.
        """
        self.pause = min(2 * self.pause, LONGEST_PAUSE) if passed and self.passed else FIRST_PAUSE
        self.passed = passed
        if self.suspect is None:
            self.suspect = suspect
            if suspect is None:
                self._give_back()

    def end(self) -> None:
        """Return the permit, after the suspect (if there was one) has been settled."""
        if self.suspect is not None:
            held, self._held = self._held, False  # first: the next claim may run in another thread
            self.suspect = None
            if held:
                self._only.release()

    def end_of(self, deliveries: Sequence[Leased[Any]]) -> None:
        """Return the permit if its suspect is one of these, which were released or lost."""
        if self.suspect is not None and self.suspect in deliveries:
            self.end()

    def wait(self) -> None:
        """Wait until the next claim may take a suspect, or until the pause ends."""
        self._held = self._held or self._only.acquire(timeout=self.pause)

    def _give_back(self) -> None:
        if self._held:
            self._held = False
            self._only.release()
