"""The format `rq_dlq` with points at which the driver dies, without a word, as by `kill -9`.

The environment variable CHAOS_DIE_AT says which point it is and at which passing: `claiming:3`. At the one of
CHAOS_HOLD_AT the driver waits for the file `go`. Passings are counted in files, since Spark calls readers and
writers in several processes. In each of them the bug is planted that CHAOS_PLANT names.
"""

from __future__ import annotations

import os
import signal
import time
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext

from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.core.claiming import calls as claiming_calls
from rq_dlq.core.jobs import jobs
from rq_dlq.spark.source import RqDlqSource
from rq_dlq.spark.stream import StreamReader
from rq_dlq.spark.stream_write import StreamWriter
from rq_dlq.spark.write import BatchWriter
from tests.proofs.spark_chaos.planted import plant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FORMAT = "rq_dlq_chaos"


def passing(point: str) -> None:
    """Go on, or die together with the driver."""
    with (Path(os.environ["CHAOS_PASSES"]) / point).open("ab") as passes:
        passes.write(b".")
        passes.flush()
        number = passes.tell()
    if os.environ.get("CHAOS_DIE_AT") == f"{point}:{number}":
        die()
    while os.environ.get("CHAOS_HOLD_AT") == f"{point}:{number}" and not Path("go").exists():
        time.sleep(0.05)


def die() -> None:
    """Take the driver along."""
    os.killpg(int(os.environ["CHAOS_GROUP"]), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)  # Python workers of Spark are in a group of their own


def straggle() -> None:
    """The first attempt at the first part takes its time, where it is told to: Spark starts another."""
    task: Any = TaskContext.get()
    if task.attemptNumber():
        passing("again")
    if os.environ.get("CHAOS_STRAGGLE") and (task.partitionId(), task.attemptNumber()) == (0, 0):
        (Path(os.environ["CHAOS_PASSES"]) / "straggler").write_text(str(os.getpid()))
        time.sleep(float(os.environ["CHAOS_STRAGGLE"]))


def _before(module: Any, name: str, point: str) -> None:
    """Put a point before each call of a function."""
    function: Callable[..., Any] = getattr(module, name)
    if hasattr(function, "__wrapped__"):
        return

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        passing(point)
        return function(*args, **kwargs)

    setattr(module, name, call)


class Reader(StreamReader):
    """A stream, with points."""

    def latestOffset(self, start: Any, limit: Any) -> Any:  # noqa: N802 - Spark's names
        for module, name, point in (
            (batch_calls, "progress", "committed"),  # Spark has committed the batch
            (batch_calls, "ack_claim", "acking"),  # it is noted that it is done, and not acked
            (claiming_calls, "claim", "claiming"),  # before each claim of the next batch
        ):
            _before(module, name, point)
        end = super().latestOffset(start, limit)
        if end != start:
            passing("claimed")  # it is not in the offset log
        return end

    def partitions(self, start: Any, end: Any) -> Any:
        passing("logged")  # it is in the offset log
        _before(batch_calls, "divide_claim", "halving")
        shares = super().partitions(start, end)
        passing("planned")
        return shares

    def read(self, partition: Any) -> Iterator[Any]:
        for rows in super().read(partition):
            passing("reading")
            yield rows


def _commits() -> None:
    _before(jobs, "commit", "staged")  # all tasks have ended
    _before(jobs, "move", "moving")  # before each chunk; the first one: committed


class Writer(BatchWriter):
    """A write, with points."""

    def write(self, iterator: Any) -> Any:
        staged = super().write(iterator)
        passing("attempt")
        straggle()
        return staged

    def commit(self, messages: Any, batchId: int = 0) -> None:  # noqa: N803
        _commits()
        super().commit(messages, batchId)
        passing("moved")


class EachBatchWriter(StreamWriter):
    """A write of a stream, with points."""

    def commit(self, messages: Any, batchId: int = 0) -> None:  # noqa: N803
        _commits()
        super().commit(messages, batchId)
        passing("moved")  # the batch is not in the commit log


class Source(RqDlqSource):
    """The format."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamReader(self, schema: Any) -> Any:  # noqa: N802
        reader: Any = super().streamReader(schema)
        return Reader(reader._options, schema)

    def writer(self, schema: Any, overwrite: bool) -> Any:
        writer: Any = super().writer(schema, overwrite)
        return Writer(writer._operation)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802
        writer: Any = super().streamWriter(schema, overwrite)
        return EachBatchWriter(writer._operation)


plant()
