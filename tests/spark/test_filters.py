"""Why filters of a query run in Spark: it mixes up those that it pushes down."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.versions import since


@since(4, 1)
@pytest.mark.xfail(strict=True, reason="Spark reads by the filters of an earlier query of the same DataFrame")
def test_a_dataframe_is_whole_after_a_query_with_a_filter(spark: SparkSession) -> None:
    """If this passes, Spark is mended, and a view can take filters (`rq_dlq/spark/views.py`)."""
    from pyspark.sql import datasource as ds  # noqa: PLC0415 - sent to Spark's processes

    class Reader(ds.DataSourceReader):
        chosen: Any = None

        def pushFilters(self, filters: Iterable[Any]) -> Iterator[Any]:  # noqa: N802 - Spark's name
            for one in filters:
                if isinstance(one, ds.EqualTo):
                    self.chosen = one.value
                else:
                    yield one

        def read(self, _partition: Any) -> Iterator[Any]:
            return iter([(n,) for n in range(3) if self.chosen in {None, n}])

    class Three(ds.DataSource):
        @classmethod
        def name(cls) -> str:
            return "three"

        def schema(self) -> str:
            return "n int"

        def reader(self, _schema: Any) -> Reader:
            return Reader()

    spark.dataSource.register(Three)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        three = spark.read.format("three").load()
        assert three.where("n = 1").count() == 1
        assert three.count() == 3
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
