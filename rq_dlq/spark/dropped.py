"""Warns of messages that Spark drops as late or as duplicates. They are acked like the others.

A source does not see the query that reads it, but Spark reports what the query's state operators dropped.
"""

from __future__ import annotations

import json
import logging
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext
from pyspark.sql.streaming.listener import JStreamingQueryListener, StreamingQueryListener

from rq_dlq.spark.offsets import is_offset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )

logger = logging.getLogger("rq_dlq.spark")


class QuickListener(JStreamingQueryListener):
    """Reads only reports that have a state operator: each costs 25 ms of CPU."""

    def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802 - Spark's names, here and below
        """An epoch has ended."""
        if len(jevent.progress().stateOperators()):
            super().onQueryProgress(jevent)


class DropListener(StreamingQueryListener):
    """Logs a warning for each epoch in which a query that reads messages drops some."""

    @property
    def _jlistener(self) -> Any:
        jvm: Any = SparkContext._jvm  # noqa: SLF001 - as Spark makes it, but with our class
        return jvm.PythonStreamingQueryListenerWrapper(QuickListener(self))

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Nothing is dropped yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """An epoch has ended."""
        progress = event.progress
        late = sum(each.numRowsDroppedByWatermark for each in progress.stateOperators)
        twice = sum(each.customMetrics.get("numDroppedDuplicateRows", 0) for each in progress.stateOperators)
        if (late or twice) and _reads_messages(progress):
            logger.warning(
                "query %s, epoch %d: Spark dropped %d rows that were later than the watermark, and %d as "
                "duplicates. Messages among them are acked all the same, so they are lost: a redelivery is "
                'late by enqueued_at, and a duplicate by its id. See "Event time" in docs/spark.md',
                progress.name or progress.id, progress.batchId, late, twice,
            )  # fmt: skip

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Nothing more is dropped."""


def _reads_messages(progress: StreamingQueryProgress) -> bool:
    return any(is_offset(json.loads(source.endOffset or "null")) for source in progress.sources)


@lru_cache(maxsize=8)
def warn_of_drops(spark: SparkSession) -> None:
    """Warn of what queries of this session drop; a second call does nothing. Not with Spark Connect."""
    if hasattr(spark, "_jsparkSession"):
        spark.streams.addListener(DropListener())
