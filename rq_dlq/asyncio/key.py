"""The messages of a queue that share a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rq_dlq.asyncio.lane import Lane
from rq_dlq.core.keyed import keyed
from rq_dlq.core.managing import pausing

if TYPE_CHECKING:
    from rq_dlq.values.key import KeyStats


class Key(Lane):
    """One key of a queue; `queue.key(…)` makes it.

    Examples:
        >>> await orders.key("customer-7").pause(until="10m")
        True
    """

    _of = "key"

    async def stats(self) -> KeyStats:
        """Count its blocked messages and its seats, and name the messages that hold a seat.

        Returns:
            The counts, and the messages that hold a seat.

        Raises:
            InvalidInput: this is not a valid key, or the queue is a dead-letter or expiry queue.

        Examples:
            >>> orders = broker.queue("orders", per_key=PerKey(order=True))
            >>> sent = await orders.send_many([Message(n, key="customer-7") for n in range(3)])
            >>> stats = await orders.key("customer-7").stats()
            >>> stats.seats, stats.blocked
            (1, 2)
        """
        return await self._broker._run(keyed.of_key(self._core, self._text))

    async def limit(self, limit: int | None, *, by: str | None = None) -> bool:
        """Set how many of its messages may be ready or leased, in place of the queue's rule.

        Args:
            limit: 1 to 1,000; None: the limit of the queue's rule, `PerKey(limit=…)`.
            by: the operator's name, for the audit; None: the user and host of this process.

        Returns:
            Whether anything changed.

        Raises:
            InvalidInput: an argument is not valid, the queue's rule is not a limit, or the queue is a
                dead-letter or expiry queue.

        Examples:
            >>> sms = broker.queue("sms", per_key=PerKey(limit=2))
            >>> await sms.key("tenant-a").limit(8)
            True
            >>> stats = await sms.key("tenant-a").stats()
            >>> stats.limit
            8
        """
        return await self._broker._run(pausing.set_limit(self._core, self._text, limit, by=by))
