"""Registers the format "rq_dlq" automatically: Spark looks for modules whose names begin with `pyspark_`."""

from rq_dlq.spark.source import RqDlqSource as DefaultSource

__all__ = ["DefaultSource"]
