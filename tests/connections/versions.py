"""Versions of redis-py beside the one that is installed, and the tests that depend on it on each of them.

$ make redis-matrix
$ python -m tests.connections.versions 6.2.0      # this one
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import redis
from rich.console import Console

from tests import matrix

ROOT = Path(__file__).parents[2]
SERIES = ("5.0.0", "5.*", "6.*", "7.*", "8.*")
"""The oldest that is promised, and the newest of each major version."""
SUBJECTS = ("claiming", "sending", "sessions", "settling")
WHOLE = ("cluster", "crossing", "repeat")
TESTS = [
    "tests/connections",
    *(f"tests/behaviour/{name}" for name in SUBJECTS),
    *(f"tests/behaviour/test_{name}.py" for name in WHOLE),
]
# fakeredis goes with the newest redis-py only, and what older ones leave open or deprecate is not our affair.
OPTIONS = [
    "-q",
    "-m",
    "not slow",
    "-k",
    "not fake",
    "-W",
    "ignore::DeprecationWarning",
    "-W",
    "ignore::ResourceWarning",
]
OPTIONS += ["-W", "ignore::pytest.PytestUnraisableExceptionWarning"]


def others() -> list[str]:
    """All but the major version that is installed."""
    return [version for version in SERIES if not redis.__version__.startswith(version.rstrip("*"))]


def environment(version: str, directory: Path) -> dict[str, str]:
    """The environment in which Python finds this version of redis-py, which is installed into the directory.

    Raises:
        RuntimeError: it cannot be installed here.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
    install = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    command = [*install, "--target", str(directory), f"redis=={version}"]
    done = subprocess.run(command, check=False, env=inherited, capture_output=True, text=True)
    if done.returncode:
        message = f"redis-py {version} cannot be installed here: {done.stderr.strip()[-200:]}"
        raise RuntimeError(message)
    return {**inherited, "PYTHONPATH": str(directory)}


def run_with(version: str, console: Console) -> bool:
    """Run the tests on one version; whether they passed."""
    console.print(f"[bold]redis-py {version}")
    with tempfile.TemporaryDirectory(prefix="rq-dlq-") as directory:
        found = environment(version, Path(directory))
        tests = [sys.executable, "-m", "pytest", *TESTS, *OPTIONS]
        return subprocess.run(tests, cwd=ROOT, env=found, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(matrix.run("redis-py", sys.argv[1:] or SERIES, run_with))
