"""The archive, of queues in which messages of several kinds died; `test_examples` has its runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rq_dlq
from rq_dlq.errors import BrokerUnavailable, ConfigurationError, InvalidInput, RqDlqError
from rq_dlq.spark import Archive
from rq_dlq.spark.archive.archive import ArchiveSource
from rq_dlq.spark.archive.store import EVENTS, LETTERS, Store, add, store_at
from tests.spark.lived import live, settle
from tests.tables import each_row


@pytest.fixture
def lived(broker: rq_dlq.Broker) -> rq_dlq.Broker:
    return live(broker)


def at(spark: SparkSession, queue: str = "*") -> ArchiveSource:
    return ArchiveSource.of(spark, None, "rq", queue)


def test_all_queues_or_those_of_a_list(spark: SparkSession, broker: rq_dlq.Broker) -> None:
    for name in ("a;b", "c"):
        broker.queue(name).send(1)
    for queue, names in (("*", ["a;b", "c"]), ('["a;b"]', ["a;b"])):
        found = at(spark, queue).read("metrics").select("queue").collect()
        assert sorted(row.queue for row in found) == names


@pytest.mark.parametrize("form", ["parquet", pytest.param("delta", marks=pytest.mark.slow)])
def test_nothing_is_archived_twice_also_where_no_manifest_tells(
    spark: SparkSession, lived: rq_dlq.Broker, tmp_path: Path, form: str
) -> None:
    settle(lived, "{shop}.x", {"a": OSError("x")})
    source, store = at(spark), store_at(spark, f"file://{tmp_path}", form)
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


@each_row(
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
def test_what_begins_like_a_url_is_one(spark: SparkSession, out: str | Path, folder: str) -> None:
    assert Archive(spark, out).folder == folder


def test_a_url_that_became_a_path_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidInput, match="Pass a URL as text"):
        Archive(spark, Path("s3a://bucket/x"))


def test_what_is_not_read_back_is_not_trimmed(
    spark: SparkSession, lived: rq_dlq.Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Store.append

    def lose_some(self: Any, table: Any, rows: Any) -> None:
        append(self, table, rows.where("id != 'a'"))

    monkeypatch.setattr(Store, "append", lose_some)
    with pytest.raises(RqDlqError, match="has 0 rows of queue 'mail:out' instead of 1: nothing was"):
        Archive(spark, tmp_path).add("*", trim=True)
    assert len(lived.queue("orders.eu").outcomes()) == 5


def test_what_cannot_be_is_said_before_anything_is_done(
    spark: SparkSession, lived: rq_dlq.Broker, tmp_path: Path
) -> None:
    lived.queue("q").send(1)
    archive = Archive(spark, tmp_path)
    with pytest.raises(InvalidInput, match=r"no queue 'ordrs': the queues are mail:out, orders\.eu"):
        archive.add("orders*, ordrs")
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match="file cannot be written"):
        Archive(spark, tmp_path / "file").add("*")
    place = {"url": lived.url, "namespace": "rq", "format": "parquet", "kinds": []}  # as an earlier version
    manifest = tmp_path / "manifest" / "1" / "part-00000.txt"
    manifest.parent.mkdir(parents=True)
    for name, other in (("url", "redis://elsewhere"), ("namespace", "rq2"), ("format", "delta")):
        manifest.write_text(json.dumps(place | {name: other}))
        with pytest.raises(InvalidInput, match=f"is the archive of {name} '{other}'"):
            archive.add("*")
    manifest.write_text("{")
    with pytest.raises(InvalidInput, match="manifest/1 is damaged"):
        archive.add("*")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "file", "manifest"]


@each_row(
    ("given", "error", "said"),
    [
        ({"format": "orc"}, InvalidInput, "format is 'orc'. Pass one of parquet, delta"),
        ({"url": "foo"}, ConfigurationError, "'foo' is not a Redis URL"),
        ({"url": "redis://:secret@127.0.0.1:1"}, BrokerUnavailable, r"redis://:\*\*\*@127\.0\.0\.1:1"),
    ],
)
def test_wrong_places_are_said(
    spark: SparkSession, tmp_path: Path, given: dict[str, str], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        Archive(spark, tmp_path, **given).add("q")
