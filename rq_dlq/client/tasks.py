"""The tasks of a queue: finding the task that a message names, and their common settings."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rq_dlq.client.handlers import Handler
from rq_dlq.client.task_function import TaskFunction
from rq_dlq.core.schedules import schedules
from rq_dlq.core.schedules.schedule import USUAL_ZONE, Missed, Record, Rule
from rq_dlq.core.sending.packing import SendOptions
from rq_dlq.errors import ConfigurationError, UnfitMessage
from rq_dlq.values.durations import Duration, milliseconds, shown
from rq_dlq.values.signature import TASK

if TYPE_CHECKING:
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.values.leased import Leased
    from rq_dlq.values.signature import Taken


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How the tasks of a queue are run; None: no task has set it."""

    concurrency: int | None = None
    timeout: Duration | None = None
    ack_each: bool | None = None
    deadline: bool | None = None

    def and_of(self, other: RunSettings, queue: str) -> RunSettings:
        """These settings combined with those of another task.

        Raises:
            ConfigurationError: that task sets another value.
        """
        known, given = self._comparable(), other._comparable()
        for what, value in given.items():
            if known[what] is not None and value is not None and known[what] != value:
                raise ConfigurationError(
                    f"the tasks of queue {queue!r} share one {what}, which another task has already set: "
                    "leave it out here, or use another queue"
                )
        said = {what: getattr(other, what) for what, value in given.items() if value is not None}
        return replace(self, **said)

    def _comparable(self) -> dict[str, object]:
        limit = None if self.timeout is None else milliseconds(self.timeout, name="timeout", minimum=1)
        return {**asdict(self), "timeout": limit}


@dataclass
class Tasks:
    """The tasks of a queue; as its handler, it calls the one that a message names.

    Settings that one task makes (`RunSettings`) hold for the queue, since one loop runs all tasks.
    """

    queue: Any
    named: bool = True  # all tasks gave only the queue's name, so the queue has no settings of its own
    running: RunSettings = RunSettings()
    by_name: dict[str, TaskFunction] = field(default_factory=dict[str, TaskFunction])

    def __call__(self, body: object, delivery: Leased[Any]) -> Any:
        """Call the task; an async task returns an awaitable.

        Raises:
            UnfitMessage: there is no such task, or the arguments do not fit. The delivery is marked, too.
            UnprocessableMessage: the arguments cannot be decoded.
        """
        del body
        try:
            task = self._named(delivery.headers.get(TASK))
            arguments = task.bound(delivery)
        except UnfitMessage:
            delivery._unfit = True
            raise
        return task.function(*arguments.args, **arguments.kwargs)

    def _named(self, name: str | None) -> TaskFunction:
        if name in self.by_name:
            return self.by_name[name]
        what = f"the message has no header {TASK!r}" if name is None else f"there is no task {shown(name)}"
        raise UnfitMessage(f"{what}: the tasks of {self.queue.name!r} are {', '.join(self.by_name)}")

    def taken(self) -> Taken:
        """The signatures of the tasks, by their names."""
        core: QueueState[Any] = self.queue._core
        return {
            name: task.signature(core.codec.max_bytes, core.client.version)
            for name, task in self.by_name.items()
        }

    def check(self) -> None:
        """Check that the arguments of all tasks can be read; see `TaskFunction.check`."""
        for task in self.by_name.values():
            task.check()

    def on(self, queue: Any) -> Tasks:
        """These tasks on the queue object that another task passes.

        Raises:
            ConfigurationError: an earlier task passed an object with other settings.
        """
        if not self.named and _settings(queue) != _settings(self.queue):
            raise ConfigurationError(
                f"two tasks of queue {queue.name!r} pass queue objects with different settings: make one "
                "queue object, and pass it to both"
            )
        return replace(self, queue=queue, named=False)

    def schedules(self) -> dict[str, Record]:
        """The schedules that the tasks declare, by their names."""
        core: QueueState[Any] = self.queue._core
        return {
            task.name: schedules.recurring(
                core,
                call.body,
                task.rule,
                task.saying(SendOptions(headers=task.headers(None)), call),
                declared=True,
            )
            for task in self.by_name.values()
            if task.rule is not None
            for call in [task.call((), {})]
        }

    def with_task(self, task: TaskFunction, running: RunSettings) -> Tasks:
        """These tasks and another one.

        Raises:
            ConfigurationError: it has the name of another task, or conflicts with the others.
        """
        where = f"queue {self.queue.name!r}"
        if task.name in self.by_name:
            raise ConfigurationError(
                f"{where} already has a task {task.name!r}: pass name='…' to one of them"
            )
        if any(other.is_async != task.is_async for other in self.by_name.values()):
            message = (
                f"the tasks of {where} must be all `def` or all `async def`: give {task.name!r} another queue"
            )
            raise ConfigurationError(message)
        running = self.running.and_of(running, self.queue.name)
        return replace(self, running=running, by_name={**self.by_name, task.name: task})

    def handler(self, is_async: bool) -> Handler:  # noqa: FBT001 - the name explains it
        """The handler of the queue."""
        how = self.running
        concurrency = 1 if how.concurrency is None else how.concurrency
        flags = {name: flag for name in ("ack_each", "deadline") if (flag := getattr(how, name)) is not None}
        handler = Handler.checked(self.queue, self, concurrency, how.timeout, **flags)
        return replace(handler, is_async=is_async)


def rule_of(
    cron: str | None, every: Duration | None, timezone: str = USUAL_ZONE, missed: Missed = "last"
) -> Rule | None:
    """The rule of the schedule that a task declares; None: it declares no schedule.

    Raises:
        InvalidInput: see `Rule.of`.
    """
    if cron is None and every is None and (timezone, missed) == (USUAL_ZONE, "last"):
        return None
    return Rule.of(cron, every, timezone, missed)


def _settings(queue: Any) -> tuple[Any, ...]:
    return queue._core.lease, queue._core.given


def register(queue: Any, task: TaskFunction, running: RunSettings, *, named: bool) -> Any:
    """Add a task to the handler of its queue.

    Args:
        named: the task gave only the queue's name, so the settings of the other tasks' object apply.

    Returns:
        The queue object that the tasks share.

    Raises:
        ConfigurationError: the queue has a handler that is not a task; also see `Tasks.on` and `with_task`.
    """
    handlers: list[Handler] = queue._broker._handlers
    place = next((n for n, one in enumerate(handlers) if one.queue.name == queue.name), len(handlers))
    tasks = handlers[place].function if place < len(handlers) else Tasks(queue)
    if not isinstance(tasks, Tasks):
        message = f"queue {queue.name!r} already has a handler: give task {task.name!r} another queue"
        raise ConfigurationError(message)
    if not named:
        tasks = tasks.on(queue)
    handlers[place : place + 1] = [tasks.with_task(task, running).handler(task.is_async)]
    return tasks.queue
