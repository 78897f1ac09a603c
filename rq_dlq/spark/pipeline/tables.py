"""The tables of a run, and the additional columns of its report on dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from pyspark.sql import functions as F  # noqa: N812 - as in most Spark programs

from rq_dlq.spark.pipeline.archive import persisted
from rq_dlq.spark.pipeline.manifest import Kind
from rq_dlq.spark.report import poison_report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Rows: TypeAlias = list[dict[str, Any]]
"""The rows of a table; times are UTC."""

FOLDER = "tables"
KIND = ("queue", "fingerprint", "reason")
_FIRST_RUNS = "queue string, fingerprint string, reason string, first_run int"


def poison(letters: DataFrame, dead: DataFrame, first_runs: Mapping[Kind, int], run: int) -> DataFrame:
    """The report on dead letters, with columns from the archive.

    Args:
        letters: of the archive.
        dead: the present dead letters.
        first_runs: the run that saw a kind first, by kind; a missing kind is new in this run.
        run: the number of this run.

    Returns:
        The columns of `poison_report`, and
        dead_now bigint: how many of these messages are dead now,
        first_run int: the run of this archive that saw the kind first.
    """
    known = [(*msgspec.structs.astuple(kind), number) for kind, number in first_runs.items()]
    runs = letters.sparkSession.createDataFrame(known, _FIRST_RUNS)
    report = poison_report(letters)
    now = dead.groupBy(*KIND).agg(F.count("*").alias("dead_now"))
    for more in (now, runs):
        same = [report[name].eqNullSafe(more[name]) for name in KIND]
        report = report.join(more, same, "left").drop(*(more[name] for name in KIND))
    return report.fillna({"dead_now": 0, "first_run": run}).orderBy(F.desc("count"), *KIND)


def write(tables: Mapping[str, DataFrame], out: str) -> dict[str, Rows]:
    """Write each table as Parquet, in place of the previous run's; returns the rows by name."""
    return {name: _written(table, f"{out}/{FOLDER}/{name}") for name, table in tables.items()}


def kind_of(row: Mapping[str, Any]) -> Kind:
    """The kind of a row of the poison report."""
    return Kind(*(row[name] for name in KIND))


def _written(table: DataFrame, path: str) -> Rows:
    with persisted(table) as kept:
        kept.coalesce(1).write.mode("overwrite").parquet(path)
        rows: Rows = kept.toArrow().to_pylist()
    return rows
