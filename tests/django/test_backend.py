"""The contract of `django.tasks`, as Django documents it for backends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.checks import run_checks
from django.db import transaction
from django.test import override_settings

from rq_dlq import RedeliveryPolicy
from rq_dlq.django.backend import TaskBackend
from rq_dlq.django.sending import Broker
from rq_dlq.values.failure import moment
from tests.conftest import Clock
from tests.django import api
from tests.django.api import TaskResultStatus

TWICE = RedeliveryPolicy(initial_delay="1s", collision_avoidance=0, max_redeliveries=1)
TASKS = {
    "default": {
        "BACKEND": "rq_dlq.django.backend.TaskBackend",
        "QUEUES": ["default", "mails"],
        "OPTIONS": {"redelivery": TWICE},
    },
}


@contextmanager
def serving(tasks: dict[str, Any]) -> Iterator[ModuleType]:
    """Tasks whose backend is served by the broker of the test, with this setting."""
    with override_settings(TASKS=tasks):
        TaskBackend("default", tasks["default"]).serve()
        module = import_module("tests.django.samples")
        module.ran.clear()
        yield module


@pytest.fixture
def samples(project: Broker) -> Iterator[ModuleType]:
    """Tasks whose backend is served by the broker of the test."""
    del project
    with serving(TASKS) as module:
        yield module


@contextmanager
def heard() -> Iterator[list[tuple[str, Any]]]:
    """The signals that are sent."""
    signals = {name: getattr(api, f"task_{name}") for name in ("enqueued", "started", "finished")}
    told: list[tuple[str, Any]] = []
    with ExitStack() as stack:
        for name, signal in signals.items():

            def receive(name: str = name, **given: Any) -> None:
                told.append((name, given["task_result"].status.value))

            signal.connect(receive)
            stack.callback(signal.disconnect, receive)
        yield told


def test_a_call_and_its_result(samples: ModuleType, project: Broker) -> None:
    with heard() as told:
        result = samples.double.enqueue(3, plus=1)
        assert result.status == TaskResultStatus.READY
        assert (result.args, result.kwargs, result.backend) == ([3], {"plus": 1}, "default")
        assert (result.errors, result.worker_ids, result.attempts) == ([], [], 0)
        assert (result.started_at, result.finished_at, result.last_attempted_at) == (None, None, None)
        with pytest.raises(ValueError, match="not finished"):
            _ = result.return_value
        project.run(burst=True)
        result.refresh()
    assert told == [("enqueued", "READY"), ("started", "RUNNING"), ("finished", "SUCCESSFUL")]
    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, 7)
    assert (result.is_finished, result.attempts, result.errors) == (True, 1, [])
    assert result.started_at <= result.finished_at
    again = samples.double.get_result(result.id)
    assert (again.task.func, again.args, again.kwargs) == (samples.double.func, [3], {"plus": 1})


def test_the_async_names(samples: ModuleType, project: Broker) -> None:
    @async_to_sync
    async def sent() -> Any:
        with pytest.raises(api.TaskResultDoesNotExist):
            await samples.double_async.aget_result("default:none")
        return await samples.double_async.aenqueue(3)

    result = sent()
    project.run(burst=True)
    async_to_sync(result.arefresh)()
    assert result.return_value == 6
    assert async_to_sync(samples.double_async.aget_result)(result.id).return_value == 6


def test_a_call_that_fails_comes_back_and_ends_as_failed(
    samples: ModuleType, project: Broker, clock: Clock
) -> None:
    with heard() as told:
        result = samples.attempt.enqueue(9)
        project.run(burst=True)
        result.refresh()
        assert (result.status, result.attempts, result.is_finished) == (TaskResultStatus.READY, 1, False)
        assert [error.exception_class for error in result.errors] == [ValueError]
        clock.advance(1_000)
        project.run(burst=True)
        result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 2)
    assert [error.exception_class for error in result.errors] == [ValueError, ValueError]
    assert "ValueError: attempt 2" in result.errors[-1].traceback
    assert result.finished_at is not None
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value
    assert samples.ran == [1, 2]
    assert [name for name, _ in told] == ["enqueued", "started", "started", "finished"]
    assert told[-1] == ("finished", "FAILED")


def test_a_call_that_succeeds_at_last_tells_what_went_wrong_before(
    samples: ModuleType, project: Broker, clock: Clock
) -> None:
    result = samples.attempt.enqueue(2)
    project.run(burst=True)
    clock.advance(1_000)
    project.run(burst=True)
    result.refresh()
    assert result.return_value == [2, result.id]
    assert (result.attempts, len(result.errors)) == (2, 1)


def test_a_call_in_work_is_running(samples: ModuleType, project: Broker) -> None:
    result = samples.double.enqueue(1)
    (delivery,) = project.queue("default").claim()
    result.refresh()
    assert result.status == TaskResultStatus.RUNNING
    delivery.release()


def test_priority_queue_and_time(samples: ModuleType, project: Broker, clock: Clock) -> None:
    low, usual, high = -100, 0, 100
    for priority in (low, usual, high):
        samples.double.using(priority=priority).enqueue(priority)
    samples.mail.enqueue("anna")
    messages = project.queue("default").peek(9)
    assert [(one.priority, one.body["args"]) for one in messages] == [(9, [100]), (4, [0]), (0, [-100])]
    (message,) = project.queue("mails").peek()
    assert (message.headers["task"], message.body["args"]) == ("tests.django.samples.mail", ["anna"])
    late = samples.double.using(run_after=moment(clock.now) + timedelta(hours=1)).enqueue(7)
    project.run(burst=True)
    assert 7 not in samples.ran
    assert samples.double.get_result(late.id).status == TaskResultStatus.READY
    clock.advance(3_600_000)
    project.run(burst=True)
    assert samples.double.get_result(late.id).return_value == 14
    assert samples.mail.get_result(samples.mail.enqueue("emil").id).task.priority == 10


def test_what_cannot_be_sent_or_run_is_refused(samples: ModuleType, project: Broker) -> None:
    with pytest.raises(api.TaskException):
        api.task()(lambda: None)
    with pytest.raises(api.TaskException):
        samples.double.using(queue_name="other")
    with pytest.raises(api.TaskException):
        samples.double.using(priority=101)
    with pytest.raises(api.TaskException):
        samples.double.using(run_after=datetime(2030, 1, 1))  # noqa: DTZ001 - naive
    with pytest.raises(TypeError):
        samples.double.enqueue(object())
    assert project.queue("default").stats().ready == 0


def test_a_value_that_is_no_json_is_a_failure(samples: ModuleType, project: Broker) -> None:
    result = samples.strange.enqueue()
    project.run(burst=True)
    result.refresh()
    assert [error.exception_class for error in result.errors] == [TypeError]


def test_results_that_are_not_there(samples: ModuleType, project: Broker) -> None:
    result = samples.mail.enqueue("anna")
    for unknown in ("", "default:none", "mails:none", "no such queue:x", "DLQ.mails:x"):
        with pytest.raises(api.TaskResultDoesNotExist):
            samples.mail.get_result(unknown)
    with pytest.raises(api.TaskResultMismatch):
        samples.double.get_result(result.id)
    project.queue("mails").cancel(result.id.rpartition(":")[2])
    with pytest.raises(api.TaskResultDoesNotExist):
        samples.mail.get_result(result.id)


def test_it_is_sent_after_the_commit(samples: ModuleType, project: Broker) -> None:
    with transaction.atomic():
        result = samples.double.enqueue(1)
        assert project.queue("default").stats().ready == 0
        with pytest.raises(api.TaskResultDoesNotExist):
            result.refresh()
    result.refresh()
    assert result.status == TaskResultStatus.READY


def test_a_call_has_fresh_connections(samples: ModuleType, project: Broker) -> None:
    result = samples.connected.enqueue()
    project.run(burst=True)
    result.refresh()
    assert result.return_value is False


def test_queues_must_be_named(samples: ModuleType) -> None:
    del samples
    tasks = {"default": {"BACKEND": "rq_dlq.django.backend.TaskBackend", "QUEUES": []}}
    (error,) = TaskBackend("default", tasks["default"]).check()
    assert error.id == "rq_dlq.E002"
    assert [one for one in run_checks() if one.id == "rq_dlq.E001"] == []
