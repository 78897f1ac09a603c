"""`register()`: once or twice, and what is wrong with the Python of the tasks."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rq_dlq.errors import ConfigurationError
from rq_dlq.spark import register
from rq_dlq.spark.partitions import cores_of
from rq_dlq.spark.requirements import check_python
from tests.tables import each_row


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


@each_row(
    ("master", "shipped", "python", "warns"),
    [
        ("local[2]", "rq_dlq.zip", "false", True),
        ("local[2]", "rq_dlq.zip", sys.executable, False),
        ("spark://host:7077", "", "no-such-python", True),
    ],
)
def test_a_planner_that_lacks_the_package_is_warned_of(
    master: str, shipped: str, python: str, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told where to find what `--py-files` ships to tasks alone."""
    path = str(Path(__file__).parents[2])
    context = SimpleNamespace(
        master=master,
        pythonExec=python,
        getConf=lambda: SimpleNamespace(get=lambda *_: shipped),
        _jvm=SimpleNamespace(System=SimpleNamespace(getenv=lambda _: path)),
    )
    caplog.clear()
    session: Any = SimpleNamespace(sparkContext=context)
    check_python(session)
    assert ("so streams cannot be read" in caplog.text) == warns
    assert not (warns and shipped) or "set PYTHONPATH to rq_dlq.zip before" in caplog.text


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
