"""The tables of a run, and what the report on dead letters has in addition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - as everybody who uses Spark writes it

from rq_dlq.spark.pipeline.manifest import Kind
from rq_dlq.spark.report import poison_report

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame

Rows: TypeAlias = list[dict[str, Any]]
"""Of a table; times are UTC."""

FOLDER = "tables"
KIND = ("queue", "fingerprint", "reason")
_FIRST_RUNS = "queue string, fingerprint string, reason string, first_run int"


def poison(letters: DataFrame, dead: DataFrame, first_runs: Mapping[Kind, int], run: int) -> DataFrame:
    """The report on dead letters, with what the archive knows.

    Args:
        letters: of the archive.
        dead: those that are dead now.
        first_runs: by kind: the run that saw it first; a kind that is not there is new in this run.

    Returns:
        The columns of `poison_report`, and
        dead_now bigint: of these messages, in the dead-letter queue at present,
        first_run int: the run of this archive that saw the kind first.
    """
    known = [(*_of(kind), number) for kind, number in first_runs.items()]
    runs = letters.sparkSession.createDataFrame(known, _FIRST_RUNS)
    report = poison_report(letters)
    now = dead.groupBy(*KIND).agg(F.count("*").alias("dead_now"))
    for more in (now, runs):
        same = [report[name].eqNullSafe(more[name]) for name in KIND]
        report = report.join(more, same, "left").drop(*(more[name] for name in KIND))
    return report.fillna({"dead_now": 0, "first_run": run}).orderBy(F.desc("count"), *KIND)


def write(tables: Mapping[str, DataFrame], out: Path) -> dict[str, Rows]:
    """Write tables in place of those of the run before, each a file of Parquet; by name: the rows."""
    folder = out / FOLDER
    folder.mkdir(exist_ok=True)
    return {name: _written(table, folder / f"{name}.parquet") for name, table in tables.items()}


def kind_of(row: Mapping[str, Any]) -> Kind:
    """The kind that a row of the poison report is about."""
    return Kind(*(row[name] for name in KIND))


def _of(kind: Kind) -> tuple[Any, ...]:
    return tuple(getattr(kind, name) for name in KIND)


def _written(table: DataFrame, path: Path) -> Rows:
    rows = table.toArrow()
    new = path.with_suffix(".new")
    pq.write_table(rows, new)
    new.replace(path)
    made: Rows = rows.to_pylist()
    return made
