"""Tasks: functions whose calls are sent to a queue.

A message of a task is a message like others. Its header `task` has the task's name: that of the function, if
no `name=` was passed. Its body is a JSON object: each argument by the name of its parameter; `*args` is a
list, `**kwargs` an object, under these names. So `welcome.send(7, lang="de")` sends
`{"user_id":7,"lang":"de"}` with `task: welcome`, and any program can send the same:

    echo '{"user_id": 7, "lang": "de"}' | rq-dlq send mail - --jsonl --header task=welcome

- *The name is a header*, so conditions and counts find it without reading bodies: `--where "task =
  'welcome'"`, `count_by("task")`. A task is not called by its module, since other programs send to it, and
  modules move.
- *Arguments have names*, also those that were passed by place. So a parameter may change its place, or get a
  default, while messages are waiting. A new one without a default, a removed or a renamed one, and a task
  that a worker does not have yet, make messages rest for a worker that takes them
  (`core/claiming/passing_on.py`).
- *The signature is the type.* A `msgspec.Struct` is made of it, with the codec of bodies. The sender decodes
  a message before it sends it, so it never sends one that a worker of its own version could not read. Queues
  with a type do the same. Without a type the annotation of the handler is the type, for the worker only: a
  sender may not have imported the handler. `type=None` means no type, as leaving it out.
- *A queue of tasks has one handler*, which calls the task that a message names. So tasks that share a queue
  share its loop: they are all `def` or all `async def`, and have one concurrency and one timeout. They share
  a queue object, and two objects with different settings are an error. A task has a queue of its own if none
  is named: one task's failures and its slowness are then not another's.
- *The delivery is a parameter*, found by its annotation, not a global: it needs a default, because senders do
  not pass it. A handler gets the delivery if it can take two arguments.
- *A task pickles as its name*, as functions do.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from rq_dlq.asyncio.results import SentForResult, all_for_results
from rq_dlq.client.arguments import arguments_of
from rq_dlq.client.unique import once
from rq_dlq.core.sending import send
from rq_dlq.core.sending.packing import Addressed
from rq_dlq.errors import InvalidInput
from rq_dlq.errors.guesses import Answering, answering
from rq_dlq.values.codec import DEFAULT_PRIORITY

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping
    from datetime import datetime

    from rq_dlq.asyncio.queue import Queue
    from rq_dlq.client.task_function import TaskFunction
    from rq_dlq.core.sending.packing import SendOptions
    from rq_dlq.values.durations import Duration
    from rq_dlq.values.sent import OnDuplicate

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)  # for an `async def`, a coroutine, in all type checkers
V = TypeVar("V")
_IN_PLACE_OF = {"delay": "at", "at": "delay", "ttl": "expires_at", "expires_at": "ttl"}
_NOT_GIVEN: Any = ...  # None is a value that a later call may pass


class Task(Answering, Generic[P, R_co]):
    """A function whose calls can be sent to a queue; `broker.task` makes it.

    `task(…)` calls the function in this process; `await task.send(…)` has a worker call it. Pickling keeps
    the names of the module and of the function: unpickling a task imports it.

    Examples:
        >>> @broker.task(queue="welcome")
        ... async def welcome(user_id: int, lang: str = "en") -> None:
        ...     print(f"welcome {user_id} in {lang}")
        >>> await welcome.options(id="welcome-7", delay="1h").send(7, lang="de")
        'welcome-7'
        >>> welcome.name
        'welcome'
    """

    def __init__(
        self,
        function: TaskFunction,
        queue: Queue[Any],
        given: Mapping[str, Any] | None = None,
        plain: Task[P, R_co] | None = None,
    ) -> None:
        update_wrapper(self, function.function)
        self._function = function
        self._queue = queue
        self._given = given or {}  # options by name
        self._id: str | None = self._given.get("id")
        self._options = _options_of(function, self._given)
        self._plain = plain  # the same task without options

    def __repr__(self) -> str:
        return f"<Task {self.name!r} of {self._queue!r}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        if self._plain is None:
            return str(getattr(self, "__qualname__", self.name))
        return (self._plain._with, (self._given,))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function in this process."""
        return self._function.function(*args, **kwargs)  # type: ignore[no-any-return]

    @property
    def name(self) -> str:
        """The task's name, which its messages have in the header `task`."""
        return self._function.name

    @overload
    async def send(
        self: Task[P, Coroutine[Any, Any, V]], *args: P.args, **kwargs: P.kwargs
    ) -> SentForResult[V]: ...
    @overload
    async def send(self, *args: P.args, **kwargs: P.kwargs) -> SentForResult[R_co]: ...
    async def send(self, *args: P.args, **kwargs: P.kwargs) -> SentForResult[Any]:
        """Send a call of the function.

        Args:
            args, kwargs: the function's arguments, except the one that takes the delivery.

        Returns:
            The message's id, as from `Queue.send`; its `result` has the function's return type.

        Raises:
            InvalidMessage: the arguments do not fit the function; nothing was sent.
            InvalidInput, KnownId, BrokerUnavailable, Unconfirmed: see `Queue.send`.

        Examples:
            >>> @broker.task
            ... async def welcome(user_id: int, lang: str = "en") -> None:
            ...     print(f"welcome {user_id} in {lang}")
            >>> sent = await welcome.send(7, lang="de")
            >>> sent.new
            True
        """
        sent = await self._queue._run(send.send_one(*self._call(args, kwargs)))
        return SentForResult(sent, self._queue, self._function.returned)

    @overload
    async def send_many(
        self: Task[P, Coroutine[Any, Any, V]], calls: Iterable[tuple[Any, ...] | Mapping[str, Any]]
    ) -> list[SentForResult[V]]: ...
    @overload
    async def send_many(
        self, calls: Iterable[tuple[Any, ...] | Mapping[str, Any]]
    ) -> list[SentForResult[R_co]]: ...
    async def send_many(
        self, calls: Iterable[tuple[Any, ...] | Mapping[str, Any]]
    ) -> list[SentForResult[Any]]:
        """Send any number of calls of the function, a thousand per round trip.

        Args:
            calls: the arguments of each call: a tuple, or a mapping by their names.

        Returns:
            The messages' ids, in order, as from `Queue.send_many`.

        Raises:
            InvalidInput: an item is not a tuple or mapping, or the task has an id, which belongs to a single
                call.
            InvalidMessage: the arguments of a call do not fit the function. A note says how many were sent
                before it.
            KnownId, BrokerRefused, BrokerUnavailable, Unconfirmed: see `Queue.send_many`.

        Examples:
            >>> @broker.task
            ... async def welcome(user_id: int, lang: str = "en") -> None:
            ...     print(f"welcome {user_id} in {lang}")
            >>> sent = await welcome.options(delay="1h").send_many([(7,), {"user_id": 8, "lang": "de"}])
            >>> len(sent)
            2
        """
        if self._id is not None:
            raise InvalidInput(f"the id {self._id!r} belongs to one call: use send, or leave the id out")
        given, options = self._function.many(calls, self._options, self._given)
        all_sent = partial(all_for_results, self._queue, self._function.returned)
        steps = send.send(self._queue._core, given, options, all_sent=all_sent)
        sent: list[Any] = await self._queue._run(steps)
        return sent

    @answering
    def options(
        self,
        *,
        id: str | None = _NOT_GIVEN,
        delay: Duration | None = _NOT_GIVEN,
        ttl: Duration | None = _NOT_GIVEN,
        priority: int = _NOT_GIVEN,
        headers: Mapping[str, str] | None = _NOT_GIVEN,
        persistent: bool = _NOT_GIVEN,
        on_duplicate: OnDuplicate = _NOT_GIVEN,
        key: str | None = _NOT_GIVEN,
        dependency: str | None = _NOT_GIVEN,
        result: bool = _NOT_GIVEN,
        at: datetime | None = _NOT_GIVEN,
        expires_at: datetime | None = _NOT_GIVEN,
        max_delay: Duration | None = _NOT_GIVEN,
    ) -> Task[P, R_co]:
        """The same task with options of `Queue.send`, which its `send` and `send_many` use.

        Options given before stay, unless they are given again.

        Args:
            id, delay, ttl, priority, headers, persistent, on_duplicate, max_delay: as in `Queue.send`. A
                unique task (`Broker.task`) redrives a dead message if `on_duplicate` is not given, and an
                `id` takes the place of its own.
            key, dependency, result, at, expires_at: likewise. `at` replaces a `delay` given before, and the
                other way round; so do `expires_at` and `ttl`.

        Returns:
            The task with these options; this one stays as it is.

        Raises:
            InvalidInput: a duration or a time is not valid, or the headers contain the task's own header.

        Examples:
            >>> @broker.task
            ... async def welcome(user_id: int) -> None:
            ...     print(f"welcome {user_id}")
            >>> urgent = welcome.options(priority=9, ttl="1h")
            >>> await urgent.options(id="welcome-7").send(7)
            'welcome-7'
        """
        now = {
            "id": id,
            "delay": delay,
            "ttl": ttl,
            "priority": priority,
            "headers": headers,
            "persistent": persistent,
            "on_duplicate": on_duplicate,
            "key": key,
            "dependency": dependency,
            "result": result,
            "at": at,
            "expires_at": expires_at,
            "max_delay": max_delay,
        }
        given = {name: value for name, value in now.items() if value is not _NOT_GIVEN}
        kept = {name: value for name, value in self._given.items() if _IN_PLACE_OF.get(name) not in given}
        return (self._plain or self)._with({**kept, **given})

    def _call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Addressed:
        call = self._function.call(args, kwargs)
        options = self._function.saying(self._options, call, self._given)
        message_id = self._id
        if self._function.unique is not None and "id" not in self._given:
            message_id = self._function.id_of(call)
        return Addressed(self._queue._core, call.body, message_id, options)

    def _child(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Addressed:
        """A call as a gather sends it: its result is kept, unless the sender says otherwise."""
        message = self._call(args, kwargs)
        return message._replace(options=replace(message.options, result=self._given.get("result", True)))

    def _addressed(self, call: object) -> Addressed:
        """A call as an ack sends it: a tuple of its arguments, or a mapping by their names."""
        return self._call(*arguments_of(call))

    def _with(self, given: Mapping[str, Any]) -> Task[P, R_co]:
        return Task(self._function, self._queue, given, self)


def _options_of(function: TaskFunction, given: Mapping[str, Any]) -> SendOptions:
    options = send.send_options(
        given.get("delay"),
        given.get("ttl"),
        given.get("priority", DEFAULT_PRIORITY),
        function.headers(given.get("headers")),
        persistent=given.get("persistent", True),
        on_duplicate=given.get("on_duplicate", "drop"),
        key=given.get("key"),
        dependency=given.get("dependency"),
        result=given.get("result", function.result),
        at=given.get("at"),
        expires_at=given.get("expires_at"),
        max_delay=given.get("max_delay"),
    )
    if function.unique is None or "id" in given:
        return options
    return once(options, function.unique_for, known_is_said="on_duplicate" in given)
