"""The broker: a URL, the settings, and the queues at them."""

from __future__ import annotations

import logging
import os
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, overload

from rq_dlq import _calls
from rq_dlq._redis import FAIL_FAST, Connections, Retries, masked
from rq_dlq._scripts import Scripts
from rq_dlq.errors import ConfigurationError
from rq_dlq.handlers import Handler
from rq_dlq.message import Ids
from rq_dlq.queue import Queue
from rq_dlq.settings import BrokerSettings

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    import redis

    from rq_dlq import asyncio
    from rq_dlq._work import Steps
    from rq_dlq.durations import Duration
    from rq_dlq.embedded import Endpoint
    from rq_dlq.policy import RedeliveryPolicy

T = TypeVar("T")
F = TypeVar("F", bound="Callable[..., Any]")
R = TypeVar("R")
logger = logging.getLogger("rq_dlq")


class Broker:
    """Queues on one Redis. Connects when it is first used; safe with threads, after a fork, and to pickle.

    Args:
        url: redis://…, rediss://… or unix://…; None: $RQ_DLQ_URL, else the embedded server (it says so).
        settings: everything else about it; keyword arguments of BrokerSettings do as well.
        pool: a redis-py connection pool to use instead of a URL (such a broker does not pickle).
        scripts: the Lua files; tests pass some with another clock.
        retries: how long a call is repeated while Redis does not answer.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        settings: BrokerSettings | None = None,
        pool: redis.ConnectionPool | None = None,
        scripts: Scripts | None = None,
        retries: Retries = FAIL_FAST,
        **options: Any,
    ) -> None:
        self.settings = settings_of(url, settings, options)
        self.handlers: list[Handler] = []
        self._pool = pool
        self._scripts = scripts or Scripts()
        self._retries = retries
        self._ids = Ids()

    def __repr__(self) -> str:
        return f"<Broker {self.url}>"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._pool is not None:
            message = "a broker made from a connection pool cannot cross processes: give it a URL"
            raise ConfigurationError(message)
        return (_again, (self.settings, self._retries))

    @property
    def url(self) -> str:
        """Where it is, without the password."""
        known = self.settings.url or os.environ.get("RQ_DLQ_URL")
        if known is None and self._pool is None:
            return "the embedded server"
        return masked(known or "the given pool")

    @cached_property
    def _embedded(self) -> Endpoint:
        return start_embedded()

    @cached_property
    def connections(self) -> Connections:
        """Runs the steps of every operation."""
        return self.connect(self._retries)

    def connect(self, retries: Retries) -> Connections:
        """Connections of one's own, with other patience: what a worker uses.

        Raises:
            BrokerRefused: the server is too old, or would evict queues.
        """
        connections = Connections(
            self._address(),
            self._scripts,
            retries,
            self._pool,
            revive_of(self.settings, self._pool),
        )
        version = connections.run(self.settings.check_server())
        connections.scripts = self._scripts.for_server(version)
        return connections

    def _address(self) -> str:
        if self._pool is not None:
            return "the given pool"
        return self.settings.url or os.environ.get("RQ_DLQ_URL") or self._embedded.url

    @overload
    def queue(
        self,
        name: str,
        *,
        type: type[T],
        lease: Duration = ...,
        redelivery: RedeliveryPolicy | None = ...,
    ) -> Queue[T]: ...
    @overload
    def queue(
        self,
        name: str,
        *,
        type: Any = ...,
        lease: Duration = ...,
        redelivery: RedeliveryPolicy | None = ...,
    ) -> Queue[Any]: ...
    def queue(
        self,
        name: str,
        *,
        type: Any = Any,
        lease: Duration = "30s",
        redelivery: RedeliveryPolicy | None = None,
    ) -> Queue[Any]:
        """A queue; nothing is created before it is used.

        Args:
            type: of the bodies, any that msgspec knows; by default JSON values, and bytes pass untouched.
            lease: how long a delivery may be held without a word.
            redelivery: the policy, which is written to Redis and stands until another is declared; None:
                the one that stands, else the default.

        Raises:
            InvalidInput: a name, type, duration or policy makes no sense.
        """
        return Queue(self, self.settings.queue(name, self._ids, type, lease, redelivery))

    def queues(self) -> list[str]:
        """The names of all queues that were ever used, sorted."""
        return self._run(self._one(_calls.registered(self.settings.namespace)))

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

        Worker(self, burst=burst).run()

    def twin(self) -> asyncio.Broker:
        """The same broker for asyncio.

        Raises:
            ConfigurationError: this one was made from a connection pool.
        """
        from rq_dlq import asyncio  # noqa: PLC0415 - the twin is built upon this module

        if self._pool is not None:
            message = "async handlers need a broker with a URL, not one made from a connection pool"
            raise ConfigurationError(message)
        return asyncio.Broker(self._address(), settings=self.settings, scripts=self._scripts)

    def close(self) -> None:
        """Close the connections; the next use opens new ones."""
        if "connections" in self.__dict__:
            self.connections.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self, steps: Steps[R]) -> R:
        return self.connections.run(steps)

    @staticmethod
    def _one(call: Any) -> Steps[Any]:
        return (yield call)


def settings_of(url: str | None, settings: BrokerSettings | None, options: dict[str, Any]) -> BrokerSettings:
    """The settings that a user typed.

    Raises:
        ConfigurationError: an option that there is not.
    """
    if settings is not None:
        return settings
    try:
        return BrokerSettings(url=url, **options)
    except TypeError:
        known = ", ".join(name for name in BrokerSettings.__dataclass_fields__ if name != "url")
        message = f"unknown option {', '.join(options)}: a broker has {known}"
        raise ConfigurationError(message) from None


def start_embedded() -> Endpoint:
    """The embedded server of this user; says on one line what it is and where the data are."""
    from rq_dlq.embedded import ensure  # noqa: PLC0415 - only who has no server needs it

    endpoint = ensure()
    logger.warning("%s", endpoint.describe())
    return endpoint


def revive_of(settings: BrokerSettings, pool: object) -> Callable[[], object] | None:
    """What starts the server anew when it has died: only for the embedded one."""
    if settings.url or os.environ.get("RQ_DLQ_URL") or pool is not None:
        return None
    from rq_dlq.embedded import ensure  # noqa: PLC0415 - only who has no server needs it

    return ensure


def _again(settings: BrokerSettings, retries: Retries) -> Broker:
    return Broker(settings=settings, retries=retries)
