"""Registers the format "rq_dlq" by itself: Spark looks for modules whose names begin with `pyspark_`."""

from rq_dlq.spark.source import RqDlqSource as DefaultSource

__all__ = ["DefaultSource"]
