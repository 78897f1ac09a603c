"""`df.write.format("rq_dlq")`: the methods that Spark calls, on the driver and in tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from rq_dlq.errors import InvalidInput
from rq_dlq.spark.plainly import plainly
from rq_dlq.spark.send import Send
from rq_dlq.spark.settle import Redrive, Settle
from rq_dlq.spark.write_options import SETTLES, WriteOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType


class Operation(Protocol):
    """An operation on rows: tasks collect them, and the driver runs it after all tasks succeeded."""

    def write(self, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Collect the rows of a task."""
        ...

    def commit(self, messages: Sequence[Any], batch: int = 0) -> None:
        """Run the operation, on the driver."""
        ...

    def abort(self, messages: Sequence[Any]) -> None:
        """Do nothing, and remove what tasks left."""
        ...


def operation_of(
    given: Mapping[str, str], schema: StructType, *, overwrite: bool, stream: bool = False
) -> Operation:
    """The operation that the options ask for, checked against the columns.

    Raises:
        InvalidInput: an option, a column or the mode is not valid.
        BrokerUnavailable: Redis cannot be reached.
    """
    if overwrite:
        message = 'a queue cannot be overwritten: use mode("append"); purge() removes waiting messages'
        raise InvalidInput(message)
    options = WriteOptions.of(given)
    if options.operation in SETTLES:
        return Settle(options, schema)
    return (
        Redrive(options, schema) if options.operation == "redrive" else Send(options, schema, stream=stream)
    )


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame."""

    def __init__(self, operation: Operation) -> None:
        self._operation = operation

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task."""
        return self._operation.write(iterator)

    @plainly
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """On the driver, after all tasks succeeded."""
        self._operation.commit(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """On the driver, after a task failed."""
        self._operation.abort(messages)


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001
    """The writer for `df.write`; its errors are those of `operation_of`."""
    return BatchWriter(operation_of(options, schema, overwrite=overwrite))
