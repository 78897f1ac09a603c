"""`register()`: once or twice, and what is wrong with the Python of the tasks."""

from __future__ import annotations

import shutil
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rq_dlq.errors import ConfigurationError
from rq_dlq.spark import register
from rq_dlq.spark.partitions import cores_of


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


@pytest.mark.parametrize(
    ("master", "parallelism", "said", "cores"),
    [
        ("local", 1, "", 1),
        ("local[2]", 2, "", 2),
        ("spark://host:7077", 2, "", 0),  # no executor has joined
        ("local-cluster[2,2,512]", 2, "", 0),
        ("spark://host:7077", 64, "", 64),
        ("yarn", 2, "2", 2),
        (None, 0, "16", 16),  # Spark Connect has no context
        (None, 0, "", 0),
    ],
)
def test_cores_that_have_not_joined_are_not_known(
    master: str | None, parallelism: int, said: str, cores: int
) -> None:
    context = SimpleNamespace(master=master, defaultParallelism=parallelism)
    session: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda _, default: said or default))
    if master:
        session.sparkContext = context
    assert cores_of(session) == cores
