"""Reports the progress of a run. These classes report nothing; `show` has those for terminals."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager


class Stage:
    """One step of a run."""

    def expect(self, total: int) -> None:
        """Set the total amount of work."""

    def advance(self, count: int) -> None:
        """Add to the amount done."""

    def say(self, text: str) -> None:
        """Report the result."""


class Stages:
    """The steps of a run."""

    @contextmanager
    def stage(self, name: str) -> Generator[Stage]:
        """Report one step while it lasts."""
        del name
        yield Stage()
