"""The results of settling messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import repeat
from typing import Any, Literal, NamedTuple

Fate = Literal[
    "acked", "deferred", "redelivered", "dead", "expired", "discarded", "released", "passed_on", "kept",
    "settled", "lost", "gone",
]  # fmt: skip
FAILED: frozenset[Fate] = frozenset({"redelivered", "kept", "expired", "dead", "discarded"})
"""What becomes of a message that failed."""


class Settlement(NamedTuple):
    """What became of a message; true unless it is lost or gone.

    Attributes:
        outcome: acked, deferred (a loop makes the ack with its next claim), redelivered, dead, expired,
            discarded (by the queue's dead-letter strategy), released, passed_on (this program does not take
            it, so it rests for another version), kept (a dead letter that failed),
            settled (by an earlier try of this call), lost (the token is stale) or gone (there is no such
            message).
        delay: seconds until it is redelivered, of one that was kept from its dead-letter queue, or until
            another program may have it, of one that was passed on.
        opened: the dependency that counts as down since this failure, so its breaker is open now; or empty.

    Examples:
        >>> (delivery,) = orders.claim()
        >>> settlement = delivery.nack("the shop is closed", delay="1h")
        >>> settlement.id, settlement.outcome, settlement.delay, bool(settlement)
        ('order-41', 'redelivered', 3600.0, True)
    """

    id: str
    outcome: Fate
    delay: float | None = None
    opened: str = ""

    def __bool__(self) -> bool:
        return self.outcome not in {"lost", "gone"}


_made_of: Callable[[tuple[Any, ...]], Settlement] = partial(tuple.__new__, Settlement)


def settled_alike(ids: Iterable[str], outcome: Fate) -> list[Settlement]:
    """Settlements of many messages with the same outcome, made without Python code for each."""
    return [*map(_made_of, zip(ids, repeat(outcome), repeat(None), repeat("")))]
