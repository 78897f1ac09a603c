"""`df.writeStream.format("rq_dlq")`: what Spark calls for each batch of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter

from rq_dlq.spark.plainly import plainly
from rq_dlq.spark.write import operation_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import StructType

    from rq_dlq.spark.write import Operation

CHECKPOINT = "checkpointlocation"  # an option of every stream's, which Spark passes on


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes each batch of a stream once: its number is noted with it, under the id of the query."""

    def __init__(self, operation: Operation) -> None:
        self._operation = operation

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task."""
        return self._operation.write(iterator)

    @plainly
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """On the driver, when all tasks of the batch have ended well."""
        self._operation.commit(messages, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """On the driver, when one has not."""
        del batchId
        self._operation.abort(messages)


def stream_writer(
    options: Mapping[str, str],
    schema: StructType,
    overwrite: bool,  # noqa: FBT001
) -> DataSourceStreamArrowWriter:
    """Of `df.writeStream`; its errors: see `operation_of`. A complete output mode is an overwrite."""
    given = {name: value for name, value in options.items() if name.lower() != CHECKPOINT}
    return StreamWriter(operation_of(given, schema, overwrite=overwrite, stream=True))
