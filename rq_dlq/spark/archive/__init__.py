"""The archive: outcome histories and dead letters as Parquet or Delta, beyond what Redis keeps.

`archive` is the class; `source` reads the queues, `store` writes the tables, `manifest` is what an archive
remembers from run to run, `folder` where all of it lies.
"""

from rq_dlq.spark.archive.archive import Archive, Archived

__all__ = ["Archive", "Archived"]
