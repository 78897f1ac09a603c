"""Whether the caller of a settlement still held the message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rq_dlq.errors import LeaseLost

if TYPE_CHECKING:
    from rq_dlq.values.settlement import Fate, Settlement


def held_or_raise(settlement: Settlement, before: Fate | None = None) -> Settlement:
    """The settlement.

    Args:
        before: the outcome of an earlier settlement through the same delivery object.

    Raises:
        LeaseLost: nothing was settled.
    """
    if before is not None and not settlement:
        message = (
            f"message {settlement.id}: this delivery was settled before, its outcome is {before!r}; "
            "nothing was changed"
        )
        raise LeaseLost(message)
    if settlement.outcome == "lost":
        message = (
            f"message {settlement.id}: the lease was lost, so nothing was changed; another consumer gets the "
            "message. Use a longer lease or extend it"
        )
        raise LeaseLost(message)
    if settlement.outcome == "gone":
        message = f"message {settlement.id} is no longer in the queue: it was settled or removed before"
        raise LeaseLost(message)
    return settlement
