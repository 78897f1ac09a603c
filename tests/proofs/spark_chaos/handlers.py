"""What tasks do with messages on their way to the sink; each is for one kind of trouble."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext

from rq_dlq.spark import by_batch
from rq_dlq.spark.schemas import BAD, ERROR
from tests.proofs.spark_chaos.failpoints import die, straggle

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


def deadly(batches: Iterator[Any]) -> Iterator[Any]:
    """One message kills the driver, as one does that takes all of its memory."""
    for rows in batches:
        if POISON in rows.column("body").to_pylist():
            die()
        yield rows


def _tossed(rows: Any) -> dict[str, list[str | None]]:
    errors = ["Tails" if random.random() < 0.25 else None for _ in range(len(rows))]
    return dict.fromkeys(ERROR, errors)


def _refused(rows: Any) -> dict[str, list[str | None]]:
    return dict.fromkeys(ERROR, [ConnectionError.__name__ if Path("down").exists() else None] * len(rows))


fickle = by_batch(_tossed, BAD)
"""Fails one row of four, each time another."""
needy = by_batch(_refused, BAD)
"""Fails all rows while the service that they need is down: as long as there is a file `down`."""
HANDLERS = {each.__name__: each for each in (slow, flaky, straggling, picky, deadly)}
HANDLERS |= {"fickle": fickle, "needy": needy}
