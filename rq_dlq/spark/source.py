"""The format `rq_dlq` of Spark: chooses the reader or writer.

Spark creates this object in a Python process beside the driver, at `load()` and `save()`, and sends it on.
Readers and writers are created there as well, when a query is planned, so errors in options show up early.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader, DataSourceStreamReader

from rq_dlq.errors import InvalidInput, RqDlqError
from rq_dlq.spark.errors import without_traceback
from rq_dlq.spark.option_values import VIEW, one_of
from rq_dlq.spark.options import STORIES, ReadOptions, StreamOptions, texts_of
from rq_dlq.spark.requirements import STREAM_WRITES, STREAMS, check_version
from rq_dlq.spark.schemas import VIEWS, check_chosen, check_output, schema_of

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
    from pyspark.sql.types import StructType


class RqDlqSource(DataSource):
    """Reads and writes queues; its options, views and columns: see `docs/spark.md`.

    Attributes:
        cores: the cluster's cores; 0: unknown.
    """

    cores: ClassVar[int] = 0

    @classmethod
    def name(cls) -> str:
        """The name in `format(…)`."""
        return "rq_dlq"

    @without_traceback
    def schema(self) -> StructType:
        """The columns of the view, if the user chose none."""
        if "provider" in self.options:  # a property of tables
            raise InvalidInput(VIEW)
        given = texts_of(self.options, ReadOptions, StreamOptions)
        view = one_of(VIEWS)("view", given.get("view", "queue"))
        return schema_of(view, one_of(STORIES)("history", given.get("history", "struct")))

    @without_traceback
    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of a table."""
        from rq_dlq.spark.views import reader  # noqa: PLC0415 - each side imports what it needs

        return reader(replace(ReadOptions.of(self.options), cores=self.cores), schema)

    @without_traceback
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """The reader of a stream."""
        check_version(STREAMS, "reading a queue as a stream")
        from rq_dlq.spark.split import columns_to_read  # noqa: PLC0415 - each side imports what it needs
        from rq_dlq.spark.stream import RefusedStream, StreamReader  # noqa: PLC0415 - new bases in 4.2
        from rq_dlq.spark.stream_history import HistoryStreamReader  # noqa: PLC0415

        try:
            options = replace(StreamOptions.of(self.options), cores=self.cores)
            if options.handler:
                check_output(schema)
                columns_to_read(options, schema)
            else:
                check_chosen(schema, schema_of(options.view), options.view)
            return (HistoryStreamReader if options.view == "history" else StreamReader)(options, schema)
        except RqDlqError as error:
            return RefusedStream(error)

    @without_traceback
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001 - Spark's
        """The writer of a table."""
        from rq_dlq.spark.write import BatchWriter, operation_of  # noqa: PLC0415

        return BatchWriter(operation_of(self.options, schema, overwrite=overwrite))

    @without_traceback
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: FBT001, N802
        """The writer of a stream."""
        check_version(STREAM_WRITES, "writing a stream to a queue")
        from rq_dlq.spark.stream_write import StreamWriter  # noqa: PLC0415
        from rq_dlq.spark.write import operation_of  # noqa: PLC0415

        return StreamWriter(operation_of(self.options, schema, overwrite=overwrite, stream=True))
