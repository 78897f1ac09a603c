"""The examples of Spark run as they are, in the session of these tests: another would take as long again."""

from __future__ import annotations

import runpy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import rq_dlq
from rq_dlq.errors import InvalidInput
from tests.spark.lived import live, settle

EXAMPLES = Path(__file__).parents[2] / "examples"
FLIGHTS, ARCHIVE = EXAMPLES / "09_spark_flights.py", EXAMPLES / "12_spark_archive.py"
FLOWN = (
    "pulling 10,000",
    "NeverDeparted",
    "archived: 10,088 events, 14 dead letters",
    "dead letters: 14; rows of the CSV that cannot be repaired: 14",
)
DOWN = {"queue": "orders*", "where": "error LIKE '%TimeoutError'", "max_redriven": 1}


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("spark", "raw")
def test_the_flights(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [str(FLIGHTS)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(FLIGHTS), run_name="__main__")
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    for line in FLOWN:
        assert line in shown


# The archive


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The program's functions."""
    monkeypatch.syspath_prepend(EXAMPLES)
    return runpy.run_path(str(ARCHIVE))


@pytest.mark.timeout(400)  # two runs, of some forty Spark jobs each
@pytest.mark.usefixtures("spark")
def test_the_archive_shows_what_died_of_what(  # noqa: PLR0917 - fixtures
    broker: rq_dlq.Broker,
    raw: Any,
    archive: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(*arguments: str) -> str:
        monkeypatch.setattr("sys.argv", [str(ARCHIVE), "--out", str(tmp_path), *arguments])
        archive["main"]()
        return " ".join(capsys.readouterr().out.split())

    live(broker)
    first = run()
    assert ": 104 events, 12 dead letters" in first
    assert "exhausted TimeoutError the gateway took 30 s 8 █████████████ 67% 8" in first
    assert "poison ValueError order 37 has no items 4 ███████ 33% 4" in first
    assert "new example-archive" not in first
    assert "2 redeliveries 40 8 0 16" in first
    assert "the gateway was down: 8 of example-archive would come back, 0 did so 2 times" in first
    assert "redriven: 8" in first
    assert {path.name for path in (tmp_path / "tables").iterdir()} == {
        "collisions", "poison", "queues", "what_if",
    }  # fmt: skip

    seconds, micros = raw.time()
    settle(broker, "orders.eu", {"f": OSError("disk full\x1b[2J"), "g": None})
    since = datetime.fromtimestamp(seconds + micros // 1000 / 1000, UTC).isoformat()
    later = run("--queue", "orders*", "--since", since, "--trim")
    assert ": 9 events, 5 dead letters trimmed: 9 events" in later
    assert "new orders.eu" in later
    assert "exhausted OSError disk full?[2J 1 ████████████████████ 100% 1" in later
    assert "redriven" not in later


def test_rules_redrive_once_and_then_no_more(
    broker: rq_dlq.Broker, archive: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*, apply: bool) -> str:
        archive["redrive"](broker, {"down": DOWN.copy()}, broker.queues(), apply=apply)
        return capsys.readouterr().out

    eu = live(broker).queue("orders.eu")
    assert run(apply=False).splitlines() == [
        "down: 2 of orders.eu would come back, 0 did so 1 times and stay dead",
        "down: 1 of orders.us would come back, 0 did so 1 times and stay dead",
        "nothing was redriven: add --apply to do it",
    ]
    assert eu.stats().ready == 0
    assert "redriven: 3" in run(apply=True)
    assert (eu.stats().ready, [letter.id for letter in eu.dlq.browse()]) == (2, ["c"])

    for delivery in eu.claim(2):
        delivery.nack(TimeoutError("gateway took 31 s"))
    again = run(apply=True)
    assert "down: 0 of orders.eu would come back, 2 did so 1 times" in again
    assert "redriven: 0" in again


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (DOWN | {"qeue": "a"}, "there is no condition 'qeue'"),
        (DOWN | {"reason": "tired"}, "reason 'tired': pass one of exhausted"),
        (DOWN | {"rate": 0}, "rate 0"),
        (DOWN | {"group": "ab*"}, r"group 'ab\*'"),
        (DOWN | {"where": "error LIKE"}, "the condition cannot be read"),
        (DOWN | {"max_redriven": "two"}, "'d' for object of type 'str'"),
    ],
)
def test_a_bad_rule_is_told_before_a_good_one_redrives(
    broker: rq_dlq.Broker, archive: dict[str, Any], rule: dict[str, Any], problem: str
) -> None:
    with pytest.raises((InvalidInput, ValueError), match=problem):
        archive["redrive"](live(broker), {"good": DOWN.copy(), "bad": rule.copy()}, ["orders.eu"], apply=True)
    assert broker.queue("orders.eu").stats().ready == 0


def test_a_rule_without_a_condition_is_refused(broker: rq_dlq.Broker, archive: dict[str, Any]) -> None:
    with pytest.raises(SystemExit, match="b: say which dead letters"):
        archive["redrive"](live(broker), {"b": {"queue": "*"}}, ["orders.eu"], apply=True)
