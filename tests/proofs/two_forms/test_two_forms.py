"""Both forms of the broker do the same: some walks, drawn anew; `python -m tests.proofs.two_forms`: more."""

from __future__ import annotations

import random

import pytest

from rq_dlq._scripts import Form
from tests.model.steps import STEPS
from tests.proofs.two_forms.walk import both, walks
from tests.servers import binary

DRAWN = 12  # walks of each kind
pytestmark = pytest.mark.skipif(binary() is None, reason="no redis-server here")


@pytest.mark.parametrize("form", ["functions", "text"])
def test_some_walks(form: Form) -> None:
    draw = random.randrange(1_000_000)
    with both(form) as raw:
        made = [*walks(raw, draw, 1, 40)]
        steps = [one for one in made if one[0] in STEPS]
        lanes = [one for one in made if one[0] not in STEPS and not one[0].startswith("model")]
        for name, walk in [*random.sample(steps, DRAWN), *random.sample(lanes, DRAWN)]:
            try:
                walk()
            except BaseException as error:
                error.add_note(f"walk {name}, draw {draw}")
                raise
