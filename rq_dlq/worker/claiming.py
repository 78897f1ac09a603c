"""A consumer's next claim: how many messages, how long it waits, whether it may take a suspect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from rq_dlq.values.leased import Leased
    from rq_dlq.worker.stopping import Until

LONG_WAIT = 60_000  # milliseconds of a waiting claim; a stop cuts it short
FIRST_WAIT, IDLE_WAIT = 10, 1_000  # milliseconds, the shortest and the longest wait for a queue to drain
FIRST_PAUSE = 0.02  # seconds before a consumer claims again after it found only suspects
LONGEST_PAUSE = 0.25


@dataclass
class Pace:
    """Measures how long calls take, so that a consumer claims only what it can start soon.

    A message that waits in one consumer could run in another.
    """

    soon: float = 0.1  # seconds within which the last of a claim is to start
    most: int = 250  # messages in one claim
    at_once: int = 1  # calls side by side
    _usual: float | None = None  # seconds, a moving average

    def note(self, seconds: float, calls: int = 1) -> None:
        """Note how long so many calls took, each, with what was done for them in between."""
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

    Until the queue is drained the first claim does not wait; each claim that finds nothing makes the next one
    wait longer.
    """

    def __init__(self, until: Until) -> None:
        self._until = until
        self.wait = LONG_WAIT if until == "stopped" else 0  # milliseconds

    def note(self, *, found: bool) -> None:
        """Note whether a claim found messages."""
        if self._until == "drained":
            self.wait = 0 if found else min(IDLE_WAIT, max(FIRST_WAIT, 2 * self.wait))


class Permit:
    """A consumer's access to the one permit of its worker process to run a suspect.

    A suspect is a message whose lease lapsed before, perhaps because it killed its worker. Suspects run one
    at a time: if one kills the process, no other is charged for it. The permit is taken for each claim, since
    a claim may return a suspect. It is kept until that suspect is settled.

    Args:
        only: the permit, shared by all consumers of the process.

    Attributes:
        suspect: the one that runs, or is about to.
        passed: the last claim found only suspects, and had no permit to take one.
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
            suspect: the suspect that it took.
            passed: it found only suspects, and could take none.
        """
        self.pause = min(2 * self.pause, LONGEST_PAUSE) if passed and self.passed else FIRST_PAUSE
        self.passed = passed
        if self.suspect is None:
            self.suspect = suspect
            if suspect is None:
                self._give_back()

    def end(self) -> None:
        """Return the permit: the suspect, if there was one, is settled."""
        if self.suspect is not None:
            held, self._held = self._held, False  # first, or the next claim, in another thread, may keep it
            self.suspect = None
            if held:
                self._only.release()

    def end_of(self, deliveries: Sequence[Leased[Any]]) -> None:
        """Return the permit if its suspect is one of these, which were released or lost."""
        if self.suspect is not None and self.suspect in deliveries:
            self.end()

    def wait(self) -> None:
        """Wait until the next claim may take a suspect, or until the pause is over."""
        self._held = self._held or self._only.acquire(timeout=self.pause)

    def _give_back(self) -> None:
        if self._held:
            self._held = False
            self._only.release()
