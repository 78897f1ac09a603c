"""The examples of Spark run as they are, in the session of these tests: another would take as long again."""

from __future__ import annotations

import runpy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rq_dlq
from rq_dlq.errors import InvalidInput
from rq_dlq.spark import Archive, Archived, poison_report, queue_report
from tests.spark.lived import live, settle
from tests.spark.versions import since

EXAMPLES = Path(__file__).parents[2] / "examples"
FLIGHTS, ARCHIVE = EXAMPLES / "09_spark_flights.py", EXAMPLES / "12_spark_archive.py"
FLOWN = (
    "pulling 10,000",
    "NeverDeparted",
    "archived: 10,088 events, 14 dead letters",
    "dead letters: 14; rows of the CSV that cannot be repaired: 14",
)
DOWN = {"queue": "orders*", "where": "error LIKE '%TimeoutError'", "max_redriven": 1}


@since(4, 2)
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


@pytest.fixture
def elsewhere(spark: SparkSession, tmp_path: Path) -> str:
    """A directory that only Hadoop's file systems know: Python's own files cannot be there."""
    spark.conf.set("fs.viewfs.mounttable.archive.link./out", tmp_path.as_uri())
    return "viewfs://archive/out/run"


def test_runs_add_what_is_new_show_what_died_of_what_and_trim(  # noqa: PLR0917 - fixtures
    spark: SparkSession,
    broker: rq_dlq.Broker,
    raw: Any,
    archive: dict[str, Any],
    elsewhere: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(*arguments: str) -> str:
        monkeypatch.setattr("sys.argv", [str(ARCHIVE), "--out", elsewhere, *arguments])
        archive["main"]()
        return " ".join(capsys.readouterr().out.split())

    kept = Archive(spark, elsewhere)
    assert kept.history.count() == 0
    first = run()
    assert ": 104 events, 12 dead letters" in first
    assert "exhausted TimeoutError the gateway took 30 s 8 █████████████ 67% 8" in first
    assert "poison ValueError order 37 has no items 4 ███████ 33% 4" in first
    assert "new example-archive" not in first
    assert "2 redeliveries 40 8 0 16" in first
    assert "the gateway was down: 8 of example-archive would come back, 0 did so 2 times" in first
    assert "redriven: 8" in first
    assert {path.name for path in (tmp_path / "run" / "tables").iterdir()} == {
        "collisions", "poison", "queues", "what_if",
    }  # fmt: skip

    broker.queue("example-archive").delete(force=True)
    live(broker)
    assert kept.add("*") == Archived(
        queues=("mail:out", "orders.eu", "orders.us"), events=8, dead_letters=4, trimmed=0
    )
    letters = poison_report(kept.dead_letters.where("queue != 'example-archive'")).collect()
    assert [(row.queue, row.reason, row["count"]) for row in letters] == [
        ("orders.eu", "exhausted", 2),
        ("orders.eu", "poison", 1),
        ("orders.us", "exhausted", 1),
    ]
    now = spark.read.format("rq_dlq").options(queue="*", view="metrics").load()
    queues = queue_report(kept.history.where("queue != 'example-archive'"), now).collect()
    assert [(row.queue, row.succeeded, row.died) for row in queues] == [
        ("mail:out", 1, 0),
        ("orders.eu", 2, 3),
        ("orders.us", 1, 1),
    ]
    folders = sorted(path.name for path in (tmp_path / "run").iterdir() if path.is_dir())
    assert folders == ["dead_letters", "history", "manifest", "tables"]

    seconds, micros = raw.time()
    settle(broker, "orders.eu", {"f": OSError("disk full\x1b[2J"), "g": None})
    since = datetime.fromtimestamp(seconds + micros // 1000 / 1000, UTC).isoformat()
    later = run("--queue", "orders*", "--since", since, "--trim")
    assert ": 2 events, 1 dead letters trimmed: 9 events" in later
    assert "new orders.eu" in later
    assert "exhausted OSError disk full?[2J 1 ████████████████████ 100% 1" in later
    assert "redriven" not in later
    assert [len(broker.queue(name).outcomes()) for name in ("mail:out", "orders.eu")] == [1, 0]
    assert kept.history.count() == 104 + 10


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
