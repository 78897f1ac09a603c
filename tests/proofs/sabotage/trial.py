"""Plants a bug in a copy of the tree, and runs its row there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.proofs.sabotage.bugs import ROOT, Bug

COPIED = ("rq_dlq", "lua", "tests", "pyproject.toml")
LEAVING = 10.0  # seconds that a row has to clean up, when it is told to end
Fate = Literal["holds", "died", "died of something else", "survived", "fails without a bug"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a row.

    Attributes:
        row: as in T5.
        bug: None: it ran as it is.
        said: the sentence that the row failed with.
        seconds: that it took.
    """

    row: str
    bug: Bug | None
    fate: Fate
    said: str
    seconds: float

    @property
    def well(self) -> bool:
        """Whether the row can be believed."""
        return self.fate in {"holds", "died"}


def tried(row: str, bug: Bug | None, seed: int, patience: float) -> Verdict:
    """Run a row on its short scale, with a bug or as it is.

    Args:
        patience: seconds, after which it is ended.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rq-dlq-sabotage-", ignore_cleanup_errors=True) as directory:
        tree = Path(directory)
        _copy(tree)
        if bug is not None:
            bug.plant(tree)
        state, note = _run(tree, row, seed, patience)
    return judged(row, bug, state, note, time.monotonic() - began)


def judged(row: str, bug: Bug | None, state: str, note: str, seconds: float) -> Verdict:
    """What the state and the note of a row mean for a bug."""
    sentences = note.split("; ")
    if bug is None:
        fate: Fate = "holds" if state == "met" else "fails without a bug"
        said = "" if fate == "holds" else f"{state}: {sentences[0]}"
        return Verdict(row, bug, fate, said, seconds)
    named = next((sentence for sentence in sentences if bug.says in sentence), "")
    if state == "met":
        return Verdict(row, bug, "survived", "", seconds)
    if not named:
        return Verdict(row, bug, "died of something else", f"{state}: {sentences[0]}", seconds)
    return Verdict(row, bug, "died", named, seconds)


def _copy(tree: Path) -> None:
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name)
        else:
            shutil.copy2(ROOT / name, tree / name)


def _run(tree: Path, row: str, seed: int, patience: float) -> tuple[str, str]:
    """The state and the note of a row."""
    words = ("tests.proofs.reliability", row, "--scale", "short", "--seed", str(seed), "--json")
    process = subprocess.Popen(
        [sys.executable, "-m", *words],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        told, errors = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        return "without an end", f"it was ended after {patience:.0f} s"
    finally:
        _end(process)
    try:
        result = json.loads(told)
    except ValueError:
        return "broke off", errors.strip().rpartition("\n")[2]
    return result["state"], result["note"]


def _end(process: subprocess.Popen[str]) -> None:
    """Have it clean up; else kill it with all that it started."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=LEAVING)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
