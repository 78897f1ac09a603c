"""Gathers as they are read: their children, and how these ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from datetime import datetime

ChildEnd = Literal["acked", "dead", "expired", "purged", "cancelled", "moved", "discarded", "gone"]
"""How a child of a gather ended; gone: a program of version 0.1.0 removed it, and nothing tells how."""


@dataclass(frozen=True, slots=True)
class GatheredChild:
    """A child of a gather, as `Delivery.gathered` has it.

    Attributes:
        id: of the message.
        queue: the name of its queue.
        end: acked, dead, expired, purged, cancelled, moved, discarded, or gone (a program of version 0.1.0
            removed it, and nothing tells how); None: it had not ended when the gather's `within` was over.
        value: its result, if it was acked; None: it has none, or it was sent with `result=False`.
        dropped: its result was asked for, and is not kept any more (`results`, `results_bytes` of its queue).

    Examples:
        >>> with broker.gather(then=(mails, {"to": "anna"})) as gather:
        ...     sent = gather.send(orders, {"total": 7.0}, id="order-42", priority=9)
        >>> (delivery,) = orders.claim()
        >>> settlement = delivery.ack(result="paid")
        >>> [_] = orders.claim()
        >>> (then,) = mails.claim()
        >>> child = then.gathered["order-42"]
        >>> child.queue, child.end, child.value, child.dropped
        ('orders', 'acked', 'paid', False)
    """

    id: str
    queue: str
    end: ChildEnd | None
    value: Any = None
    dropped: bool = False


@dataclass(frozen=True, slots=True)
class GatherStatus:
    """A gather, as `Broker.gathers` and `rq-dlq gather` show it.

    Attributes:
        id: of the gather, which is the id of its `then`.
        queue: the name of the queue of `then`.
        state: open (more children may follow), closed (it waits for the children that are open), due (all
            have ended, or its `within` is over).
        opened_at: when it was opened, by the server's clock.
        until: when `then` is delivered in any case; None: it is due.
        children: how many children it has.
        open: how many of them have not ended.
        ends: how many ended in each way.
        oldest: ids of open children, the oldest first, a few.

    Examples:
        >>> with broker.gather(then=(mails, {"to": "anna"})) as gather:
        ...     sent = gather.send(orders, {"total": 7.0}, id="order-42")
        >>> (status,) = broker.gathers()
        >>> status.state, status.children, status.open, status.oldest
        ('closed', 1, 1, ('order-42',))
    """

    id: str
    queue: str
    state: Literal["open", "closed", "due"]
    opened_at: datetime
    until: datetime | None
    children: int = 0
    open: int = 0
    ends: Mapping[str, int] = field(default_factory=dict[str, int])
    oldest: Sequence[str] = ()
