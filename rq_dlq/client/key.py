# Generated from rq_dlq/asyncio/key.py by `python -m tests.colours_twin --write`.
"""The messages of a queue that have one key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rq_dlq.client.lane import Lane
from rq_dlq.core.keyed import keyed

if TYPE_CHECKING:
    from rq_dlq.values.key import KeyStats


class Key(Lane):
    """One key of a queue; `queue.key(…)` makes it.

    Examples:
        >>> orders.key("customer-7").pause(until="10m")
        True
    """

    _of = "key"

    def stats(self) -> KeyStats:
        """Count its messages that are blocked or hold a seat, and say who holds one.

        Returns:
            The counts, and who holds a seat.

        Raises:
            InvalidInput: this cannot be a key, or the queue is one of dead letters.
        """
        return self._broker._run(keyed.of_key(self._core, self._text))
