"""The package in `--py-files`, and a Python that does not have it: two drivers, each with its own Spark."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import redis

import rq_dlq
from tests.needs import need_program
from tests.spark.versions import since

ROOT = Path(__file__).parents[2]
DRIVER = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.submit.pyFiles", sys.argv[1]).getOrCreate()
from rq_dlq.spark import register
register(spark)
rows = spark.createDataFrame([("x",)], "body string")
rows.write.format("rq_dlq").option("queue", "orders").mode("append").save()
print("read", spark.read.format("rq_dlq").option("queue", "orders").load().count())
frame = spark.readStream.format("rq_dlq").option("queue", "orders").load()
query = frame.writeStream.format("noop").trigger(availableNow=True)
query.option("checkpointLocation", sys.argv[2]).start().awaitTermination()
print("streamed")
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """The package with its Lua files, as in a wheel."""
    path = tmp_path / "rq_dlq.zip"
    with zipfile.ZipFile(path, "w") as zipped:
        for file in (ROOT / "rq_dlq").rglob("*.py"):
            zipped.write(file, file.relative_to(ROOT))
        for file in (ROOT / "lua").rglob("*.lua"):
            zipped.write(file, f"rq_dlq/{file.relative_to(ROOT)}")
    return path


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A folder with all packages of this Python but ours, for an interpreter that has none."""
    folder = tmp_path / "packages"
    folder.mkdir()
    for each in Path(redis.__file__).parents[1].iterdir():
        if "rq_dlq" not in each.name.lower():
            (folder / each.name).symlink_to(each)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    "told",
    [False, pytest.param(True, marks=since(4, 2))],  # an older Spark has no streams of ours
    ids=["only shipped", "and on the path of the driver"],
)
def test_a_python_that_lacks_the_package(  # noqa: PLR0917 - fixtures
    told: bool, archive: Path, bare: Path, broker: rq_dlq.Broker, redis_url: str, tmp_path: Path
) -> None:
    """Tables work; streams do where the process that plans them finds the package, else `register` warns."""
    del broker
    need_program("java")
    python = sys._base_executable  # type: ignore[attr-defined]
    paths = [str(bare), *([str(archive)] if told else [])]
    done = subprocess.run(
        [python, "-c", DRIVER, str(archive), str(tmp_path / "checkpoint")],
        cwd=tmp_path,
        env={
            **{name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"},
            "PYTHONPATH": os.pathsep.join(paths),
            "PYSPARK_PYTHON": python,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "RQ_DLQ_URL": redis_url,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "read 1" in done.stdout, done.stderr[-3_000:]
    assert ("streamed" in done.stdout) == told, done.stderr[-3_000:]
    assert ("has no rq_dlq, so streams cannot be read" in done.stderr) != told
