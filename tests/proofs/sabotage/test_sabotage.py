"""What is planted, and how what comes of a row is judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proofs.sabotage.bugs import Bug, Change
from tests.proofs.sabotage.trial import Fate, judged

BUG = Bug("T0", "it loses some", (Change("lua/send.lua", "a", "b"),), "lost")


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
