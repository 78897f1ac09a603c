"""A stream reader for bad options.

Spark hides an error that is raised while it creates the reader behind one of its own. It shows errors of the
reader's methods.
"""
# ruff: noqa: ARG002 - methods as Spark calls them

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from rq_dlq.spark.plainly import plainly

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit

    from rq_dlq.errors import RqDlqError


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises the error at the first call."""

    def __init__(self, why: RqDlqError) -> None:
        self._why = why

    @plainly
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's names, here and below
        """Raise the error."""
        raise self._why

    @plainly
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Raise the error."""
        raise self._why

    @plainly
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Raise the error."""
        raise self._why

    @plainly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Raise the error."""
        raise self._why

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Raise the error."""
        raise self._why
