"""Both type checkers see in users' code what they should."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import need

ROOT = Path(__file__).parent.parent.parent
HERE = Path(__file__).parent
CHECKERS = {
    "mypy": ["mypy", str(HERE / "user_code.py")],  # with what `make check` has found out already
    "pyright": ["pyright", "--pythonpath", sys.executable, "--project", str(HERE)],
}


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_checker_finds_the_errors_that_are_expected_and_no_others(checker: str) -> None:
    need(checker, extra="lint")
    command = [sys.executable, "-m", *CHECKERS[checker]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
