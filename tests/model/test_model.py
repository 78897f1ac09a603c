"""T2: the real Lua and the model do the same, whatever is done to them (I1 to I8, I12, I13)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.model.machine import check


@pytest.mark.parametrize("backend", ["real"], indirect=True)
def test_lua_does_what_the_model_does(raw: Any) -> None:
    check(raw, 150, 40)


@pytest.mark.parametrize("backend", ["fake"], indirect=True)
def test_the_fake_does_what_the_model_does(raw: Any) -> None:
    check(raw, 15, 30)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("backend", ["real"], indirect=True)
def test_lua_does_what_the_model_does_for_long(raw: Any) -> None:
    check(raw, 2_000, 50)
