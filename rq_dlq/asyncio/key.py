"""The messages of a queue that have one key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rq_dlq.core.keyed import keyed
from rq_dlq.errors.guesses import Answering

if TYPE_CHECKING:
    from rq_dlq.asyncio.broker import Broker
    from rq_dlq.core.queues.queue import QueueState
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
