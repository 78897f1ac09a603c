"""T30: forks after use, threads, cancellation at random points; nobody is told what another asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.proofs.reliability.findings import first
from tests.proofs.reliability.row import Figures, Row, Run

ROOT = Path(__file__).parents[4]


def program(name: str, *options: str) -> dict[str, Any]:
    """What a program of this package printed; an error of it is one of the harness."""
    command = [sys.executable, "-m", f"tests.proofs.reliability.{name}", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        message = f"{' '.join(command[2:])} ended with {done.returncode}: {done.stderr[-2_000:]}"
        raise RuntimeError(message)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def run(run: Run) -> Figures:
    """Fork and cancel, side by side."""
    forks, cancels = run.pick(short=(7, 200), whole=(40, 10_000), soak=(1_000, 200_000))
    options = ("--seed", str(run.seed), "--cluster" if run.clustered else "--one-server")
    with ThreadPoolExecutor() as threads:
        forking = threads.submit(program, "forked", "--forks", str(forks), *options)
        cancelled = program("cancelled", "--cancels", str(cancels), *options)
        forked = forking.result()
    wrong = [*forked["wrong"], *cancelled["wrong"]]
    notes = [
        f"{forked['forks']} children of calling threads, connecting ones, event loops, after a lost claim",
        f"{cancelled['cancels']:,} cancelled calls in {cancelled['lives']:,} lives of messages",
        f"{cancelled['unknown']:,} repeated, since their outcome was not known",
    ]
    return Figures(
        trials=forked["forks"] + cancelled["cancels"],
        met=not wrong and forked["forks"] >= forks and cancelled["cancels"] >= cancels,
        note="; ".join((*first(wrong), *notes)),
    )


ROWS = (
    Row(
        "T30",
        "forks after use, threads, cancellation at random points",
        "40 forks, 10,000 cancels: 0 wrong replies, nothing leaks",
        run,
        on_nodes="callers have queues on all, and know one of them by its URL",
    ),
)
