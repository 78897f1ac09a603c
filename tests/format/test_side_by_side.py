"""Two forms of the format on one queue: every verb of the one on what the other wrote, both ways."""

from __future__ import annotations

from typing import Any

import fakeredis
import pytest
import redis

from tests.format.side_by_side import ALL, FORMS, Worlds, check_nothing_is_lost, check_step


@pytest.fixture
def bare(backend: str, request: pytest.FixtureRequest) -> Any:
    """A plain client of an empty server."""
    if backend == "fake":
        return fakeredis.FakeRedis(server=request.getfixturevalue("fakes").server())
    return request.getfixturevalue("redis_client")


@pytest.fixture(scope="module")
def worlds() -> Worlds:
    """For all tests here."""
    return Worlds()


@pytest.mark.parametrize("step", ALL)
def test_a_verb_of_one_form_on_what_the_other_wrote(step: str, worlds: Worlds, bare: Any) -> None:
    """It does what it does on its own form, and what only the other form says is as it was."""
    check_step(worlds, bare, step)


@pytest.mark.parametrize("doer", FORMS)
@pytest.mark.parametrize("step", ALL)
def test_nothing_is_lost_between_two_forms(
    step: str, doer: str, worlds: Worlds, redis_client: redis.Redis
) -> None:
    """Each message comes once, to whoever claims."""
    check_nothing_is_lost(worlds, redis_client, step, doer)
