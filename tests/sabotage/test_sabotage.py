"""The table of planted bugs fits the tree, and what comes of a row is judged well. All: make sabotage."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from lupa import lua51  # type: ignore[import-untyped]

from tests.reliability.rows import all_rows
from tests.sabotage.bugs import LANGUAGES, ROOT, Bug, Change, planted
from tests.sabotage.trial import Fate, judged

BUGS = [bug for found in planted().values() for bug in found.bugs]
LUA = lua51.LuaRuntime()
BUG = Bug("T0", "it loses some", (Change("lua/send.lua", "a", "b"),), "lost")


def test_every_row_has_its_bugs_or_says_why_not() -> None:
    assert list(planted()) == list(all_rows())
    for row, found in planted().items():
        told = [{bug.language for bug in found.bugs}, set(found.without), set(found.open)]
        assert sorted(language for some in told for language in some) == sorted(LANGUAGES), row
        assert all(found.without.values()), f"{row}: say why"


def test_every_bug_has_a_name_of_its_own_in_its_row() -> None:
    assert len({(bug.row, bug.name) for bug in BUGS}) == len(BUGS)


@pytest.mark.parametrize("bug", BUGS, ids=[f"{bug.row}, {bug.name}" for bug in BUGS])
def test_a_bug_can_be_planted(bug: Bug, tmp_path: Path) -> None:
    """Each piece is there once, and what comes of its file is Lua or Python."""
    for file in {change.file for change in bug.changes}:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes((ROOT / file).read_bytes())
    bug.plant(tmp_path)
    for change in bug.changes:
        text = (tmp_path / change.file).read_text(encoding="utf-8")
        assert text != (ROOT / change.file).read_text(encoding="utf-8")
        if change.file.endswith(".lua"):
            LUA.compile(text)
        else:
            ast.parse(text)


@pytest.mark.parametrize(("text", "times"), [("b", 0), ("a a", 2)])
def test_a_piece_that_is_not_there_once_is_said(text: str, times: int, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(ValueError, match=f"file has {times} times, not once: a"):
        Change("file", "a", "b").make(tmp_path)


@pytest.mark.parametrize(
    ("bug", "state", "note", "fate", "said"),
    [
        (None, "met", "10 sent", "holds", ""),
        (None, "not met", "1 early; 10 sent", "fails without a bug", "not met: 1 early"),
        (BUG, "met", "10 sent", "survived", ""),
        (BUG, "not met", "1 early; 2 lost; 10 sent", "died", "2 lost"),
        (BUG, "broke off", "RuntimeError: 2 were lost", "died", "RuntimeError: 2 were lost"),
        (BUG, "not met", "1 early", "died of something else", "not met: 1 early"),
    ],
)
def test_what_comes_of_a_row_is_judged(bug: Bug | None, state: str, note: str, fate: Fate, said: str) -> None:
    verdict = judged("T0", bug, state, note, 1.0)
    assert (verdict.fate, verdict.said) == (fate, said)
    assert verdict.well is (fate in {"holds", "died"})
