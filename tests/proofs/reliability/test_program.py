"""What the command makes of a row that cannot be run, and of one that breaks off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import Progress

from tests.proofs.reliability.program import BEGIN, END, failed, run_row, write_page
from tests.proofs.reliability.row import Figures, Row, Run
from tests.proofs.reliability.table import Result, State, from_markdown


def row_that(act: Callable[[], object], *, trials: int = 1, unbuilt: bool = False) -> Row:
    """A row that does this, and finds its goal met."""

    def run(_: Run) -> Figures:
        act()
        return Figures(trials=trials, met=True)

    return Row("T0", "", "", run, missing=str, unbuilt=unbuilt)


def result_of(row: Row) -> Result:
    """Run it."""
    with Progress(console=Console(quiet=True)) as progress:
        return run_row(row, "short", 1, progress, progress.add_task("", what=""))


def no_server() -> None:
    """As `servers.needed` does."""
    pytest.skip("no redis-server here")


def no_program() -> str:
    """As a `missing` that starts what is not there."""
    raise FileNotFoundError


@pytest.mark.parametrize(
    ("act", "state", "note"),
    [
        (dict, "met", ""),
        (no_server, "not run", "no redis-server here"),
        (no_program, "broke off", "FileNotFoundError: "),
        (lambda: pytest.fail("waited in vain"), "broke off", "Failed: waited in vain"),
    ],
)
def test_what_ends_a_row_does_not_end_the_command(act: Callable[[], object], state: State, note: str) -> None:
    result = result_of(row_that(act))
    assert (result.state, result.note) == (state, note)


def test_a_goal_is_not_met_where_nothing_was_tried() -> None:
    assert result_of(row_that(dict, trials=0)).state == "not met"


def test_a_row_that_cannot_even_say_what_it_lacks_breaks_off() -> None:
    row = Row("T0", "", "", lambda _: Figures(trials=1, met=True), missing=no_program)
    assert result_of(row).state == "broke off"


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["met", "met"], False),
        (["met", "not run"], False),
        (["met", "not met"], True),
        (["met", "broke off"], True),
        (["not run", "not run"], True),
    ],
)
def test_the_command_fails_unless_something_was_shown(states: list[State], expected: bool) -> None:
    row = row_that(dict)
    assert failed([Result(row, state, None, 1, 0.0, "") for state in states]) is expected


def test_what_is_not_built_yet_is_no_failure() -> None:
    unbuilt = Result(row_that(dict, unbuilt=True), "not run", None, 1, 0.0, "")
    assert not failed([unbuilt])


def test_a_row_that_is_run_again_takes_its_old_place_in_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\n{END}\nafter\n")
    rows = [replace(row_that(dict), name=name, fault=f"{name} | this") for name in ("T1", "T2", "T3")]
    write_page([Result(row, "not met", None, 1, 61.0, "a | b") for row in rows], whole=True, page=page)
    assert "3 rows in 3 min 3 s" in page.read_text()
    write_page([Result(rows[1], "met", None, 2, 1.0, "c")], whole=False, page=page)
    text = page.read_text()
    assert "3 rows in 2 min 3 s" in text
    assert ": 1 met, 2 not met." in text
    states = [(row[0], row[1], row[9], row[-1]) for row in from_markdown(text)]
    assert states == [
        ("T1", "T1 | this", "not met", "a | b"),
        ("T2", "T2 | this", "met", "c"),
        ("T3", "T3 | this", "not met", "a | b"),
    ]
    assert (text[:7], text[-6:]) == ("before\n", "after\n")
    write_page([Result(rows[0], "met", None, 2, 1.0, "")], whole=True, page=page)
    assert [row[0] for row in from_markdown(page.read_text())] == ["T1"]
