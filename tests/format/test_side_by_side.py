"""Two forms of the format on one queue: every verb of the one on what the other wrote, both ways."""

from __future__ import annotations

from typing import Any

import fakeredis
import pytest
import redis

from tests.format.side_by_side import ALL, Worlds, check_step


@pytest.fixture(scope="module")
def worlds() -> Worlds:
    """For all tests here."""
    return Worlds()


@pytest.mark.parametrize("step", ALL)
def test_a_verb_of_one_form_on_what_the_other_wrote(
    step: str, worlds: Worlds, redis_client: redis.Redis
) -> None:
    """It does what it does on its own form, and loses nothing; what only the other form says is as it was."""
    check_step(worlds, redis_client, step)


@pytest.mark.slow
@pytest.mark.parametrize("step", ALL)
def test_a_verb_of_one_form_on_what_the_other_wrote_to_the_fake(
    step: str, worlds: Worlds, fakes: Any
) -> None:
    check_step(worlds, fakeredis.FakeRedis(server=fakes.server()), step)
