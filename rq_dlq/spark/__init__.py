"""Queues in Spark: read, write and stream with the format `rq_dlq`.

from rq_dlq import spark as rq_spark
rq_spark.register(spark)  # not needed if the package is installed
spark.read.format("rq_dlq").option("queue", "orders").load()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from rq_dlq.spark.archive import Archive, Archived
from rq_dlq.spark.batch import Batch, claim
from rq_dlq.spark.dropped import warn_of_drops
from rq_dlq.spark.parse import parsed
from rq_dlq.spark.partitions import cores_of
from rq_dlq.spark.pull import Pulled, foreach_message
from rq_dlq.spark.report import collision_report, poison_report, queue_report
from rq_dlq.spark.requirements import TABLES, check_python, check_version
from rq_dlq.spark.schemas import DEAD_LETTER, HISTORY, MESSAGE, METRICS
from rq_dlq.spark.sinks import check_held, epoch_key
from rq_dlq.spark.source import RqDlqSource
from rq_dlq.spark.split import Split, by_batch, by_row, split

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "DEAD_LETTER",
    "HISTORY",
    "MESSAGE",
    "METRICS",
    "Archive",
    "Archived",
    "Batch",
    "Pulled",
    "Split",
    "by_batch",
    "by_row",
    "check_held",
    "claim",
    "collision_report",
    "epoch_key",
    "foreach_message",
    "parsed",
    "poison_report",
    "queue_report",
    "register",
    "split",
]


def register(spark: SparkSession) -> None:
    """Register the format `rq_dlq` with a session. It is safe to repeat this.

    Tables of the session make at most as many tasks as it has cores (`spark.default.parallelism`), since each
    costs as much as 30,000 rows; streams make as many. These are the cores that have joined by now: if
    executors join later, call it again then, or set `spark.default.parallelism`.

    The log warns of messages that a query of the session drops as late or as duplicates, except with Spark
    Connect.

    Raises:
        ConfigurationError: this Spark is too old, or runs its tasks with a Python without this package.
    """
    check_version(TABLES, "rq_dlq")
    check_python(spark)

    class Source(RqDlqSource):
        """The source with values from the session; Spark passes it to its processes."""

        cores = cores_of(spark)

    try:
        spark.dataSource.register(Source)
    except AnalysisException as error:  # newer versions replace it, and warn
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise
    warn_of_drops(spark)
