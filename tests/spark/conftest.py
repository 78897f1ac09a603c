"""One Spark for all tests of this folder, on a real Redis in real time.

One JVM, which compiles no code for a few rows (`tests/spark/conf/spark-defaults.conf`: a third less of its
CPU). The tests of Spark Connect run in a process of their own, on a server in that JVM, since a process has
sessions of one kind. Spark's Python processes, one for each kind of work and each query, are forked from one
that has imported what they need (`tests/spark/conf/sitecustomize.py`): by itself each would import it anew,
for a second of CPU.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

pytest.importorskip("pyspark", reason="no pyspark here: pip install -e '.[dev-spark]'")

from pyspark.sql import SparkSession

import rq_dlq
from rq_dlq.spark import register
from tests import servers
from tests.audit import audit
from tests.distribution import SPARK
from tests.needs import need_program
from tests.servers.warm import Warm
from tests.spark.conf.sitecustomize import WARM

CONNECT = "TEST_SPARK_CONNECT"
"""If this variable is set, the session is one of Spark Connect, at this address (`test_connect.py`)."""
CONF = Path(__file__).parent / "conf"
"""Spark's defaults for tests."""
IMPORTED = [
    *(f"pyspark.sql.worker.{does}_data_source" for does in ("create", "write_into")),
    "pyspark.sql.connect.streaming.worker.foreach_batch_worker",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.worker",
    "rq_dlq.spark.views",
]
"""By Spark's Python processes."""


DEADLOCK = 900.0
"""Seconds of a test, at most: on a busy machine a session alone takes minutes to start."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give these tests the time that Spark needs; nothing else in them ends by a time."""
    for item in items:
        if item.nodeid.startswith(SPARK) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(DEADLOCK))


@pytest.fixture(scope="session")
def spark(redis_url: str, event_logs: Path) -> Iterator[SparkSession]:
    """A local Spark with two cores; skipped where there is no Java, and fails there in CI."""
    need_program("java")
    with connected() if CONNECT in os.environ else started(redis_url, event_logs) as session:
        register(session)
        yield session
        session.stop()


@contextmanager
def started(redis_url: str, event_logs: Path) -> Iterator[SparkSession]:
    """A session, with the JVM that is its server."""
    os.environ |= {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(CONF),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "RQ_DLQ_URL": redis_url,
        "SPARK_SUBMIT_OPTS": f"-Dderby.system.home={event_logs.with_name('derby')}",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENBLAS_NUM_THREADS", "1")  # of what forks: nothing may start threads
        warm = Warm(IMPORTED)
        patch.setenv(WARM, warm.path)
        patch.setenv("PYTHONPATH", str(CONF), prepend=os.pathsep)
        session = (
            SparkSession.builder.master("local[2]")
            .appName("rq_dlq tests")
            .config("spark.sql.warehouse.dir", event_logs.with_name("warehouse").as_uri())
            .config("spark.eventLog.enabled", "true")
            .config("spark.eventLog.dir", event_logs.as_uri())
            .config("spark.eventLog.compress", "false")
            .getOrCreate()
        )
    with warm:
        yield session
    del os.environ["RQ_DLQ_URL"]


@contextmanager
def connected() -> Iterator[SparkSession]:
    """A session of Spark Connect, in the JVM of the tests that started this process."""
    yield SparkSession.builder.remote(os.environ[CONNECT]).getOrCreate()


@pytest.fixture(scope="session")
def event_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark writes what it does."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """A real server of Spark's own, since its processes keep connections for the whole session."""
    if CONNECT in os.environ:
        yield os.environ["RQ_DLQ_URL"]  # of the JVM
        return
    with servers.running() as path:
        yield f"unix://{path}"


@pytest.fixture
def raw(redis_url: str) -> Iterator[Any]:
    """A plain client of an empty server; afterwards every queue is looked at."""
    client: Any = redis.Redis.from_url(redis_url)
    client.flushall()
    yield client
    for family in client.smembers("rq:queues"):
        audit(client, family.decode())
    client.close()


@pytest.fixture
def broker(redis_url: str, raw: Any) -> Iterator[rq_dlq.Broker]:
    """A broker, blocking, with the server's own clock."""
    del raw
    broker = rq_dlq.Broker(redis_url)
    yield broker
    broker.close()
