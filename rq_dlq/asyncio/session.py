"""Sessions, awaiting. Arguments, results and errors are those of `rq_dlq.session`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from rq_dlq import _work
from rq_dlq._work import session as steps
from rq_dlq.codec import DEFAULT_PRIORITY
from rq_dlq.selection import work_of
from rq_dlq.settings import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

    from rq_dlq.asyncio.delivery import Delivery
    from rq_dlq.asyncio.queue import Queue
    from rq_dlq.durations import Duration

T = TypeVar("T")
M = TypeVar("M")


class Session(Generic[T]):
    """`async with queue.session() as session:` what it claims and sends takes effect together, at the end."""

    def __init__(self, queue: Queue[T]) -> None:
        self._queue = queue
        self._work = _work.Session(queue.work)

    async def claim(
        self, count: int = 1, *, wait: Duration | None = None, lease: Duration | None = None
    ) -> list[Delivery[T]]:
        """Claim from the session's queue, as `Queue.claim`; acked at the end."""
        room = steps.room_for(self._work, count_of(count))
        deliveries = await self._queue.claim(room, wait=wait, lease=lease)
        self._work.claimed += deliveries
        return deliveries

    async def send(
        self,
        queue: Queue[M],
        body: M,
        *,
        id: str | None = None,
        delay: Duration | None = None,
        ttl: Duration | None = None,
        priority: int = DEFAULT_PRIORITY,
        headers: Mapping[str, str] | None = None,
        persistent: bool = True,
    ) -> str:
        """Send to any queue of the same broker, at the end."""
        target = work_of(queue, self._queue.broker)
        options = _work.send_options(delay, ttl, priority, headers, persistent)
        return await self._queue.run(steps.send(self._work, target, body, id, options))

    async def commit(self) -> int:
        """Send and ack everything, or nothing, and begin anew; how many were acked."""
        return await self._queue.run(steps.commit(self._work))

    async def rollback(self, error: BaseException | str | None = None) -> int:
        """Send nothing, give each delivery back by the policy, and begin anew; how many."""
        return await self._queue.run(steps.rollback(self._work, error))

    async def recover(self) -> int:
        """As `rollback`, by its name in JMS: what was delivered and not acked is delivered again."""
        return await self.rollback("the session was recovered")

    async def close(self) -> int:
        """As `rollback`: what was not committed is delivered again, and nothing is sent."""
        return await self.rollback("the session was closed before it was committed")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return await self._queue.run(steps.end(self._work, error))
