"""The recipes of the page: their first try fails after the sink has written, and nothing is lost or doubled.

`test_connect` runs them in a session of Spark Connect, too, whose functions run in a process of their own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import rq_dlq
from rq_dlq.spark import check_held, epoch_key, split
from tests.needs import need
from tests.spark.conftest import CONNECT
from tests.spark.handlers import OUT, totals
from tests.spark.versions import since

pytestmark = since(4, 2)
Write = Callable[[DataFrame, str], None]
Read = Callable[[], list[str]]  # the ids of what is there


def messages(spark: SparkSession) -> DataFrame:
    """As the source made them of messages: by its handler, or, with Connect, by the one of the sink."""
    reader = spark.readStream.format("rq_dlq").options(queue="orders", maxMessagesPerTrigger=15)
    if CONNECT in os.environ:
        return reader.load().select("id", "batch", "body")
    return reader.schema(OUT).option("handler", "tests.spark.handlers:many_totals").load()


def recipe(write: Write, folder: Path) -> Callable[[DataFrame, int], None]:
    """The sink of the page, with this write; it dies after the first one."""
    name = "orders-1" if CONNECT in os.environ else ""  # not known where Connect runs the function

    def sink(batch: DataFrame, epoch: int) -> None:
        with split(batch.mapInArrow(totals, OUT) if "body" in batch.columns else batch) as done:
            check_held(done)
            key = epoch_key(batch, epoch, query=name)
            write(done.ok.select("id", "total").withColumn("epoch", sql.lit(key)), key)
            if not (folder / "tried").exists():
                (folder / "tried").touch()
                message = "the driver dies"
                raise RuntimeError(message)
            done.nack()

    return sink


def survives(spark: SparkSession, broker: rq_dlq.Broker, folder: Path, write: Write) -> list[str]:
    """Run it with a supervisor; what was sent and is good."""
    queue = broker.queue("orders", redelivery=rq_dlq.RedeliveryPolicy(max_redeliveries=0))
    ids = [*queue.send_many([*range(19), None])]
    for failures in (1, 0):
        writer = messages(spark).writeStream.foreachBatch(recipe(write, folder)).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
        if failures:
            with pytest.raises(Exception, match="the driver dies"):
                query.awaitTermination()
        else:
            query.awaitTermination()
    assert [letter.id for letter in queue.dlq.browse()] == ids[19:]
    assert queue.stats().totals["acked"] == 19
    return sorted(ids[:19])


def parquet(folder: Path) -> tuple[Write, Read]:
    """A folder for each epoch."""
    out = str(folder / "parquet")

    def write(rows: DataFrame, key: str) -> None:
        rows.drop("epoch").write.mode("overwrite").parquet(f"{out}/epoch={key}")

    def read() -> list[str]:
        return [*pq.read_table(out)["id"].to_pylist()]

    return write, read


def delta(spark: SparkSession, folder: Path) -> tuple[Write, Read]:
    """The rows of an epoch, replaced: by Delta's jars where the session has them (`matrix`)."""
    out = str(folder / "delta")
    if "io.delta." in (spark.conf.get("spark.sql.extensions", "") or ""):
        return partial(replace, out), lambda: [
            row.id for row in spark.read.format("delta").load(out).collect()
        ]
    need("deltalake", "dev")
    from deltalake import DeltaTable, write_deltalake  # noqa: PLC0415 - maybe it is not there

    def write(rows: DataFrame, key: str) -> None:
        write_deltalake(out, rows.toArrow(), mode="overwrite", predicate=f"epoch = '{key}'")

    def read() -> list[str]:
        return [*DeltaTable(out).to_pyarrow_table()["id"].to_pylist()]

    return write, read


def merged(folder: Path) -> tuple[Write, Read]:
    """A Delta table without epochs, into which rows are merged by their ids."""
    need("deltalake", "dev")
    from deltalake import DeltaTable  # noqa: PLC0415 - maybe it is not there

    out = str(folder / "merged")

    def write(rows: DataFrame, _: str) -> None:
        new = rows.drop("epoch").toArrow()
        table = DeltaTable.create(out, new.schema, mode="ignore")
        merge = table.merge(new, "t.id = s.id", source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def read() -> list[str]:
        return [*DeltaTable(out).to_pyarrow_table()["id"].to_pylist()]

    return write, read


def replace(out: str, rows: DataFrame, key: str) -> None:
    """Replace the rows of an epoch in a Delta table."""
    rows.write.format("delta").mode("overwrite").option("replaceWhere", f"epoch = '{key}'").save(out)


def database(spark: SparkSession, folder: Path) -> tuple[Write, Read]:
    """Derby, which Spark brings: the rows of an epoch, deleted before."""
    url = f"jdbc:derby:{folder}/db;create=true"
    jvm: Any = spark._jvm

    def run(statement: str) -> None:
        database = jvm.java.sql.DriverManager.getConnection(url)
        database.createStatement().executeUpdate(statement)
        database.close()

    def write(rows: DataFrame, key: str) -> None:
        run(f"DELETE FROM totals WHERE epoch = '{key}'")  # noqa: S608 - our own key
        rows.write.jdbc(url, "totals", mode="append")

    jvm.java.lang.Class.forName("org.apache.derby.iapi.jdbc.AutoloadedDriver")
    run("CREATE TABLE totals (id VARCHAR(99), total DOUBLE, epoch VARCHAR(99))")

    def read() -> list[str]:
        return [row.ID for row in spark.read.jdbc(url, "totals").collect()]

    return write, read


def test_parquet_delta_and_a_database_by_epoch(
    spark: SparkSession, broker: rq_dlq.Broker, tmp_path: Path
) -> None:
    """One query writes into all of them, by its epoch or its ids, and dies when all are written."""
    sinks = {"parquet": parquet(tmp_path), "delta": delta(spark, tmp_path), "merged": merged(tmp_path)}
    if CONNECT not in os.environ:  # the statements go by Java's driver
        sinks["database"] = database(spark, tmp_path)
    writes = [write for write, _ in sinks.values()]

    def write_all(rows: DataFrame, key: str) -> None:
        for write in writes:
            write(rows, key)

    wanted = survives(spark, broker, tmp_path, write_all)
    assert {name: sorted(read()) for name, (_, read) in sinks.items()} == dict.fromkeys(sinks, wanted)
