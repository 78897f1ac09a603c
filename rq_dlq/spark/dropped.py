"""Warns of messages that Spark drops as late or as duplicates. They are acked like the others.

A source does not see the query that reads it, but Spark reports what the query's state operators dropped.

A source in Python sees neither a watermark nor the rows that it drops; tasks and the process of the source
learn no numbers of state operators. The session of the user does, by the reports of its queries. So
`register` adds a listener, which looks whether a query that dropped rows has offsets of ours. It cannot tell
whether the rows came from us or from another source of the query, and it comes when the epoch is committed.
Ending the query would not redeliver the messages. To read a report costs 25 ms of CPU, so only those with a
state operator are read; the others cost 0.3 ms.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext

from rq_dlq.spark.offsets import is_offset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("rq_dlq.spark")
WARNED = "spark.rq_dlq.warned"  # a setting of sessions that warn


class DropListener:
    """Logs a warning for each epoch in which a query that reads messages drops some.

    Only reports that have a state operator are read: Spark's own listener takes 25 ms of CPU for each.
    """

    @property
    def _jlistener(self) -> Any:
        jvm: Any = SparkContext._jvm  # noqa: SLF001 - as Spark makes it
        return jvm.PythonStreamingQueryListenerWrapper(self)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's names, here and below
        """An epoch has ended."""
        if not len(event.progress().stateOperators()):
            return
        states = (progress := json.loads(event.progress().json()))["stateOperators"]
        late = sum(each["numRowsDroppedByWatermark"] for each in states)
        twice = sum(each.get("customMetrics", {}).get("numDroppedDuplicateRows", 0) for each in states)
        if (late or twice) and any(is_offset(source["endOffset"]) for source in progress["sources"]):
            logger.warning(
                "query %s, epoch %d: Spark dropped %d rows that were later than the watermark, and %d as "
                "duplicates. Messages among them are acked anyway, so they are lost: a redelivery is "
                'late by enqueued_at, and a duplicate by its id. See "Event time" in docs/spark-streams.md',
                progress.get("name") or progress["id"], progress["batchId"], late, twice,
            )  # fmt: skip

    onQueryStarted = onQueryIdle = onQueryTerminated = lambda *_: None  # noqa: N815

    class Java:  # noqa: D106 - for py4j
        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


def warn_of_drops(spark: SparkSession) -> None:
    """Warn of rows that queries of this session drop; a second call does nothing. Not with Spark Connect."""
    if hasattr(spark, "_jsparkSession") and not spark.conf.get(WARNED, ""):
        spark.streams.addListener(DropListener())  # type: ignore[arg-type]
        spark.conf.set(WARNED, "yes")
