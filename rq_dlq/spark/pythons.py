"""Checks the Python that runs the tasks of a local Spark."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rq_dlq.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_python(spark: SparkSession) -> None:
    """Check that the Python of a local Spark's tasks has this package. Spark's own error is 40 lines of Java.

    Raises:
        ConfigurationError: it does not.
    """
    context: Any = getattr(spark, "sparkContext", None)  # Spark Connect has none
    if context is None or not context.master.startswith("local"):
        return
    if context.getConf().get("spark.submit.pyFiles", ""):  # only Spark knows where it puts these
        return
    theirs = shutil.which(context.pythonExec)
    if theirs and Path(theirs).parent == Path(sys.executable).parent:
        return
    look = [theirs or context.pythonExec, "-c", "import rq_dlq.spark.source"]
    try:
        found = subprocess.run(look, capture_output=True, check=False).returncode == 0  # noqa: S603 - what Spark runs
    except OSError:
        found = False
    if not found:
        raise ConfigurationError(
            f"Spark would run its tasks with {look[0]}, which has no rq_dlq: set the environment variable "
            f"PYSPARK_PYTHON to {sys.executable} before you create the session"
        )
