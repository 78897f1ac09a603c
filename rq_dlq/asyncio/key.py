"""The messages of a queue that have one key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rq_dlq.core.keyed import keyed
from rq_dlq.core.managing import pausing
from rq_dlq.errors.guesses import Answering

if TYPE_CHECKING:
    from datetime import datetime

    from rq_dlq.asyncio.broker import Broker
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.values.durations import Duration
    from rq_dlq.values.key import KeyStats


class Key(Answering):
    """One key of a queue; `queue.key(…)` makes it."""

    def __init__(self, key: str, core: QueueState[Any], broker: Broker) -> None:
        self._key = key
        self._core = core
        self._broker = broker

    def __repr__(self) -> str:
        return f"<Key {self._key!r} of {self._core.name!r}>"

    async def stats(self) -> KeyStats:
        """Count its messages that are blocked or hold a seat, and say who holds one.

        Raises:
            InvalidInput: this cannot be a key, or the queue is one of dead letters.
        """
        return await self._broker._run(keyed.of_key(self._core, self._key))

    async def pause(self, until: datetime | Duration | None = None, *, by: str | None = None) -> bool:
        """Deliver no messages with this key. What is in work goes on.

        Args:
            until: when that ends: a time with its zone, or a duration; None: at `resume`.
            by: who pauses it, for the audit; None: this process.

        Returns:
            Whether this changed anything.

        Raises:
            InvalidInput: an argument is not valid, or the queue is one of dead letters.
        """
        return await self._broker._run(
            pausing.set_lane_paused(self._core, "key", self._key, paused=True, until=until, by=by)
        )

    async def resume(self, *, by: str | None = None) -> bool:
        """Deliver them again.

        Returns:
            Whether this changed anything; False: it was not paused.

        Raises:
            InvalidInput: an argument is not valid, or the queue is one of dead letters.
        """
        return await self._broker._run(
            pausing.set_lane_paused(self._core, "key", self._key, paused=False, by=by)
        )
