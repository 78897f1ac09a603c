"""The walk from an outage to its redriven dead letters, with a tenth of them."""

from __future__ import annotations

import pytest

from tests.triage import __main__ as triage
from tests.triage.walk import WentWrongError


@pytest.mark.redis
def test_the_walk_leads_there(capsys: pytest.CaptureFixture[str]) -> None:
    ended = triage.main(["--letters", "40", "--poisons", "10"])
    said = capsys.readouterr().out
    assert ended == 0, said
    assert "of 2 messages that came to an end 0 were acked" in said
    assert "killed (SIGKILL) after 2" in said
    assert "50 orders: 40 charged, each once; 10 dead; none lost" in said


def test_a_sum_that_is_wrong_is_told() -> None:
    with pytest.raises(WentWrongError, match="charged: 3 in place of 4"):
        triage.expect("charged", 3, 4)
