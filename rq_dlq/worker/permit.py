"""The permit to run a suspect: a message whose lease lapsed before, perhaps because it killed its worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import threading

    from rq_dlq.values.message import Leased

FIRST_PAUSE = 0.02  # seconds before a consumer claims again after it found only suspects
LONGEST_PAUSE = 0.25


class Permit:
    """A consumer's access to the one permit of its worker process.

    Suspects run one at a time: if one kills the process, no other is charged for it. The permit is taken for
    each claim, since a claim may return a suspect. It is kept until that suspect is settled.

    Args:
        only: the permit, shared by all consumers of the process.

    Attributes:
        passed: the last claim found only suspects, and had no permit to take one.
        pause: seconds to wait before the next claim if `passed`.
    """

    def __init__(self, only: threading.Lock) -> None:
        self._only = only
        self._held = False
        self._suspect: Leased[Any] | None = None  # it runs, or is about to
        self.pause = FIRST_PAUSE
        self.passed = False

    def take(self) -> bool:
        """Try to take the permit for the next claim; returns whether that claim may take a suspect."""
        if self._suspect is not None:
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
        if self._suspect is None:
            self._suspect = suspect
            if suspect is None:
                self._give_back()

    def is_for(self, delivery: Leased[Any]) -> bool:
        """Whether this delivery is the suspect that runs."""
        return delivery is self._suspect

    def end(self) -> None:
        """Return the permit: the suspect, if there was one, is settled."""
        if self._suspect is not None:
            self._suspect = None
            self._give_back()

    def wait(self) -> None:
        """Wait until the next claim may take a suspect, or until the pause is over."""
        self._held = self._held or self._only.acquire(timeout=self.pause)

    def _give_back(self) -> None:
        if self._held:
            self._held = False
            self._only.release()
