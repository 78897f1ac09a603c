"""The work of tasks: slices of claims and spans of outcome histories."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rq_dlq.core.batches import batches
from rq_dlq.core.looking import outcomes
from rq_dlq.core.steps.driving import together
from rq_dlq.core.steps.step import WINDOW
from rq_dlq.values.outcome import after

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from rq_dlq._keys import QueueKeys
    from rq_dlq.client.broker import Broker
    from rq_dlq.core.pages.calls import Page
    from rq_dlq.spark.columns import MessageColumns
    from rq_dlq.values.outcome import RawOutcome

ROWS = 25_000  # messages that are worth another task: it costs as much as to read them
FEWEST = 1_000  # messages that are worth a task where cores are free: their handling costs more than that
AT_ONCE = 20  # claims that one round trip reads: each may have half a megabyte
FEWEST_OF_CLUSTER = 2  # the cores that Spark reports for a cluster, even if none has joined yet


@dataclass(frozen=True, slots=True)
class Slice:
    """The places from `first` up to `end` in the list of one claim; some may be empty by now."""

    keys: QueueKeys
    shard: int
    token: str
    first: int
    end: int


def read_slices(
    slices: Iterable[Slice], broker: Broker, columns: MessageColumns, limit: int
) -> Iterator[pa.RecordBatch]:
    """The messages that the claims still hold; each try yields the same."""
    parts = [
        replace(part, first=first, end=min(first + limit, part.end))
        for part in slices
        for first in range(part.first, part.end, limit)
    ]

    def read() -> Iterator[tuple[Slice, Page]]:
        for window in _windows(parts, WINDOW * limit):
            looks = [
                batches.read_claim(part.keys, part.token, part.first, part.end - part.first, columns.wanted)
                for part in window
            ]
            yield from zip(window, broker._run(together(looks)), strict=True)

    for (keys, shard), found in groupby(read(), lambda each: (each[0].keys, each[0].shard)):
        yield from columns.batches((page for _, page in found), keys.family, shard)


def _windows(parts: Iterable[Slice], most: int) -> Iterator[list[Slice]]:
    """Slices that one round trip reads: several, since each trip may wait for a claim ahead."""
    window: list[Slice] = []
    places = 0
    for part in parts:
        size = part.end - part.first
        if window and (places + size > most or len(window) == AT_ONCE):
            yield window
            window, places = [], 0
        window.append(part)
        places += size
    if window:
        yield window


@dataclass(frozen=True, slots=True)
class EventRange:
    """The events of a queue from one id, or time, to another, inclusive."""

    keys: QueueKeys
    start: str
    end: str

    def read(self, broker: Broker, limit: int) -> Iterator[list[RawOutcome]]:
        """The events, `limit` in one call."""
        start = self.start
        while found := broker._run(outcomes.entries(self.keys, start=start, end=self.end, limit=limit)):
            yield found
            if len(found) < limit:
                return
            start = after(found[-1][0])


def cores_of(spark: SparkSession) -> int:
    """`spark.default.parallelism`, or the cores that have joined; 0: unknown, as with Spark Connect."""
    if said := spark.conf.get("spark.default.parallelism", ""):
        return int(said)
    context: Any = getattr(spark, "sparkContext", None)
    if context is None:
        return 0
    cores = int(context.defaultParallelism)
    # A cluster reports 2 until more have joined, and tables must not be limited to that.
    return cores if cores > FEWEST_OF_CLUSTER or context.master.partition("[")[0] == "local" else 0


def tasks_for(messages: int, cores: int) -> int:
    """How many tasks this many messages are worth.

    Args:
        cores: the cluster's cores; 0: unknown.
    """
    return max(math.ceil(messages / ROWS), min(cores, math.ceil(messages / FEWEST)), 1)


def dealt(slices: Sequence[Slice], tasks: int, cores: int = 0) -> list[list[Slice]]:
    """Slices of about equal size for each task. Claims are cut if there are more tasks than claims.

    Args:
        tasks: the most; 0: as many as the messages are worth.
        cores: the cluster's cores; 0: unknown.
    """
    places = sum(part.end - part.first for part in slices)
    size = max(1, math.ceil(places / (tasks or tasks_for(places, cores))))
    shares: list[list[Slice]] = []
    room = 0
    for part in slices:
        first = part.first
        while first < part.end:
            if room == 0:
                shares.append([])
                room = size
            end = min(part.end, first + room)
            shares[-1].append(replace(part, first=first, end=end))
            first, room = end, room - (end - first)
    return shares
