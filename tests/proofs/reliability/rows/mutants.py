"""T3: mutants of the Lua, a sample of them; all: `make mutants`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from typing import Any

from tests.proofs.mutants.explained import explanations, outdated
from tests.proofs.mutants.mutate import files, mutants
from tests.proofs.reliability.row import Figures, Row, Run
from tests.servers import binary

GOAL = 0.95
WITHIN = 360  # seconds; a quarter to see what each test comes by
LEAST = 100  # mutants that a sample needs to say anything


def run(run: Run) -> Figures:
    """Have the suite look at a sample, in a process of its own; what is explained is not in it."""
    command = [sys.executable, "-m", "tests.proofs.mutants", "--json", "--seed", str(run.seed)]
    command += run.pick(short=["--core"], whole=["--within", str(WITHIN)])
    told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=4 * WITHIN)
    if told.returncode:
        raise RuntimeError(told.stderr[-2_000:])
    results: list[dict[str, Any]] = [json.loads(line) for line in told.stdout.splitlines()]
    fates = Counter(result["outcome"] for result in results)
    every = [mutant for file in files() for mutant in mutants(file)]
    gone = outdated(every)
    note = f"killed {fates['killed']} of {len(results)}, drawn from {len(every)} "
    note += f"of which {len(explanations())} are explained"
    survivors = [result["mutant"] for result in results if result["outcome"] == "survived"]
    note += "".join(f"; survived: {mutant}" for mutant in survivors)
    note += "".join(f"; explained, and no more: {change}" for change in gone)
    enough = len(results) >= run.pick(short=1, whole=LEAST) and fates["killed"] >= GOAL * len(results)
    return Figures(trials=len(results), met=enough and not survivors and not gone, note=note)


ROWS = (
    Row(
        "T3",
        "mutants of every Lua file: a sample of them; all by `make mutants`",
        "≥ 95 % killed, each survivor explained",
        run,
        missing=lambda: "" if binary() else "no redis-server here",
    ),
)
