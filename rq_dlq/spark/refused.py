"""A stream reader for bad options.

Spark hides an error that is raised while it creates the reader behind one of its own. It shows errors of the
reader's methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from rq_dlq.spark.plainly import plainly

if TYPE_CHECKING:
    from rq_dlq.errors import RqDlqError


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises the error at the first call."""

    def __init__(self, why: RqDlqError) -> None:
        self._why = why

    @plainly
    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise self._why

    initialOffset = latestOffset = prepareForTriggerAvailableNow = partitions = read = _refuse  # noqa: N815
