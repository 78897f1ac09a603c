"""The broker: a URL, the settings, and the queues at them."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, overload

from rq_dlq import _calls
from rq_dlq._redis import FAIL_FAST, Connections, Retries
from rq_dlq.base import BrokerBase
from rq_dlq.errors import ConfigurationError
from rq_dlq.handlers import Handler
from rq_dlq.policies import Policies
from rq_dlq.queue import Queue

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self, Unpack

    from rq_dlq import asyncio
    from rq_dlq._work import Steps
    from rq_dlq.durations import Duration
    from rq_dlq.settings import Declared

T = TypeVar("T")
R = TypeVar("R")
F = TypeVar("F", bound="Callable[..., Any]")


class Broker(BrokerBase):
    """Queues on one Redis, blocking; safe with threads and after a fork. Its arguments: see `BrokerBase`."""

    @cached_property
    def handlers(self) -> list[Handler]:
        """What `queue.handler` has registered, for `run`."""
        return []

    _connections: Connections | None = None

    @property
    def connections(self) -> Connections:
        """Runs the steps of every operation.

        Made without a lock, which a forked child might find locked for ever: of threads that connect at once
        the first one's stay.
        """
        if self._connections is None:
            connections = self.connect(self._retries)
            if self.__dict__.setdefault("_connections", connections) is not connections:
                connections.close()
        return self.__dict__["_connections"]  # type: ignore[no-any-return]

    def connect(self, retries: Retries) -> Connections:
        """Connections of one's own, with other patience: what a worker uses.

        Raises:
            BrokerRefused: the server is too old, would evict queues, or cannot keep the durability.
        """
        connections = self.unchecked(retries)
        versions = connections.everywhere(self.settings.check_server)
        connections.scripts = self._scripts.for_server(min(versions.values()))
        return connections

    def unchecked(self, retries: Retries = FAIL_FAST) -> Connections:
        """The same, to a server that nobody has looked at yet."""
        connections = Connections(retries=retries, **self._connection_settings())
        connections.route()
        return connections

    @overload
    def queue(
        self,
        name: str,
        *,
        type: type[T],
        lease: Duration = ...,
        **declared: Unpack[Declared],
    ) -> Queue[T]: ...
    @overload
    def queue(
        self,
        name: str,
        *,
        type: Any = ...,
        lease: Duration = ...,
        **declared: Unpack[Declared],
    ) -> Queue[Any]: ...
    def queue(
        self,
        name: str,
        *,
        type: Any = Any,
        lease: Duration = "30s",
        **declared: Unpack[Declared],
    ) -> Queue[Any]:
        """A queue; nothing is created before it is used.

        Args:
            type: of the bodies, any that msgspec knows; by default JSON values, and bytes pass untouched.
            lease: how long a delivery may be held without a word.
            declared: its policies, `redelivery`, `dead_letter`, `expiry`, `max_in_flight` and `outcomes` (see
                `settings.Declared`), which are written to Redis and stand until others are declared; unless
                said those that stand in Redis, else the defaults.

        Raises:
            InvalidInput: a name, type, duration or policy makes no sense.
        """
        return Queue(self, self.settings.queue(name, self._ids, type, lease, declared))

    @cached_property
    def policies(self) -> Policies:
        """The map of policies in Redis: what holds for which queues."""
        return Policies(self)

    def run_steps(self, steps: Steps[R]) -> R:
        """Run the steps of an operation."""
        return (self._connections or self.connections).run(steps)

    def queues(self) -> list[str]:
        """The names of all queues that were ever used, sorted."""
        return self.run_steps(self._step(_calls.registered(self.settings.namespace)))

    def add_handler(self, queue: Queue[Any], concurrency: int, timeout: Duration | None) -> Callable[[F], F]:
        """The decorator behind `queue.handler`."""

        def register(function: F) -> F:
            self.handlers.append(Handler.checked(queue, function, concurrency, timeout, self.handlers))
            return function

        return register

    def run(self, *, burst: bool = False) -> None:
        """Run the handlers until SIGTERM or SIGINT: the first finishes what has begun, a second cancels it.

        Args:
            burst: stop when the queues have nothing ready.
        """
        from rq_dlq.worker import Worker  # noqa: PLC0415 - the worker is built upon the broker

        Worker(self, until="empty" if burst else "stopped").run()

    def twin(self, retries: Retries = FAIL_FAST) -> asyncio.Broker:
        """The same broker for asyncio.

        Raises:
            ConfigurationError: this one was made from a connection pool.
        """
        from rq_dlq import asyncio  # noqa: PLC0415 - the twin is built upon this module

        if self._pool is not None:
            message = "async handlers need a broker with a URL, not one made from a connection pool"
            raise ConfigurationError(message)
        return asyncio.Broker(
            settings=replace(self.settings, url=self.address()), scripts=self._scripts, retries=retries
        )

    def close(self) -> None:
        """Close the connections, but for those of a pool that was passed in; the next use opens new ones."""
        if self._connections is not None:
            self._connections.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
