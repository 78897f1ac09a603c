"""Bugs that are planted into a driver, to see that a scenario finds them: CHAOS_PLANT names one."""

from __future__ import annotations

import os
from typing import Any

from pyspark.sql.classic.dataframe import DataFrame

from rq_dlq.spark import Split


def _kept(frame: DataFrame, *_: object) -> DataFrame:
    """Persisted, and computed at once as by `localCheckpoint`, since what it observes is asked for then."""
    frame.persist().count()
    return frame


def persisted() -> None:
    """A handler's output is persisted, so that Spark computes again what an executor took with it."""
    classes: Any = DataFrame, Split
    frames, splits = classes
    frames.localCheckpoint = _kept
    splits.unpersist = lambda self: self.rows.unpersist()


def counted() -> None:
    """So it is, and both parts are counted before the nack."""
    persisted()
    nack = Split.nack
    splits: Any = Split

    def count(self: Split, **there: Any) -> None:
        if self.ok.count() + self.bad.count() != self.rows.count():
            message = "rows are missing"
            raise RuntimeError(message)
        nack(self, **there)

    splits.nack = count


PLANTS = {each.__name__: each for each in (persisted, counted)}


def plant() -> None:
    """Plant what the environment names."""
    if name := os.environ.get("CHAOS_PLANT"):
        PLANTS[name]()
