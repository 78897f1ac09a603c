"""Whether the caller of a settlement still held the message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rq_dlq.core.steps.replies import ERRORS, Word

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rq_dlq.values.settlement import Fate, Settlement


def held_or_raise(settlement: Settlement, before: Fate | None = None) -> Settlement:
    """The settlement.

    Args:
        before: the outcome of an earlier settlement through the same delivery object.

    Raises:
        LeaseLost: nothing was settled.
    """
    if settlement:
        return settlement
    if before is not None:
        why = f"this delivery was settled before, its outcome is {before!r}; nothing was changed"
        raise ERRORS[settlement.outcome](f"message {settlement.id}: {why}")
    raise ERRORS[settlement.outcome](f"message {settlement.id}{_WHY[settlement.outcome]}")


_WHY: Final[Mapping[str, str]] = {
    Word.LOST: ": the lease was lost, so nothing was changed; another consumer gets the message. Use a "
    "longer lease or extend it",
    Word.GONE: " is no longer in the queue: it was settled or removed before",
}
