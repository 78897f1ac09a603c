"""The dead letters of a queue, awaiting. Arguments and results are those of `rq_dlq.dlq`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from rq_dlq import _work
from rq_dlq.asyncio.selection import Selection
from rq_dlq.dlq import dead_filter, purge
from rq_dlq.selection import choice

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rq_dlq.asyncio.broker import Broker
    from rq_dlq.durations import Duration
    from rq_dlq.message import DeadLetter, ErrorGroup

T = TypeVar("T")


class DeadLetters(Generic[T]):
    """`queue.dlq`; nothing here consumes a dead letter."""

    def __init__(self, work: _work.Queue[T], broker: Broker) -> None:
        self._work = work
        self._broker = broker

    async def groups(self, *, reason: str | None = None, since: datetime | None = None) -> list[ErrorGroup]:
        """The dead letters by kind of failure, the largest group first."""
        wanted = dead_filter(None, None, reason, since)
        return await self._broker.run_steps(_work.groups(self._work, wanted))

    async def browse(
        self,
        *,
        ids: Sequence[str] | None = None,
        group: str | None = None,
        reason: str | None = None,
        since: datetime | None = None,
        where: str | None = None,
        limit: int | None = 20,
    ) -> list[DeadLetter[T]]:
        """The dead letters that meet the conditions, the oldest first."""
        wanted = dead_filter(ids, group, reason, since, where)
        return await self._broker.run_steps(_work.dead_letters(self._work, wanted, limit))

    async def redrive(
        self,
        *,
        ids: Sequence[str] | None = None,
        group: str | None = None,
        reason: str | None = None,
        since: datetime | None = None,
        where: str | None = None,
    ) -> int:
        """Bring dead letters back to their queue: how many."""
        wanted = dead_filter(ids, group, reason, since, where)
        steps = _work.redrive(self._work, wanted, self._work.consumer)
        return await self._broker.run_steps(steps)

    def select(
        self, where: str | None = None, *, ids: Sequence[str] | None = None, limit: int | None = None
    ) -> Selection[T]:
        """Choose dead letters, to count, move or otherwise manage them; see `Queue.select`."""
        return Selection(self._work, self._broker, choice(where, ids, None, limit))

    async def purge(
        self,
        *,
        ids: Sequence[str] | None = None,
        older_than: Duration | None = None,
        all: bool = False,
    ) -> int:
        """Remove dead letters for good: how many."""
        steps = purge(self._work, ids, older_than, everything=all)
        return await self._broker.run_steps(steps)
