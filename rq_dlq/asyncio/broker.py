"""The broker, awaiting. Arguments and errors are those of `rq_dlq.broker`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar, overload

from rq_dlq import _calls
from rq_dlq._redis import FAIL_FAST, AsyncConnections, Retries, masked
from rq_dlq._scripts import Scripts
from rq_dlq.asyncio.queue import Queue
from rq_dlq.broker import revive_of, settings_of, start_embedded
from rq_dlq.errors import ConfigurationError
from rq_dlq.message import Ids

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    import redis.asyncio

    from rq_dlq._work import Steps
    from rq_dlq.durations import Duration
    from rq_dlq.embedded import Endpoint
    from rq_dlq.policy import RedeliveryPolicy
    from rq_dlq.settings import BrokerSettings

T = TypeVar("T")
R = TypeVar("R")


class Broker:
    """Queues on one Redis, awaiting. One event loop each; connects when it is first used."""

    def __init__(
        self,
        url: str | None = None,
        *,
        settings: BrokerSettings | None = None,
        pool: redis.asyncio.ConnectionPool | None = None,
        scripts: Scripts | None = None,
        retries: Retries = FAIL_FAST,
        **options: Any,
    ) -> None:
        self.settings = settings_of(url, settings, options)
        self._pool = pool
        self._scripts = scripts or Scripts()
        self._retries = retries
        self._ids = Ids()
        self._connections: AsyncConnections | None = None
        self._embedded: Endpoint | None = None

    def __repr__(self) -> str:
        return f"<asyncio Broker {self.url}>"

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

    async def run_steps(self, steps: Steps[R]) -> R:
        """Run the steps of an operation."""
        if self._connections is None:
            connections = self._connect()
            version = await connections.run(self.settings.check_server())
            connections.scripts = self._scripts.for_server(version)
            self._connections = connections
        return await self._connections.run(steps)

    def _connect(self) -> AsyncConnections:
        url = self.settings.url or os.environ.get("RQ_DLQ_URL")
        if url is None and self._pool is None:
            self._embedded = self._embedded or start_embedded()
            url = self._embedded.url
        return AsyncConnections(
            url or "the given pool",
            self._scripts,
            self._retries,
            self._pool,
            revive_of(self.settings, self._pool),
        )

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
        """A queue; nothing is created before it is used."""
        return Queue(self, self.settings.queue(name, self._ids, type, lease, redelivery))

    async def queues(self) -> list[str]:
        """The names of all queues that were ever used, sorted."""
        return await self.run_steps(self._one(_calls.registered(self.settings.namespace)))

    async def close(self) -> None:
        """Close the connections; the next use opens new ones."""
        if self._connections is not None:
            await self._connections.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @staticmethod
    def _one(call: Any) -> Steps[Any]:
        return (yield call)


def _again(settings: BrokerSettings, retries: Retries) -> Broker:
    return Broker(settings=settings, retries=retries)
