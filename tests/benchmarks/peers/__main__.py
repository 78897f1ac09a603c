"""The same work through the queues that people use, beside this one: no work to do, 100 bytes of JSON.

Each peer is installed into an environment of its own below build/peers. Its server, its worker and its sender
share one core, this program looks on from another one. The peers take turns, each round in another order, and
only ratios of one round count.

    python -m tests.benchmarks.peers --only rq_dlq --only bullmq --messages 20000 --rounds 3

`--write` writes the tables into docs/performance.md, all figures into docs/performance.json, and the speed
into README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.benchmarks.peers import report
from tests.benchmarks.peers.imports import costs
from tests.benchmarks.peers.install import REQUIREMENTS, ROOT, US, Environment, NotHereError, installed
from tests.benchmarks.peers.measure import FailedError, Measured, Plan, measure
from tests.release import changed, trees

DOCUMENT, DATA = ROOT / "docs" / "performance.md", ROOT / "docs" / "performance.json"
README = ROOT / "README.md"
WIDTH = 200  # columns where the output is not a terminal
BEGIN, END = "<!-- peers: begin -->", "<!-- peers: end -->"


def progress(console: Console) -> Progress:
    """A bar, where this is a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, disable=not console.is_terminal)


def environments(names: Sequence[str], console: Console) -> dict[str, Environment]:
    """The peers that can be installed here; the others are named, with the reason."""
    found: dict[str, Environment] = {}
    with progress(console) as bar:
        task = bar.add_task("installing", total=len(names))
        for name in names:
            bar.update(task, description=f"installing {name}")
            try:
                found[name] = installed(name)
            except NotHereError as error:
                console.print(f"{name} is left out: {error}", markup=False)
            bar.advance(task)
    return found


def run(
    peers: dict[str, Environment], plan: Plan, rounds: int, console: Console
) -> list[dict[str, Measured]]:
    """All rounds, the peers each time in another order."""
    results: list[dict[str, Measured]] = []
    names = list(peers)
    with progress(console) as bar:
        task = bar.add_task("", total=rounds * len(names))
        for number in range(rounds):
            found: dict[str, Measured] = {}
            for name in names[number % len(names) :] + names[: number % len(names)]:
                bar.update(task, description=f"round {number + 1}, {name}")
                try:
                    found[name] = measure(peers[name], plan)
                except FailedError as error:
                    console.print(f"{name} is left out: {error}", markup=False)
                    names.remove(name)
                    for one in results:
                        one.pop(name)
                bar.advance(task)
            results.append({name: found[name] for name in peers if name in found})
    return [{name: one[name] for name in names} for one in results]


def heading(plan: Plan, rounds: int) -> str:
    """What was run, and where."""
    command = shlex.join(["python", "-m", "tests.benchmarks.peers", *sys.argv[1:]])
    cpus = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    cpu = cpus[0].partition(": ")[2] if cpus else platform.machine()
    return (
        f"`{command}`: {rounds} rounds, at most {plan.messages:,} messages and {plan.seconds:g} s a figure; "
        f"{cpu}, Python {platform.python_version()}; server, worker and sender on one core."
    )


def write(text: str, data: Any) -> None:
    """Put the tables between the marks of the document."""
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    DOCUMENT.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")
    DATA.write_text(json.dumps(data, indent=1) + "\n")


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=REQUIREMENTS, help="this peer; may be repeated")
    parser.add_argument("--messages", type=int, default=50_000, help="at most, for one figure")
    parser.add_argument("--seconds", type=float, default=0.7, help="at most, for one figure")
    parser.add_argument("--pick-ups", type=int, default=500, help="at most, of an idle worker, in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="into README and docs/performance.*")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> None:
    """Measure, print, and write."""
    chosen = arguments(given)
    if chosen.write and (left := changed(ROOT)):
        sys.exit(f"commit {' and '.join(left)} first: the figures say which trees of Git were measured")
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    cores = sorted(os.sched_getaffinity(0))
    plan = Plan(chosen.messages, chosen.seconds, chosen.pick_ups, cores[-1])
    peers = environments([name for name in REQUIREMENTS if name in (chosen.only or REQUIREMENTS)], console)
    os.sched_setaffinity(0, cores[:-1] or cores)
    rounds = run(peers, plan, chosen.rounds, console)
    spent = costs(peers) if US in peers else {}
    text = heading(plan, chosen.rounds)
    all_sheets = report.figures(rounds), report.goals(rounds), report.promises(rounds), report.imports(spent)
    sheets = [sheet for sheet in all_sheets if sheet.rows]
    console.print(text, markup=False)
    for sheet in sheets:
        console.print(sheet.rich())
    for failure in report.failures(rounds):
        console.print(failure, markup=False)
    if chosen.write:
        shown = "\n\n".join([text, *(f"{sheet.title}:\n\n{sheet.markdown()}" for sheet in sheets)])
        samples = [{n: {"figures": m.figures, "failed": m.failed} for n, m in one.items()} for one in rounds]
        about = {name: found.about for name, found in rounds[0].items()}
        told = {"command": text, "trees": trees(ROOT), "about": about, "rounds": samples, "imports": spent}
        write(shown, told)
        README.write_text(report.in_readme(README.read_text(), rounds))


if __name__ == "__main__":
    main()
