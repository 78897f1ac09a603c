"""Bugs that are planted into a driver, its source and its tasks, to see that the scenarios find them.

CHAOS_PLANT names one. Each is a mistake that a sink, or this package, could make.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.classic.dataframe import DataFrame
from pyspark.sql.readwriter import DataFrameWriter

from rq_dlq import spark as rq_spark
from rq_dlq._redis import Retries
from rq_dlq._scripts import _files
from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.spark import Split, brokers, halving, query, sinks
from rq_dlq.spark.offsets import Offset
from rq_dlq.spark.send import Send, StagedRows
from rq_dlq.spark.stream import Driver, StreamReader


@dataclass(frozen=True, slots=True)
class Plant:
    """A bug.

    Attributes:
        rows: the scenarios that have to find it.
    """

    rows: tuple[str, ...]
    plant: Callable[[], None]


PLANTS: dict[str, Plant] = {}


def _bug(*rows: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def named(function: Callable[[], None]) -> Callable[[], None]:
        PLANTS[function.__name__] = Plant(rows, function)
        return function

    return named


def _replace(owner: Any, name: str, new: Any) -> None:
    setattr(owner, name, new)


@dataclass(frozen=True, slots=True)
class Change:
    """A module of the Lua that reads otherwise; processes without the bug have their library beside it."""

    module: str
    was: str
    becomes: str

    def __call__(self) -> None:
        """Make it, before the modules are joined."""
        texts = _files()
        if texts[self.module].count(self.was) != 1:
            message = f"{self.module} does not have once: {self.was}"
            raise ValueError(message)
        texts[self.module] = texts[self.module].replace(self.was, self.becomes)


def _nothing(*_: object) -> Iterator[Any]:
    """Steps that do nothing."""
    yield from ()


def _kept(frame: DataFrame, *_: object) -> DataFrame:
    """Persisted, and computed at once as by `localCheckpoint`, since what it observes is asked for then."""
    frame.persist().count()
    return frame


@_bug("split", "split-source", "split-idle")
def persisted() -> None:
    """A handler's output is persisted, so that Spark computes again what an executor took with it."""
    _replace(DataFrame, "localCheckpoint", _kept)
    _replace(Split, "unpersist", lambda self: self.rows.unpersist())


@_bug("split", "split-idle")
def counted() -> None:
    """So it is, and both parts are counted before the nack."""
    persisted()
    nack = Split.nack

    def count(self: Split, **there: Any) -> None:
        if self.ok.count() + self.bad.count() != self.rows.count():
            message = "rows are missing"
            raise RuntimeError(message)
        nack(self, **there)

    _replace(Split, "nack", count)


@_bug("driver-points", "driver-random", "executor", "task")
def acked_when_read() -> None:
    """A task acks the messages that it has read, and not the driver those that Spark has committed."""
    read = StreamReader.read

    def reading(self: Any, share: Any) -> Iterator[Any]:
        broker = brokers.broker_at(self._url, self._options.namespace)
        for rows in read(self, share):
            yield rows
            held = list(zip(rows.column("id").to_pylist(), rows.column("batch").to_pylist(), strict=True))
            keys = broker.queue(rows.column("queue")[0].as_py())._core.keys
            for first in range(0, len(held), 500):
                broker._run(broker._step(settling_calls.ack(keys, held[first : first + 500])))

    _replace(StreamReader, "read", reading)


@_bug("lapse", "driver-points")
def appended() -> None:
    """A sink adds the output of an epoch that it has already."""
    mode = DataFrameWriter.mode
    _replace(DataFrameWriter, "mode", lambda self, _: mode(self, "append"))


@_bug("old-offsets")
def refused() -> None:
    """An offset of an earlier version is not read."""
    read = Offset.of

    def only_new(value: Any) -> Offset:
        found = read(value)
        if not found.format:
            message = "no format"
            raise ValueError(message)
        return found

    _replace(Offset, "of", only_new)


@_bug("frozen")
def not_checked() -> None:
    """`check_held` believes that all is still held."""

    def whole(*_: object) -> Generator[Any, Any, bool]:
        yield from ()
        return True

    _replace(sinks, "is_whole", whole)


@_bug("killer")
def not_suspected() -> None:
    """A batch whose lease has ended is forgotten, so the next one is as large."""
    _replace(halving, "_suspect", _nothing)


@_bug("poison")
def not_halved() -> None:
    """A batch that fails stays as it is."""
    _replace(query, "narrow", _nothing)


@_bug("old-checkpoint", "made-again")
def believed() -> None:
    """A checkpoint is not compared with what the queue knows of the query."""
    _replace(query.Query, "_lost", lambda *_: None)


@_bug("made-again")
def not_compared() -> None:
    """A first batch without messages begins as if it had been claimed from this queue."""
    begin = query.Query._begin

    def begun(self: query.Query, end: Offset, family: str) -> Generator[Any, Any, bool]:
        yield from begin(self, end, family)
        return False

    _replace(query.Query, "_begin", begun)


@_bug("outage")
def acked_by_row() -> None:
    """Messages are acked one by one, and not as a batch: the release grows to 32 and no further."""

    def by_row(keys: Any, tokens: Any, _: int = 0) -> Generator[Any, Any, int]:
        acked = 0
        for token in tokens:
            ids = yield batch_calls.given_ids(keys, token)
            for first in range(0, len(ids), 32):
                some = ids[first : first + 32]
                yield settling_calls.ack(keys, [(each, token) for each in some])
                acked += len(some)
        return acked

    _replace(query, "ack_batch", by_row)


PLANTS |= {
    # The progress of queries outlives the queue.
    "remembered": Plant(("made-again",), Change("settings", "redis.call('ZRANGE', q.streams, 0, -1)", "{}")),
    # What tests a service does so as long as its lease.
    "held_by_lease": Plant(
        ("outage",), Change("gates", "redis.call('ZADD', q.seats, number + 0.5, member)", "")
    ),
    # Each message of a batch counts as a call that hangs.
    "each_hangs": Plant(("outage",), Change("gates", "if not batch then", "if batch then")),
    # What is let in is not bounded by the last batch.
    "flooded": Plant(("outage",), Change("batches", "2 * math.max(batch,", "10000 + math.max(batch,")),
}


@_bug("two-queries")
def one_name() -> None:
    """Two queries have the same name."""
    start = Driver.__init__

    def started(self: Any, *given: Any) -> None:
        start(self, *given)
        self.drawn = "query"

    _replace(Driver, "__init__", started)


@_bug("writer", "stream-write")
def written_again() -> None:
    """A write does not recognize what it has written before."""
    commit = Send.commit
    _replace(Send, "commit", lambda self, rows, *_: commit(self, rows, time.time_ns() >> 20))


@_bug("tables", "speculation")
def sent_by_tasks() -> None:
    """Each attempt of a task sends its rows, and not the driver those of the attempts that count."""
    write, commit = Send.write, Send.commit

    def sent(self: Send, rows: Any) -> StagedRows:
        self._job = secrets.token_hex(12)  # the attempt's own, so that it drops no rows of others
        commit(self, [write(self, rows)])
        return StagedRows(self._job, {}, 0)

    _replace(Send, "write", sent)
    _replace(Send, "commit", lambda *_: None)


@_bug("redis")
def impatient() -> None:
    """Tasks and drivers do not wait until Redis is back."""
    _replace(brokers, "PATIENCE", Retries(attempts=1))


@_bug("no-checkpoint")
def unnamed() -> None:
    """The output of an epoch is named by the epoch alone."""
    _replace(rq_spark, "epoch_key", lambda _, epoch: str(epoch))


def plant() -> None:
    """Plant what the environment names."""
    if name := os.environ.get("CHAOS_PLANT"):
        PLANTS[name].plant()
