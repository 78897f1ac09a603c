"""One delivery of a message."""

from __future__ import annotations

import time
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from rq_dlq.core.results.results import results_of
from rq_dlq.core.settling import progress, settle
from rq_dlq.core.settling.held import held_or_raise
from rq_dlq.errors import LeaseLost, Poison, Redeliver
from rq_dlq.values.durations import Duration, milliseconds
from rq_dlq.values.forks import this_process
from rq_dlq.values.leased import Lease, Leased
from rq_dlq.values.settlement import Settlement

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Self

    from rq_dlq.asyncio.queue import Queue
    from rq_dlq.core.claiming.consume import Consuming
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.message import Row

T = TypeVar("T")


class Delivery(Leased[T]):
    """One delivery of a message: the message, a token and a lease.

    Claimed from a dead-letter or expiry queue, it has where the message failed, why and when:
    `original_queue`, `reason`, `cause`, `died_at`. Of other messages `reason` is empty and `died_at` None.

    As a context manager it settles itself. Success acks it. An error nacks it: the policy decides whether it
    is redelivered or dead; a fatal error makes it dead. The error is then raised, except for `Redeliver` and
    `Poison`. An error that is not an Exception (KeyboardInterrupt, a cancellation) releases it, and is raised
    in any case. The release has one try, of a second (if it blocks: of the connection's timeout, 5 s); if
    that fails, the message comes back when its lease ends. A forked child that leaves the block leaves the
    message to its parent. To enter the block raises LeaseLost if the lease is over by then, as of the last
    messages of a large claim: the work would be done twice.

    Examples:
        >>> (delivery,) = await orders.claim()
        >>> delivery.id, delivery.attempt
        ('order-41', 1)
        >>> settlement = await delivery.ack()
        >>> settlement.outcome
        'acked'
        >>> delivery.settled, delivery.lost, delivery.cancelled
        (True, False, False)
        >>> delivery.lease_until > delivery.enqueued_at, isinstance(delivery.token, str)
        (True, True)
    """

    _process = 0
    """The one that entered the block."""
    _told = -inf
    """When it last said how far it is, monotonic seconds."""

    def __init__(
        self,
        row: Row,
        lease: Lease[T],
        queue: Queue[T],
        consuming: Consuming[Delivery[T]] | None = None,
    ) -> None:
        self.id = row.id  # no super().__init__(): a claim makes up to a thousand
        self._row = row
        self._lease = lease
        self._held = (row.id, lease.token)
        self._queue = queue
        self._consuming = consuming

    @property
    def state(self) -> Any:
        """What `broker.lifespan` yielded in this worker process; None: there is no lifespan, or no worker.

        Examples:
            >>> @broker.lifespan
            ... async def resources():
            ...     yield {"shop": "Tea & Cake"}
            >>> @broker.task
            ... async def invoice(order_id: int, *, delivery: Delivery | None = None) -> None:
            ...     print(delivery.state["shop"], order_id)
        """
        return self._queue._state

    @property
    def remaining(self) -> float | None:
        """How long its time to live still lasts, seconds: a timeout for what its handler calls.

        It is counted from the claim, whose time is the server's. 0: it is over, and a redelivery would be too
        late. None: it has no end; so has a dead or expired message.

        Examples:
            >>> httpx.post(url, json=order, timeout=delivery.remaining)
        """
        left = self._time_to_live(time.monotonic())
        return None if left == inf else max(0.0, left)

    async def ack(self, *, result: Any = None) -> Settlement:
        """Report success: the message is removed; in a loop of `Queue.consume`, by its next step.

        Args:
            result: what `Queue.result` gives to whoever asked for it when the message was sent, at most 64
                kB: a JSON value, or bytes. It is left out where nobody did.

        Returns:
            What became of it; "deferred" if it is the delivery that such a loop handed out last.

        Raises:
            LeaseLost: the token is stale; nothing was changed.
            InvalidMessage: the result is too large, or cannot be encoded; nothing was changed.

        Examples:
            >>> (delivery,) = await orders.claim()
            >>> settlement = await delivery.ack()
            >>> settlement.outcome, delivery.settled
            ('acked', True)
        """
        self._returned = result
        results = results_of([self])
        if self._consuming is not None:
            self._refuse_if_deferred()
            if self._consuming.defer(self):
                return Settlement(self.id, "deferred")
        return await self._settle(settle.ack(self._queue._core, [self._held], results))

    async def nack(
        self, error: BaseException | str | None = None, *, delay: Duration | None = None, charge: bool = True
    ) -> Settlement:
        """Report failure: the policy decides whether the message is redelivered or dead.

        Args:
            error: what went wrong; it is added to the message's history.
            delay: time until the redelivery; None: the policy's delay.
            charge: False: the failure does not count against the message's budget.

        Returns:
            What became of it, and when it is redelivered.

        Raises:
            LeaseLost: the token is stale; nothing was changed.
            InvalidInput: an argument is not valid; nothing was changed.

        Examples:
            >>> (delivery,) = await orders.claim()
            >>> settlement = await delivery.nack("the printer is out of paper", delay="10s")
            >>> settlement.outcome, settlement.delay
            ('redelivered', 10.0)
        """
        steps = settle.nack(
            self._queue._core, [self._held], error, delay=delay, charge=charge, values=self._values
        )
        return await self._settle(steps, error)

    async def poison(self, error: BaseException | str | None = None) -> Settlement:
        """Move the message straight to the dead-letter queue.

        Args:
            error: what is wrong with it; it is added to the message's history.

        Returns:
            What became of it.

        Raises:
            LeaseLost: the token is stale; nothing was changed.

        Examples:
            >>> (delivery,) = await orders.claim()
            >>> settlement = await delivery.poison("no address")
            >>> settlement.outcome
            'dead'
        """
        steps = settle.poison(self._queue._core, [self._held], error, values=self._values)
        return await self._settle(steps, error)

    async def release(self, *, delay: Duration | None = None, begun: bool = True) -> Settlement:
        """Give the message back unprocessed: not charged, ready at once, at its old place.

        Args:
            delay: time until it is ready; None: none.
            begun: False: you had not begun it, so this delivery was no try (`attempt`, `redelivered`).

        Returns:
            What became of it.

        Raises:
            LeaseLost: the token is stale; nothing was changed.
            InvalidInput: an argument is not valid; nothing was changed.

        Examples:
            >>> (delivery,) = await orders.claim()
            >>> settlement = await delivery.release(delay="5s", begun=False)
            >>> settlement.outcome
            'released'
        """
        steps = settle.release(self._queue._core, [self._held], begun=begun, delay=delay)
        return await self._settle(steps)

    async def progress(self, part: float, text: str = "") -> None:
        """Say how far the work on the message is, for `Queue.explain` and the page.

        At most one a second is written, so a loop may say it each time. It extends no lease.

        Args:
            part: how much is done, 0 to 1.
            text: in words, as "rows read"; its first 100 characters are kept.

        Raises:
            LeaseLost: the token is stale.
            InvalidInput: an argument is not valid.

        Examples:
            >>> (delivery,) = await orders.claim()
            >>> await delivery.progress(0.4, "rows read")
            >>> explained = await orders.explain(delivery.id)
            >>> "40% done rows read" in explained.why
            True
        """
        now = time.monotonic()
        if now - self._told >= 1 or part == 1:
            self._told = now
            await self._queue._run(progress.progress(self._queue._core, self, part, text))

    async def extend(self, lease: Duration | None = None) -> datetime:
        """Restart the lease. All messages of a claim share one lease.

        A worker extends leases by itself. In a handler this makes the lease end later, never sooner.

        Args:
            lease: the time from now; None: the queue's lease.

        Returns:
            When the lease now ends (UTC).

        Raises:
            LeaseLost: the token is stale.
            InvalidDuration: the lease is not valid.

        Examples:
            >>> (delivery,) = await orders.claim(lease="10s")
            >>> before = delivery.lease_until
            >>> await delivery.extend("5m") > before
            True
        """
        self._refuse_if_deferred()
        core = self._queue._core
        span = core.lease if lease is None else milliseconds(lease, name="lease", minimum=1)
        await self._queue._run(settle.extend_one(core, self, span))
        return self.lease_until

    async def __aenter__(self) -> Self:
        if not self.settled and self._lease.left(time.monotonic()) < 0:
            message = (
                f"message {self.id}: the lease was over before the work began; it is redelivered to someone "
                "else. Claim fewer at a time, use a longer lease, or extend it"
            )
            raise LeaseLost(message)
        observers = self._queue._core.observers
        if observers:
            observers.handling(self)
        self._process = this_process()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if self._process != this_process():
            return False
        if self._handling is not None:
            self._handling.end(error)
        if not self.settled and error is None:
            await self.ack()
        elif not self.settled:
            queue = self._queue
            await queue._broker._leave(queue._core, self._settled_by(error), error)
        return isinstance(error, Redeliver | Poison)

    async def _settle(
        self, steps: Steps[list[Settlement]], error: BaseException | str | None = None
    ) -> Settlement:
        self._refuse_if_deferred()
        (settlement,) = await self._queue._run(steps)
        return self._note(settlement, error)

    def _settled_by(self, error: BaseException | None) -> Steps[Settlement]:
        steps = settle.settle_by_error(self._queue._core, [self._held], error, self._values)
        (settlement,) = yield from steps
        return self._note(settlement, error)

    def _note(self, settlement: Settlement, error: BaseException | str | None) -> Settlement:
        self.outcome = held_or_raise(settlement, self.outcome).outcome
        self._settled = (settlement, error)
        return settlement

    def _refuse_if_deferred(self) -> None:
        if self.outcome == "deferred":
            message = f"message {self.id} was acked before; its loop makes that ack with the next claim"
            raise LeaseLost(message)
