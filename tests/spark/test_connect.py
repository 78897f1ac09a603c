"""Tests that a session of Spark Connect passes, too, in the same JVM: a process has sessions of one kind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.needs import need
from tests.spark.conftest import CONNECT

HERE = Path(__file__).parent


@pytest.mark.slow  # five files by another door; `make spark-matrix` has it, too
@pytest.mark.timeout(1_800)
@pytest.mark.skipif(CONNECT in os.environ, reason="it is one already")
def test_a_session_of_spark_connect(spark: SparkSession) -> None:
    need("grpc", "dev-spark")
    jvm: Any = spark._jvm
    service = getattr(getattr(jvm.org.apache.spark.sql.connect.service, "SparkConnectService$"), "MODULE$")
    service.start(spark.sparkContext._jsc.sc())
    tests = [str(HERE / f"test_{name}.py") for name in ("claim", "read", "recipes", "sinks", "sql")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        capture_output=True,
        text=True,
        env=os.environ | {CONNECT: f"sc://127.0.0.1:{service.localPort()}"},
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5_000:]
