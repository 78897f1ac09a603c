"""The outcomes of settling messages."""

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
"""The outcomes of a failed message."""


class Settlement(NamedTuple):
    """The outcome of settling a message; true unless it is lost or gone.

    Attributes:
        outcome: acked, deferred (a loop sends the ack with its next claim), redelivered, dead, expired,
            discarded (by the queue's dead-letter strategy), released, passed_on (this program does not accept
            it, so it waits for another version), kept (a dead letter that failed), settled (by an earlier
            attempt of this call), lost (the token is stale) or gone (there is no such message).
        delay: seconds until a kept dead letter or another message is redelivered, or until another program
            may claim a message that was passed on.
        opened: the dependency whose breaker this failure opened; empty: none.
        uncharged: True: the message failed, and the failure does not count against its budget.
        closed: the dependency that is back, since this ack closed its breaker; empty: none.
        gathered: True: with this ack, or another of the same call, all children of a gather that were sent to
            this queue have ended.

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
    uncharged: bool = False
    closed: str = ""
    gathered: bool = False

    def __bool__(self) -> bool:
        return self.outcome not in {"lost", "gone"}


_made_of: Callable[[tuple[Any, ...]], Settlement] = partial(tuple.__new__, Settlement)
_AS_USUAL = [repeat(one) for one in Settlement("", "acked")[2:]]  # the other fields, at their defaults


class Alike(list[Settlement]):
    """Settlements that tell nothing but their outcome, which they share."""

    __slots__ = ()


def settled_alike(ids: Iterable[str], outcome: Fate) -> Alike:
    """Settlements of many messages with the same outcome, made without Python code for each."""
    return Alike(map(_made_of, zip(ids, repeat(outcome), *_AS_USUAL)))
