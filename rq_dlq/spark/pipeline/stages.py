"""How a run tells where it is; this says nothing, `show` has one for terminals."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


class Stage:
    """One step of a run."""

    def expect(self, total: int) -> None:
        """How much there is to do."""

    def advance(self, count: int) -> None:
        """So much more is done."""

    def say(self, text: str) -> None:
        """What came of it."""


class Stages:
    """The steps of a run."""

    @contextmanager
    def stage(self, name: str) -> Generator[Stage]:
        """One step, while it lasts."""
        del name
        yield Stage()
