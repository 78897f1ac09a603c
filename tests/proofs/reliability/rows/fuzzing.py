"""T24: a fuzzer on every decoder and parser."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import yaml

from tests.proofs.reliability.row import CORES, Figures, Row, Run

ROOT = Path(__file__).parents[4]
SEEDS = Path(__file__).parents[1] / "data" / "seeds.yaml"
LONGEST = 1_024  # bytes of an input
HANGS = 10  # seconds that one input may take
TURN = 3  # seconds for each target, over and over: the quick ones get more runs
GOAL = 5_000_000  # runs


@dataclass(frozen=True)
class Fuzzed:
    """What came of one target: how often it ran, and the error that was none of ours."""

    target: str
    runs: int
    error: str


def fuzz(target: str, directory: Path, upto: str, seed: int) -> Fuzzed:
    """Run one target in a process of its own; it goes on from what it has found before."""
    limits = [upto, f"-seed={seed % (1 << 31) or 1}", f"-max_len={LONGEST}", f"-timeout={HANGS}"]
    command = [sys.executable, "-m", "tests.proofs.reliability.fuzz", target, str(directory / target)]
    told = subprocess.run(
        [*command, *limits, f"-artifact_prefix={directory}/{target}-"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    ).stdout.decode(errors="replace")
    done = re.search(r"Done (\d+) runs", told)
    if done:
        return Fuzzed(target, int(done[1]), "")
    raised = re.search(r"=== Uncaught Python exception: ===\s+(.*)", told)
    inputs = [path.read_bytes() for path in directory.glob(f"{target}-*")]
    return Fuzzed(target, 0, f"{raised[1] if raised else told[-300:]} for {inputs[:1]}")


def fuzzing(run: Run) -> Figures:
    """All targets in turn, until there are runs enough; a few of them once, where it must be short."""
    seeds: dict[str, list[str]] = yaml.safe_load(SEEDS.read_text())
    for target, texts in seeds.items():
        (run.directory / target).mkdir()
        for number, text in enumerate(texts):
            (run.directory / target / f"seed-{number}").write_bytes(text.encode("latin-1"))
    chosen = run.pick(short=run.random.sample(sorted(seeds), 1), whole=sorted(seeds))
    upto = run.pick(short="-runs=2000", whole=f"-max_total_time={TURN}")
    goal = run.pick(short=1, whole=GOAL, soak=40 * GOAL)
    runs, wrong = Counter[str](), list[Fuzzed]()
    with ThreadPoolExecutor(CORES) as threads:
        while runs.total() < goal and not wrong:
            act = partial(fuzz, directory=run.directory, upto=upto, seed=run.random.randrange(1 << 31))
            for one in threads.map(act, chosen):
                runs[one.target] += one.runs
                wrong += [one] if one.error else []
                run.done(min(runs.total(), goal), goal, one.target)
    for one in wrong:
        run.progress.console.print(f"{one.target}: {one.error}", markup=False)
    told = [f"{count:,} of {target}" for target, count in runs.most_common()]
    note = "; ".join([*(f"{one.target}: {one.error[:80]}" for one in wrong), ", ".join(told)])
    return Figures(trials=runs.total(), met=not wrong, note=note)


def missing() -> str:
    """Why it cannot be run here."""
    return "" if find_spec("atheris") else "no atheris here: pip install -e '.[fuzz]', on Linux"


ROWS = (
    Row(
        "T24",
        "a coverage-guided fuzzer on every decoder and parser",
        f"{GOAL:,} runs, 0 errors that are not declared",
        fuzzing,
        missing=missing,
    ),
)
