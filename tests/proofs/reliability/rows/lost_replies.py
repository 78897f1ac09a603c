"""T6: a network that loses calls and replies; redis-py 5 to 8, and every way to come by a broker (I12)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rq_dlq.client.settings import version_of
from tests.connections.sources import ways
from tests.connections.versions import environment, others
from tests.proofs.reliability.findings import first
from tests.proofs.reliability.program import server_version
from tests.proofs.reliability.row import CORES, Figures, Row, Run

ROOT = Path(__file__).parents[4]
COLOURS = ("blocking", "awaiting")
PARTS = 4  # programs in each colour that share the work on the installed redis-py


@dataclass
class Told:
    """What the programs told, added up.

    Attributes:
        lives: by the version of redis-py.
        unknown: calls that ended without a known outcome, and were repeated.
    """

    lives: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    unknown: int = 0
    wrong: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        """What one of them printed."""
        one = json.loads(text)
        version = one["redis-py"]
        self.lives[version] += one["calls"]["nack"]
        self.calls.update(one["calls"])
        self.faults.update(one["faults"])
        self.acknowledged += one["acknowledged"]
        self.unknown += one["unknown"]
        self.wrong += [f"redis-py {version}: {fault}" for fault in one["wrong"]]


@dataclass(frozen=True)
class Program:
    """One run of `lossy`."""

    arguments: tuple[str, ...]
    lives: int
    seed: int
    environment: Mapping[str, str]

    def run(self) -> str:
        """What it printed; an error is an error of the harness."""
        command = [sys.executable, "-m", "tests.proofs.reliability.lossy", *self.arguments]
        command += ["--lives", str(self.lives), "--seed", str(self.seed)]
        done = subprocess.run(
            command, cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            message = f"{' '.join(command[2:])} ended with {done.returncode}: {done.stderr[-2_000:]}"
            raise RuntimeError(message)
        return done.stdout


def programs(run: Run) -> list[Program]:
    """The whole work: most of it on the redis-py that is installed, some on the others."""
    lives, in_cluster, elsewhere = run.pick(
        short=(24, 12, 0), whole=(8_600, 600, 100), soak=(90_000, 6_000, 1_000)
    )
    parts = run.pick(short=1, whole=PARTS)
    # Before Redis 7 a node cannot be told while it runs that it is behind a network.
    modern = version_of(server_version().removeprefix("Redis ")) >= (7,)
    places: list[list[str]] = [[], ["--cluster"] if modern else []]

    def some(
        environment: Mapping[str, str], places: Sequence[Sequence[str]], lives: int
    ) -> Iterator[Program]:
        for colour in COLOURS:
            for place in places:
                share = lives // len(COLOURS) // len(places)
                yield Program((colour, *place), share, run.random.randrange(1 << 31), environment)

    here = dict(os.environ)
    found = [*some(here, places[:1] * parts, lives), *some(here, places[1:], in_cluster)]
    for version in others() if elsewhere else ():
        found += some(with_redis_py(version, run.directory), places, 2 * elsewhere)
    return found


def with_redis_py(version: str, directory: Path) -> dict[str, str]:
    """The environment of a program that finds this version; where it cannot be had the row is skipped."""
    try:
        return environment(version, directory / version.strip(".*"))
    except RuntimeError as error:
        pytest.skip(str(error))


def run(run: Run) -> Figures:
    """Have messages live over such a network."""
    told = Told()
    work = programs(run)
    with ThreadPoolExecutor(CORES) as threads:
        for number, text in enumerate(threads.map(Program.run, work), start=1):
            told.add(text)
            run.done(number, len(work), f"{sum(told.lives.values()):,} lives")
    faults = told.faults.total() - told.faults["passed"]
    share = faults / told.faults.total()
    verbs = {verb: count for verb, count in told.calls.items() if count}
    enough = min(verbs.values()) >= run.pick(short=24, whole=10_000)
    versions = ", ".join(f"{version} ({lives:,})" for version, lives in sorted(told.lives.items()))
    clustered = any("--cluster" in program.arguments for program in work)
    notes = [
        f"{min(verbs.values()):,} to {max(verbs.values()):,} calls of each of {len(verbs)} verbs",
        f"{told.unknown:,} repeated, since their outcome was not known",
        f"{len(ways('blocking'))} ways to a broker in both colours{', and a cluster' if clustered else ''}",
        f"{share:.0%} of exchanges lost",
        f"redis-py {versions}",
    ]
    return Figures(
        trials=faults,
        acknowledged=told.acknowledged,
        met=enough and not told.wrong and share > 0.25,
        note="; ".join((*first(told.wrong), *notes)),
    )


ROWS = (
    Row(
        "T6",
        "lost reply, reset, black hole at 30 % of calls; 17 verbs, redis-py 5 to 8, every way to a broker",
        "10,000 calls of each verb applied exactly once, 0 leaked leases",
        run,
    ),
)
