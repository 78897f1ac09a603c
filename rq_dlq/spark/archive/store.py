"""Append-only tables by queue and day, without duplicates."""

from __future__ import annotations

import importlib.util
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - the usual name in Spark programs
from pyspark.sql.types import DateType, StructField, StructType

from rq_dlq.errors import ConfigurationError, RqDlqError
from rq_dlq.spark.archive.place import LOCAL, there
from rq_dlq.spark.arrow import arrow_schema
from rq_dlq.spark.schemas import DEAD_LETTER, HISTORY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("parquet", "delta")
PARTITIONS = ["queue", "date"]


class Table(NamedTuple):
    """A table of the archive.

    Attributes:
        schema: the columns of the view, and `date`, the day in UTC.
        key: the columns that identify a row.
        at: the column with a row's time.
    """

    name: str
    schema: StructType
    key: tuple[str, ...]
    at: str


_DATE = StructField("date", DateType())
EVENTS = Table("history", StructType([*HISTORY, _DATE]), ("queue", "event_id"), "at")
LETTERS = Table("dead_letters", StructType([*DEAD_LETTER, _DATE]), ("queue", "id", "dead_at"), "dead_at")


def store_at(spark: SparkSession, folder: str, form: str) -> Store:
    """The archive of a directory, by its URL.

    Raises:
        ConfigurationError: no installed package can write Delta there.
    """
    if form == "parquet" or "io.delta." in (spark.conf.get("spark.sql.extensions", "") or ""):
        return Store(spark, folder, form)
    if importlib.util.find_spec("deltalake") is None:
        message = (
            "no installed package writes Delta: pip install deltalake, add Spark's Delta jar, or use parquet"
        )
        raise ConfigurationError(message)
    if not folder.startswith(LOCAL):
        raise ConfigurationError(
            f"deltalake writes only to a local directory here, not to {folder}: add Spark's Delta jar, or "
            "use parquet"
        )
    return DeltaStore(spark, folder.removeprefix(LOCAL), form)


class Store:
    """Tables in a format that Spark reads and writes, on any of its file systems."""

    def __init__(self, spark: SparkSession, folder: str, form: str) -> None:
        self._spark, self._folder, self._form = spark, folder, form

    def read(self, table: Table) -> DataFrame:
        """All rows; none if nothing was ever written."""
        rows = self._load(table)
        if rows is None:
            return self._spark.createDataFrame([], table.schema)
        return rows.select(*table.schema.names)

    def _load(self, table: Table) -> DataFrame | None:
        """The rows of a table; None: the table does not exist."""
        reader = self._spark.read.format(self._form)
        if self._form == "parquet":  # where a queue named 7 would become a number; Delta has its own
            reader = reader.schema(table.schema)
        return there(lambda: reader.load(self._path(table)))

    def append(self, table: Table, rows: DataFrame) -> None:
        """Add rows: all or none, if the format can do that. A day of a queue becomes one file."""
        arranged = rows.repartition(*PARTITIONS).sortWithinPartitions(*PARTITIONS, table.at)
        writer = arranged.write.format(self._form).mode("append")
        writer.partitionBy(*PARTITIONS).save(self._path(table))

    def _path(self, table: Table) -> str:
        return f"{self._folder}/{table.name}"


class DeltaStore(Store):
    """Delta tables without the jar: Spark reads, the driver writes; the new rows must fit into its memory."""

    def _load(self, table: Table) -> DataFrame | None:
        import deltalake  # noqa: PLC0415 - an extra

        path = self._path(table)
        files = deltalake.DeltaTable(path).file_uris() if deltalake.DeltaTable.is_deltatable(path) else []
        reader = self._spark.read.schema(table.schema).option("basePath", path)
        return reader.parquet(*files) if files else None

    def append(self, table: Table, rows: DataFrame) -> None:
        """Add rows."""
        import deltalake  # noqa: PLC0415

        new = rows.toArrow().cast(arrow_schema(table.schema))  # its times in UTC: Delta takes no other zone
        new = new.take([*range(len(new))])  # Spark 4.1 leaves out the offsets of an empty array: Delta panics
        deltalake.write_deltalake(self._path(table), new, mode="append", partition_by=PARTITIONS)


def add(store: Store, table: Table, rows: DataFrame) -> int:
    """Archive the rows that are not archived yet, and check that all are.

    Args:
        rows: persisted by the caller, since they are read several times.

    Returns:
        How many are new.

    Raises:
        RqDlqError: the rows read back are not the rows written.
    """
    # A damaged record may lack a part of its key: structs are equal where both lack it.
    key = F.struct(*table.key).alias("whole_key")
    day = F.date_from_unix_date(F.floor(F.unix_seconds(table.at) / 86_400).cast("int"))
    fresh = rows.select("*", key).join(store.read(table).select(key), "whole_key", "left_anti")
    with persisted(fresh.withColumn("date", day).select(*table.schema.names)) as new:
        if count := new.count():
            store.append(table, new)
    archived = store.read(table).select(key, F.lit(1).alias("there"))
    counts = rows.select("queue", key).join(archived, "whole_key", "left").groupBy("queue")
    distinct = F.count_distinct("whole_key").alias("wanted")
    found = counts.agg(distinct, F.count("*").alias("all"), F.count("there").alias("there"))
    for queue, wanted, every, has in sorted(found.collect()):
        if not wanted == every == has:
            raise RqDlqError(
                f"the archive of {table.name} has {has:,} rows of queue {queue!r} instead of "
                f"{wanted:,}: nothing was trimmed. Run it again; if the error comes back, restore the "
                "archive from a backup"
            )
    return count


@contextmanager
def persisted(rows: DataFrame) -> Generator[DataFrame]:
    """Persist rows, so that they are read only once."""
    kept = rows.persist()
    try:
        yield kept
    finally:
        kept.unpersist()
