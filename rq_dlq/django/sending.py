"""The broker of a Django project: what is sent in a transaction goes after its commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

import msgspec
from asgiref.sync import SyncToAsync
from django.db import connections, transaction

import rq_dlq
from rq_dlq.client.results import SentForResult
from rq_dlq.core.queues.queue import only_own
from rq_dlq.core.sending import send
from rq_dlq.core.sending.packing import Resend, asks_result, own_options, packed
from rq_dlq.core.sending.windows import check_named
from rq_dlq.django.setting import using as database
from rq_dlq.django.unsent import UnsentCount
from rq_dlq.errors import InvalidInput, RqDlqError
from rq_dlq.errors.guesses import refuse
from rq_dlq.outbox.row import Common
from rq_dlq.values.cached import cached_property
from rq_dlq.values.message import Message
from rq_dlq.values.observer import Observer
from rq_dlq.values.sent import Sent, Unsent

if TYPE_CHECKING:
    from typing import Unpack

    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.sending.packing import SendOptions
    from rq_dlq.policy import Declared
    from rq_dlq.values.durations import Duration
    from rq_dlq.values.leased import Leased
    from rq_dlq.values.sent import OnDuplicate

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


class SendManyOptions(Common, total=False):
    """The options of `rq_dlq.Queue.send_many`."""

    on_duplicate: OnDuplicate
    max_delay: Duration | None


class Queue(rq_dlq.Queue[T]):
    """A queue whose sends await the commit of the transaction that they are in.

    In `transaction.atomic()` a send checks its arguments, draws the id and returns it, with `new` None. The
    message goes after the commit, and not at all after a rollback, be it to a savepoint; a delay counts from
    the commit. A send after the commit that fails is logged, and `rq-dlq doctor` warns of it: the message is
    lost. Sessions, gathers, `ack(send=…)` and schedules take effect at once.
    """

    _broker: Broker

    def send(  # type: ignore[override]  # `unknown` takes nothing, and `SendManyOptions` has no such words
        self,
        body: T,
        *,
        id: str | None = None,
        on_commit: bool = True,
        using: str | None = None,
        **options: Unpack[SendManyOptions],
    ) -> Sent:
        """Send a message, after the commit of the transaction if there is one.

        Args:
            body, id, options: as in `rq_dlq.Queue.send`.
            on_commit: False: send at once, also if the transaction is rolled back.
            using: the alias of the database whose commit is awaited; None: the one in `RQ_DLQ["using"]`, or
                else "default".

        Returns:
            The message's id; `new` is None while the commit is awaited.

        Raises:
            InvalidInput: an argument is not valid, or `on_duplicate="raise"` would await a commit.
            KnownId, BrokerUnavailable, Unconfirmed: of a send at once; see `rq_dlq.Queue.send`.
        """
        if (alias := _awaited(using, on_commit=on_commit)) is None:
            return super().send(body, id=id, **options)  # pyright: ignore[reportArgumentType] - likewise
        return _send_later(self, [Message(body, id=id)], _checked(super().send, options), alias)[0]

    def send_many(  # type: ignore[override]  # likewise
        self,
        bodies: Iterable[T | Message[T]],
        *,
        on_commit: bool = True,
        using: str | None = None,
        **options: Unpack[SendManyOptions],
    ) -> list[Sent]:
        """Like `rq_dlq.Queue.send_many`, after the commit if there is a transaction; see `send`."""
        if (alias := _awaited(using, on_commit=on_commit)) is None:
            return super().send_many(bodies, **options)  # pyright: ignore[reportArgumentType]
        return _send_later(self, bodies, _checked(super().send_many, options), alias)


class Task(rq_dlq.Task[P, R_co]):
    """A task whose sends await the commit of the transaction that they are in; see `Queue`."""

    _queue: Queue[Any]

    def send(self, *args: P.args, **kwargs: P.kwargs) -> SentForResult[Any]:
        """Like `rq_dlq.Task.send`, after the commit if there is a transaction; see `Queue.send`."""
        if self._alias is None:
            return super().send(*args, **kwargs)
        call = self._call(args, kwargs)
        return self._send_later([Message(call.body, id=call.id)], call.options)[0]

    def send_many(self, calls: Iterable[tuple[Any, ...] | Mapping[str, Any]]) -> list[SentForResult[Any]]:
        """Like `rq_dlq.Task.send_many`, after the commit if there is a transaction; see `Queue.send`."""
        if self._alias is None or self._id is not None:
            return super().send_many(calls)
        return self._send_later(self._function.messages(calls, self._given), self._options)

    def options(
        self, *, on_commit: bool | None = None, using: str | None = None, **options: Any
    ) -> Task[P, R_co]:
        """Like `rq_dlq.Task.options`, with `on_commit` and `using` of `Queue.send`; None: as before."""
        more = {"on_commit": on_commit, "using": using}
        given = {**super().options(**options)._given, **{k: v for k, v in more.items() if v is not None}}
        return self._with(given)

    @property
    def _alias(self) -> str | None:
        return _awaited(self._given.get("using"), on_commit=self._given.get("on_commit", True))

    def _send_later(self, messages: Iterable[Any], options: SendOptions) -> list[SentForResult[Any]]:
        sent = _send_later(self._queue, messages, options, str(self._alias))
        return [SentForResult(one, self._queue, self._function.returned) for one in sent]

    def _with(self, given: Mapping[str, Any]) -> Task[P, R_co]:
        return Task(self._function, self._queue, given, self._plain or self)


class Broker(rq_dlq.Broker):
    """The broker of a Django project, `rq_dlq.django.broker`, with the settings in `RQ_DLQ`.

    Its queues and tasks send after the commit (`Queue`). Around each call of a handler, connections to
    databases that are broken or too old are closed, as Django does around a request.
    """

    @cached_property
    def unsent(self) -> UnsentCount:
        """The messages that were not sent after their commit."""
        return UnsentCount(self)

    @overload
    def queue(
        self, name: str, *, type: type[T], lease: Duration = ..., **declared: Unpack[Declared]
    ) -> Queue[T]: ...
    @overload
    def queue(
        self, name: str, *, type: Any = ..., lease: Duration = ..., **declared: Unpack[Declared]
    ) -> Queue[Any]: ...
    def queue(self, name: str, **declared: Any) -> Queue[Any]:
        """A queue of this broker; see `rq_dlq.Broker.queue`."""
        return Queue(self, super().queue(name, **declared)._core)

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(self, /, **options: Any) -> Callable[[Callable[P, R]], Task[P, R]]: ...
    def task(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Make a function a task; see `rq_dlq.Broker.task`."""
        make: Any = super().task(**options)

        def of(function: Callable[..., Any]) -> Task[..., Any]:
            made = make(function)
            return Task(made._function, made._queue)

        return of if function is None else of(function)


class FreshConnections(Observer):
    """Closes connections to databases that are broken or too old, before and after each call of a handler."""

    @contextmanager
    def handling(self, delivery: Leased[Any]) -> Generator[None]:
        """Close them in the thread that has them: of an async handler, the one of `sync_to_async`."""
        del delivery
        _close_old()
        try:
            yield
        finally:
            _close_old()


def _close_old() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        _close_old_here()
    else:  # without waiting: what the handler does in that thread comes after this
        SyncToAsync.single_thread_executor.submit(_close_old_here)


def _close_old_here() -> None:
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:  # Django's own `close_old_connections` would break it off
            connection.close_if_unusable_or_obsolete()


def _awaited(using: str | None, *, on_commit: bool) -> str | None:
    """The alias of the database whose commit a send awaits; None: it is sent at once."""
    if not on_commit:
        return None
    alias = using or database()
    return alias if connections[alias].in_atomic_block else None


def _checked(verb: Callable[..., object], options: SendManyOptions) -> SendOptions:
    if unknown := options.keys() - SendManyOptions.__annotations__.keys():
        refuse(verb, unknown)
    return send.send_options(**options)


def _send_later(queue: Queue[Any], bodies: Iterable[Any], options: SendOptions, alias: str) -> list[Sent]:
    """Check messages, draw their ids, and have them sent after the commit of the current transaction.

    Raises:
        InvalidInput: an argument is not valid, or `on_duplicate="raise"` cannot be answered before
            the commit.
    """
    core = queue._core
    only_own(core, "send to")
    messages = [_as_it_is_now(core, body, options) for body in send.several(bodies)]
    transaction.on_commit(partial(_send_now, queue, messages, options), alias, robust=True)
    sent = [Unsent(one.id) for one in messages]
    asking = [asks_result(core, own_options(one, options)) for one in messages]
    return [SentForResult(one, queue) if asks else one for one, asks in zip(sent, asking, strict=True)]


def _as_it_is_now(core: QueueState[Any], body: Any, options: SendOptions) -> Message[Any]:
    """A message with an id and an encoded body, which no later change of the object reaches."""
    message: Message[Any] = body if isinstance(body, Message) else Message(body)  # pyright: ignore[reportUnknownVariableType]
    own = own_options(message, options)
    if own.raises:
        raise InvalidInput(
            'on_duplicate="raise" needs an answer, which only the commit would bring: pass on_commit=False, '
            "too"
        )
    if isinstance(own.call, Resend):
        check_named(message.id)
    message_id, _ = packed(core, message.body, message.id, own)
    raw = isinstance(message.body, bytes | bytearray | memoryview)
    now = bytes(message.body) if raw else msgspec.Raw(core.codec.encode(message.body))
    return replace(message, body=now, id=message_id)


def _send_now(queue: Queue[Any], messages: list[Message[Any]], options: SendOptions) -> None:
    trouble = None
    try:
        queue._run(send.send(queue._core, messages, options))
    except RqDlqError as error:
        trouble = error
    queue._broker.unsent.note(queue.name, [str(one.id) for one in messages], trouble)
