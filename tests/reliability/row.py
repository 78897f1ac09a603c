"""A row: a fault, what must hold under it, and the function that makes its trials."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from rich.progress import Progress, TaskID

T = TypeVar("T")
Scale = Literal["short", "whole", "soak"]
SCALES: tuple[Scale, ...] = ("short", "whole", "soak")


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """What came of a row. None: the row does not count this.

    Attributes:
        trials: how often the fault happened: kills, cuts, stops, transitions, calls.
        acknowledged: messages of which their sender was told that they are in the queue.
        lost: of them, those that are nowhere.
        duplicated: deliveries of a message beyond its first.
        recovered: sends of unknown outcome that turned out done.
        early: deliveries before their time, by the server's clock.
        met: whether the goal was reached, all of it.
        note: what else was counted, a line.
    """

    trials: int
    acknowledged: int | None = None
    lost: int | None = None
    duplicated: int | None = None
    recovered: int | None = None
    early: int | None = None
    met: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one row.

    Attributes:
        seed: what is drawn follows from it.
        directory: empty, for servers, journals and the like.
    """

    scale: Scale
    seed: int
    directory: Path
    progress: Progress
    task: TaskID
    random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "random", random.Random(self.seed))

    def pick(self, *, short: T, whole: T, soak: T | None = None) -> T:
        """What the scale asks for; a soak takes the whole where it has nothing of its own."""
        if self.scale == "short":
            return short
        return whole if self.scale == "whole" or soak is None else soak

    def done(self, part: float, of: float = 1, what: str = "") -> None:
        """Show how far it has come."""
        self.progress.update(self.task, completed=part, total=of, what=what)


def nothing_missing() -> str:
    """It runs everywhere."""
    return ""


@dataclass(frozen=True, slots=True)
class Row:
    """What is tried, and what is promised.

    Attributes:
        name: as in T5.
        fault: what goes wrong, and under which load.
        goal: what must hold, with its numbers.
        run: makes the trials; raises only where the harness itself is at fault.
        missing: why it cannot be run here; empty where it can.
        unbuilt: there is nothing yet that could be tried.
    """

    name: str
    fault: str
    goal: str
    run: Callable[[Run], Figures]
    missing: Callable[[], str] = nothing_missing
    unbuilt: bool = False

    @property
    def number(self) -> int:
        """Its place in the table."""
        return int(self.name[1:])
