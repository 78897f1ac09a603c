"""Which Python runs the tasks of a local Spark."""

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
    """Check that the Python of a local Spark's tasks has this package; Spark says so in 40 lines of Java.

    Raises:
        ConfigurationError: it has not.
    """
    context: Any = getattr(spark, "sparkContext", None)  # Connect has none
    if context is None or not context.master.startswith("local"):
        return
    if context.getConf().get("spark.submit.pyFiles", ""):  # which only Spark knows how to find
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
        message = (
            f"Spark would run its tasks with {look[0]}, which has no rq_dlq: set the environment variable "
            f"PYSPARK_PYTHON to {sys.executable} before the session is made"
        )
        raise ConfigurationError(message)
