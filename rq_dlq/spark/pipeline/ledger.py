"""The messages that rules have redriven or quarantined, one JSON object per line, append-only.

A line is written before its message is redriven, so that every redrive is recorded. Its time of death tells a
line that an interrupted run left for this death from lines of earlier deaths. To release a message from
quarantine, remove its line from the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from pyspark.sql import functions as F  # noqa: N812 - the usual name in Spark programs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME: Final = "ledger.jsonl"
REDRIVE, QUARANTINE = "redrive", "quarantine"
SCHEMA: Final = "action string, rule string, queue string, id string, dead_at timestamp, run int"


class Line(NamedTuple):
    """What a rule did to a dead letter."""

    action: str
    rule: str
    queue: str
    id: str
    dead_at: datetime
    run: int


def append(folder: Path, lines: Iterable[Line]) -> None:
    """Write lines, and wait until the disk has them."""
    with (folder / NAME).open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read() != b"\n":
                file.write(b"\n")  # a run that was cut off left half a line
        for line in lines:
            file.write(msgspec.json.encode(line._asdict()) + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read(spark: SparkSession, folder: Path) -> DataFrame:
    """By queue and id: `deaths`, the times of death after which it was redriven, and `quarantined`."""
    path = folder / NAME
    there = path.exists()
    lines = spark.read.schema(SCHEMA).json(str(path)) if there else spark.createDataFrame([], SCHEMA)
    return lines.groupBy("queue", "id").agg(
        F.collect_set(F.when(F.col("action") == REDRIVE, F.col("dead_at"))).alias("deaths"),
        F.max(F.col("action") == QUARANTINE).alias("quarantined"),
    )
