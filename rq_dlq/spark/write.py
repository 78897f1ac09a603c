"""`df.write.format("rq_dlq")`: the methods that Spark calls, on the driver and in tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from rq_dlq.errors import InvalidInput
from rq_dlq.spark.errors import without_traceback
from rq_dlq.spark.options import SETTLES, WriteOptions
from rq_dlq.spark.send import EXECUTION, QUERY, ROOT, Send
from rq_dlq.spark.settle import RedriveRows, Settle

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    Operation: TypeAlias = Send | Settle | RedriveRows

CHECKPOINT = "checkpointlocation"  # an option of every stream, which Spark passes on
TAGS = "spark.job.tags"  # a property of tasks
REQUEST = "SparkConnect_"  # the beginning of a tag


def operation_of(
    given: Mapping[str, str], schema: StructType, *, overwrite: bool, stream: bool = False
) -> Operation:
    """The operation of the options, checked against the columns.

    Raises:
        InvalidInput: an option, a column or the mode is not valid. A stream's complete mode is an overwrite.
        BrokerUnavailable: Redis cannot be reached.
    """
    if overwrite:
        raise InvalidInput(
            'a queue cannot be overwritten: use mode("append"); purge(all=True) removes waiting messages'
        )
    if stream:
        given = {name: value for name, value in given.items() if name.lower() != CHECKPOINT}
    options = WriteOptions.of(given)
    if options.operation in SETTLES:
        return Settle(options, schema)
    if options.operation == "redrive":
        return RedriveRows(options, schema)
    return Send(options, schema, stream=stream)


def _check_no_table() -> None:
    """Raise InvalidInput if the rows are written to make a table: Spark forgets the options of one.

    The command that makes a table writes in an execution within its own. So does foreachBatch, in a query,
    and every request of Spark Connect, where a table cannot be recognized.
    """
    context: Any = TaskContext.get()
    execution, root, query, tags = map(context.getLocalProperty, (EXECUTION, ROOT, QUERY, TAGS))
    if execution != root and query is None and REQUEST not in (tags or ""):
        message = "a queue is no table, and nothing was written: use save(), not saveAsTable() or create()"
        raise InvalidInput(message)


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame, or as `StreamWriter` each batch of a stream."""

    def __init__(self, operation: Operation) -> None:
        self._operation = operation

    @without_traceback
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task."""
        _check_no_table()
        return self._operation.write(iterator)

    @without_traceback
    def commit(self, messages: Sequence[Any], batchId: int = 0) -> None:  # noqa: N803
        """On the driver, after all tasks succeeded."""
        self._operation.commit(messages, batchId)

    def abort(self, messages: Sequence[Any], batchId: int = 0) -> None:  # noqa: N803
        """On the driver, after a task failed."""
        del batchId
        self._operation.abort(messages)
