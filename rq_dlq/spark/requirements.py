"""What a session has to have: a version of Spark, and a Python with this package."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark

from rq_dlq.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


TABLES, STREAM_WRITES, STREAMS = (4, 0), (4, 1), (4, 2)


def check_version(least: tuple[int, int], what: str) -> None:
    """Check Spark's version.

    Raises:
        ConfigurationError: this Spark is too old for something.
    """
    major, minor = pyspark.__version__.split(".")[:2]
    if (int(major), int(minor)) < least:
        wanted = ".".join(map(str, least))
        message = f"{what} needs Spark {wanted} or newer, this is {pyspark.__version__}: upgrade pyspark"
        raise ConfigurationError(message)


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
