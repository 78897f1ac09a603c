"""What the tests of sessions play with: orders that come in, invoices that go out."""

from __future__ import annotations

from typing import Any

from rq_dlq import RedeliveryPolicy
from tests.behaviour.helpers import after


class WrongOrderError(Exception):
    """What a handler raises."""


async def shop(broker: Any, number: int = 3, policy: RedeliveryPolicy | None = None) -> tuple[Any, Any]:
    """Orders that were sent, and a queue for invoices."""
    orders, invoices = (
        broker.queue("orders", redelivery=policy or after("1m", most=1)),
        broker.queue("invoices"),
    )
    await orders.send_many(range(number))
    assert await invoices.claim() == []
    return orders, invoices


async def totals(queue: Any, *names: str) -> list[int]:
    """Some totals."""
    counted = (await queue.stats()).totals
    return [counted.get(name, 0) for name in names]


async def leave(session: Any, error: BaseException | None = None) -> None:
    """Leave a session's block, by an error or at its end."""
    async with session:
        if error is not None:
            raise error
