"""What the command makes of a row that cannot be run, and of one that breaks off."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rich.console import Console
from rich.progress import Progress

from tests.reliability.program import failed, run_row
from tests.reliability.row import Figures, Row, Run
from tests.reliability.table import Result, State


def row_that(act: Callable[[], object], *, unbuilt: bool = False) -> Row:
    """A row that does this, and finds its goal met."""

    def run(_: Run) -> Figures:
        act()
        return Figures(trials=1, met=True)

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
