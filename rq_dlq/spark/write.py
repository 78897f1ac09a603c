"""`df.write.format("rq_dlq")`: what Spark calls, on the driver and in tasks."""

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
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
    from pyspark.sql.types import StructType

CHECKPOINT = "checkpointlocation"  # an option of every stream's, which Spark passes on


class Operation(Protocol):
    """What is done with rows: tasks collect, the driver does it when all of them have ended well."""

    def write(self, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Collect, in a task."""
        ...

    def commit(self, messages: Sequence[Any], batch: int = 0) -> None:
        """Do it, on the driver."""
        ...

    def abort(self, messages: Sequence[Any]) -> None:
        """Do nothing, and leave nothing."""
        ...


def operation_of(
    given: Mapping[str, str], schema: StructType, *, overwrite: bool, stream: bool = False
) -> Operation:
    """The operation that the options ask for, checked against the columns.

    Raises:
        InvalidInput: an option, a column or the mode makes no sense.
        BrokerUnavailable: Redis cannot be reached.
    """
    if overwrite:
        message = 'a queue cannot be overwritten: use mode("append"); what waits in it is removed by purge()'
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
        """On the driver, when all tasks have ended well."""
        self._operation.commit(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """On the driver, when one has not."""
        self._operation.abort(messages)


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001
    """Of `df.write`; its errors: see `operation_of`."""
    return BatchWriter(operation_of(options, schema, overwrite=overwrite))


def stream_writer(
    options: Mapping[str, str],
    schema: StructType,
    overwrite: bool,  # noqa: FBT001
) -> DataSourceStreamArrowWriter:
    """Of `df.writeStream`; its errors: see `operation_of`. A complete output mode is an overwrite."""
    from rq_dlq.spark.stream_write import StreamWriter  # noqa: PLC0415 - its base is new in 4.1

    given = {name: value for name, value in options.items() if name.lower() != CHECKPOINT}
    return StreamWriter(operation_of(given, schema, overwrite=overwrite, stream=True))
