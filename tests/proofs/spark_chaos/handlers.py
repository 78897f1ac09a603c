"""What tasks do with messages on their way to the sink; each is for one kind of trouble."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext

from rq_dlq.spark.schemas import ERROR, WHOSE
from tests.proofs.spark_chaos.failpoints import straggle

if TYPE_CHECKING:
    from collections.abc import Iterator

POISON = b"poison"


def slow(batches: Iterator[Any]) -> Iterator[Any]:
    """Takes its time, so that something can happen meanwhile."""
    for rows in batches:
        time.sleep(0.3)
        yield rows


def flaky(batches: Iterator[Any]) -> Iterator[Any]:
    """Fails at the first two attempts, the second time at the end."""
    task: Any = TaskContext.get()
    if task.attemptNumber() == 0:
        message = "the task fails before it has read anything"
        raise RuntimeError(message)
    yield from batches
    if task.attemptNumber() == 1:
        message = "the task fails when it has read everything"
        raise RuntimeError(message)


def straggling(batches: Iterator[Any]) -> Iterator[Any]:
    """The first attempt at the first part is slow."""
    for rows in batches:
        straggle()
        yield rows


def picky(batches: Iterator[Any]) -> Iterator[Any]:
    """Cannot bear one message."""
    for rows in batches:
        if POISON in rows.column("body").to_pylist():
            message = "a message that nobody can process"
            raise ValueError(message)
        yield rows


def fickle(batches: Iterator[Any]) -> Iterator[Any]:
    """Fails one row of four, each time another."""
    for rows in batches:
        ids, tokens = rows.column("id"), rows.column("batch")
        errors = pa.array(["Tails" if random.random() < 0.25 else None for _ in ids], pa.string())
        yield pa.RecordBatch.from_arrays([ids, tokens, errors, errors], [*WHOSE, *ERROR])


HANDLERS = {each.__name__: each for each in (slow, flaky, straggling, picky, fickle)}
