"""Types `rq-dlq …`, shows what it says, and how long each step took."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[3]
MOST_LINES = 14  # of an output that are shown


class WentWrongError(Exception):
    """A command did not do what the walk expects."""


@dataclass
class Step:
    """A part of a walk.

    Attributes:
        clicked: what was clicked in it, in a browser.
    """

    what: str
    clicked: list[str]
    seconds: float = 0.0


@dataclass
class Walk:
    """One walk.

    Attributes:
        env: what the commands run with, beside our own environment.
    """

    env: Mapping[str, str]
    console: Console = field(default_factory=lambda: Console(highlight=False, soft_wrap=True))
    steps: list[Step] = field(default_factory=list[Step])

    @contextmanager
    def step(self, what: str, clicked: list[str] | None = None) -> Iterator[None]:
        """Measure a step.

        Args:
            clicked: what is clicked in it, in a browser.
        """
        self.console.print(f"\n[bold]{what}[/bold]")
        step, began = Step(what, [] if clicked is None else clicked), time.perf_counter()
        yield
        step.seconds = time.perf_counter() - began
        self.steps.append(step)
        self.console.print(f"[dim]{step.seconds:.1f} s[/dim]")

    def start(self, *words: str, quiet: bool = False) -> subprocess.Popen[str]:
        """Start `rq-dlq` with these words."""
        self.console.print(f"$ rq-dlq {' '.join(words)}", markup=False)
        out = subprocess.DEVNULL if quiet else subprocess.PIPE
        return subprocess.Popen(
            [sys.executable, "-m", "rq_dlq", *words],
            cwd=ROOT, env={**os.environ, **self.env}, stdout=out, stderr=out, text=True,
        )  # fmt: skip

    def __call__(self, *words: str, code: int = 0, most: int = MOST_LINES) -> str:
        """Run it to its end; what it wrote to stdout.

        Args:
            code: the exit code that it has to have.
            most: lines that are shown.

        Raises:
            WentWrongError: its exit code is another.
        """
        with self.start(*words) as process:
            out, err = process.communicate()
        if process.returncode != code:
            raise WentWrongError(f"exit code {process.returncode} in place of {code}: {err}")
        lines = [line.rstrip() for line in f"{out}{err}".splitlines()]
        more = [f"… {len(lines) - most:,} lines more"] if len(lines) > most else []
        for line in [*lines[:most], *more]:
            self.console.print(f"  {line}", markup=False)
        return out

    @contextmanager
    def beside(self, *words: str) -> Iterator[None]:
        """Run it beside the walk, and end it on leaving."""
        with self.start(*words, quiet=True) as process:
            try:
                yield
            finally:
                process.terminate()

    def check_time(self, longest: float) -> None:
        """Check that all steps together took no longer than so many seconds.

        Raises:
            WentWrongError: they did.
        """
        if (seconds := sum(step.seconds for step in self.steps)) > longest:
            raise WentWrongError(f"it took {seconds:.0f} s, and may take {longest:.0f}")

    def summary(self) -> None:
        """Show how long each step took, and all of them up to there."""
        table = Table(box=None, pad_edge=False, header_style="dim")
        clicks = any(step.clicked for step in self.steps)
        for name in ("step", "clicked") if clicks else ("step",):
            table.add_column(name)
        table.add_column("seconds", justify="right")
        table.add_column("total", justify="right")
        total = 0.0
        for step in self.steps:
            total += step.seconds
            words = (step.what, ", ".join(step.clicked)) if clicks else (step.what,)
            table.add_row(*words, f"{step.seconds:.1f}", f"{total:.1f}")
        self.console.print(table)
