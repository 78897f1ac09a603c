"""`register()`: once or twice, and what is wrong with the Python of the tasks."""

from __future__ import annotations

import shutil

import pytest
from pyspark.sql import SparkSession

from rq_dlq.errors import ConfigurationError
from rq_dlq.spark import register


def test_a_second_time_does_no_harm(spark: SparkSession) -> None:
    register(spark)
    register(spark)


@pytest.mark.parametrize("python", ["false", "no-such-python"])
def test_tasks_that_lack_the_package(
    spark: SparkSession, python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", python)
    where = shutil.which(python) or python
    with pytest.raises(ConfigurationError, match=f"run its tasks with {where}.*PYSPARK_PYTHON to "):
        register(spark)
