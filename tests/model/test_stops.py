"""T4: a stop anywhere in a script loses nothing, and a repetition completes it.

By default a script is stopped at a part of its Redis calls, drawn anew in each run. `pytest -m slow` stops it
at each of them, as `python -m tests.proofs reliability T4` does.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.model import stops
from tests.model.steps import STEPS

pytestmark = pytest.mark.form("functions")  # as a script it takes three times as long, and is the same Lua
REAL = pytest.mark.parametrize("backend", ["real"], indirect=True)
EACH = pytest.mark.parametrize("name", STEPS)
EVERY = 4
"""One of so many calls is a point where a script stops."""


@REAL
@EACH
def test_a_stop_anywhere_loses_and_doubles_nothing(raw: Any, name: str) -> None:
    stops.nothing_is_lost(raw, name, EVERY)


@REAL
@EACH
def test_a_repetition_after_a_stop_succeeds(raw: Any, name: str) -> None:
    stops.a_repetition_succeeds(raw, name, EVERY)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["real", "fake"], indirect=True)
@EACH
def test_each_point(raw: Any, name: str) -> None:
    assert stops.nothing_is_lost(raw, name)


@pytest.mark.slow
@REAL
@EACH
def test_a_repetition_after_each_point(raw: Any, name: str) -> None:
    assert stops.a_repetition_succeeds(raw, name)


@REAL
@pytest.mark.parametrize("name", sorted(stops.WHOLE_CLAIMS))
def test_a_claim_adds_up_again_after_a_stop(raw: Any, name: str) -> None:
    assert stops.a_claim_adds_up(raw, name) > 5


@REAL
@pytest.mark.parametrize("name", ["send", "claim", "nack, told", "sweep"])
def test_an_error_of_redis_leaves_the_same(raw: Any, name: str) -> None:
    """Every step: `python -m tests.proofs.reliability T4`."""
    assert stops.redis_leaves_the_same(raw, name) > 5
