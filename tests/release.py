"""May this commit be released: were its figures measured on its code?

$ python -m tests.release                 # `make releasable`

docs/performance.json has the trees of Git that were measured: `python -m tests.benchmarks.peers --write`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIGURES = "docs/performance.json"
MEASURED = ("lua", "rq_dlq/worker")  # what the speed of README is that of
AGAIN = "measure again: python -m tests.benchmarks.peers --write"


def git(root: Path, *words: str) -> str:
    """What git answers."""
    return subprocess.run(
        ("git", *words), cwd=root, capture_output=True, text=True, check=True
    ).stdout.strip()


def trees(root: Path) -> dict[str, str]:
    """The trees of the measured folders in the commit that is checked out: names of their contents."""
    return {folder: git(root, "rev-parse", f"HEAD:{folder}") for folder in MEASURED}


def changed(root: Path) -> list[str]:
    """The measured folders that differ from the commit that is checked out."""
    return [folder for folder in MEASURED if git(root, "status", "--porcelain", folder)]


def stale(root: Path) -> list[str]:
    """Why the figures are not those of the commit, a sentence each; none: they are."""
    measured = json.loads(git(root, "show", f"HEAD:{FIGURES}")).get("trees")
    if measured is None:
        return [f"{FIGURES} does not say what was measured: {AGAIN}"]
    now = trees(root)
    return [
        f"{FIGURES} is older than {folder}/: {AGAIN}"
        for folder in MEASURED
        if measured.get(folder) != now[folder]
    ]


def main() -> None:
    """Say it; the exit code is 1 if it may not."""
    found = stale(ROOT)
    sys.stderr.writelines(f"not released: {sentence}\n" for sentence in found)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
