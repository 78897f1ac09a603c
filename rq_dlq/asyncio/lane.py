"""A part of a queue that can be paused by itself: the messages of one key, or those that need one thing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rq_dlq.core.managing import pausing
from rq_dlq.errors.guesses import Answering

if TYPE_CHECKING:
    from datetime import datetime

    from rq_dlq.asyncio.broker import Broker
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.values.durations import Duration
    from rq_dlq.values.key import Of


class Lane(Answering):
    """The messages of a queue that have one key, or one dependency: `of` says which."""

    _of: ClassVar[Of]

    def __init__(self, text: str, core: QueueState[Any], broker: Broker) -> None:
        self._text = text
        self._core = core
        self._broker = broker

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._text!r} of {self._core.name!r}>"

    async def pause(self, until: datetime | Duration | None = None, *, by: str | None = None) -> bool:
        """Deliver none of its messages. What is in work goes on; of a dependency, a failure is not charged.

        Args:
            until: when that ends: a time with its zone, or a duration; None: at `resume`.
            by: who pauses it, for the audit; None: the user of this process, at this host.

        Returns:
            Whether this changed anything.

        Raises:
            InvalidInput: an argument is not valid, or the queue is one of dead letters.

        Examples:
            >>> await orders.key("customer-7").pause(until="10m")
            True
            >>> await orders.dependency("payments").pause(by="anna")
            True
        """
        return await self._set_paused(paused=True, until=until, by=by)

    async def resume(self, *, by: str | None = None) -> bool:
        """Deliver them again; those of a dependency 32 at a time and then by success.

        No failures open its breaker for ten minutes.

        Args:
            by: who resumes it, for the audit; None: the user of this process, at this host.

        Returns:
            Whether this changed anything; False: it was neither paused nor, as a dependency, down.

        Raises:
            InvalidInput: an argument is not valid, or the queue is one of dead letters.

        Examples:
            >>> changed = await orders.key("customer-7").pause()
            >>> await orders.key("customer-7").resume()
            True
        """
        return await self._set_paused(paused=False, until=None, by=by)

    async def _set_paused(self, *, paused: bool, until: datetime | Duration | None, by: str | None) -> bool:
        steps = pausing.set_lane_paused(self._core, self._of, self._text, paused=paused, until=until, by=by)
        return await self._broker._run(steps)
