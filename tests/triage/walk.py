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

ROOT = Path(__file__).parents[2]
MOST_LINES = 14  # of an output that are shown


class WentWrongError(Exception):
    """A command did not do what the walk expects."""


@dataclass
class Walk:
    """One walk.

    Attributes:
        env: what the commands run with, beside our own environment.
        times: seconds by step.
    """

    env: Mapping[str, str]
    console: Console = field(default_factory=lambda: Console(highlight=False, soft_wrap=True))
    times: dict[str, float] = field(default_factory=dict[str, float])

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Measure a step."""
        self.console.print(f"\n[bold]{what}[/bold]")
        began = time.perf_counter()
        yield
        self.times[what] = time.perf_counter() - began
        self.console.print(f"[dim]{self.times[what]:.1f} s[/dim]")

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

    def summary(self) -> None:
        """Show how long each step took."""
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("step")
        table.add_column("seconds", justify="right")
        for what, seconds in self.times.items():
            table.add_row(what, f"{seconds:.1f}")
        table.add_row("all", f"{sum(self.times.values()):.1f}", style="bold")
        self.console.print(table)
