"""The walks from an outage to its redriven dead letters, with a tenth of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proofs.triage import __main__ as triage
from tests.proofs.triage.outage import expect
from tests.proofs.triage.walk import Step, Walk, WentWrongError


@pytest.mark.redis
def test_the_walk_leads_there(capsys: pytest.CaptureFixture[str]) -> None:
    ended = triage.main(["--letters", "40", "--poisons", "10"])
    said = capsys.readouterr().out
    assert ended == 0, said
    assert "0 of 2 messages that ended were acked" in said
    assert "killed (SIGKILL) after 2" in said
    assert "of 40 orders waited; none died" in said
    assert "90 orders: 82 charged, each once; 0 dead, 8 purged; none lost" in said


@pytest.mark.redis
def test_the_walk_in_a_browser_of_a_phone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    scale = "--letters", "40", "--poisons", "10", "--longest", "300"  # seconds, on a machine that is busy
    ended = triage.main(["--browser", "--width", "360", "--pictures", str(tmp_path), *scale])
    said = capsys.readouterr().out
    assert ended == 0, said
    assert "50 orders: 40 charged, each once; 10 dead, 0 purged; none lost" in said
    assert [file.name for file in sorted(tmp_path.iterdir())] == [
        "1-alert.png", "2-group.png", "3-story.png", "4-dry-run.png", "5-canary.png", "6-resume.png",
        "7-the-rest.png", "8-all-clear.png",
    ]  # fmt: skip


def test_a_sum_that_is_wrong_is_told() -> None:
    with pytest.raises(WentWrongError, match="charged: 3 in place of 4"):
        expect("charged", 3, 4)


def test_a_walk_that_takes_too_long_is_told() -> None:
    walk = Walk({}, steps=[Step("alert", [], 40), Step("group", ["it"], 21)])
    with pytest.raises(WentWrongError, match="it took 61 s, and may take 60"):
        walk.check_time(60)
