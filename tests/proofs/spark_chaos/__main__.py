"""Kill what can be killed under Spark, and count.

    python -m tests.proofs.spark_chaos                      all scenarios: half an hour
    python -m tests.proofs.spark_chaos driver-points lapse  some of them
    python -m tests.proofs.spark_chaos --planted            each with the bugs that it has to find
    python -m tests.proofs.spark_chaos split --plant counted  with one of them

Each has a Redis and drivers of its own. Wherever the page on Spark promises it, nothing is lost and nothing
comes twice; the exit status is 1 where that is broken, or where a trial did not come about.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.proofs.spark_chaos import driver_kills, executors, outages, queries, restarts, splits, write_kills
from tests.proofs.spark_chaos.count import NOTHING, Tally
from tests.proofs.spark_chaos.planted import PLANTS
from tests.proofs.spark_chaos.world import PATIENCE, BrokenError, TooLateError, world

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.proofs.spark_chaos.scenario import Scenario

SCENARIOS = {
    each.name: each
    for family in (driver_kills, write_kills, queries, outages, executors, splits, restarts)
    for each in family.SCENARIOS
}
MINUTES = 45.0
OVER = "not begun: the time was over"
WIDTH = 120  # columns, where it is no terminal


@dataclass(frozen=True, slots=True)
class Result:
    """How a scenario ended.

    Attributes:
        trouble: what went wrong beside the counts; empty: nothing.
        late: that is only that something did not come about in time.
    """

    scenario: Scenario
    trials: int
    tally: Tally
    seconds: float
    trouble: str = ""
    late: bool = False

    @property
    def kept(self) -> bool:
        """Whether the promise was."""
        return not (self.tally.lost or self.tally.duplicated or self.trouble)

    @property
    def broken(self) -> bool:
        """Whether it was tried, and the promise was broken."""
        return not self.kept and self.trouble != OVER

    @property
    def line(self) -> str:
        """It in a sentence."""
        tally = self.tally
        return (
            f"{'kept  ' if self.kept else 'BROKEN'} {self.scenario.name}: {self.trials} trials, "
            f"{tally.sent:,} sent, {tally.lost} lost, {tally.duplicated} duplicated, {self.seconds:.0f} s"
        )


def tried(scenario: Scenario, seed: int, progress: Progress) -> Result:
    """Make its trials, telling each as it ends."""
    task = progress.add_task(f"{scenario.name}: {scenario.what}", total=None)
    began = time.monotonic()

    def told(sentence: str) -> None:
        progress.console.print(
            f"       {scenario.name} {time.monotonic() - began:4.0f} s  {sentence}", style="dim"
        )

    trouble, late, made = "", False, None
    try:
        with world(told, seed, *scenario.redis) as made:
            scenario.run(made)
    except BrokenError as error:
        trouble, late = str(error), isinstance(error, TooLateError)
    except Exception:  # noqa: BLE001 - the others are still to come
        trouble = traceback.format_exc()
    finally:
        progress.remove_task(task)
    seconds = time.monotonic() - began
    if made is None:
        return Result(scenario, 0, NOTHING, seconds, trouble)
    return Result(scenario, made.trials, made.tally, seconds, trouble, late)


@dataclass(frozen=True, slots=True)
class Campaign:
    """Scenarios, one after the other.

    Attributes:
        ends: no scenario begins later, by the monotonic clock.
    """

    console: Console
    seed: int
    ends: float

    def run(self, rows: Sequence[tuple[str, str]]) -> list[Result]:
        """Make the trials of each, with the bug beside it; empty: none."""
        results: list[Result] = []
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=self.console, transient=True) as progress:
            for name, bug in rows:
                os.environ["CHAOS_PLANT"] = bug
                if time.monotonic() > self.ends:
                    result = Result(SCENARIOS[name], 0, NOTHING, 0, OVER)
                else:
                    result = tried(SCENARIOS[name], self.seed, progress)
                results.append(result)
                style = "" if result.kept == (not bug) else "bold red"
                self.console.print(f"{bug}: " * bool(bug) + result.line, style=style)
                if result.trouble:
                    self.console.print(
                        result.trouble, style="" if bug else "red", markup=False, highlight=False
                    )
        return results


def show(results: Sequence[Result], console: Console) -> None:
    """The table at the end."""
    table = Table(title="Chaos under Spark")
    for name in ("scenario", "trials", "sent", "lost", "duplicated", "seconds"):
        table.add_column(name, justify="left" if name == "scenario" else "right", no_wrap=True)
    table.add_column("promised: 0 lost, 0 duplicated;")
    for each in results:
        tally = each.tally
        counts = [f"{n:,}" for n in (each.trials, tally.sent, tally.lost, tally.duplicated)]
        style = "" if each.kept else "bold red"
        promised = ", ".join(filter(None, (each.scenario.what, each.scenario.promise)))
        table.add_row(each.scenario.name, *counts, f"{each.seconds:.0f}", promised, style=style)
    console.print(table)


def missed(rows: Sequence[tuple[str, str]], results: Sequence[Result], console: Console) -> list[str]:
    """The bugs that were not found; tell them, and those that only took too long, as on a busy machine."""
    pairs = [(f"{bug} in {name}", each) for (name, bug), each in zip(rows, results, strict=True)]
    hidden = [pair for pair, each in pairs if not each.broken]
    console.print(f"{len(rows)} bugs; missed: {', '.join(hidden) or 'none'}")
    if late := [pair for pair, each in pairs if each.late]:
        console.print(f"by a wait in vain alone, so maybe only slow: {', '.join(late)}")
    return hidden


def main(arguments: Sequence[str] | None = None) -> int:
    """Run scenarios; 0 where all promises were kept."""
    parser = argparse.ArgumentParser(
        "python -m tests.proofs.spark_chaos", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="no scenario begins later")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds for whatever a driver does")
    parser.add_argument("--plant", choices=sorted(PLANTS), default="", help="a bug into drivers and tasks")
    parser.add_argument("--planted", action="store_true", help="each bug, into the rows that have to find it")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that drivers and servers are ended, too
    if strange := [name for name in given.scenarios if name not in SCENARIOS]:
        parser.error(f"no such scenario: {', '.join(strange)}. There are {', '.join(SCENARIOS)}")
    os.environ["CHAOS_PATIENCE"] = str(given.patience)
    console, began = Console(width=None if sys.stdout.isatty() else WIDTH), time.monotonic()
    campaign = Campaign(console, given.seed, began + given.minutes * 60)
    rows = [(name, given.plant) for name in given.scenarios or SCENARIOS]
    if given.planted:
        rows = [(name, bug) for bug, plant in PLANTS.items() for name in plant.rows if name in dict(rows)]
    results = campaign.run(rows)
    show(results, console)
    console.print(f"{(time.monotonic() - began) / 60:.1f} minutes, seed {given.seed}")
    if given.planted:
        return 1 if missed(rows, results, console) else 0
    return 0 if all(each.kept for each in results) else 1


if __name__ == "__main__":
    sys.exit(main())
