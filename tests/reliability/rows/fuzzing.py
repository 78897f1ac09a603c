"""T24: a fuzzer on every decoder and parser."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import yaml

from tests.reliability.row import Figures, Row, Run

ROOT = Path(__file__).parents[3]
SEEDS = Path(__file__).parents[1] / "data" / "seeds.yaml"
LONGEST = 1_024  # bytes of an input
HANGS = 10  # seconds that one input may take


@dataclass(frozen=True)
class Fuzzed:
    """What came of one target: how often it ran, and the error that was none of ours."""

    target: str
    runs: int
    error: str


def fuzz(target: str, seeds: list[str], directory: Path, runs: int, seed: int) -> Fuzzed:
    """Run one target in a process of its own."""
    corpus = directory / target
    corpus.mkdir()
    for number, text in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(text.encode("latin-1"))
    limits = [f"-runs={runs}", f"-seed={seed % (1 << 31) or 1}", f"-max_len={LONGEST}", f"-timeout={HANGS}"]
    command = [sys.executable, "-m", "tests.reliability.fuzz", target, str(corpus), *limits]
    told = subprocess.run(
        [*command, f"-artifact_prefix={directory}/{target}-"],
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
    """Every target, as many runs each."""
    seeds: dict[str, list[str]] = yaml.safe_load(SEEDS.read_text())
    runs = run.pick(short=2_000, whole=5_000_000 // len(seeds), soak=50_000_000)
    chosen = run.random.sample(sorted(seeds), 4) if run.scale == "short" else sorted(seeds)
    found: list[Fuzzed] = []
    with ThreadPoolExecutor(2) as both:
        act = partial(fuzz, directory=run.directory, runs=runs, seed=run.seed)
        for one in both.map(act, chosen, [seeds[name] for name in chosen]):
            found.append(one)
            run.done(len(found), len(chosen), one.target)
    wrong = [one for one in found if one.error]
    for one in wrong:
        run.progress.console.print(f"{one.target}: {one.error}", markup=False)
    note = "; ".join(
        [f"{len(found)} decoders and parsers", *(f"{one.target}: {one.error[:80]}" for one in wrong)]
    )
    return Figures(trials=sum(one.runs for one in found), met=not wrong, note=note)


def missing() -> str:
    """Why it cannot be run here."""
    return "" if find_spec("atheris") else "no atheris here, the fuzzer: pip install atheris (on Linux)"


ROWS = (
    Row(
        "T24",
        "a coverage-guided fuzzer on every decoder and parser",
        "5,000,000 runs, 0 errors that are not declared",
        fuzzing,
        missing=missing,
    ),
)
