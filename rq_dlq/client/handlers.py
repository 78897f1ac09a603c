"""Handlers: the functions that run when a message is delivered."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar, overload

from rq_dlq.client.parameters import annotations_of, called, is_async, takes_delivery
from rq_dlq.errors import ConfigurationError, InvalidMessage
from rq_dlq.errors.guesses import answering, part_of
from rq_dlq.values.codec import Codec
from rq_dlq.values.durations import Duration, milliseconds, shown

MOST_CONCURRENT = 1_000

T = TypeVar("T")
R = TypeVar("R")

Lifespan: TypeAlias = Callable[
    [],
    Iterator[Any] | AsyncIterator[Any] | AbstractContextManager[Any] | AbstractAsyncContextManager[Any],
]
"""A function that yields once, def or async def, or one that returns a context manager."""


def check_concurrency(concurrency: object) -> None:
    """Check the number of concurrent calls.

    Raises:
        ConfigurationError: it is not a number in the range.
    """
    if type(concurrency) is not int or not 1 <= concurrency <= MOST_CONCURRENT:
        message = f"concurrency {shown(concurrency)}: use a whole number from 1 to {MOST_CONCURRENT:,}"
        raise ConfigurationError(message)


@dataclass(frozen=True, slots=True)
class Handler:
    """A function and the queue whose messages it handles.

    Attributes:
        concurrency: how many calls run concurrently in one process.
        timeout: the limit for one call, seconds; None: no limit.
        is_async: a call returns an awaitable.
        takes_delivery: it takes the delivery as its second argument.
        type: the type of the bodies, if it is already known; None: see `body_type`.
        ack_each: each call is settled before the next one begins in its thread or slot.
        deadline: a call is cut short when the time to live of its message ends.
    """

    queue: Any
    function: Callable[..., Any]
    concurrency: int
    timeout: float | None
    is_async: bool
    takes_delivery: bool
    type: Any = None
    ack_each: bool = False
    deadline: bool = False

    @classmethod
    def checked(
        cls,
        queue: Any,
        function: Callable[..., Any],
        concurrency: int,
        timeout: Duration | None,
        others: Sequence[Handler] = (),
        *,
        ack_each: bool = False,
        deadline: bool = False,
    ) -> Handler:
        """Check the arguments, and make a handler.

        Raises:
            ConfigurationError: the function cannot be called with a body, or has a `yield`; or the queue has
                a handler already.
        """
        check_concurrency(concurrency)
        for name, flag in {"ack_each": ack_each, "deadline": deadline}.items():
            if not isinstance(flag, bool):
                raise ConfigurationError(f"{name}={shown(flag)}: use True or False")
        if any(other.queue.name == queue.name for other in others):
            message = f"queue {queue.name!r} already has a handler: use one function for all its messages"
            raise ConfigurationError(message)
        limit = None if timeout is None else milliseconds(timeout, name="timeout", minimum=1) / 1000
        return cls(
            queue,
            function,
            concurrency,
            limit,
            is_async(function, "a handler"),
            takes_delivery(function),
            ack_each=ack_each,
            deadline=deadline,
        )

    @property
    def name(self) -> str:
        """The function's name, without its module."""
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def body_type(self) -> Any:
        """The type of the bodies: the queue's, or for a queue without a type the annotation of the parameter.

        Raises:
            ConfigurationError: the annotation cannot be evaluated, or is a type that no body can have.
        """
        if self.type is not None:
            return self.type
        codec: Codec[Any] = self.queue._core.codec
        if codec.type is not Any:
            return codec.type
        try:
            first = next(iter(inspect.signature(self.function).parameters.values()))
        except (TypeError, ValueError):  # raised for a class defined in C
            return Any
        kind = annotations_of(self.function, [first], f"handler {self.name!r}").get(first.name, Any)
        if kind is object:
            return Any
        try:
            return Codec(kind, 1).type
        except InvalidMessage as error:
            raise ConfigurationError(f"the annotation of handler {self.name!r}: {error}") from None


class Registers(Generic[T]):
    """A decorator that makes a function the handler of a queue, and returns it unchanged."""

    def __init__(
        self, queue: HandledQueue[T], concurrency: int, timeout: Duration | None, **flags: bool
    ) -> None:
        self._queue = queue
        self._concurrency = concurrency
        self._timeout = timeout
        self._flags = flags

    @overload
    def __call__(self, function: Callable[[T], R], /) -> Callable[[T], R]: ...
    @overload
    def __call__(self, function: Callable[[T, Any], R], /) -> Callable[[T, Any], R]: ...
    def __call__(self, function: Callable[..., R], /) -> Callable[..., R]:
        """Register the function."""
        handlers: list[Handler] = self._queue._broker._handlers
        handler = Handler.checked(
            self._queue, function, self._concurrency, self._timeout, handlers, **self._flags
        )
        handlers.append(handler)
        return function


@part_of("Queue")
class HandledQueue(Generic[T]):
    """A queue that can have a handler, in both colours."""

    _broker: Any
    _state: Any = None  # the state of the worker that made this object

    @overload
    def handler(self, function: Callable[[T], R], /) -> Callable[[T], R]: ...
    @overload
    def handler(self, function: Callable[[T, Any], R], /) -> Callable[[T, Any], R]: ...
    @overload
    def handler(
        self,
        /,
        *,
        concurrency: int = ...,
        timeout: Duration | None = ...,
        ack_each: bool = ...,
        deadline: bool = ...,
    ) -> Registers[T]: ...
    @answering
    def handler(
        self,
        function: Callable[..., R] | None = None,
        /,
        *,
        concurrency: int = 1,
        timeout: Duration | None = None,
        ack_each: bool = False,
        deadline: bool = False,
    ) -> Callable[..., R] | Registers[T]:
        """Register a function as the handler of this queue's messages, for `broker.run()`.

        The function takes the body, or the body and the delivery. A second parameter with a default takes the
        delivery only if its name is `delivery`, or if its annotation says so. If the queue has no type, the
        annotation of the body is the type, as for a task. A message that does not fit is passed on: it waits
        for another version of the program, and dies if none takes it within ten minutes.

        It may be an `async def`: then it runs in the worker's event loop, and its delivery is an
        `rq_dlq.asyncio` one. Its return value is kept if the sender asked for the result; returning a
        coroutine or a generator is an error, since nothing would run it.

        Args:
            function: the function, when this is used as a decorator without parentheses.
            concurrency: how many calls run concurrently in one process.
            timeout: the limit for one call; None: no limit.
            ack_each: settle each call, by its ack or its error, before the next one begins in its thread (for
                an `async def`: in its concurrency slot). By default finished calls are settled together, so
                if a worker is killed, some of them are repeated: at most 50, which ended in the last 5 ms.
                With `ack_each` only running calls are repeated, at most `concurrency`; each call costs a
                round trip.
            deadline: a call that is still running when the time to live of its message ends is cut short, as
                with `timeout`, and the message expires with that cause, uncharged. See `Delivery.remaining`.

        Returns:
            The function, unchanged; with parentheses, a decorator.

        Raises:
            ConfigurationError: the queue already has a handler, or an argument is not valid.

        Examples:
            >>> @orders.handler(concurrency=4, timeout="20s")
            ... def charge(order: dict) -> None:
            ...     print(order["total"])
        """
        register = Registers(self, concurrency, timeout, ack_each=ack_each, deadline=deadline)
        return register if function is None else register(function)


def check_lifespan(function: object) -> None:
    """Check that a function can be a lifespan.

    Raises:
        ConfigurationError: it cannot.
    """
    try:
        fits = callable(function) and not inspect.iscoroutinefunction(called(function))
        if fits and callable(function):
            inspect.signature(function).bind()
    except (TypeError, ValueError):  # a ValueError: it is defined in C without a signature
        fits = False
    if not fits:
        message = f"{shown(function)} cannot be a lifespan: a lifespan takes no arguments and yields once"
        raise ConfigurationError(message)
