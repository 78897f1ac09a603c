"""Dependencies of the messages of a queue, or of all queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rq_dlq.asyncio.lane import Lane
from rq_dlq.core.keyed import outages
from rq_dlq.errors.guesses import Answering

if TYPE_CHECKING:
    from datetime import datetime

    from rq_dlq.asyncio.broker import Broker
    from rq_dlq.values.dependency import DependencyStats
    from rq_dlq.values.durations import Duration


class Dependency(Lane):
    """One dependency of a queue's messages; `queue.dependency(…)` makes it.

    Examples:
        >>> await orders.dependency("payments").pause(until="10m")
        True
        >>> stats = await orders.dependency("payments").stats()
        >>> stats.open
        True
    """

    _of = "dependency"

    async def stats(self) -> DependencyStats:
        """Its state: whether it counts as down, since when, how many messages wait, and the next probe.

        Returns:
            Its state in this queue.

        Raises:
            InvalidInput: this is not a valid name of a dependency, or the queue is a dead-letter or expiry
                queue.

        Examples:
            >>> orders = broker.queue("orders", breaker=Breaker())
            >>> changed = await orders.dependency("payments").pause(until="10m")
            >>> stats = await orders.dependency("payments").stats()
            >>> stats.open, stats.paused, stats.waiting
            (True, True, 0)
        """
        return await self._broker._run(outages.of_dependency(self._core, self._text))


class DependencyOfAll(Answering):
    """One dependency of the messages of all queues; `broker.dependency(…)` makes it.

    Examples:
        >>> await broker.dependency("payments").resume()
        0
    """

    def __init__(self, dependency: str, broker: Broker) -> None:
        self._dependency = dependency
        self._broker = broker

    def __repr__(self) -> str:
        return f"<Dependency {self._dependency!r} of all queues>"

    async def stats(self) -> list[DependencyStats]:
        """Its state in each queue, like `queue.dependency(…).stats()`.

        Returns:
            Its state in each queue where it is known.

        Examples:
            >>> changed = await broker.dependency("payments").pause(until="10m")
            >>> [(one.queue, one.paused) for one in await broker.dependency("payments").stats()]
            [('mails', True), ('orders', True)]
        """
        return [await one.stats() for one in await self._each()]

    async def pause(self, until: datetime | Duration | None = None, *, by: str | None = None) -> int:
        """Deliver no messages that need it, in all queues that exist now; otherwise like `Dependency.pause`.

        Args:
            until, by: as in `Dependency.pause`.

        Returns:
            The number of queues in which anything changed.

        Examples:
            >>> await broker.dependency("payments").pause(until="10m", by="anna")
            2
        """
        return sum([await one.pause(until, by=by) for one in await self._each()])

    async def resume(self, *, by: str | None = None) -> int:
        """Deliver them again, in all queues; otherwise like `Dependency.resume`.

        Args:
            by: as in `Dependency.resume`.

        Returns:
            The number of queues in which anything changed.

        Examples:
            >>> changed = await broker.dependency("payments").pause()
            >>> await broker.dependency("payments").resume()
            2
        """
        return sum([await one.resume(by=by) for one in await self._each()])

    async def _each(self) -> list[Dependency]:
        broker = self._broker
        return [broker.queue(name).dependency(self._dependency) for name in await broker.queues()]
