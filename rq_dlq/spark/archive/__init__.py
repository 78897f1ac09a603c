"""The archive: outcome histories and dead letters as Parquet or Delta, beyond what Redis keeps.

`archive` is the class, and reads the queues; `store` writes the tables; `place` is where they lie, and
what they remember from run to run.

It is Spark alone: it writes with Spark's file systems, so it needs nothing of a disk. A run replaces the
older of two manifests, and the lock of a local directory is an extra. The state of a message says how often
it was redriven, so rules that redrive (`examples/12_spark_archive.py`) keep no ledger.
"""

from rq_dlq.spark.archive.archive import Archive, Archived

__all__ = ["Archive", "Archived"]
