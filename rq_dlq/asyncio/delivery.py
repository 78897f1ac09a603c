"""One handing-out of a message, awaiting. Arguments, results and errors are those of `rq_dlq.delivery`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rq_dlq import _work
from rq_dlq.durations import Duration, milliseconds
from rq_dlq.errors import Poison, Redeliver
from rq_dlq.message import Leased, Row

if TYPE_CHECKING:
    from datetime import datetime
    from types import TracebackType
    from typing import Self

    from rq_dlq.asyncio.queue import Queue
    from rq_dlq.message import Settlement

T = TypeVar("T")


class Delivery(Leased[T]):
    """One handing-out of a message; `async with delivery:` settles it by how the block ends."""

    def __init__(self, row: Row, token: str, lease_until: int, queue: Queue[T]) -> None:
        super().__init__(row, queue.work.codec, queue.name, token, lease_until)
        self._queue = queue

    async def ack(self) -> Settlement:
        """Done: the message is gone."""
        return await self._settle(_work.ack(self._queue.work, [self.held]))

    async def nack(
        self,
        error: BaseException | str | None = None,
        *,
        delay: Duration | None = None,
        charge: bool = True,
    ) -> Settlement:
        """Failed: redelivered by the policy, or dead when the budget is spent."""
        steps = _work.nack(self._queue.work, [self.held], error, delay=delay, charge=charge)
        return await self._settle(steps)

    async def poison(self, error: BaseException | str | None = None) -> Settlement:
        """Never again: straight to the dead-letter queue."""
        return await self._settle(_work.poison(self._queue.work, [self.held], error))

    async def release(self) -> Settlement:
        """Give it back unseen: not charged, due now, at its old place."""
        return await self._settle(_work.release(self._queue.work, [self.held]))

    async def extend(self, lease: Duration | None = None) -> datetime:
        """Start the lease anew; it is one for all that was claimed together."""
        work = self._queue.work
        span = work.lease if lease is None else milliseconds(lease, name="lease", minimum=1)
        self.lease_ends = await self._queue.run(_work.extend_one(work, self.held, span))
        return self.lease_until

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not self.settled:
            await self._settle(_work.settle_by_error(self._queue.work, [self.held], error))
        return isinstance(error, Redeliver | Poison)

    async def _settle(self, steps: _work.Steps[list[Settlement]]) -> Settlement:
        settlement = await self._queue.run(_work.one(steps))
        self.outcome = settlement.outcome
        return settlement
