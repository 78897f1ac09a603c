"""`df.writeStream.format("rq_dlq")`. It is not in `write`, since its base is new in Spark 4.1."""

from __future__ import annotations

from pyspark.sql.datasource import DataSourceStreamArrowWriter

from rq_dlq.spark.write import BatchWriter


class StreamWriter(BatchWriter, DataSourceStreamArrowWriter):
    """Writes each batch of a stream once: its number is noted with it, under the id of the query."""
