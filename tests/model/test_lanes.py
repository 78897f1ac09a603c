"""The rules of lanes hold whatever is done; also where scripts are cut off, after one round of `tend`."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from rq_dlq.core.cancelling import calls as cancelling_calls
from tests.model.lanes import MODES, RATED, Lanes, drive, look

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
    assert drive(raw, mode, 1, 40, turned_on=True, cut_off=True).cuts > 5


@REAL
def test_wherever_a_claim_is_cut_off_each_message_keeps_its_row(raw: Any) -> None:
    for n in count(1):
        lanes = Lanes(raw, "order", 5, turned_on=True)  # after a limit of 3: the claim blocks two of a key
        stopped = lanes.cut(lanes.queue.claim_call(lanes.token(), 3), n)
        assert not look(raw, lanes.queue.keys).at("nowhere"), f"cut off at {n}"
        if not stopped:
            assert n > 20
            return


@REAL
def test_wherever_a_cancel_is_cut_off_its_call_keeps_a_seat(raw: Any) -> None:
    for n in count(1):
        lanes = Lanes(raw, "order", 1, turned_on=True)
        assert lanes.queue.run(lanes.queue.claim_call(lanes.token(), 1)).rows[0].id == "m0"
        stopped = lanes.cut(cancelling_calls.cancel(lanes.queue.sender(), id="m0"), n)
        seen = look(raw, lanes.queue.keys)
        assert "m0" in seen.seats or any(call.endswith(" m0") for call in seen.calls), f"cut off at {n}"
        if not stopped:
            assert n > 10
            return
