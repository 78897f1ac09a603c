"""The messages of a queue that have one key."""

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
        """Count its messages that are blocked or hold a seat, and say who holds one.

        Returns:
            The counts, and who holds a seat.

        Raises:
            InvalidInput: this cannot be a key, or the queue is one of dead letters.

        Examples:
            >>> orders = broker.queue("orders", per_key=PerKey(order=True))
            >>> sent = await orders.send_many([Message(n, key="customer-7") for n in range(3)])
            >>> stats = await orders.key("customer-7").stats()
            >>> stats.seats, stats.blocked
            (1, 2)
        """
        return await self._broker._run(keyed.of_key(self._core, self._text))

    async def limit(self, limit: int | None, *, by: str | None = None) -> bool:
        """Let at most so many of its messages be ready or in work, whatever the rule says of others.

        Args:
            limit: 1 to 1,000; None: as many as the rule, `PerKey(limit=…)`, says.
            by: who says so, for the audit; None: the user of this process, at this host.

        Returns:
            Whether this changed anything.

        Raises:
            InvalidInput: an argument is not valid, the rule is no limit, or these are dead letters.

        Examples:
            >>> sms = broker.queue("sms", per_key=PerKey(limit=2))
            >>> await sms.key("tenant-a").limit(8)
            True
            >>> stats = await sms.key("tenant-a").stats()
            >>> stats.limit
            8
        """
        return await self._broker._run(pausing.set_limit(self._core, self._text, limit, by=by))
