"""The benchmark beside the peers measures each of its figures.

`make bench` begins with it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.benchmarks.peers import install
from tests.benchmarks.peers.install import Environment
from tests.benchmarks.peers.measure import ONE_BY_ONE, P50, P99, SEND_MANY, SEND_ONE, Plan, measure
from tests.benchmarks.peers.peer import AS_IT_COMES, ASYNC_10, ASYNC_100, THREADS
from tests.needs import missing


@pytest.mark.redis
@pytest.mark.skipif(bool(missing("taskset")), reason=missing("taskset"))
@pytest.mark.skipif(
    not (Path(sys.prefix) / "bin" / "rq-dlq").exists(), reason="rq-dlq is installed elsewhere"
)
def test_a_peer_is_measured_in_every_way() -> None:
    """Here with the environment of the tests."""
    environment = Environment(install.US, Path(sys.prefix))
    plan = Plan(messages=30_000, seconds=0.3, pick_ups=5, core=min(os.sched_getaffinity(0)))
    found = measure(environment, plan)
    assert found.failed == {}
    ways = {AS_IT_COMES, THREADS, ASYNC_10, ASYNC_100}
    assert set(found.figures) == ways | {SEND_ONE, SEND_MANY, ONE_BY_ONE, P50, P99}
    assert found.about["versions"].keys() >= {"rq-dlq", "Redis"}
