"""The shipped job, on a real server with queues in which messages of several kinds died."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import rq_dlq
from rq_dlq.errors import ConfigurationError, InvalidInput, RqDlqError
from rq_dlq.spark.pipeline import PipelineSettings, Rule, read_rules, run
from rq_dlq.spark.pipeline.__main__ import main
from rq_dlq.spark.pipeline.archive import EVENTS, LETTERS, ParquetStore, add, store_at
from rq_dlq.spark.pipeline.redrive import Plan, Redrive, carry_out, plan
from rq_dlq.spark.pipeline.source import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rq_dlq.spark.pipeline import Summary

DOWN = Rule(name="the gateway was down", queue="orders*", error_class="*TimeoutError", max_redriven=1)


def settle(broker: rq_dlq.Broker, name: str, errors: dict[str, BaseException | None]) -> None:
    """Send messages and let them end: by an error, at once, or well."""
    queue = broker.queue(name, outcomes=1_000, redelivery=rq_dlq.RedeliveryPolicy(max_redeliveries=0))
    queue.send_many(rq_dlq.Message(body=1, id=id) for id in errors)
    for delivery in queue.claim(len(errors)):
        error = errors[delivery.id]
        if error is None:
            delivery.ack()
        elif isinstance(error, ValueError):
            delivery.poison(error)
        else:
            delivery.nack(error)


@pytest.fixture
def lived(broker: rq_dlq.Broker) -> rq_dlq.Broker:
    """Three queues with 2, 1 and 1 acked and 3, 1 and 0 dead messages."""
    slow = TimeoutError("gateway took 30 s")
    settle(broker, "orders.eu", {"a": slow, "b": slow, "c": ValueError("no such item"), "d": None, "e": None})
    settle(broker, "orders.us", {"a": slow, "b": None})
    settle(broker, "mail:out", {"a": None})
    return broker


def once(spark: SparkSession, out: str | Path, queue: str = "*", **settings: Any) -> Summary:
    return run(spark, PipelineSettings(queue=queue, out=out, **settings))


def at(spark: SparkSession, out: Path, queue: str = "*") -> Source:
    return Source.of(spark, PipelineSettings(queue=queue, out=out))


def planned(spark: SparkSession, out: Path, queue: str = "*") -> Plan:
    return plan(at(spark, out, queue).read("dlq"), [DOWN])


def test_a_queue_whose_name_has_a_comma(spark: SparkSession, broker: rq_dlq.Broker, tmp_path: Path) -> None:
    for name in ("a,b", "c"):
        broker.queue(name).send(1)
    for queue, names in (("*", ["a,b", "c"]), ('["a,b"]', ["a,b"])):
        found = at(spark, tmp_path, queue).read("metrics").select("queue").collect()
        assert sorted(row.queue for row in found) == names


@pytest.fixture
def elsewhere(spark: SparkSession, tmp_path: Path) -> str:
    """A directory that only Hadoop's file systems know: Python's own files cannot be there."""
    spark.conf.set("fs.viewfs.mounttable.archive.link./out", tmp_path.as_uri())
    return "viewfs://archive/out/run"


@pytest.mark.timeout(400)  # two runs, of some forty Spark jobs each
def test_a_second_run_adds_what_is_new_and_trims_its_queues(
    spark: SparkSession, lived: rq_dlq.Broker, elsewhere: str, tmp_path: Path, raw: Any
) -> None:
    first = once(spark, elsewhere)
    assert (first.run, first.queues) == (1, ("mail:out", "orders.eu", "orders.us"))
    assert (first.events, first.letters) == (8, 4)
    kinds = [(row["queue"], row["reason"], row["count"], row["dead_now"]) for row in first.tables["poison"]]
    assert kinds == [
        ("orders.eu", "exhausted", 2, 2),
        ("orders.eu", "poison", 1, 1),
        ("orders.us", "exhausted", 1, 1),
    ]
    assert [(row["queue"], row["succeeded"], row["died"]) for row in first.tables["queues"]] == [
        ("mail:out", 1, 0),
        ("orders.eu", 2, 3),
        ("orders.us", 1, 1),
    ]
    assert spark.read.parquet(f"{elsewhere}/tables/poison").toArrow().to_pylist() == first.tables["poison"]
    assert sorted(path.name for path in (tmp_path / "run").iterdir() if path.is_dir()) == [
        "dead_letters", "history", "manifest", "tables",
    ]  # fmt: skip

    seconds, micros = raw.time()
    settle(lived, "orders.eu", {"f": OSError("disk full"), "g": None})
    since = datetime.fromtimestamp(seconds + micros // 1000 / 1000, UTC)
    later = once(spark, elsewhere, "orders*", since=since, rules=(DOWN,), apply=True, trim=True)
    assert (later.run, later.events, later.letters, later.redriven) == (2, 2, 1, 3)
    assert (later.trimmed, len(lived.queue("mail:out").outcomes())) == (9, 1)
    assert "g" not in {event.id for event in lived.queue("orders.eu").outcomes()}
    assert [(row["error_message"], row["first_run"]) for row in later.tables["poison"]] == [("disk full", 2)]
    assert [kind.fingerprint for kind in later.new_kinds] == [later.tables["poison"][0]["fingerprint"]]
    assert lived.queue("orders.eu").stats().ready == 2


@pytest.mark.parametrize("form", ["parquet", pytest.param("delta", marks=pytest.mark.slow)])
def test_nothing_is_archived_twice_also_where_no_manifest_tells(
    spark: SparkSession, lived: rq_dlq.Broker, tmp_path: Path, form: str
) -> None:
    settle(lived, "{shop}.x", {"a": OSError("x")})
    source, store = at(spark, tmp_path), store_at(spark, f"file://{tmp_path}", form)
    for table, view, count in ((EVENTS, "history", 9), (LETTERS, "dlq", 5)):
        rows = source.read(view)
        assert [add(store, table, rows), add(store, table, rows)] == [count, 0]
        assert sorted(store.read(table).drop("date").collect(), key=repr) == sorted(rows.collect(), key=repr)


def test_without_anything_that_writes_delta_it_says_so(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match="pip install deltalake"):
        store_at(spark, f"file://{tmp_path}", "delta")


def test_without_spark_s_jar_delta_is_only_local(spark: SparkSession) -> None:
    with pytest.raises(ConfigurationError, match="only to a local directory here, not to s3a://bucket/x"):
        store_at(spark, "s3a://bucket/x", "delta")


@pytest.mark.parametrize(
    ("out", "folder"),
    [
        ("dbfs:/mnt/archive", "dbfs:/mnt/archive"),
        ("s3a://bucket/archive/", "s3a://bucket/archive"),
        ("hdfs:/archive", "hdfs:/archive"),
        ("file:/data/archive", "file:///data/archive"),
        ("file:///data/archive", "file:///data/archive"),
        ("/data/archive", "file:///data/archive"),
        ("/data/10:/30", "file:///data/10:/30"),
        (Path("/data/archive"), "file:///data/archive"),
        ("archive", f"file://{Path.cwd()}/archive"),
    ],
)
def test_what_begins_like_a_url_is_one(out: str | Path, folder: str) -> None:
    assert PipelineSettings(queue="orders", out=out).folder == folder


def test_a_url_that_became_a_path_is_refused() -> None:
    with pytest.raises(InvalidInput, match="Pass a URL as text"):
        PipelineSettings(queue="orders", out=Path("s3a://bucket/x"))


def test_what_is_not_read_back_is_not_trimmed(
    spark: SparkSession, lived: rq_dlq.Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = ParquetStore.append

    def lose_some(self: Any, table: Any, rows: Any) -> None:
        append(self, table, rows.where("id != 'a'"))

    monkeypatch.setattr(ParquetStore, "append", lose_some)
    with pytest.raises(RqDlqError, match="has 0 rows of queue 'mail:out' instead of 1: nothing was"):
        once(spark, tmp_path, trim=True)
    assert len(lived.queue("orders.eu").outcomes()) == 5


def test_rules_redrive_once_and_then_quarantine(
    spark: SparkSession, lived: rq_dlq.Broker, tmp_path: Path
) -> None:
    eu = lived.queue("orders.eu")
    first = planned(spark, tmp_path)
    assert carry_out(first, [DOWN], lived) == 3
    assert (eu.stats().ready, [letter.id for letter in eu.dlq.browse()]) == (2, ["c"])

    for delivery in eu.claim(2):
        delivery.nack(TimeoutError("gateway took 31 s"))
    assert planned(spark, tmp_path) == Plan([], {DOWN.name: 2})


def test_redriving_keeps_to_a_rate(lived: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    now, waits = 0.0, list[float]()

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        waits.append(seconds)

    monkeypatch.setattr("rq_dlq.spark.rate_limit.time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    slow = replace(DOWN, rate=2)
    carry_out(Plan([Redrive(slow.name, "orders.eu", str(n)) for n in range(7)]), [slow], lived)
    assert waits == [0.5] * 7


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ('["x"]\nqueue = "a"\nrate = 0', ["rules, line 3: x.rate: 0 is not a number above 0"]),
        (
            '["x"]\nqeue = "a"\n[y]\nreason = "tired"',
            ["line 2: x.qeue: there is no", "line 4: y.reason: 'tired' is"],
        ),
        ('["x"]\nmax_redriven = 2', ["line 1: x: a rule without a condition matches everything"]),
        ('["x"]\nqueue = "a"\nmax_redriven = true', ["line 3: x.max_redriven: True is not a whole number"]),
        ("x = 1", ["line 1: x: not a rule"]),
        ("[x\n", ["not TOML: .*at line 1"]),
        ("", ["there is no rule"]),
        ('["x"]\nfingerprint = "ab*"', ["line 2: x.fingerprint: 'ab\\*' is not a fingerprint"]),
    ],
)
def test_a_bad_rules_file_is_told_by_its_lines(text: str, problems: list[str]) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_rules(text)
    for problem in problems:
        assert caught.match(problem)


def test_rules_of_a_file(spark: SparkSession) -> None:
    text = """
        ["a b"]
        queue = "or.d*"
        error_class = "x.*Error"
        max_redriven = 2
        rate = 1.5
        [c]
        reason = "poison"
    """
    first, second = read_rules(text)
    assert first == Rule(name="a b", queue="or.d*", error_class="x.*Error", max_redriven=2, rate=1.5)
    rows = [
        ("or.ders", "x.FooError", "poison"),
        ("orxders", "x.FooError", "poison"),
        ("or.d", "x.Foo", "exhausted"),
    ]
    letters = spark.createDataFrame(rows, "queue string, error_class string, reason string")
    found = letters.select(first.fits().alias("first"), second.fits().alias("second")).collect()
    assert [tuple(row) for row in found] == [(True, True), (False, True), (False, False)]


def test_what_cannot_be_is_said_before_anything_is_done(
    spark: SparkSession, lived: rq_dlq.Broker, tmp_path: Path
) -> None:
    lived.queue("q").send(1)
    with pytest.raises(InvalidInput, match=r"no queue 'ordrs': the queues are mail:out, orders\.eu"):
        once(spark, tmp_path, "orders*, ordrs")
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match="file cannot be written"):
        once(spark, tmp_path / "file")
    place = {"url": lived.url, "namespace": "rq", "format": "parquet"}
    manifest = tmp_path / "manifest" / "1" / "part-00000.txt"
    manifest.parent.mkdir(parents=True)
    for name, other in (("url", "redis://elsewhere"), ("namespace", "rq2"), ("format", "delta")):
        manifest.write_text(json.dumps(place | {name: other}))
        with pytest.raises(InvalidInput, match=f"is the archive of {name} '{other}'"):
            once(spark, tmp_path)
    manifest.write_text("{")
    with pytest.raises(InvalidInput, match="manifest/1 is damaged"):
        once(spark, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "file", "manifest"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--apply"], 2, "--apply needs rules: pass --rules FILE"),
        (["--since", "yesterday"], 2, "option since: 'yesterday' is not an ISO time"),
        (["--since", "999999999999999", "--url", "redis://127.0.0.1:1"], 3, "redis://127.0.0.1:1"),
        (["--format", "orc"], 2, "'orc' is not one of 'parquet', 'delta'"),
        (["--rules", __file__], 2, "test_pipeline.py: not TOML: "),
        (["--url", "foo"], 2, "'foo' is not a Redis URL"),
        (["--url", "redis://:secret@127.0.0.1:1"], 3, "redis://:***@127.0.0.1:1"),
    ],
)
def test_wrong_options_are_said_without_a_session(
    arguments: list[str], code: int, said: str, tmp_path: Path
) -> None:
    result = CliRunner().invoke(main, ["--queue", "q", "--out", str(tmp_path), *arguments])
    assert result.exit_code == code
    assert said in " ".join(result.output.split())
