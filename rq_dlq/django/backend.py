"""The backend for `django.tasks`, or for the package `django_tasks` where Django has none."""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

import msgspec
from django.core import checks
from django.core.exceptions import SuspiciousOperation
from django.db import transaction
from django.utils import timezone
from django.utils.module_loading import import_string

import rq_dlq.django
from rq_dlq.client.settings import process_name
from rq_dlq.django.setting import of_broker, using
from rq_dlq.errors import (
    ConfigurationError,
    InvalidInput,
    ResultError,
    ResultUnavailable,
    UnprocessableMessage,
)
from rq_dlq.values.failure import LAPSE
from rq_dlq.values.observer import Observer
from rq_dlq.values.signature import TASK

if TYPE_CHECKING or find_spec("django.tasks"):
    from django.tasks import TaskContext, TaskResult, TaskResultStatus
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import Task, TaskError
    from django.tasks.exceptions import TaskResultDoesNotExist
    from django.tasks.signals import task_enqueued, task_finished, task_started
    from django.utils.json import normalize_json
else:  # before Django 6.0
    from django_tasks import TaskContext, TaskResult, TaskResultStatus
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import Task, TaskError
    from django_tasks.exceptions import TaskResultDoesNotExist
    from django_tasks.signals import task_enqueued, task_finished, task_started
    from django_tasks.utils import normalize_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from rq_dlq.client.delivery import Delivery
    from rq_dlq.django.sending import Queue
    from rq_dlq.values.failure import Cause
    from rq_dlq.values.message import Received
    from rq_dlq.values.observer import Settled

ATTEMPTS = {"nacked", "lapsed", "poisoned"}  # the events that end one
STEPS = (-59, -29, -9, 0, 1, 10, 30, 60, 90)
"""Where each of our priorities but 0 begins: theirs are -100 to 100, and mostly used near 0."""

NOT_THERE = (InvalidInput, ResultError, ResultUnavailable, UnprocessableMessage, msgspec.ValidationError)
"""What tells that there is no such call: it may be a message of another program, or was acked by one."""


class TaskCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of a message: a call of a task."""

    task: str
    args: list[Any]
    kwargs: dict[str, Any]
    priority: int
    enqueued_at: datetime
    run_after: datetime | None = None


class Story(msgspec.Struct, kw_only=True):
    """What is known of a call: as the result of a message it outlives the message."""

    call: TaskCall
    status: str
    started_at: datetime | None = None
    last_attempted_at: datetime | None = None
    finished_at: datetime | None = None
    errors: list[tuple[str, str]] = []
    worker_ids: list[str] = []
    value: Any = None


class TaskBackend(BaseTaskBackend, Observer):
    """Sends each call to the queue with the `queue_name` of its task; `manage.py rq_dlq worker` runs it.

    A call that fails comes back by the policy of the queue, and has failed when it is a dead letter. In a
    transaction a call is sent after the commit.

    OPTIONS: `concurrency`, how many calls of a queue a worker process runs at the same time (1); `outbox`,
    the path of an `Outbox` that calls are written to; and settings of the queues, such as `redelivery`, and
    `results`, how long a result is kept ("1d").
    """

    supports_defer = supports_async_task = supports_get_result = supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self._declared: dict[str, Any] = {"results": "1d", **self.options}
        self._concurrency = self._declared.pop("concurrency", 1)
        self._outbox: str | None = self._declared.pop("outbox", None)

    def check(self, **_: Any) -> list[checks.CheckMessage]:
        """For `manage.py check`."""
        if not self.queues:
            message = f"TASKS[{self.alias!r}] has no QUEUES: name the queues that workers run"
            return [checks.Error(message, id="rq_dlq.E002")]
        try:
            of_broker()
            for name in self.queues:
                self.queue(name)
            if self._outbox:
                import_string(self._outbox)
        except ConfigurationError:  # the check of RQ_DLQ tells it
            return []
        except (InvalidInput, ImportError) as error:
            return [checks.Error(f"TASKS[{self.alias!r}]: {error}", id="rq_dlq.E003")]
        return []

    def queue(self, name: str) -> Queue[TaskCall]:
        """The queue for tasks with this `queue_name`."""
        return rq_dlq.django.broker.queue(name, type=TaskCall, **self._declared)

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Send a call."""
        self.validate_task(task)
        given: tuple[Any, Any] = normalize_json(args), normalize_json(kwargs)
        call = TaskCall(task.module_path, *given, task.priority, timezone.now(), task.run_after)
        queue = self.queue(task.queue_name)
        send = partial(import_string(self._outbox).send, queue) if self._outbox else queue.send
        sent = send(
            call,
            at=_aware(task.run_after),
            priority=bisect_right(STEPS, task.priority),
            headers={TASK: call.task},
        )
        result = self._told(f"{task.queue_name}:{sent}", Story(call=call, status="READY"), task)
        tell = partial(task_enqueued.send, type(self), task_result=result)
        if sent.new is None:
            transaction.on_commit(tell, using(), robust=True)
        else:
            tell()
        return result

    def get_result(self, result_id: str) -> Any:
        """The state of a call, and its result."""
        name, _, message_id = result_id.rpartition(":")
        if name not in self.queues:  # the id comes from a request, and may name any queue
            raise TaskResultDoesNotExist(result_id)
        try:
            queue = self.queue(name)
            found = queue.explain(message_id)
            if found.message is None:
                return self._told(result_id, msgspec.convert(queue.result(message_id), Story))
            status = {"dead": "FAILED", "expired": "FAILED", "leased": "RUNNING"}.get(found.place, "READY")
            story = _story_of(found.message, status)
        except NOT_THERE as error:
            raise TaskResultDoesNotExist(result_id) from error
        return self._told(result_id, story)

    def serve(self) -> None:
        """Have the workers of this process run the calls."""
        rq_dlq.django.broker.observe(self)
        for name in sorted(self.queues):
            self.queue(name).handler(concurrency=self._concurrency)(self.run)

    def run(self, call: TaskCall, delivery: Delivery[TaskCall]) -> Story:
        """Run a call, in a worker."""
        story = _story_of(delivery, "RUNNING")
        _note_attempt(story)
        result_id = f"{delivery.queue}:{delivery.id}"
        result = self._told(result_id, story)
        task_started.send(type(self), task_result=result)
        context: list[Any] = [TaskContext(task_result=result)] if result.task.takes_context else []
        story.value = normalize_json(result.task.call(*context, *call.args, **call.kwargs))
        story.status, story.finished_at = "SUCCESSFUL", timezone.now()
        task_finished.send(type(self), task_result=self._told(result_id, story, result.task))
        return story

    def settled(self, settled: Settled) -> None:
        """Tell the receivers of Django's signal of a call that has failed permanently."""
        if settled.outcome == "dead" and settled.queue in self.queues and settled.delivery is not None:
            story = _story_of(settled.delivery, "FAILED")
            _note_attempt(story)
            story.errors.append(_error_of(settled.cause))
            story.finished_at = story.last_attempted_at
            told = self._told(f"{settled.queue}:{settled.id}", story)
            _while_handling(settled.error, partial(task_finished.send, type(self), task_result=told))

    def _told(self, result_id: str, story: Story, task: Any = None) -> Any:
        """A story in the form of `django.tasks`."""
        name = result_id.rpartition(":")[0]
        told = msgspec.structs.asdict(story)
        call, value = told.pop("call"), told.pop("value")
        if task is None:
            task = _task_at(call.task, result_id).using(
                queue_name=name, priority=call.priority, run_after=call.run_after, backend=self.alias
            )
        told["status"] = TaskResultStatus(story.status)
        told["errors"] = [TaskError(exception_class_path=kind, traceback=at) for kind, at in story.errors]
        result: Any = TaskResult(
            task=task, id=result_id, args=call.args, kwargs=call.kwargs, enqueued_at=call.enqueued_at,
            backend=self.alias, **told,
        )  # fmt: skip
        object.__setattr__(result, "_return_value", value)  # as their own backends do: it is frozen
        return result


def _task_at(path: str, result_id: str) -> Any:
    """The task with this path, which a message names: nothing else is imported to be run."""
    found: Any = import_string(path)
    if not isinstance(found, Task):
        raise SuspiciousOperation(f"Task {result_id} does not point to a Task ({path})")
    return cast("Any", found)


def _story_of(message: Received[TaskCall], status: str) -> Story:
    ended = [event for event in message.history if event.event in ATTEMPTS]
    return Story(
        call=message.body,
        status=status,
        started_at=ended[0].at if ended else None,  # when that attempt began is not recorded
        last_attempted_at=ended[-1].at if ended else None,
        finished_at=message.died_at,
        errors=[_error_of(event.cause) for event in ended],
        worker_ids=[event.consumer for event in ended],
    )


def _note_attempt(story: Story) -> None:
    story.last_attempted_at = timezone.now()
    story.started_at = story.started_at or story.last_attempted_at
    story.worker_ids.append(process_name())


def _error_of(cause: Cause) -> tuple[str, str]:
    """The class of an error with its module, and the end of its traceback, or its text."""
    kind = "rq_dlq.LeaseLost" if cause.type in {"", LAPSE.type} else cause.type
    return kind if "." in kind else f"builtins.{kind}", cause.traceback or str(cause)


def _while_handling(error: BaseException | str | None, tell: Callable[[], object]) -> None:
    """Call this with the error as the current one: receivers, such as the log of Django, read it there."""
    if not isinstance(error, BaseException):
        tell()
        return
    trace = error.__traceback__
    try:
        raise error  # noqa: TRY301 - in vain
    except BaseException:  # noqa: BLE001 - also a SystemExit of the task
        tell()
    finally:
        error.__traceback__ = trace


def _aware(moment: datetime | None) -> datetime | None:
    return moment if moment is None or timezone.is_aware(moment) else timezone.make_aware(moment)
