"""The archive: outcome histories and dead letters as Parquet or Delta, beyond what Redis keeps.

`archive` is the class, and reads the queues; `store` writes the tables; `place` is where they lie, and
what they remember from run to run.
"""

from rq_dlq.spark.archive.archive import Archive, Archived

__all__ = ["Archive", "Archived"]
