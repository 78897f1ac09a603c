"""A row: a fault, what must hold under it, and the function that makes its trials."""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeVar

from rich.progress import Progress, TaskID

from tests.proofs.reliability.site import Site, opened
from tests.servers import NO_SERVER, binary

T = TypeVar("T")
Scale = Literal["short", "whole", "soak"]
CORES = 2
CLUSTERED = "c"  # ends the name of a row whose site is a cluster
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
        clustered: its servers are the nodes of a cluster.
    """

    scale: Scale
    seed: int
    directory: Path
    progress: Progress
    task: TaskID
    clustered: bool = False
    random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "random", random.Random(self.seed))

    def pick(self, *, short: T, whole: T, soak: T | None = None) -> T:
        """What the scale asks for; a soak takes the whole where it has nothing of its own."""
        if self.scale == "short":
            return short
        return whole if self.scale == "whole" or soak is None else soak

    def site(self, *options: str, name: str = "redis") -> AbstractContextManager[Site]:
        """Servers: one, or those of a cluster, all with these options; in a directory of this name."""
        return opened(self.directory / name, *options, clustered=self.clustered)

    def in_processes(
        self,
        act: Callable[..., T],
        tasks: Sequence[tuple[object, ...]],
        what: Callable[[list[T]], str] = lambda _: "",
    ) -> list[T]:
        """Do all tasks, a process each and as many at a time as there are cores; what came of them, in order.

        Args:
            tasks: the arguments of each.
            what: is shown of those that are done.
        """
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(CORES, mp_context=context) as pool:
            running = [pool.submit(act, *task) for task in tasks]
            for n, _ in enumerate(as_completed(running), 1):
                self.done(n, len(running), what([task.result() for task in running if task.done()]))
        return [task.result() for task in running]

    def done(self, part: float, of: float = 1, what: str = "") -> None:
        """Show how far it has come."""
        self.progress.update(self.task, completed=part, total=of, what=what)


def no_redis() -> str:
    """Why no server can be started; empty where one can."""
    return "" if binary() else NO_SERVER


@dataclass(frozen=True, slots=True)
class Row:
    """What is tried, and what is promised.

    Attributes:
        name: as in T5; K5 and K7 are of keys (docs/keys.md), K6 of outages (docs/outages.md).
        fault: what goes wrong, and under which load.
        goal: what must hold, with its numbers.
        run: makes the trials; raises only where the harness itself is at fault.
        missing: why it cannot be run here; empty where it can. As a rule for want of a server.
        unbuilt: there is nothing yet that could be tried.
        on_nodes: what is on the nodes where its site is a cluster; empty: it has no trials there.
        clustered: it is the row of these trials.
    """

    name: str
    fault: str
    goal: str
    run: Callable[[Run], Figures]
    missing: Callable[[], str] = no_redis
    unbuilt: bool = False
    on_nodes: str = ""
    clustered: bool = False

    @property
    def number(self) -> int:
        """Its place in the table."""
        return int(self.name[1:].removesuffix(CLUSTERED)) + (1_000 if self.name.startswith("K") else 0)

    def twins(self) -> list[Row]:
        """The row, and the one of the same trials on a cluster."""
        name, fault = f"{self.name}{CLUSTERED}", f"{self.name} on a cluster of 3 nodes: {self.on_nodes}"
        return [self, *([replace(self, name=name, fault=fault, clustered=True)] if self.on_nodes else ())]
