"""Settling deliveries in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rq_dlq import _work
from rq_dlq.asyncio.own import OwnQueue
from rq_dlq.values.deliveries import batch, held, settled
from rq_dlq.values.durations import Duration, milliseconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq.asyncio.delivery import Delivery
    from rq_dlq.values.settlement import Settlement

T = TypeVar("T")


class Batches(OwnQueue[T]):
    """The verbs of a queue that settle several deliveries in one call.

    A stale token is not an error here: its settlement is "lost".
    """

    async def ack(self, deliveries: Sequence[Delivery[T]]) -> list[Settlement]:
        """Report success: the messages are removed.

        Args:
            deliveries: of this queue, from any number of claims.

        Returns:
            What became of each message, in order.

        Raises:
            InvalidInput: an argument is not valid; nothing was settled.
        """
        given = batch(deliveries)
        return settled(given, await self._broker._run(_work.ack(self._core, held(given))))

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
            deliveries: of this queue, from any number of claims.
            error: what went wrong; it is added to the messages' history.
            delay: time until the redelivery; None: the policy's delay.
            charge: False: the failure does not count against the messages' budgets.

        Returns:
            What became of each message, in order.

        Raises:
            InvalidInput: an argument is not valid; nothing was settled.
        """
        given = batch(deliveries)
        steps = _work.nack(self._core, held(given), error, delay=delay, charge=charge)
        return settled(given, await self._broker._run(steps))

    async def poison(
        self, deliveries: Sequence[Delivery[T]], error: BaseException | str | None = None
    ) -> list[Settlement]:
        """Move the messages straight to the dead-letter queue.

        Args:
            deliveries: of this queue, from any number of claims.
            error: what is wrong with them; it is added to their history.

        Returns:
            What became of each message, in order.

        Raises:
            InvalidInput: an argument is not valid; nothing was settled.
        """
        given = batch(deliveries)
        return settled(given, await self._broker._run(_work.poison(self._core, held(given), error)))

    async def release(self, deliveries: Sequence[Delivery[T]]) -> list[Settlement]:
        """Give the messages back unprocessed: not charged, ready at once, at their old place.

        Args:
            deliveries: of this queue, from any number of claims.

        Returns:
            What became of each message, in order.

        Raises:
            InvalidInput: an argument is not valid; nothing was settled.
        """
        given = batch(deliveries)
        return settled(given, await self._broker._run(_work.release(self._core, held(given))))

    async def extend(self, deliveries: Sequence[Delivery[T]], lease: Duration | None = None) -> list[bool]:
        """Restart the leases.

        Args:
            deliveries: of this queue, from any number of claims.
            lease: the time from now; None: the queue's lease.

        Returns:
            Whether each message is still held, in order.

        Raises:
            InvalidInput: an argument is not valid.
        """
        span = self._core.lease if lease is None else milliseconds(lease, name="lease", minimum=1)
        _, still = await self._broker._run(_work.extend(self._core, held(batch(deliveries)), span))
        return still
