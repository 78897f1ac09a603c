"""Requirements on a session: a version of Spark, and a Python with this package."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark

from rq_dlq.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
logger = logging.getLogger("rq_dlq.spark")
TABLES, STREAM_WRITES, STREAMS = (4, 0), (4, 1), (4, 2)


def check_version(least: tuple[int, int], what: str) -> None:
    """Raise ConfigurationError if this Spark is too old for a feature."""
    major, minor = pyspark.__version__.split(".")[:2]
    if (int(major), int(minor)) < least:
        wanted = ".".join(map(str, least))
        message = f"{what} needs Spark {wanted} or newer, this is {pyspark.__version__}: upgrade pyspark"
        raise ConfigurationError(message)


def check_python(spark: SparkSession) -> None:
    """Check that the Python beside the driver has this package. Spark's own error is 40 lines of Java.

    Raises:
        ConfigurationError: it does not, so a local Spark's tasks also lack it. Others may have it, or be sent
            it, and only streams are planned without: then the log warns.
    """
    context: Any = getattr(spark, "sparkContext", None)  # Spark Connect has none
    if context is None:
        return
    shipped = context.getConf().get("spark.submit.pyFiles", "")
    theirs = shutil.which(context.pythonExec)
    if theirs and Path(theirs).parent == Path(sys.executable).parent and not shipped:
        return
    paths = context._jvm.System.getenv("PYTHONPATH") or ""  # noqa: SLF001 - spark-submit adds to ours alone
    if theirs and _imports(theirs, os.environ | {"PYTHONPATH": paths}):
        return
    if context.master.startswith("local") and not shipped:
        raise ConfigurationError(
            f"Spark would run its tasks with {theirs or context.pythonExec}, which has no rq_dlq: set the "
            f"environment variable PYSPARK_PYTHON to {sys.executable} before you create the session"
        )
    logger.warning(
        "%s, which plans queries beside the driver, has no rq_dlq, so streams cannot be read: Spark does not "
        "pass it what --py-files ships. Install the package there, or set PYTHONPATH to %s before the driver "
        "starts",
        theirs or context.pythonExec, shipped or "a folder that has it",
    )  # fmt: skip


def _imports(python: str, environment: Mapping[str, str]) -> bool:
    look = [python, "-c", "import rq_dlq.spark.source"]
    return subprocess.run(look, capture_output=True, check=False, env=environment).returncode == 0  # noqa: S603 - what Spark runs
