"""Claiming under a name that belongs to a queue and to dead letters of other queues.

Each claim takes from one of the two and, if that has too few, from the other. They take turns in being the
first, so neither starves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rq_dlq.core.claiming.from_view import claim_letters, keep_for_next

if TYPE_CHECKING:
    from collections.abc import Callable

    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.replies import Word
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.leased import Leased

D = TypeVar("D", bound="Leased[Any]")


class ClaimOwn(Protocol[D]):
    """Claims up to `count` messages that were sent to the queue, as `Once` does."""

    def __call__(self, count: int, /, patience: int, *, alarmed: bool) -> Steps[tuple[list[D], int | Word]]:
        """Claim once."""
        ...


def claim_by_turns(
    queue: QueueState[Any],
    claim_own: ClaimOwn[D],
    claim_one: Callable[[QueueState[Any], int], Steps[list[D]]],
    count: int,
    patience: int,
    *,
    alarmed: bool,
    waits: bool,
) -> Steps[tuple[list[D], int | Word]]:
    """Claim once, as `Once` does. Each token names the queue of its message.

    Args:
        claim_one: claims dead letters of one member, up to a number.
        waits: the claim waits for messages. If not, it checks all members before it returns nothing.
    """
    first_letters = queue.seen.turn and not alarmed  # the client that has the alarm checks the queue
    queue.seen.turn = not queue.seen.turn
    found: list[D] = []
    wait_for: int | Word = 0
    try:
        if first_letters:
            found += yield from claim_letters(queue, claim_one, count)
        if len(found) < count:
            own, wait_for = yield from claim_own(count - len(found), patience, alarmed=alarmed)
            found += own
        if wait_for == 0 and not found:  # there is more to do in the queue, or it must be opened again
            return found, wait_for
        if not first_letters and len(found) < count:
            found += yield from claim_letters(queue, claim_one, count - len(found))
        if not found and not waits:
            found += yield from claim_letters(queue, claim_one, count, thorough=True)
        if found and isinstance(wait_for, int) and wait_for:  # it has the alarm, and does not wait
            found += (yield from claim_own(count - len(found), 0, alarmed=True))[0]
    except BaseException:
        keep_for_next(queue, found)
        raise
    return found, wait_for
