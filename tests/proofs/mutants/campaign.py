"""A run over many mutants, and what it comes to."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.proofs.mutants.explained import is_explained
from tests.proofs.mutants.forks import Slot
from tests.proofs.mutants.mutate import LUA, Mutant
from tests.proofs.mutants.results import ROOT, Result, Results, fingerprint, killers, remember, remembered
from tests.proofs.mutants.trial import Known, Trial, observe, slots

KEPT = ROOT / "build" / "mutants"
CORE = ("send", "deliver", "leases", "acks", "places", "judge", "sweep")
WRITES = tuple(f"redis.call('{command}'" for command in ("HSET", "HDEL", "ZADD", "ZREM", "HINCRBY"))
Said = Callable[[str, int, int], None]
"""What is done, how far, of how many."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much time there is, in seconds.

    Attributes:
        mutant: for one.
        observing: to run each test once, and see which Lua it comes by.
        whole: for all; those that had no turn by then are not tried.
    """

    mutant: float = 90.0
    observing: float = 1_800.0
    whole: float = float("inf")


def core_sample(mutants: Sequence[Mutant], seed: int) -> list[Mutant]:
    """One write that is left out in each module of the core."""
    draw = random.Random(seed)
    writes = [it for it in mutants if it.kind == "deleted" and it.was.startswith(WRITES)]
    return [draw.choice([write for write in writes if write.file == file]) for file in CORE]


def sample(mutants: Sequence[Mutant], seed: int) -> list[Mutant]:
    """All in an order drawn by a seed, but for those that are explained."""
    drawn = [mutant for mutant in mutants if not is_explained(mutant)]
    random.Random(seed).shuffle(drawn)
    return drawn


def try_them(
    items: Sequence[pytest.Item], mutants: Sequence[Mutant], results: Results, limits: Limits, say: Said
) -> list[Result]:
    """Try mutants, two at a time, and note each result."""
    began = time.monotonic()
    found: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="rq-dlq-") as scratch, slots(Path(scratch), 2) as places:
        known = observed(items, places, limits.observing, say)
        usable = [
            item for item in items if (it := known.get(item.nodeid)) is None or (it.lines and not it.failed)
        ]
        trial = Trial(usable, known, places, limits.mutant, killers())
        for result in trial.run(mutants, until=began + limits.whole):
            results.add(result)
            found.append(result)
            say("mutants", len(found), len(mutants))
    return found


def observed(
    items: Sequence[pytest.Item], places: Sequence[Slot], seconds: float, say: Said
) -> dict[str, Known]:
    """What each test comes by: as it was seen before, where neither tests nor Lua have changed since."""
    kept, mark = KEPT / "tests.json", fingerprint(_sources(), (item.nodeid for item in items))
    held = remembered(kept, mark)
    if held is not None:
        return {name: Known.of(cells) for name, cells in held.items()}
    if not seconds:
        return {}
    known = observe(items, places, seconds, lambda n: say("tests", n, len(items)))
    if len(known) == len(items):
        remember(kept, mark, {name: it.cells() for name, it in known.items()})
    return known


def _sources() -> list[Path]:
    """What decides what a test comes by."""
    tests = (path for path in (ROOT / "tests").rglob("*.py") if "mutants" not in path.parts)
    return [*LUA.rglob("*.lua"), *tests]
