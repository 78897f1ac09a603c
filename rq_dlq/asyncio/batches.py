"""Settling deliveries in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rq_dlq.asyncio.own import OwnQueue
from rq_dlq.client.arguments import batch
from rq_dlq.core.results.results import results_of
from rq_dlq.core.settling import settle
from rq_dlq.errors.guesses import part_of
from rq_dlq.values.durations import Duration, milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rq_dlq.asyncio.delivery import Delivery
    from rq_dlq.core.steps.call import Held
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.settlement import Settlement

T = TypeVar("T")


@part_of("Queue")
class Batches(OwnQueue[T]):
    """The verbs of a queue that settle several deliveries in one call.

    A stale token is not an error here: its settlement is "lost".
    """

    async def ack(self, deliveries: Sequence[Delivery[T]]) -> list[Settlement]:
        """Report success: the messages are removed.

        Args:
            deliveries: deliveries of this queue, from any number of claims.

        Returns:
            The outcome for each message, in order.

        Raises:
            InvalidInput: an argument is not valid, or a delivery belongs to another queue; nothing was
                settled.

        Examples:
            >>> for settlement in await orders.ack(await orders.claim(count=100)):
            ...     print(settlement.id, settlement.outcome)
            order-41 acked
        """
        return await self._settle(
            deliveries, lambda held: settle.ack(self._core, held, results_of(deliveries))
        )

    async def nack(
        self,
        deliveries: Sequence[Delivery[T]],
        error: BaseException | str | None = None,
        *,
        delay: Duration | None = None,
        charge: bool = True,
    ) -> list[Settlement]:
        """Report failure: the policy decides for each message whether it is redelivered or dead.

        Args:
            deliveries: deliveries of this queue, from any number of claims.
            error: the exception, or a reason in words; it is added to the messages' histories.
            delay: time until the redelivery; None: the policy's delay.
            charge: False: the failure does not count against the messages' budgets.

        Returns:
            The outcome for each message, in order.

        Raises:
            InvalidInput: an argument is not valid, or a delivery belongs to another queue; nothing was
                settled.

        Examples:
            >>> deliveries = await orders.claim(count=100)
            >>> for settlement in await orders.nack(deliveries, "the shop is closed", delay="1h"):
            ...     print(settlement.outcome, settlement.delay)
            redelivered 3600.0
        """
        values = settle.values_of(deliveries)
        return await self._settle(
            deliveries,
            lambda held: settle.nack(self._core, held, error, delay=delay, charge=charge, values=values),
            error,
        )

    async def poison(
        self, deliveries: Sequence[Delivery[T]], error: BaseException | str | None = None
    ) -> list[Settlement]:
        """Move the messages straight to the dead-letter queue.

        Args:
            deliveries: deliveries of this queue, from any number of claims.
            error: the exception, or a reason in words; it is added to the messages' histories.

        Returns:
            The outcome for each message, in order.

        Raises:
            InvalidInput: an argument is not valid, or a delivery belongs to another queue; nothing was
                settled.

        Examples:
            >>> for settlement in await orders.poison(await orders.claim(), "no address"):
            ...     print(settlement.outcome)
            dead
        """
        values = settle.values_of(deliveries)
        return await self._settle(
            deliveries, lambda held: settle.poison(self._core, held, error, values=values), error
        )

    async def release(
        self, deliveries: Sequence[Delivery[T]], *, delay: Duration | None = None, begun: bool = True
    ) -> list[Settlement]:
        """Return the messages unprocessed: not charged, ready immediately, at their old position.

        Args:
            deliveries: deliveries of this queue, from any number of claims.
            delay: time until they are ready; None: no delay.
            begun: False: processing had not begun, so these deliveries do not count as attempts.

        Returns:
            The outcome for each message, in order.

        Raises:
            InvalidInput: an argument is not valid, or a delivery belongs to another queue; nothing was
                settled.

        Examples:
            >>> for settlement in await orders.release(await orders.claim(), begun=False):
            ...     print(settlement.outcome)
            released
        """
        return await self._settle(
            deliveries, lambda held: settle.release(self._core, held, begun=begun, delay=delay)
        )

    async def extend(self, deliveries: Sequence[Delivery[T]], lease: Duration | None = None) -> list[bool]:
        """Restart the leases.

        Args:
            deliveries: deliveries of this queue, from any number of claims.
            lease: its length from now; None: the queue's lease.

        Returns:
            Whether each message is still held, in order.

        Raises:
            InvalidInput: an argument is not valid, or a delivery belongs to another queue; nothing was
                extended.

        Examples:
            >>> deliveries = await orders.claim()
            >>> await orders.extend(deliveries, "5m")
            [True]
        """
        span = self._core.lease if lease is None else milliseconds(lease, name="lease", minimum=1)
        return await self._broker._run(settle.extend(self._core, batch(self, deliveries), span))

    async def _settle(
        self,
        deliveries: Sequence[Delivery[T]],
        verb: Callable[[list[Held]], Steps[list[Settlement]]],
        error: BaseException | str | None = None,
    ) -> list[Settlement]:
        """Settle deliveries, and mark the settled ones, so that a `with` block or a session skips them."""
        given = batch(self, deliveries)
        settlements = await self._broker._run(verb([delivery._held for delivery in given]))
        for delivery, settlement in zip(given, settlements, strict=True):
            if settlement.outcome == "acked" or settlement:  # this order is cheaper
                delivery.outcome, delivery._settled = settlement.outcome, (settlement, error)
        return settlements
