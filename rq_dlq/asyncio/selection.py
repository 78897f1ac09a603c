"""Messages chosen by a condition, awaiting. Arguments, results and errors are those of `rq_dlq.selection`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from rq_dlq._work import Choice, select
from rq_dlq.selection import work_of

if TYPE_CHECKING:
    from rq_dlq import _work
    from rq_dlq.asyncio.broker import Broker
    from rq_dlq.asyncio.queue import Queue
    from rq_dlq.message import Received

T = TypeVar("T")


class Selection(Generic[T]):
    """`queue.select(…)`: what is chosen, and what can be done to it.

    Each verb works in chunks, can be stopped half-way and said again, and returns how many messages it
    changed. What is being worked on (leased) can be looked at and counted; no verb touches it.
    """

    def __init__(self, work: _work.Queue[T], broker: Broker, chosen: Choice) -> None:
        self._work = work
        self._broker = broker
        self._choice = chosen

    async def browse(self) -> list[Received[T]]:
        """The messages themselves, in their order; `DeadLetter` where they are dead or expired."""
        return await self._broker.run_steps(select.chosen(self._work, self._choice))

    async def count(self) -> int:
        """How many there are."""
        return await self._broker.run_steps(select.count(self._work, self._choice))

    async def count_by(self, header: str) -> dict[str | None, int]:
        """How many there are for each value of a header (None: without it), the most frequent first."""
        return await self._broker.run_steps(select.count_by(self._work, self._choice, header))

    async def redrive(self) -> int:
        """Bring dead or expired ones back to their queue: same id, fresh budget, history kept."""
        return await self._broker.run_steps(select.redrive(self._work, self._choice))

    async def dead_letter(self, reason: str = "sent to the dead-letter queue by hand") -> int:
        """Send waiting ones to the dead-letter queue; dropped, and counted, where the strategy discards."""
        return await self._broker.run_steps(select.dead_letter(self._work, self._choice, reason))

    async def expire(self) -> int:
        """Expire waiting ones now, whatever their time to live."""
        return await self._broker.run_steps(select.expire_now(self._work, self._choice))

    async def deliver_now(self) -> int:
        """Make scheduled ones ready, at the place where they were sent: so ahead of what was sent later."""
        return await self._broker.run_steps(select.deliver_now(self._work, self._choice))

    async def prioritise(self, priority: int) -> int:
        """Give waiting ones another priority, 0 (last) to 9 (first)."""
        return await self._broker.run_steps(select.prioritise(self._work, self._choice, priority))

    async def move(self, to: Queue[T] | str) -> int:
        """Move them to another queue, in one step each chunk: same ids, history told on."""
        target = self._target(to)
        return await self._broker.run_steps(select.transfer(self._work, self._choice, target, keep=False))

    async def copy(self, to: Queue[T] | str) -> int:
        """Copy them to another queue, under their ids and with counts of their own; otherwise as `move`."""
        target = self._target(to)
        return await self._broker.run_steps(select.transfer(self._work, self._choice, target, keep=True))

    async def remove(self) -> int:
        """Remove them for good."""
        return await self._broker.run_steps(select.remove(self._work, self._choice))

    def _target(self, to: Queue[T] | str) -> _work.Queue[T]:
        return work_of(self._broker.queue(to) if isinstance(to, str) else to, self._broker)
