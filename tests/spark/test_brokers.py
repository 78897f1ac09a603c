"""What a task does to the process that runs it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from pyspark import TaskContext

from rq_dlq.spark.brokers import broker_at


@pytest.fixture
def unfrozen() -> Iterator[None]:
    """No object is exempt from garbage collection before the test; after it all are that are here.

    Else each collection of this process looks at all that pytest collected, in every test to come.
    """
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.mark.usefixtures("unfrozen")
def test_a_task_exempts_the_loaded_modules_from_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TaskContext, "_taskContext", object())
    broker_at("redis://127.0.0.1:1", "task")
    assert gc.get_freeze_count() > 10_000
    count = gc.get_freeze_count()
    young: list[list[int]] = [[] for _ in range(10_000)]
    broker_at("redis://127.0.0.1:1", "task")
    assert gc.get_freeze_count() <= count  # other threads may free what is exempt
    assert len(young) == 10_000


@pytest.mark.usefixtures("unfrozen")
def test_a_driver_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TaskContext, "_taskContext", None)
    broker_at("redis://127.0.0.1:1", "driver")
    assert gc.get_freeze_count() == 0
