"""The broker, awaiting. Arguments and errors are those of `rq_dlq.broker`."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, overload

from rq_dlq import _calls
from rq_dlq._redis import AsyncConnections
from rq_dlq.asyncio.policies import Policies
from rq_dlq.asyncio.queue import Queue
from rq_dlq.base import BrokerBase

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self, Unpack

    from rq_dlq._work import Steps
    from rq_dlq.durations import Duration
    from rq_dlq.settings import Declared

T = TypeVar("T")
R = TypeVar("R")


class Broker(BrokerBase):
    """Queues on one Redis, awaiting, in one event loop. Its arguments: see `BrokerBase`."""

    _connections: AsyncConnections | None = None  # of one event loop

    async def run_steps(self, steps: Steps[R]) -> R:
        """Run the steps of an operation."""
        connections = self._connections or await self._connect()
        return await connections.run(steps)

    async def _connect(self) -> AsyncConnections:
        connections = AsyncConnections(retries=self._retries, **self._connection_settings())
        try:
            await connections.route()
            versions = await connections.everywhere(self.settings.check_server)
        except BaseException:
            await connections.close()
            raise
        connections.scripts = self._scripts.for_server(min(versions.values()))
        if self._connections is not None:  # another task was faster
            await connections.close()
            return self._connections
        self._connections = connections
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
        """A queue; nothing is created before it is used."""
        return Queue(self, self.settings.queue(name, self._ids, type, lease, declared))

    @cached_property
    def policies(self) -> Policies:
        """The map of policies in Redis: what holds for which queues."""
        return Policies(self)

    async def queues(self) -> list[str]:
        """The names of all queues that were ever used, sorted."""
        return await self.run_steps(self._step(_calls.registered(self.settings.namespace)))

    async def close(self) -> None:
        """Close the connections, but for those of a pool that was passed in; the next use opens new ones."""
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
