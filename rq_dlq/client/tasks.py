"""What tasks of both colours share: arguments as bodies, and the choice of the task that a message names.

A message of a task has the task's name in the header `task`. Its body is a JSON object that has the arguments
by the names of their parameters; those of `*args` are a list, those of `**kwargs` an object, under these
names. So programs in any language can send it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import GenericAlias
from typing import Any, get_args, get_origin

import msgspec

from rq_dlq import _work
from rq_dlq.client.handlers import Handler, annotations_of
from rq_dlq.errors import ConfigurationError, InvalidInput, InvalidMessage, UnprocessableMessage
from rq_dlq.errors.guesses import sentence_for
from rq_dlq.values.codec import Codec
from rq_dlq.values.durations import Duration, milliseconds, shown
from rq_dlq.values.message import Leased
from rq_dlq.values.schedule import USUAL_ZONE, Missed, Record, Rule

HEADER = "task"


class TaskFunction:
    """A task's function and its name, and the rule by which it is sent again and again, if there is one.

    Raises:
        ConfigurationError: it is not a function, or has no name that a message could have.
    """

    def __init__(self, function: Callable[..., Any], name: str | None, rule: Rule | None = None) -> None:
        if not inspect.isroutine(function):
            raise ConfigurationError(f"{shown(function)} cannot be a task: decorate a function")
        self.function = function
        self.rule = rule
        self.name = function.__name__ if name is None else name
        self.is_async = inspect.iscoroutinefunction(function)
        if not isinstance(self.name, str) or not self.name or self.name == "<lambda>":
            raise ConfigurationError(f"{shown(self.name)} cannot name a task: pass name='…'")

    def __str__(self) -> str:
        return f"{self.name}{self._sent}"

    def headers(self, others: Mapping[str, str] | None) -> Mapping[str, str]:
        """The headers of a message of this task, beside the sender's own.

        Raises:
            InvalidInput: the sender's own are not a mapping, or have the task's.
        """
        if others is None:
            return {HEADER: self.name}
        if not isinstance(others, Mapping) or HEADER in others:
            raise InvalidInput(f"headers {shown(others)}: pass a mapping without {HEADER!r}, the task's name")
        return {HEADER: self.name, **others}

    def body(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> msgspec.Raw:
        """The body of a message that calls the task with these arguments.

        Raises:
            InvalidMessage: they do not fit the signature, or a worker could not read them.
        """
        try:
            bound = self._sent.bind(*args, **kwargs)
        except TypeError as error:
            unknown = [name for name in kwargs if name not in self._sent.parameters]
            sentence = sentence_for(unknown, "Task.send")
            message = f"{self} cannot be called like this: {error}; nothing was sent"
            raise InvalidMessage(f"{message}: {sentence}" if sentence else message) from None
        data = self._codec.encode(bound.arguments)
        try:
            self._codec.decode(data, raw=False)
        except UnprocessableMessage as error:
            message = f"the arguments do not fit {self}: {error.__cause__}; nothing was sent"
            raise InvalidMessage(message) from None
        return msgspec.Raw(data)

    def call(self, delivery: Leased[Any]) -> Any:
        """Call the function with the arguments of a message.

        Raises:
            UnprocessableMessage: they do not fit.
        """
        try:
            sent = self._codec.decode(delivery.data, raw=False)
        except UnprocessableMessage as error:
            raise UnprocessableMessage(f"the arguments do not fit {self}: {error.__cause__}") from error
        given = {name: getattr(sent, name) for name in self._sent.parameters}
        arguments = {name: value for name, value in given.items() if value is not msgspec.UNSET}
        if self._injected is not None:
            arguments[self._injected] = delivery
        bound = inspect.BoundArguments(self._signature, arguments)
        bound.apply_defaults()
        return self.function(*bound.args, **bound.kwargs)

    def check(self) -> None:
        """Check that arguments can be read.

        Raises:
            ConfigurationError: an annotation of the function cannot be evaluated, or it is scheduled and has
                a parameter without a default.
            InvalidMessage: an annotation is a type that no message can have.
        """
        _ = self._codec
        if self.rule is None:
            return
        try:
            self.body((), {})
        except InvalidMessage as error:
            message = (
                f"task {self.name!r} has a schedule, which sends no arguments: give each parameter a "
                f"default, or send them by queue.schedule(…) ({error})"
            )
            raise ConfigurationError(message) from None

    @cached_property
    def _signature(self) -> inspect.Signature:
        """The function's signature, with types as its annotations."""
        signature = inspect.signature(self.function)
        types = annotations_of(self.function, signature.parameters.values(), f"task {self.name!r}")
        parameters = [
            one.replace(annotation=types.get(one.name, Any)) for one in signature.parameters.values()
        ]
        return inspect.Signature(parameters)

    @cached_property
    def _injected(self) -> str | None:
        """The parameter that takes the delivery, if one is annotated so; it is not sent."""
        found = (one.name for one in self._signature.parameters.values() if _is_delivery(one.annotation))
        return next(found, None)

    @cached_property
    def _sent(self) -> inspect.Signature:
        parameters = self._signature.parameters.values()
        return inspect.Signature([one for one in parameters if one.name != self._injected])

    @cached_property
    def _codec(self) -> Codec[Any]:
        fields = [_field(parameter) for parameter in self._sent.parameters.values()]
        kind = msgspec.defstruct(str(self), fields, kw_only=True, forbid_unknown_fields=True)
        return Codec(kind, sys.maxsize)  # the queue's codec has a limit


def _is_delivery(kind: Any) -> bool:
    parts = [get_origin(part) or part for part in (kind, *get_args(kind))]
    return any(isinstance(part, type) and issubclass(part, Leased) for part in parts)


def _field(parameter: inspect.Parameter) -> tuple[str, Any] | tuple[str, Any, Any]:
    kind: Any = parameter.annotation
    if parameter.kind is parameter.VAR_POSITIONAL:
        return parameter.name, GenericAlias(tuple, (kind, ...)), msgspec.UNSET
    if parameter.kind is parameter.VAR_KEYWORD:
        return parameter.name, GenericAlias(dict, (str, kind)), msgspec.UNSET
    if parameter.default is parameter.empty:
        return parameter.name, kind
    return parameter.name, kind, msgspec.UNSET


@dataclass
class Tasks:
    """The tasks of a queue; as its handler, it calls the one that a message names.

    What one task says about concurrency and timeout holds for the queue, since one loop runs them all.
    """

    queue: Any
    named: bool = True  # each task gave the queue's name only, so the queue has no settings of its own
    concurrency: int | None = None
    timeout: Duration | None = None
    by_name: dict[str, TaskFunction] = field(default_factory=dict[str, TaskFunction])

    def __call__(self, body: object, delivery: Leased[Any]) -> Any:
        """Call the task; what an async one returns is to be awaited.

        Raises:
            UnprocessableMessage: there is no such task, or the arguments do not fit.
        """
        del body
        name = delivery.headers.get(HEADER)
        if name in self.by_name:
            return self.by_name[name].call(delivery)
        what = "the message has no header 'task'" if name is None else f"there is no task {shown(name)}"
        raise UnprocessableMessage(f"{what}: the tasks of {self.queue.name!r} are {', '.join(self.by_name)}")

    def check(self) -> None:
        """Check that the arguments of all tasks can be read; see `TaskFunction.check`."""
        for task in self.by_name.values():
            task.check()

    def on(self, queue: Any) -> Tasks:
        """These tasks on the queue object that one more of them passes.

        Raises:
            ConfigurationError: another one passes an object with other settings.
        """
        if not self.named and _settings(queue) != _settings(self.queue):
            raise ConfigurationError(
                f"two tasks of queue {queue.name!r} pass queue objects with different settings: make one "
                "queue object, and pass it to both"
            )
        return replace(self, queue=queue, named=False)

    def schedules(self) -> dict[str, Record]:
        """The schedules that the tasks declare, by their names."""
        core: _work.Queue[Any] = self.queue._core
        return {
            task.name: _work.schedules.recurring(
                core,
                task.body((), {}),
                task.rule,
                _work.SendOptions(headers=task.headers(None)),
                declared=True,
            )
            for task in self.by_name.values()
            if task.rule is not None
        }

    def with_task(self, task: TaskFunction, concurrency: int | None, timeout: Duration | None) -> Tasks:
        """These tasks and one more.

        Raises:
            ConfigurationError: it has the name of another one, or does not go with the others.
        """
        where = f"queue {self.queue.name!r}"
        if task.name in self.by_name:
            raise ConfigurationError(
                f"{where} has a task {task.name!r} already: pass name='…' to one of them"
            )
        if any(other.is_async != task.is_async for other in self.by_name.values()):
            message = (
                f"the tasks of {where} are all `def` or all `async def`: give {task.name!r} another queue"
            )
            raise ConfigurationError(message)
        self._check_same("concurrency", self.concurrency, concurrency)
        self._check_same("timeout", _ms(self.timeout), _ms(timeout))
        return replace(
            self,
            concurrency=self.concurrency if concurrency is None else concurrency,
            timeout=self.timeout if timeout is None else timeout,
            by_name={**self.by_name, task.name: task},
        )

    def _check_same(self, what: str, known: int | None, given: int | None) -> None:
        if known is not None and given is not None and known != given:
            message = (
                f"the tasks of queue {self.queue.name!r} have one {what}, which another one sets already: "
                "leave it out here, or use another queue"
            )
            raise ConfigurationError(message)

    def handler(self, is_async: bool) -> Handler:  # noqa: FBT001 - it says itself what it is
        """The handler of the queue."""
        concurrency = 1 if self.concurrency is None else self.concurrency
        return replace(Handler.checked(self.queue, self, concurrency, self.timeout), is_async=is_async)


def rule_of(
    cron: str | None, every: Duration | None, timezone: str = USUAL_ZONE, missed: Missed = "last"
) -> Rule | None:
    """The rule that a task declares; None: it declares none.

    Raises:
        InvalidInput: see `Rule.of`.
    """
    if cron is None and every is None and (timezone, missed) == (USUAL_ZONE, "last"):
        return None
    return Rule.of(cron, every, timezone, missed)


def _ms(timeout: Duration | None) -> int | None:
    return None if timeout is None else milliseconds(timeout, name="timeout", minimum=1)


def _settings(queue: Any) -> tuple[Any, ...]:
    return queue._core.lease, queue._core.given


def register(
    queue: Any, task: TaskFunction, concurrency: int | None, timeout: Duration | None, *, named: bool
) -> Any:
    """Add a task to the handler of its queue.

    Args:
        named: the task gave the queue's name only, so the settings are those of the other tasks' object.

    Returns:
        The queue object that the tasks share.

    Raises:
        ConfigurationError: the queue has a handler that is not of tasks, or see `Tasks.on` and `with_task`.
    """
    handlers: list[Handler] = queue._broker._handlers
    place = next((n for n, one in enumerate(handlers) if one.queue.name == queue.name), len(handlers))
    tasks = handlers[place].function if place < len(handlers) else Tasks(queue)
    if not isinstance(tasks, Tasks):
        message = f"queue {queue.name!r} has a handler already: give task {task.name!r} another queue"
        raise ConfigurationError(message)
    if not named:
        tasks = tasks.on(queue)
    handlers[place : place + 1] = [tasks.with_task(task, concurrency, timeout).handler(task.is_async)]
    return tasks.queue
