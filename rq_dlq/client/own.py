"""The blocking colour's own part: handlers, and a worker that runs them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from rq_dlq import _work
from rq_dlq._guesses import Answering, answering
from rq_dlq.client.base import BrokerBase
from rq_dlq.client.handlers import Handler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rq_dlq.client.broker import Broker
    from rq_dlq.values.durations import Duration
    from rq_dlq.values.message import Message

T = TypeVar("T")
F = TypeVar("F", bound="Callable[..., Any]")


class OwnBroker(BrokerBase):
    """A broker that collects handlers and runs them."""

    @cached_property
    def _handlers(self) -> list[Handler]:
        """The handlers that `queue.handler` has registered."""
        return []

    def run(self, *, burst: bool = False) -> None:
        """Run the handlers until SIGTERM or SIGINT.

        The first signal lets running handlers finish, a second one cancels them.

        Args:
            burst: stop when no message is ready in any of the queues.

        Raises:
            ConfigurationError: no queue has a handler.
            RqDlqError: a consumer failed; the log has its error.
        """
        from rq_dlq.worker import Worker  # noqa: PLC0415 - the worker is built upon the broker

        Worker(cast("Broker", self), until="empty" if burst else "stopped").run()


class OwnQueue(Answering, Generic[T]):
    """A queue that has a handler."""

    _broker: Broker
    _core: _work.Queue[T]

    @answering
    def handler(self, *, concurrency: int = 1, timeout: Duration | None = None) -> Callable[[F], F]:
        """Register a function as the handler of this queue's messages, for `broker.run()`.

        The function takes the body, or the body and the delivery; it may be an `async def`.

        Args:
            concurrency: how many calls run at once in one process.
            timeout: of one call; None: no limit.

        Returns:
            A decorator, which returns the function unchanged.

        Raises:
            ConfigurationError: the queue has a handler already, or an argument is not valid.
        """
        handlers = self._broker._handlers

        def register(function: F) -> F:
            handlers.append(Handler.checked(self, function, concurrency, timeout, handlers))
            return function

        return register

    def _send_all(self, bodies: Iterable[T | Message[T]], options: _work.SendOptions) -> list[str]:
        """Run the steps of `send_many`."""
        return self._broker._run(_work.send(self._core, bodies, options))
