"""The rules of lanes hold whatever is done; also where scripts are cut off, after one round of `tend`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.model.lanes import MODES, RATED, drive

REAL = pytest.mark.parametrize("backend", ["real"], indirect=True)


@REAL
@pytest.mark.parametrize("mode", MODES)
def test_the_rules_hold(raw: Any, mode: str) -> None:
    done = [drive(raw, mode, draw, 120) for draw in (1, 2)]
    assert sum(lanes.attempts for lanes in done) > 20


@REAL
@pytest.mark.parametrize("mode", MODES)
def test_the_rules_hold_in_outages(raw: Any, mode: str) -> None:
    done = [drive(raw, mode, draw, 120, outages=True) for draw in (1, 2)]
    assert sum(lanes.attempts for lanes in done) > 20


@REAL
@pytest.mark.parametrize("mode", MODES)
def test_the_rules_hold_again_after_a_cut_in_outages(raw: Any, mode: str) -> None:
    done = [drive(raw, mode, draw, 60, cut_off=True, outages=True) for draw in (1, 2)]
    assert sum(lanes.cuts for lanes in done) > 5


@REAL
@pytest.mark.parametrize("mode", MODES)
def test_the_rules_hold_again_after_a_cut(raw: Any, mode: str) -> None:
    done = [drive(raw, mode, draw, 60, cut_off=True) for draw in (1, 2)]
    assert sum(lanes.cuts for lanes in done) > 5


@REAL
@pytest.mark.parametrize("mode", RATED)
def test_the_rules_hold_with_a_rate(raw: Any, mode: str) -> None:
    assert drive(raw, mode, 1, 120).attempts > 10
    assert drive(raw, mode, 2, 60, cut_off=True).cuts > 3


@REAL
@pytest.mark.parametrize("mode", MODES)
def test_the_rules_hold_where_another_was_in_force(raw: Any, mode: str) -> None:
    done = [drive(raw, mode, draw, 40, turned_on=True) for draw in range(8)]
    assert sum(lanes.attempts for lanes in done) > 40
