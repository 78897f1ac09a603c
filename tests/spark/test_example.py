"""The example of Spark runs as it is, in the session of these tests: another one would take as long again."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "09_spark_flights.py"
SAYS = (
    "pulling 10,000",
    "NeverDeparted",
    "archived: 10,088 events, 14 dead letters",
    "dead letters: 14; rows of the CSV that nobody can mend: 14",
)


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("spark", "raw")
def test_the_flights(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [str(EXAMPLE)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    for line in SAYS:
        assert line in shown
