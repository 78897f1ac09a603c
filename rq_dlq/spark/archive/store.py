"""Append-only tables by queue and day, without duplicates."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - the usual name in Spark programs
from pyspark.sql.types import DateType, StructType

from rq_dlq.errors import ConfigurationError, RqDlqError
from rq_dlq.spark.archive.folder import LOCAL
from rq_dlq.spark.schemas import DEAD_LETTER, HISTORY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FORMATS = ("parquet", "delta")
PARTITIONS = ["queue", "date"]
MISSING = (
    "PATH_NOT_FOUND",
    "DELTA_PATH_DOES_NOT_EXIST",
    "DELTA_TABLE_NOT_FOUND",
    "DELTA_MISSING_DELTA_TABLE",
)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the archive.

    Attributes:
        name: of the table.
        columns: those of the view; the table also has `date`, the day in UTC.
        key: the columns that identify a row.
        at: the column with a row's time.
    """

    name: str
    columns: StructType
    key: tuple[str, ...]
    at: str

    @property
    def schema(self) -> StructType:
        """The columns as they are stored."""
        return StructType([*self.columns.fields]).add("date", DateType())


EVENTS = Table("history", HISTORY, ("queue", "event_id"), "at")
LETTERS = Table("dead_letters", DEAD_LETTER, ("queue", "id", "dead_at"), "dead_at")


def store_at(spark: SparkSession, folder: str, form: str) -> Store:
    """The archive of a directory, by its URL.

    Raises:
        ConfigurationError: no installed package can write Delta there.
    """
    if form == "parquet":
        return ParquetStore(spark, folder)
    if "io.delta." in (spark.conf.get("spark.sql.extensions", "") or ""):
        return SparkDeltaStore(spark, folder)
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
    return DeltaStore(spark, folder)


@dataclass(frozen=True, slots=True)
class Store:
    """Where tables are kept; each format says how it loads and appends. Spark's file systems do the work."""

    spark: SparkSession
    folder: str

    def read(self, table: Table) -> DataFrame:
        """All rows; none if nothing was ever written."""
        rows = self._load(table)
        if rows is None:
            return self.spark.createDataFrame([], table.schema)
        return rows.select(*table.schema.names)

    def _load(self, table: Table) -> DataFrame | None:
        """The rows of a table; None: the table does not exist."""
        raise NotImplementedError

    def append(self, table: Table, rows: DataFrame) -> None:
        """Add rows: all or none, if the format can do that."""
        raise NotImplementedError

    def path(self, table: Table) -> str:
        """The URL of a table."""
        return f"{self.folder}/{table.name}"


class ParquetStore(Store):
    """Plain Parquet files."""

    def _load(self, table: Table) -> DataFrame | None:
        return there(lambda: self.spark.read.schema(table.schema).parquet(self.path(table)))

    def append(self, table: Table, rows: DataFrame) -> None:
        """Add rows; a day of a queue becomes one file."""
        arranged = rows.repartition(*PARTITIONS).sortWithinPartitions(*PARTITIONS, table.at)
        arranged.write.mode("append").partitionBy(*PARTITIONS).parquet(self.path(table))


class SparkDeltaStore(Store):
    """Delta tables, written by Spark with Delta's own jar."""

    def _load(self, table: Table) -> DataFrame | None:
        return there(lambda: self.spark.read.format("delta").load(self.path(table)))

    def append(self, table: Table, rows: DataFrame) -> None:
        """Add rows."""
        rows.write.format("delta").mode("append").partitionBy(*PARTITIONS).save(self.path(table))


class DeltaStore(Store):
    """Delta tables without the jar: Spark reads, the driver writes; the new rows must fit into its memory."""

    def _load(self, table: Table) -> DataFrame | None:
        import deltalake  # noqa: PLC0415 - an extra

        path = self._local(table)
        files = deltalake.DeltaTable(path).file_uris() if deltalake.DeltaTable.is_deltatable(path) else []
        return (
            self.spark.read.schema(table.schema).option("basePath", path).parquet(*files) if files else None
        )

    def append(self, table: Table, rows: DataFrame) -> None:
        """Add rows."""
        import deltalake  # noqa: PLC0415

        with _utc(self.spark):
            new = rows.toArrow()
        deltalake.write_deltalake(self._local(table), new, mode="append", partition_by=PARTITIONS)

    def _local(self, table: Table) -> str:
        return self.path(table).removeprefix(LOCAL)


def there(load: Callable[[], DataFrame]) -> DataFrame | None:
    """The content that Spark loads from a path; None: the path does not exist."""
    try:
        rows = load()
        rows.schema  # noqa: B018 - Spark Connect looks only now
    except AnalysisException as error:
        if error.getCondition() not in MISSING:
            raise
        return None
    return rows


def add(store: Store, table: Table, rows: DataFrame) -> int:
    """Archive the rows that are not archived yet, and check that all are.

    Args:
        rows: persisted by the caller, since they are read several times.

    Returns:
        How many are new.

    Raises:
        RqDlqError: the rows read back are not the rows written.
    """
    there = store.read(table).select(*table.key)
    day = F.date_from_unix_date(F.floor(F.unix_seconds(table.at) / 86_400).cast("int"))
    fresh = rows.join(there, _same(table, rows, there), "left_anti").withColumn("date", day)
    with persisted(fresh.select(*table.schema.names)) as new:
        if count := new.count():
            store.append(table, new)
    check(store, table, rows)
    return count


def check(store: Store, table: Table, rows: DataFrame) -> None:
    """Check that each row is in the archive exactly once.

    Raises:
        RqDlqError: one is not.
    """
    there = store.read(table).select(*table.key).withColumn("there", F.lit(1))
    found = rows.join(there, _same(table, rows, there), "left").select(
        *(rows[name] for name in table.key), "there"
    )
    distinct = F.count_distinct(F.struct(*table.key)).alias("wanted")
    counts = found.groupBy("queue").agg(distinct, F.count("*").alias("all"), F.count("there").alias("there"))
    for row in sorted(counts.collect()):
        if not row["wanted"] == row["all"] == row["there"]:
            has, wanted = row["there"], row["wanted"]
            raise RqDlqError(
                f"the archive of {table.name} has {has:,} rows of queue {row['queue']!r} instead of "
                f"{wanted:,}: nothing was trimmed. Run it again; if the error comes back, restore the "
                "archive from a backup"
            )


@contextmanager
def persisted(rows: DataFrame) -> Generator[DataFrame]:
    """Persist rows, so that they are read only once."""
    kept = rows.persist()
    try:
        yield kept
    finally:
        kept.unpersist()


def _same(table: Table, left: DataFrame, right: DataFrame) -> Column:
    """The condition that two rows are the same; a damaged record may lack a part of its key."""
    return reduce(and_, (left[name].eqNullSafe(right[name]) for name in table.key))


@contextmanager
def _utc(spark: SparkSession) -> Generator[None]:
    """Set the session's time zone to UTC for the block: Arrow's times have it, and Delta takes no other."""
    name = "spark.sql.session.timeZone"
    before = spark.conf.get(name)
    spark.conf.set(name, "UTC")
    try:
        yield
    finally:
        spark.conf.set(name, before or "UTC")
