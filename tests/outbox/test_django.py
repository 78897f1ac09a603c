"""The outbox in a program of Django."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.needs import need

SAYS = [
    "missing tables are told True",
    "refused in the transaction",
    "came [1, 3] 2 0 1",
    "in order True True",
    "result done",
]


@pytest.mark.parametrize("engine", ["sqlite3", "postgresql"])
def test_a_program_of_django(
    engine: str, empty_socket: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    need("django", "django")
    name, host = str(tmp_path / "db"), ""
    if engine == "postgresql":
        postgres = request.getfixturevalue("postgres")
        postgres.drop()
        name, host = "postgres", postgres.url.partition("host=")[2]
    program = [sys.executable, "-m", "tests.outbox.django_program", f"unix://{empty_socket}"]
    done = subprocess.run(
        [*program, engine, name, host], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.splitlines()) == (0, SAYS), done.stderr
