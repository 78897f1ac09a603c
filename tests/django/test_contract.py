"""What the suites of Django and of `django-tasks` ask of every backend that keeps results, line by line."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields
from datetime import timedelta
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.checks import run_checks
from django.core.exceptions import SuspiciousOperation
from django.db import transaction
from django.test import override_settings
from django.utils import timezone

from rq_dlq import RedeliveryPolicy
from rq_dlq.django.backend import TaskBackend
from rq_dlq.django.sending import Broker
from rq_dlq.outbox import Relay
from rq_dlq.values.failure import moment
from tests.conftest import Clock
from tests.django import api
from tests.django.api import TaskResultStatus
from tests.django.test_backend import TASKS, TWICE, heard, samples, serving
from tests.tables import each_row

__all__ = ["samples"]
REFRESHED = ("status", "errors", "enqueued_at", "started_at", "finished_at", "last_attempted_at")
ONCE = {**TASKS["default"], "OPTIONS": {"redelivery": RedeliveryPolicy(max_redeliveries=0)}}


def facts(result: Any) -> dict[str, Any]:
    """All that a result has, as its `==` compares it before Django 6.1."""
    return {field.name: getattr(result, field.name) for field in fields(result)}


@pytest.fixture
def once(project: Broker) -> Iterator[ModuleType]:
    """Tasks of whose calls none is repeated."""
    del project
    with serving({"default": ONCE}) as module:
        yield module


CALLS: dict[str, Callable[[Any], Any]] = {
    "a function": lambda samples: samples.double.enqueue(1, plus=3),
    "a coroutine": lambda samples: samples.double_async.enqueue(1),
    "awaited": lambda samples: async_to_sync(samples.double.aenqueue)(1, plus=3),
    "a coroutine, awaited": lambda samples: async_to_sync(samples.double_async.aenqueue)(1),
    "with a priority": lambda samples: samples.double.using(priority=7).enqueue(1),
    "later": lambda samples: samples.double.using(run_after=timezone.now() + timedelta(hours=1)).enqueue(1),
    "in another queue": lambda samples: samples.mail.enqueue("anna"),
    "tuples": lambda samples: samples.give.enqueue((1, (2, 3))),
}


@each_row("what", CALLS)
def test_what_enqueue_returns_is_what_get_result_finds(what: str, samples: ModuleType) -> None:
    result = CALLS[what](samples)
    assert (result.status, result.is_finished, result.attempts) == (TaskResultStatus.READY, False, 0)
    found = api.default_task_backend.get_result(result.id)
    assert facts(found) == facts(result)
    assert facts(async_to_sync(api.default_task_backend.aget_result)(result.id)) == facts(result)
    result.refresh()
    assert facts(found) == facts(result)


def test_the_result_is_of_the_task_and_its_arguments(samples: ModuleType) -> None:
    task = samples.give.using(priority=3)
    result = task.enqueue((1, (2, 3)))
    assert (result.task, result.args, result.kwargs, result.backend) == (task, [[1, [2, 3]]], {}, "default")
    assert result.enqueued_at <= timezone.now()


def test_a_refresh_brings_all_that_has_changed(samples: ModuleType, project: Broker) -> None:
    result = samples.double.enqueue(1)
    asked = [samples.double.get_result(result.id) for _ in range(2)]
    project.run(burst=True)
    assert result.status == TaskResultStatus.READY
    asked[0].refresh()
    async_to_sync(asked[1].arefresh)()
    found = api.default_task_backend.get_result(result.id)
    for one in asked:
        assert facts(one) == facts(found)
        assert all(getattr(one, name) is not None for name in REFRESHED)
        assert one.enqueued_at == result.enqueued_at
        assert one.enqueued_at <= one.started_at <= one.finished_at
        assert (one.attempts, one.return_value) == (1, 2)


@each_row("value", [None, False, 0, "", [], {"a": [1, None]}, "ä" * 1_000])
def test_any_json_comes_back(value: object, samples: ModuleType, project: Broker) -> None:
    result = samples.give.enqueue(value)
    project.run(burst=True)
    result.refresh()
    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, value)


ERRORS = {
    "built in": (ValueError, "ValueError: it is wrong\n"),
    "nested": ("tests.django.samples.Nested.Error", "tests.django.samples.Nested.Error: it is nested\n"),
    "exit": (SystemExit, "SystemExit: it ends\n"),
    "in another": (ValueError, "ValueError: it is inside\n"),
}


@each_row("kind", ERRORS)
def test_a_call_that_raises_has_failed(
    kind: str, once: ModuleType, project: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    path, last = ERRORS[kind]
    result = once.fail.enqueue(kind)
    with caplog.at_level(logging.DEBUG):
        project.run(burst=True)
    result.refresh()
    assert (result.status, result.is_finished, result.attempts) == (TaskResultStatus.FAILED, True, 1)
    assert None not in (result.started_at, result.last_attempted_at, result.finished_at)
    assert result.started_at <= result.finished_at
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value
    (error,) = result.errors
    if isinstance(path, str):
        assert error.exception_class_path == path
    else:
        assert error.exception_class is path
    assert error.traceback.endswith(last)
    said = [one for one in caplog.records if result.id in one.getMessage()]
    (record,) = [one for one in said if "state=FAILED" in one.getMessage()]
    assert record.exc_info is not None, "the receivers are called while the error is handled"
    assert record.exc_info[1] is not None
    assert last.strip().rpartition(": ")[2] in str(record.exc_info[1])


def test_a_lapsed_lease_is_an_error_of_a_class(once: ModuleType, project: Broker, clock: Clock) -> None:
    result = once.double.enqueue(1)
    project.queue("default").claim()
    clock.advance(40_000)
    project.queue("default").claim()
    result.refresh()
    assert [error.exception_class.__name__ for error in result.errors] == ["LeaseLost"]


def test_the_log_of_django_tells_each_step(
    samples: ModuleType, project: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, api.LOGGER):
        result = samples.double.enqueue(1)
        project.run(burst=True)
    said = [one.getMessage() for one in caplog.records if result.id in one.getMessage()]
    told = [line.rpartition(f"{result.id} ")[2].split()[1] for line in said if line.startswith("Task id=")]
    assert told == ["enqueued", "state=RUNNING", "state=SUCCESSFUL"]
    assert not any(one.exc_info for one in caplog.records)


def test_a_task_is_checked_again_when_it_is_enqueued(samples: ModuleType, project: Broker) -> None:
    other = samples.double.using(queue_name="mails")
    with override_settings(TASKS={"default": {**TASKS["default"], "QUEUES": ["default"]}}):
        with pytest.raises(api.TaskException, match="'mails' is not valid"):
            other.enqueue(1)
        with pytest.raises(api.TaskException, match="'mails' is not valid"):
            async_to_sync(other.aenqueue)(1)
    assert project.queue("mails").stats().ready == 0


def test_it_is_the_backend_of_its_alias(samples: ModuleType) -> None:
    backend: Any = api.default_task_backend
    assert backend == api.task_backends["default"] == samples.double.get_backend()
    assert (type(api.task_backends["default"]), backend.alias) == (TaskBackend, "default")
    assert backend.options == TASKS["default"]["OPTIONS"]
    assert backend.supports_defer
    assert backend.supports_async_task
    assert backend.supports_get_result
    assert backend.supports_priority
    assert list(backend.check()) == []


def test_two_backends_have_queues_of_their_own(samples: ModuleType, project: Broker) -> None:
    second = {**TASKS["default"], "QUEUES": ["second"]}
    with override_settings(TASKS={**TASKS, "second": second}), heard() as told:
        TaskBackend("second", second).serve()
        result = samples.double.using(backend="second", queue_name="second").enqueue(2)
        project.run(burst=True)
        result.refresh()
        assert (result.return_value, result.backend, result.task.backend) == (4, "second", "second")
        with pytest.raises(api.TaskResultDoesNotExist):
            samples.double.get_result(result.id)
    assert told == [("enqueued", "READY"), ("started", "RUNNING"), ("finished", "SUCCESSFUL")]


def test_calls_run_in_the_order_of_their_priorities(samples: ModuleType, project: Broker) -> None:
    """Also of small ones."""
    for priority in (-50, 100, 2, 0, -2, -100, 50, 10):
        samples.double.using(priority=priority).enqueue(priority)
    project.run(burst=True)
    assert samples.ran == [100, 50, 10, 2, 0, -2, -50, -100]


@each_row("path, error", [("tests.django.samples.plain", SuspiciousOperation), ("no.such.task", ImportError)])
def test_only_a_task_is_run(path: str, error: type[Exception], once: ModuleType, project: Broker) -> None:
    result = once.give.enqueue(1)
    (delivery,) = project.queue("default").claim()
    delivery.ack()
    body = {**delivery.body, "task": path}
    sent = project.queue("default").send(body)
    for _ in range(2):
        with pytest.raises(error):
            api.default_task_backend.get_result(f"default:{sent}")
        project.run(burst=True)
    assert once.ran == []
    letter = [*project.queue("default").dlq.browse()][-1]
    assert letter.cause.type.rpartition(".")[2] in {error.__name__, "ModuleNotFoundError"}
    with pytest.raises(api.TaskResultDoesNotExist):
        result.refresh()


def test_an_id_shows_nothing_of_other_queues_and_programs(samples: ModuleType, project: Broker) -> None:
    samples.double.enqueue(1)
    sent = project.queue("orders").send(project.queue("default").peek()[0].body)
    strange = project.queue("default").send("of another program")
    for result_id in f"orders:{sent}", f"default:{strange}", "default:", ":", "a:b:c", "DLQ.default:x":
        with pytest.raises(api.TaskResultDoesNotExist):
            samples.double.get_result(result_id)


def test_an_awaited_call_is_in_the_transaction_of_its_thread(samples: ModuleType, project: Broker) -> None:
    """The thread of `sync_to_async` has the connection, and with it the transaction."""
    seen: list[int] = []

    def waiting() -> int:
        return project.queue("default").stats().ready

    def place() -> Any:
        with transaction.atomic():
            result = samples.double.enqueue(1)
            seen.append(waiting())
        return result

    async def view() -> Any:
        await samples.double.aenqueue(2)
        seen.append(await sync_to_async(waiting)())
        return await sync_to_async(place)()

    result = async_to_sync(view)()
    assert (seen, waiting()) == ([1, 1], 2)
    result.refresh()


def test_a_rollback_takes_the_signal_along(samples: ModuleType) -> None:
    with heard() as told:
        with suppress(ZeroDivisionError), transaction.atomic():
            samples.double.enqueue(1)
            raise ZeroDivisionError
        assert told == []
        with transaction.atomic():
            result = samples.double.enqueue(2)
            assert told == []
        assert told == [("enqueued", "READY")]
    assert facts(samples.double.get_result(result.id)) == facts(result)


def test_a_worker_serves_the_backends_that_are_ours(project: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that a project has derived from it; those of others run elsewhere."""
    own = {"BACKEND": "tests.django.samples.Own", "QUEUES": ["own"]}
    other = {"BACKEND": f"{api.LOGGER}.backends.dummy.DummyBackend", "QUEUES": ["others"]}
    with override_settings(TASKS={**TASKS, "own": own, "other": other}):
        monkeypatch.delitem(sys.modules, "rq_dlq.django.worker", raising=False)
        import_module("rq_dlq.django.worker")
    names = [handler.queue.name for handler in project._handlers]
    assert [name for name in names if name in {"default", "mails", "own", "others"}] == [
        "default",
        "mails",
        "own",
    ]


def test_calls_may_go_by_an_outbox(project: Broker, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then none is lost after its commit: the relay sends it, whenever that is."""
    options = {"outbox": "tests.django.samples.outbox", "redelivery": TWICE}
    with serving({"default": {**TASKS["default"], "OPTIONS": options}}) as samples, heard() as told:
        outbox = import_module("rq_dlq.django.outbox").Outbox(project)  # it needs the settings
        monkeypatch.setattr(samples, "outbox", outbox, raising=False)
        with suppress(ZeroDivisionError), transaction.atomic():
            samples.double.enqueue(1)
            raise ZeroDivisionError
        with transaction.atomic():
            result = samples.double.using(priority=100, run_after=moment(clock.now)).enqueue(2)
        assert told == [("enqueued", "READY")]
        with pytest.raises(api.TaskResultDoesNotExist):
            result.refresh()
        Relay(outbox, burst=True).run()
        assert facts(samples.double.get_result(result.id)) == facts(result)
        (message,) = project.queue("default").peek()
        assert (message.priority, message.headers) == (9, {"task": "tests.django.samples.double"})
        project.run(burst=True)
        result.refresh()
        assert (result.return_value, samples.ran) == (4, [2])


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "an unknown option": ({"OPTIONS": {"retries": 3}}, "rq_dlq.E003", "no field 'retries'"),
    "a duration": ({"OPTIONS": {"results": "soon"}}, "rq_dlq.E003", "results: 'soon'"),
    "an outbox": ({"OPTIONS": {"outbox": "no.such.outbox"}}, "rq_dlq.E003", "No module named 'no'"),
    "a queue": ({"QUEUES": ["q" * 201]}, "rq_dlq.E003", "qqq"),
    "no queue": ({"QUEUES": []}, "rq_dlq.E002", "has no QUEUES"),
}


@each_row("what", WRONG)
def test_the_check_names_what_is_wrong(what: str, samples: ModuleType) -> None:
    del samples
    change, number, words = WRONG[what]
    with override_settings(TASKS={"default": {"BACKEND": TASKS["default"]["BACKEND"], **change}}):
        found = [one for one in run_checks() if one.id and one.id.startswith("rq_dlq.")]
    assert [one.id for one in found] == [number]
    assert "TASKS['default']" in found[0].msg
    assert words in found[0].msg
