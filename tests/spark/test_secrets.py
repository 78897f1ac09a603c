"""The password of a URL is in no plan, checkpoint, event log or page of Spark's UI."""

from __future__ import annotations

import contextlib
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import rq_dlq
from rq_dlq.spark import claim
from tests.servers import wait_until
from tests.spark.test_stream import run, streams

SECRET = "geheimnis"  # noqa: S105 - of this test
PAGES = ("environment", "jobs", "stages?details=true", "sql?details=true&planDescription=true&length=999")
HTML = ("SQL", "StreamingQuery", "environment", "jobs", "stages", "executors")


@pytest.fixture
def url(raw: Any, redis_url: str) -> Iterator[str]:
    """Of a user with a password."""
    raw.execute_command("ACL", "SETUSER", "joe", "on", f">{SECRET}", "~*", "&*", "+@all")
    yield redis_url.replace("unix://", f"unix://joe:{SECRET}@")
    raw.execute_command("ACL", "DELUSER", "joe")


def pages(spark: SparkSession) -> Iterator[str]:
    """What the UI shows, and what its API answers."""
    web, application = spark.sparkContext.uiWebUrl, spark.sparkContext.applicationId
    for path in [f"api/v1/applications/{application}/{page}" for page in PAGES] + [
        f"{page}/" for page in HTML
    ]:
        with urllib.request.urlopen(f"{web}/{path}") as reply:  # noqa: S310 - of this machine
            yield reply.read().decode()


def use(spark: SparkSession, url: str, folder: Path) -> None:
    """All that takes a URL; and what fails."""
    usual = {"queue": "orders", "url": url}
    frame = spark.read.format("rq_dlq").options(**usual).load()
    frame.explain("formatted")
    frame.explain(extended=True)
    assert frame.count() == 3
    rows = frame.select("body")
    rows.write.format("rq_dlq").options(**usual | {"queue": "copies"}).mode("append").save()
    for view, columns in (("waiting", ""), ("outbox", "(body STRING)")):
        spark.sql(f"CREATE TEMPORARY VIEW {view} {columns} USING rq_dlq OPTIONS (queue 'sql', url '{url}')")
    spark.sql("INSERT INTO outbox VALUES ('x')")
    assert spark.sql("SELECT * FROM waiting").count() == 1
    for view in ("waiting", "outbox"):
        spark.sql(f"DESCRIBE EXTENDED {view}").collect()
        spark.sql(f"DROP VIEW {view}")
    with claim(spark, "copies", limit=2, url=url) as batch:
        assert batch.df.count() == 2

    def sink(rows: DataFrame, epoch: int) -> None:
        rows.count()
        if epoch == 0:
            bad = rows.limit(1).selectExpr("id", "batch")
            bad.write.format("rq_dlq").options(operation="nack", url=url).mode("append").save()
            bad.selectExpr("raise_error(id)").collect()

    with contextlib.suppress(Exception):
        run(spark, sink, folder, url=url)
    for broken in (url.replace("redis.sock", "nowhere.sock"), url.replace("joe", "eve")):
        with pytest.raises(Exception, match=r"rq_dlq\.errors"):
            spark.read.format("rq_dlq").options(queue="orders", url=broken).load().collect()


@streams
def test_no_password_is_shown(  # noqa: PLR0917 - fixtures
    spark: SparkSession,
    broker: rq_dlq.Broker,
    url: str,
    event_logs: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    broker.queue("orders").send_many(range(3))
    mark = "a description to wait for"
    use(spark, url, tmp_path)
    spark.sparkContext.setJobDescription(mark)
    spark.range(3).collect()
    spark.sparkContext.setJobDescription(None)  # type: ignore[arg-type]

    def logs() -> str:
        return "".join(path.read_text() for path in event_logs.rglob("*") if path.is_file())

    wait_until(lambda: mark in logs())
    shown = {
        "UI": "".join(pages(spark)),
        "event logs": logs(),
        "checkpoint": "".join(
            path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()
        ),
        "output": "".join(capfd.readouterr()),
    }
    assert all(mark in shown[where] and "rq_dlq" in shown[where] for where in ("UI", "event logs"))
    found = {where: re.findall(f".{{0,80}}{SECRET}.{{0,20}}", text) for where, text in shown.items()}
    assert not any(found.values()), found
