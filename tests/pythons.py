"""The tests on each version of Python that is promised, each in an environment of its own.

$ make python-matrix
$ python -m tests.pythons 3.13 ~/pythons/3.12/bin/python      # these
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from rich.console import Console

from tests import matrix

ROOT = Path(__file__).parent.parent
CLASSIFIER = "Programming Language :: Python :: 3."


def promised() -> list[str]:
    """The versions that the package says it runs on."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        classifiers: list[str] = tomllib.load(file)["project"]["classifiers"]
    return [line.rpartition(" ")[2] for line in classifiers if line.startswith(CLASSIFIER)]


def run_with(version: str, console: Console) -> bool:
    """Run them on one version, or on the interpreter at a path; whether they passed."""
    python = shutil.which(version if "/" in version else f"python{version}")
    console.print(f"[bold]{version}: {python or 'not installed here'}")
    if python is None:
        return False
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables = inherited | {"PIP_CONSTRAINT": str(ROOT / "constraints.txt")}
    with tempfile.TemporaryDirectory(prefix="rq-dlq-") as directory:
        subprocess.run([python, "-m", "venv", directory], check=True)
        install = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "-e", f"{ROOT}[dev]"]
        subprocess.run([f"{directory}/bin/python", *install], check=True, env=variables)
        tests = [f"{directory}/bin/python", "-m", "pytest", "-n", "auto", "-q"]
        return subprocess.run(tests, cwd=ROOT, env=variables, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(matrix.run("Python", sys.argv[1:] or promised(), run_with))
