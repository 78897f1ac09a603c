"""Tests that failed run once more, alone: the rule of CI's step of tests, and of a stranger's machine.

Of seven thousand that start servers and processes on a machine that others use, one or two may fail by
chance. Both runs are printed, and a test that failed is to be mended.

$ pytest -n auto || python -m tests.once_more $?    # the status of pytest
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

FEW = 2
"""Tests that may fail by chance."""
FAILED = 1
"""The status of pytest when tests failed; with another one it has failed itself."""


def status(
    before: int,
    pytest: str = "pytest",
    folder: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> int:
    """The status of a run of pytest, or if one or two tests failed there: that of these, alone.

    Args:
        before: its status.
        pytest: the program.
        folder: where it ran; None: here.
        variables: of its environment; None: ours.
    """
    if before != FAILED:
        return before
    again = [pytest, "--last-failed", "--last-failed-no-failures", "none"]
    listed = subprocess.run(
        [*again, "--collect-only", "-q"],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    failed = listed.stdout.count("::")
    if not 0 < failed <= FEW:
        return before
    print(f"\n{failed} failed, and runs once more, alone:", flush=True)  # noqa: T201
    return subprocess.run([*again, "-rs"], cwd=folder, env=variables, check=False).returncode


if __name__ == "__main__":
    sys.exit(status(int(sys.argv[1])))
