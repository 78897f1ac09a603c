"""Tests that a session of Spark Connect passes, too: a process has sessions of one kind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import need, need_program
from tests.spark.conftest import CONNECT

HERE = Path(__file__).parent


@pytest.mark.timeout(1_800)
@pytest.mark.skipif(CONNECT in os.environ, reason="it is one already")
def test_a_session_of_spark_connect() -> None:
    need_program("java")
    need("grpc", "dev")
    tests = [str(HERE / f"test_{name}.py") for name in ("claim", "read", "recipes", "sinks", "sql")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        capture_output=True,
        text=True,
        env=os.environ | {CONNECT: "yes"},
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5_000:]
