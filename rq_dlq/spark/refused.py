"""A streaming source that was asked for what makes no sense.

Spark hides an error that is raised where it makes the reader behind one of its own; it shows those of the
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
    """Says why at the first call."""

    def __init__(self, why: RqDlqError) -> None:
        self._why = why

    @plainly
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's names, here and below
        """Raise it."""
        raise self._why

    @plainly
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Raise it."""
        raise self._why

    @plainly
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Raise it."""
        raise self._why

    @plainly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Raise it."""
        raise self._why

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Raise it."""
        raise self._why
