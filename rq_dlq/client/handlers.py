"""Handlers: the functions that run when a message is delivered."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rq_dlq.errors import ConfigurationError
from rq_dlq.values.durations import Duration, milliseconds, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MOST_CONCURRENT = 1_000


@dataclass(frozen=True, slots=True)
class Handler:
    """A function and the queue whose messages it handles.

    Attributes:
        concurrency: how many calls run at once in one process.
        timeout: of one call, seconds; None: no limit.
        is_async: it is an `async def`.
        takes_delivery: it takes the delivery as its second argument.
    """

    queue: Any
    function: Callable[..., Any]
    concurrency: int
    timeout: float | None
    is_async: bool
    takes_delivery: bool

    @classmethod
    def checked(
        cls,
        queue: Any,
        function: Callable[..., Any],
        concurrency: int,
        timeout: Duration | None,
        others: Sequence[Handler] = (),
    ) -> Handler:
        """Check the arguments, and make a handler.

        Raises:
            ConfigurationError: the function cannot be called with a body, or the queue has a handler already.
        """
        if type(concurrency) is not int or not 1 <= concurrency <= MOST_CONCURRENT:
            message = f"concurrency {concurrency!r}: use a whole number from 1 to {MOST_CONCURRENT:,}"
            raise ConfigurationError(message)
        if any(other.queue.name == queue.name for other in others):
            message = f"queue {queue.name!r} has a handler already: one function takes all its messages"
            raise ConfigurationError(message)
        limit = None if timeout is None else milliseconds(timeout, name="timeout", minimum=1) / 1000
        return cls(
            queue,
            function,
            concurrency,
            limit,
            inspect.iscoroutinefunction(function),
            _takes_delivery(function),
        )


def _takes_delivery(function: object) -> bool:
    if not callable(function):
        message = f"{shown(function)} cannot be a handler: pass a function of (body) or (body, delivery)"
        raise ConfigurationError(message)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False
    try:
        signature.bind("body", "delivery")
    except TypeError:
        pass
    else:
        return True
    try:
        signature.bind("body")
    except TypeError:
        message = f"{function!r} cannot be a handler: it takes (body) or (body, delivery)"
        raise ConfigurationError(message) from None
    return False
