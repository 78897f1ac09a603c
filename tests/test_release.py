"""A release is refused whose figures are older than its code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.release import AGAIN, FIGURES, MEASURED, changed, git, stale, trees


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with the measured folders, and figures of them."""
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "config", "user.name", "test")
    git(tmp_path, "config", "user.email", "test@shop.example")
    for folder in (*MEASURED, "docs"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.txt").write_text("a")
    commit(tmp_path)
    measured(tmp_path)
    return tmp_path


def commit(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "A change")


def measured(root: Path) -> None:
    """Measure, as the benchmark notes it."""
    (root / FIGURES).write_text(json.dumps({"trees": trees(root)}))
    commit(root)


def test_figures_of_the_code_are_taken(checkout: Path) -> None:
    assert stale(checkout) == []
    (checkout / "docs" / "a.txt").write_text("b")
    commit(checkout)
    assert stale(checkout) == []


@pytest.mark.parametrize("folder", MEASURED)
def test_figures_of_older_code_are_refused(folder: str, checkout: Path) -> None:
    root = checkout
    (root / folder / "a.txt").write_text("b")
    assert changed(root) == [folder]
    commit(root)
    assert stale(root) == [f"{FIGURES} is older than {folder}/: {AGAIN}"]
    (root / FIGURES).touch()  # its time says nothing, nor does a commit that changes only its text
    (root / FIGURES).write_text(f"{(root / FIGURES).read_text()}\n")
    commit(root)
    assert len(stale(root)) == 1
    measured(root)
    assert stale(root) == []
    (root / folder / "a.txt").write_text("a")  # back to what was measured before
    commit(root)
    assert len(stale(root)) == 1


def test_figures_that_do_not_say_of_what_are_refused(checkout: Path) -> None:
    (checkout / FIGURES).write_text("{}")
    commit(checkout)
    assert stale(checkout) == [f"{FIGURES} does not say what was measured: {AGAIN}"]
