"""Which interpreters `make python-matrix` finds, and what it says where there is none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import matrix, pythons


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


def test_a_name_that_starts_nothing_is_no_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pyenv puts one on the PATH for each version that it has."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    program(tmp_path / "python3.99", "exit 127")
    assert pythons.found("3.99") is None
    assert pythons.found(sys.executable) == sys.executable
    inside = tmp_path / "versions" / "3.99.1" / "bin" / "python"
    program(inside, "exit 0")
    assert pythons.found("3.99") == str(inside)


def test_what_is_not_here_is_told_and_fails_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    passed = {"3.11": True, "3.12": None}
    assert matrix.run("Python", passed, lambda version, _: passed[version]) == 0
    assert "Python 3.12: not run: not here" in capsys.readouterr().out
    assert matrix.run("Python", passed, lambda version, _: passed[version] and False) == 1
    assert matrix.run("Python", ["3.12"], lambda version, _: passed[version]) == 1
