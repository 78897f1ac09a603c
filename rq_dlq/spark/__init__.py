"""Queues in Spark: read, write and stream with the format `rq_dlq`.

from rq_dlq import spark as rq_spark
rq_spark.register(spark)  # not needed if the package is installed
spark.read.format("rq_dlq").option("queue", "orders").load()

It imports the core, and no room imports it. It does not change states on its own either: its additions to the
core are batches (`core/batches`) and jobs (`core/jobs`). `query` says what a batch is, `halving` what happens
to one that fails, `split` how rows fail, `settle` and `views` how dead letters are read and redriven as
tables.

- *What a source cannot see.* Spark creates it in a process beside the driver, without the session, the plan
  of the query, its checkpoint or its id. So the number of cores is taken when `register` is called, and a
  cluster that says 2, as it does until more have joined, counts as unknown; a query draws its own name
  (`query`); the listener of `dropped` runs in the session.
- *Two sources of one queue in one query are not detected*, only warned of in `docs/spark-streams.md`. Only
  tasks learn Spark's id of their query, and a source that got no message has no task: a join would have lost
  its first batches before the second source was seen.
- *A pull is a worker.* `foreach_message` runs `Worker` in each task, so failures are handled in one place. So
  it has a worker's limit of bodies, too. Views and streams decode no body.
- *The driver applies operations on rows* when all tasks have succeeded: a failed job settles nothing.
- *Few tasks, and cheap ones.* A job costs 0.2 to 0.35 s whatever it reads, so tables are read by at most as
  many tasks as there are cores. Spark's worker collects garbage after each Python task, for 60 ms, so the
  first task of a worker exempts all loaded objects (`gc.freeze`). A task reads four claims in one round trip,
  since each trip may wait for a call that claims ahead. To read, ids of one length are joined for the wire,
  and records are cut as columns. It reads no states that no column needs: a claim's counter is read after its
  records, and while it has all that the claim was given, nothing of them was settled before. Otherwise the
  states are read.
- *A sink cannot find its server.* A token reaches it, which is stored in Redis and shown with the rows: a URL
  in it would show a password, and a hash of one could only be resolved by the source's process. So
  `check_origin` (`sinks`) compares: the server has the queues of the rows, and the query that its tokens name
  (`stream:QUERY`). A batch of `claim()` is noted as that of a query; only the rows of a plain claim are not,
  so another server with a queue of that name is taken for a lost lease. A batch without rows, as of a
  halving, names no server: then a server without any queue is refused; with other queues there, `SinkFailed`
  ends the query after three deaths.
- *`saveAsTable` is refused by its tasks.* The format gets the options, the columns and the mode, which are
  those of a `save()`; Spark makes the table afterwards, and forgets the options. But the command that makes
  the table runs its write as an execution within its own, which the tasks see. So does a write in
  `foreachBatch`, which has the id of its query, and each request of Spark Connect, which has a tag; there the
  format cannot refuse.
- *Shards are queues* named `orders:0`, `orders:1`, …; an offset has a batch for each.
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

    class SessionSource(RqDlqSource):
        """The source with values from the session; Spark passes it to its processes."""

        cores = cores_of(spark)

    try:
        spark.dataSource.register(SessionSource)
    except AnalysisException as error:  # newer versions replace it, and warn
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise
    warn_of_drops(spark)
